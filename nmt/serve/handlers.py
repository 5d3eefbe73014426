"""Answers of both HTTP interfaces: LibreTranslate's, for programs written for it, and nmt's own below /v1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePath
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from nmt.config.messages import requirement
from nmt.languages.codes import language_name
from nmt.serve.admission import Call
from nmt.serve.bodies import Fields, Upload, parse_json
from nmt.serve.documents import FORMATS, Downloads, check_format, file_answer, translated_file, translated_html
from nmt.serve.limits import Refusal, check_size, missing
from nmt.serve.service import AUTO, TERMS_OF_FILE, Service, TextOptions, by_source
from nmt.serve.settings import Limits
from nmt.serve.worker import aside
from nmt.text.language import Detected, detect
from nmt.translate.types import Translation


class TranslateRequest(BaseModel):
    """The body of a request to /v1/translate."""

    model_config = ConfigDict(extra="forbid", strict=True)

    text: str | list[str] = Field(description="A text, which may have several lines, or a list of texts.")
    source: str = Field(description="The language of the texts, or auto to detect that of each text.")
    target: str = Field(description="The language to translate into.")
    n_best: int = Field(
        1, ge=1, description="Maximum number of translations of each text; all but the best are alternatives."
    )
    alignment: bool = Field(False, description="Whether to align the words of the text and of its translation.")
    confidence: bool = Field(
        False, description="Whether to estimate the quality of translations, for models with features.confidence."
    )
    terms: dict[str, str] = Field({}, description="Terms that may occur in the text, with their required translations.")
    prefix: str = Field("", description="Text at the beginning of each translation.")
    to: str | None = Field(
        None, description="The tag of the target language, for models with several: deu for >>deu<<."
    )
    tags: list[str] | None = Field(None, description="Tags of the text, such as domain=help, if the model has tags.")
    tm: bool = Field(True, description="Whether to use the translation memory of the server, if it has one.")
    search: dict[str, Any] = Field({}, description="Search settings to change, if the server allows it.")


@dataclass(frozen=True)
class Handlers:
    """The answers to the requests of both interfaces."""

    service: Service
    needs_key: bool
    downloads: Downloads = field(default_factory=Downloads)

    async def _translated(
        self, call: Call, texts: Sequence[str], languages: tuple[str, str], asked: TextOptions, *, is_html: bool = False
    ) -> tuple[list[Detected], list[list[Translation]]]:
        """Return the language of each text, and its translations, best first. Raises Refusal.

        languages: the source, which may be auto, and the target, a language of the models.
        """
        service, (source, target) = self.service, languages
        sources = await service.sources(source, target, texts)
        seconds = service.limits.seconds
        translate = partial(translated_html, service) if is_html else service.translate
        work = by_source(translate, texts, sources, target, asked, seconds)
        return sources, await call.within(seconds, work)

    # --- LibreTranslate's interface -------------------------------------------------------------------

    async def translate(self, call: Call) -> Response:
        """Answer POST /translate: translate `q`, a text or a list of texts, from `source` into `target`."""
        service = self.service
        fields = call.fields
        texts, is_list = _texts(fields, service.limits)
        source = _field(fields, "source")
        target = _field(fields, "target")
        n = _alternatives(fields, service.models.alternatives)
        kind = fields.get("format") or "text"
        if kind not in ("text", "html"):
            raise Refusal(400, f"{str(kind)[:50]} format is not supported")
        languages = source, service.models.language(target)
        sources, by_text = await self._translated(call, texts, languages, TextOptions(n + 1), is_html=kind == "html")
        answer: dict[str, list[Any]] = {"translatedText": [best.text for best, *_ in by_text]}
        if any(best.lost for best, *_ in by_text):
            answer["lost"] = [best.lost for best, *_ in by_text]
        if n:
            answer["alternatives"] = [_alternative_texts(candidates) for candidates in by_text]
        if source == AUTO:
            answer["detectedLanguage"] = [detected._asdict() for detected in sources]
        return JSONResponse(answer if is_list else {name: values[0] for name, values in answer.items()})

    async def detect(self, call: Call) -> Response:
        """Answer POST /detect: the possible languages of `q`."""
        texts, _ = _texts(call.fields, self.service.limits)
        best, *improbable = detect("\n".join(texts), self.service.models.languages)
        possible = [best, *(language for language in improbable if language.confidence)]
        return JSONResponse([detected._asdict() for detected in possible])

    async def languages(self, _: Request) -> Response:
        """Answer GET /languages: the languages of the server, with the target languages of each."""
        models = self.service.models
        return JSONResponse([language | {"targets": models.targets(language["code"])} for language in self._named()])

    async def settings(self, _: Request) -> Response:
        """Answer GET /frontend/settings: limits and features for a web page."""
        models = self.service.models
        target = next((target for _, target, _ in models.routes()), models.languages[0])
        return JSONResponse(
            {
                "charLimit": self.service.limits.characters,
                "frontendTimeout": 500,
                "apiKeys": self.needs_key,
                "keyRequired": self.needs_key,
                "suggestions": False,
                "filesTranslation": True,
                "supportedFilesFormat": [*FORMATS],
                "language": {
                    "source": {"code": AUTO, "name": "Auto Detect"},
                    "target": {"code": target, "name": language_name(target)},
                },
            }
        )

    async def translate_file(self, call: Call) -> Response:
        """Answer POST /translate_file, a form with a `file`: the URL of the translated file, and notes on it."""
        service = self.service
        fields = call.fields
        limits = service.limits
        file = fields.get("file")
        if not isinstance(file, Upload):
            raise missing("file")
        if len(file.content) > limits.file_bytes:
            raise Refusal(413, f"The file is too large: at most {limits.file_bytes} bytes")
        check_format(file)
        source = _field(fields, "source")
        target = _field(fields, "target")
        terms = _terms(fields, limits)
        check_size([*terms, *terms.values()], limits, items=len(terms))
        asked = TextOptions(terms=terms, most_terms=TERMS_OF_FILE)
        work = translated_file(service, file, (source, target), asked, call.hold)
        content, notes = await call.within(limits.file_seconds, work)
        name = PurePath(file.name)
        number = self.downloads.add(f"{name.stem}.{target}{name.suffix}", content)
        url = f"{call.request.base_url}download_file/{number}{name.suffix.lower()}"
        return JSONResponse({"translatedFileUrl": url, "notes": notes})

    async def download_file(self, request: Request) -> Response:
        """Answer GET /download_file/ID: a translated file, for anyone who knows its random ID."""
        file = self.downloads.get(request.path_params["number"].partition(".")[0])
        if file is None:
            raise Refusal(404, "The file does not exist or has expired")
        return file_answer(*file)

    async def suggest(self, _: Request) -> Response:
        """Answer POST /suggest, which is always rejected."""
        raise Refusal(403, "Suggestions are disabled on this server.")

    # --- nmt's interface --------------------------------------------------------------------------------

    async def translate_v1(self, call: Call) -> Response:
        """Answer POST /v1/translate: the translations of texts, with scores and alignments."""
        service = self.service
        request = await _validated(call.fields, service.limits)
        texts = [request.text] if isinstance(request.text, str) else request.text
        constraints = [*request.terms, *request.terms.values(), request.prefix]
        check_size([*texts, *constraints], service.limits, items=max(len(texts), len(request.terms)))
        if "\n" in request.prefix:
            raise Refusal(400, "prefix: must be one line")
        target = service.models.language(request.target)
        asked = TextOptions(**request.model_dump(exclude={"text", "source", "target"}))
        sources, by_text = await self._translated(call, texts, (request.source, target), asked)
        size = 0
        for candidates in by_text:
            size += sum(len(candidate.text) + len(candidate.alignment or ()) for candidate in candidates)
        return await aside(size, _answer_v1, request, target, sources, by_text)

    async def info(self, _: Request) -> Response:
        """Answer GET /v1/info: directions, limits and features."""
        models = self.service.models
        limits = self.service.limits
        directions = [*models.directions.values()]
        routes = [
            {"source": source, "target": target, "via": [direction.source for direction in route[1:]]}
            for source, target, route in models.routes()
        ]
        return JSONResponse(
            {
                "directions": routes,
                "languages": self._named(),
                "limits": {
                    "characters": limits.characters,
                    "items": limits.items,
                    "bytes": limits.bytes,
                    "file_bytes": limits.file_bytes,
                    "n_best": models.alternatives + 1,
                },
                "features": {
                    "alignment": all(direction.aligns for direction in directions),
                    "confidence": all(direction.has_confidence for direction in directions),
                    "terms": all(direction.native is not None for direction in directions),
                    "tm": any(direction.tm is not None for direction in directions),
                    "alternatives": models.alternatives,
                    "search": [*self.service.allowed],
                },
                "key_required": self.needs_key,
                "file_formats": [*FORMATS],
            }
        )

    def _named(self) -> list[dict[str, Any]]:
        """Return the code and the name of each language."""
        return [{"code": code, "name": language_name(code)} for code in self.service.models.languages]


def _texts(fields: Fields, limits: Limits) -> tuple[list[str], bool]:
    """Return the texts of a request, and whether the request contains a list. Raises Refusal."""
    q = fields.get("q")
    if not q:
        raise missing("q")
    given = q if isinstance(q, list) else [q]
    check_size([], limits, items=len(given))
    texts = [text for text in given if isinstance(text, str)]
    if len(texts) < len(given):
        raise Refusal(400, "Invalid request: q must be a string or a list of strings")
    check_size(texts, limits)
    return texts, isinstance(q, list)


def _field(fields: Fields, name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value.strip():
        raise missing(name)
    return value.strip()[:50]


def _terms(fields: Fields, limits: Limits) -> dict[str, str]:
    value = fields.get("terms") or "{}"
    terms = parse_json(value.encode(), limits) if isinstance(value, str) else {"": None}
    if not all(isinstance(translation, str) for translation in terms.values()):
        raise Refusal(400, "Invalid request: terms must be a JSON object of terms and their translations")
    return {term: str(translation) for term, translation in terms.items()}


def _alternatives(fields: Fields, most: int) -> int:
    value = fields.get("alternatives") or 0
    not_a_number = Refusal(400, "Invalid request: alternatives parameter is not a number")
    if not isinstance(value, (int, str)):
        raise not_a_number
    try:
        n = max(0, int(value))
    except ValueError:
        raise not_a_number from None
    if n > most:
        raise Refusal(400, f"Invalid request: alternatives parameter must be <= {most}")
    return n


def _alternative_texts(candidates: Sequence[Translation]) -> list[str]:
    """Return the texts of the alternatives to the best translation, without duplicates and empty texts."""
    best, *alternatives = (candidate.text for candidate in candidates)
    return [text for text in dict.fromkeys(alternatives) if text and text != best]


async def _validated(fields: Fields, limits: Limits) -> TranslateRequest:
    fields = {name: value for name, value in fields.items() if name != "api_key"}
    if not fields.keys() <= TranslateRequest.model_fields.keys():
        raise Refusal(400, "Invalid request: request: must have only documented fields")
    counts = [len(value) for value in fields.values() if isinstance(value, (list, dict))]
    check_size([], limits, items=max(counts, default=0))  # pydantic reports an error for each item
    try:
        return await aside(sum(counts), TranslateRequest.model_validate, fields)
    except ValidationError as error:
        problems = error.errors(include_input=False, include_url=False)  # values may quote the text
        name = problems[0]["loc"][0]
        same = [problem for problem in problems if problem["loc"][0] == name]
        raise Refusal(400, f"Invalid request: {name}: {requirement(same)}") from None


def _answer_v1(
    request: TranslateRequest, target: str, sources: Sequence[Detected], by_text: list[list[Translation]]
) -> JSONResponse:
    detected = [source._asdict() if request.source == AUTO else None for source in sources]
    pairs = zip(by_text, detected, strict=True)
    return JSONResponse(
        {
            "source": sources[0].language if sources else request.source,
            "target": target,
            "detected": detected[0] if detected else None,
            "translations": [_translation(*pair, request.alignment) for pair in pairs],
        }
    )


def _translation(candidates: list[Translation], detected: object, is_aligned: bool) -> dict[str, object]:
    best, *alternatives = candidates
    alignment = None
    if is_aligned and best.alignment is not None:
        alignment = [{"source": source, "target": target} for source, target in best.alignment]
    return {
        "detected": detected,
        "text": best.text,
        "lost": best.lost,
        "score": best.score,
        "log_prob": best.log_prob,
        "confidence": None if best.confidence is None else best.confidence._asdict(),
        "tm": None if best.match == "copied" else best.match,
        "alternatives": [{"text": other.text, "score": other.score} for other in alternatives],
        "alignment": alignment,
    }
