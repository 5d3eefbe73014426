"""nmt's own HTTP interface, with terms, prefixes, alignments and scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from nmt.config.messages import requirement
from nmt.languages.codes import language_name
from nmt.serve import documents
from nmt.serve.bodies import JSON, Fields, content_type, read_fields
from nmt.serve.edge import before_leaving
from nmt.serve.limits import Limits, Refusal
from nmt.serve.service import AUTO, Service, Wish, aside, by_source
from nmt.translate.direction import Candidate


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


class Api:
    """Request handlers of nmt's own interface."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def translate(self, request: Request) -> Response:
        """Answer POST /v1/translate: the translations of texts, with scores and alignments."""
        service = self._service
        if content_type(request) != JSON:
            raise Refusal(415, "The body must be application/json")
        fields = await read_fields(service, request)
        wanted = await _validated({name: value for name, value in fields.items() if name != "api_key"}, service.limits)
        texts = [wanted.text] if isinstance(wanted.text, str) else wanted.text
        rules = [*wanted.terms, *wanted.terms.values(), wanted.prefix]
        service.limits.check([*texts, *rules], items=max(len(texts), len(wanted.terms)))
        if "\n" in wanted.prefix:
            raise Refusal(400, "prefix: must be one line")
        target = service.models.language(wanted.target)
        sources = await service.sources(wanted.source, target, texts)
        how = wanted.n_best, wanted.alignment, wanted.prefix, wanted.terms, wanted.search
        wish = Wish(*how, to=wanted.to, tags=wanted.tags, confidence=wanted.confidence, tm=wanted.tm)
        seconds = service.limits.seconds
        work = by_source(service.translate, texts, sources, target, wish, seconds)
        by_text = await before_leaving(service, request, seconds, work)
        detected = [found._asdict() if wanted.source == AUTO else None for found in sources]
        facts = {
            "source": sources[0].language if sources else wanted.source,
            "target": target,
            "detected": detected[0] if detected else None,
        }
        translations = [candidate for candidates in by_text for candidate in candidates]
        size = sum(len(candidate.text) + len(candidate.alignment or ()) for candidate in translations)
        return await aside(size, _answer, facts, by_text, detected, wanted.alignment)

    async def info(self, request: Request) -> Response:  # noqa: ARG002 (Starlette's)
        """Answer GET /v1/info: directions, limits and features."""
        service, models = self._service, self._service.models
        directions = [*models.directions.values()]
        limits = service.limits
        return JSONResponse(
            {
                "directions": [
                    {"source": source, "target": target, "via": [direction.source for direction in route[1:]]}
                    for source, target, route in models.routes()
                ],
                "languages": [{"code": code, "name": language_name(code)} for code in models.languages],
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
                    "terms": all(direction.has_native for direction in directions),
                    "tm": any(direction.tm is not None for direction in directions),
                    "alternatives": models.alternatives,
                    "search": [*service.allowed],
                },
                "key_required": service.keys is not None,
                "file_formats": [*documents.FORMATS],
            }
        )


async def _validated(fields: Fields, limits: Limits) -> TranslateRequest:
    if not fields.keys() <= TranslateRequest.model_fields.keys():
        raise Refusal(400, "Invalid request: request: must have only documented fields")
    counts = [len(value) for value in fields.values() if isinstance(value, (list, dict))]
    limits.check([], items=max(counts, default=0))  # pydantic reports an error for each item
    try:
        return await aside(sum(counts), TranslateRequest.model_validate, fields)
    except ValidationError as error:
        problems = error.errors(include_input=False, include_url=False)  # values may quote the text
        name = problems[0]["loc"][0]
        same = [problem for problem in problems if problem["loc"][0] == name]
        raise Refusal(400, f"Invalid request: {name}: {requirement(same)}") from None


def _answer(
    facts: Mapping[str, object], by_text: list[list[Candidate]], detected: Sequence[object], is_aligned: bool
) -> JSONResponse:
    pairs = zip(by_text, detected, strict=True)
    return JSONResponse({**facts, "translations": [_translation(*pair, is_aligned) for pair in pairs]})


def _translation(candidates: list[Candidate], detected: object, is_aligned: bool) -> dict[str, object]:
    best, *others = candidates
    return {
        "detected": detected,
        "text": best.text,
        "score": best.score,
        "log_prob": best.log_prob,
        "confidence": None if best.confidence is None else best.confidence._asdict(),
        "tm": best.match,
        "alternatives": [{"text": other.text, "score": other.score} for other in others],
        "alignment": [{"source": source, "target": target} for source, target in best.alignment]
        if is_aligned and best.alignment is not None
        else None,
    }
