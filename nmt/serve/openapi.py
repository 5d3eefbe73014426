"""The interface, described for programs (OpenAPI) and for people."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from nmt import __version__
from nmt.serve.service import Service
from nmt.serve.v1 import TranslateRequest

Json = dict[str, Any]

_ERRORS = {
    400: "A parameter is missing or wrong, a language or a format is not supported, or the text is too long.",
    403: "The key is not valid.",
    408: "The request took too long to arrive.",
    413: "The body is too large.",
    429: "Too many requests of this client; Retry-After says when there may be another.",
    500: "The translation failed.",
    503: "Too many requests wait; Retry-After says when there may be room.",
    504: "The translation took too long.",
}
_Q = {"description": "A text or a list of texts.", "oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}  # fmt: skip  # noqa: E501
_TEXT = {"type": "string"}
_SOURCE = {"type": "string", "description": "The language of the text, or auto."}
_TARGET = {"type": "string", "description": "The language to translate into."}
_KEY = {"type": "string", "description": "Also taken as bearer token or as X-API-Key."}
_DETECTED = {"type": "object", "properties": {"language": _TEXT, "confidence": {"type": "number", "maximum": 100}}}
_LIST = {"type": "array", "items": {"type": "object"}}


def specification(service: Service) -> Json:
    """Return the interface in OpenAPI 3.1."""
    languages = ", ".join(service.models.languages)
    about = f"Machine translation. Languages: {languages}. The paths outside of /v1 are LibreTranslate's."
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "nmt serve",
            "version": __version__,
            "description": about,
        },
        "paths": {**_libretranslate_paths(), **_own_paths(), **_operation_paths()},
        "components": {
            "schemas": {"Error": _object({"error": _TEXT})},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        **({"security": [{"key": []}]} if service.keys is not None else {}),
    }


def _libretranslate_paths() -> Json:
    translate = _object(
        {
            "q": _Q,
            "source": _SOURCE,
            "target": _TARGET,
            "format": {"enum": ["text", "html"], "default": "text"},
            "alternatives": {"type": "integer", "default": 0, "description": "Further translations of each text."},
            "api_key": _KEY,
        },
        "q", "source", "target",
    )  # fmt: skip
    translated = {"translatedText": _Q, "alternatives": {"type": "array"}, "detectedLanguage": _DETECTED}
    file = _object(
        {"file": {"type": "string", "format": "binary"}, "source": _SOURCE, "target": _TARGET, "api_key": _KEY},
        "file", "source", "target",
    )  # fmt: skip
    return {
        "/translate": _post("Translate texts; of a list all are translated together.", translate, _object(translated)),
        "/detect": _post("Tell which language a text is in.", _object({"q": _Q, "api_key": _KEY}, "q"), _LIST),
        "/languages": _get("The languages, and what each is translated into.", _LIST),
        "/frontend/settings": _get("What a page must know.", {"type": "object"}),
        "/translate_file": _post(
            "Translate a document, which keeps its format.", file, _object({"translatedFileUrl": _TEXT}), "multipart"
        ),
        "/download_file/{number}": _get("A translated document, for half an hour.", None, "number"),
        "/suggest": _post("Not offered: always refused.", {"type": "object"}, {"type": "object"}),
    }


def _own_paths() -> Json:
    schema = TranslateRequest.model_json_schema()
    span = {"type": "array", "items": {"type": "integer"}, "description": "Start and end of a word, in code points."}
    translation = _object(
        {
            "text": _TEXT,
            "score": {"type": "number", "description": "What translations are ranked by."},
            "log_prob": {"type": "number", "description": "Log-probability, in nats."},
            "alternatives": {"type": "array", "items": _object({"text": _TEXT, "score": {"type": "number"}})},
            "alignment": {"type": ["array", "null"], "items": _object({"source": span, "target": span})},
        }
    )
    answer = _object(
        {
            "source": _TEXT,
            "target": _TEXT,
            "detected": {"oneOf": [_DETECTED, {"type": "null"}]},
            "translations": {"type": "array", "items": translation},
        }
    )
    return {
        "/v1/translate": _post("Translate texts, with all that nmt can do.", schema, answer, "json"),
        "/v1/info": _get("Directions, languages, limits and features.", {"type": "object"}),
    }


def _operation_paths() -> Json:
    return {
        "/health": _get("Whether the server runs.", {"type": "object"}),
        "/ready": _get("Whether it has translated something: 503 until then.", {"type": "object"}),
        "/metrics": _get("Metrics for Prometheus.", None),
    }


def _object(properties: Mapping[str, object], *required: str) -> Json:
    return {"type": "object", "properties": dict(properties), **({"required": [*required]} if required else {})}


def _responses(schema: Mapping[str, object] | None, statuses: Mapping[int, str]) -> Json:
    content = {"content": {"application/json": {"schema": schema}}} if schema is not None else {}
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    failures = {str(status): {"description": text, "content": error} for status, text in statuses.items()}
    return {"200": {"description": "Done", **content}, **failures}


def _get(summary: str, schema: Mapping[str, object] | None, parameter: str | None = None) -> Json:
    parameters = [{"name": parameter, "in": "path", "required": True, "schema": _TEXT}] if parameter else []
    return {"get": {"summary": summary, "parameters": parameters, "responses": _responses(schema, {})}}


def _post(summary: str, fields: Json, answer: Json, kind: str = "both") -> Json:
    kinds = {
        "both": ("application/json", "application/x-www-form-urlencoded", "multipart/form-data"),
        "json": ("application/json",),
        "multipart": ("multipart/form-data",),
    }[kind]
    body = {"required": True, "content": {media_type: {"schema": fields} for media_type in kinds}}
    return {"post": {"summary": summary, "requestBody": body, "responses": _responses(answer, _ERRORS)}}


# --- for people -----------------------------------------------------------------------------------


def docs_page(described: Json) -> str:
    """Return a page of what `specification` describes; it loads nothing from elsewhere."""
    info = described["info"]
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<title>{escape(info["title"])}</title>\n<link rel="stylesheet" href="docs.css">\n</head>\n<body>',
            f"<h1>{escape(info['title'])} {escape(info['version'])}</h1>\n<p>{escape(info['description'])}</p>",
            '<p>For programs: <a href="spec">OpenAPI</a>. Errors are JSON: <code>{"error": text}</code>.</p>',
            *(line for path, item in described["paths"].items() for line in _operation(path, item)),
            "</body>\n</html>\n",
        ]
    )


def _operation(path: str, item: Json) -> Iterator[str]:
    [(method, operation)] = item.items()
    yield f"<h2><code>{method.upper()} {escape(path)}</code></h2>\n<p>{escape(operation['summary'])}</p>"
    if "requestBody" in operation:
        content = operation["requestBody"]["content"]
        schema = next(iter(content.values()))["schema"]
        yield f"<p>Body: {escape(', '.join(content))}</p>"
        yield from _fields(schema)
    answer = operation["responses"]["200"].get("content", {}).get("application/json", {}).get("schema", {})
    if answer.get("properties"):
        yield "<p>Answer:</p>"
        yield from _fields(answer)
    failures = [(status, found) for status, found in operation["responses"].items() if status != "200"]
    if failures:
        rows = (f"<tr><td>{status}</td><td>{escape(found['description'])}</td></tr>" for status, found in failures)
        yield f"<details><summary>Errors</summary><table>{''.join(rows)}</table></details>"


def _fields(schema: Json) -> Iterator[str]:
    required = schema.get("required", ())
    yield "<table><thead><tr><th>Name</th><th>Type</th><th>Meaning</th></tr></thead><tbody>"
    for name, field in schema.get("properties", {}).items():
        default = f" Default: {json.dumps(field['default'])}." if "default" in field else ""
        meaning = field.get("description", "") + default + (" Required." if name in required else "")
        yield f"<tr><td><code>{escape(name)}</code></td><td>{escape(_type(field))}</td><td>{escape(meaning)}</td></tr>"
    yield "</tbody></table>"


def _type(field: Json) -> str:
    if "enum" in field:
        return " or ".join(map(str, field["enum"]))
    if options := field.get("oneOf") or field.get("anyOf"):
        return " or ".join(_type(option) for option in options)
    kind = field.get("type", "any")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)
