"""LibreTranslate's HTTP interface, for programs written for LibreTranslate."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from nmt.languages.codes import language_name
from nmt.serve import documents
from nmt.serve.bodies import Fields, Upload, parse_json, read_fields
from nmt.serve.documents import Downloads, file_answer
from nmt.serve.edge import before_leaving
from nmt.serve.limits import Limits, Refusal, missing
from nmt.serve.service import AUTO, TERMS_OF_FILE, Service, Wish, by_source
from nmt.text.language import detect

SUGGESTIONS = "Suggestions are disabled on this server."


class LibreTranslate:
    """Request handlers of LibreTranslate's interface."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._downloads = Downloads()

    async def translate(self, request: Request) -> Response:
        """Answer POST /translate: translate `q`, a text or a list of texts, from `source` into `target`."""
        service = self._service
        fields = await read_fields(service, request)
        texts, is_list = _texts(fields, service.limits)
        source, target = _field(fields, "source"), _field(fields, "target")
        n = _alternatives(fields, service.models.alternatives)
        kind = fields.get("format") or "text"
        if kind not in ("text", "html"):
            raise Refusal(400, f"{str(kind)[:50]} format is not supported")
        target = service.models.language(target)
        sources = await service.sources(source, target, texts)
        seconds = service.limits.seconds
        work = by_source(self._results, texts, sources, target, Wish(n + 1), kind == "html")
        by_text = await before_leaving(service, request, seconds, work)
        answer: dict[str, object] = {"translatedText": _one_or_all([best for best, *_ in by_text], is_list)}
        if n:
            others = [_unique(others, best) for best, *others in by_text]
            answer["alternatives"] = _one_or_all(others, is_list)
        if source == AUTO:
            answer["detectedLanguage"] = _one_or_all([found._asdict() for found in sources], is_list)
        return JSONResponse(answer)

    async def _results(
        self, texts: Sequence[str], source: str, target: str, wish: Wish, is_html: bool
    ) -> list[list[str]]:
        seconds = self._service.limits.seconds
        if is_html and source != target:
            return await documents.translated_html(self._service, texts, source, target, wish, seconds)
        rendered = await self._service.translate(texts, source, target, wish, seconds)
        return [[each.text for each in candidates] for candidates in rendered]

    async def detect(self, request: Request) -> Response:
        """Answer POST /detect: the possible languages of `q`."""
        fields = await read_fields(self._service, request)
        texts, _ = _texts(fields, self._service.limits)
        found = detect("\n".join(texts), self._service.models.languages)
        return JSONResponse([each._asdict() for each in found if each.confidence or each is found[0]])

    async def languages(self, request: Request) -> Response:  # noqa: ARG002 (Starlette's)
        """Answer GET /languages: the languages of the server, with the target languages of each."""
        models = self._service.models
        return JSONResponse(
            [{"code": code, "name": language_name(code), "targets": models.targets(code)} for code in models.languages]
        )

    async def settings(self, request: Request) -> Response:  # noqa: ARG002 (Starlette's)
        """Answer GET /frontend/settings: limits and features for a web page."""
        service = self._service
        target = next((target for _, target, _ in service.models.routes()), service.models.languages[0])
        needs_key = service.keys is not None
        return JSONResponse(
            {
                "charLimit": service.limits.characters,
                "frontendTimeout": 500,
                "apiKeys": needs_key,
                "keyRequired": needs_key,
                "suggestions": False,
                "filesTranslation": True,
                "supportedFilesFormat": [*documents.FORMATS],
                "language": {
                    "source": {"code": AUTO, "name": "Auto Detect"},
                    "target": {"code": target, "name": language_name(target)},
                },
            }
        )

    async def translate_file(self, request: Request) -> Response:
        """Answer POST /translate_file, a form with a `file`: the URL of the translated file."""
        service = self._service
        fields = await read_fields(self._service, request)
        file = fields.get("file")
        if not isinstance(file, Upload):
            raise missing("file")
        if len(file.content) > service.limits.file_bytes:
            raise Refusal(413, f"The file is too large: at most {service.limits.file_bytes} bytes")
        documents.check_format(file.name)
        source, target = _field(fields, "source"), _field(fields, "target")
        terms = _terms(fields, service.limits)
        service.limits.check([*terms, *terms.values()], items=len(terms))
        wish = Wish(terms=terms, most_terms=TERMS_OF_FILE)
        seconds = service.limits.file_seconds
        work = documents.translated_file(service, file, source, target, wish, seconds, request.state.hold)
        content = await before_leaving(service, request, seconds, work)
        name = PurePath(file.name)
        number = self._downloads.add(f"{name.stem}.{target}{name.suffix}", content)
        return JSONResponse({"translatedFileUrl": f"{request.base_url}download_file/{number}{name.suffix.lower()}"})

    async def download_file(self, request: Request) -> Response:
        """Answer GET /download_file/ID: a translated file, for anyone who knows its random ID."""
        found = self._downloads.get(request.path_params["number"].partition(".")[0])
        if found is None:
            raise Refusal(404, "The file does not exist or has expired")
        return file_answer(*found)

    async def suggest(self, request: Request) -> Response:  # noqa: ARG002 (Starlette's)
        """Answer POST /suggest, which is always rejected."""
        raise Refusal(403, SUGGESTIONS)


def _texts(fields: Fields, limits: Limits) -> tuple[list[str], bool]:
    """Return the texts of a request, and whether the request contains a list. Raises Refusal."""
    q = fields.get("q")
    if not q:
        raise missing("q")
    given = q if isinstance(q, list) else [q]
    limits.check([], items=len(given))
    texts = [text for text in given if isinstance(text, str)]
    if len(texts) < len(given):
        raise Refusal(400, "Invalid request: q must be a string or a list of strings")
    limits.check(texts)
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
    try:
        n = max(0, int(value)) if isinstance(value, (int, str)) else None
    except ValueError:
        n = None
    if n is None:
        raise Refusal(400, "Invalid request: alternatives parameter is not a number")
    if n > most:
        raise Refusal(400, f"Invalid request: alternatives parameter must be <= {most}")
    return n


def _unique(texts: Sequence[str], best: str) -> list[str]:
    """Return the texts without duplicates, empty texts and the best text."""
    return [text for text in dict.fromkeys(texts) if text and text != best]


def _one_or_all(results: Sequence[object], is_list: bool) -> object:
    return results if is_list else results[0]
