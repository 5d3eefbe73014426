"""The description of the interface for programs (OpenAPI) and for people."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from importlib.resources import files
from typing import Any

from nmt import __version__
from nmt.serve.service import Service
from nmt.serve.v1 import TranslateRequest

Json = dict[str, Any]


def specification(service: Service) -> Json:
    """Return the interface in OpenAPI 3.1."""
    described: Json = json.loads(files("nmt.serve.page").joinpath("openapi.json").read_text(encoding="utf-8"))
    described["info"]["version"] = __version__
    described["info"]["description"] += f" Languages: {', '.join(service.models.languages)}."
    described["components"]["schemas"]["TranslateRequest"] = TranslateRequest.model_json_schema()
    return described | ({"security": [{"key": []}]} if service.keys is not None else {})


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
            *(line for path in described["paths"] for line in _operation(path, described)),
            "</body>\n</html>\n",
        ]
    )


def _operation(path: str, described: Json) -> Iterator[str]:
    [(method, operation)] = described["paths"][path].items()
    yield f"<h2><code>{method.upper()} {escape(path)}</code></h2>\n<p>{escape(operation['summary'])}</p>"
    if "requestBody" in operation:
        content = operation["requestBody"]["content"]
        yield f"<p>Body: {escape(', '.join(content))}</p>"
        yield from _fields(_resolved(next(iter(content.values()))["schema"], described))
    answer = operation["responses"]["200"].get("content", {}).get("application/json", {}).get("schema", {})
    if answer.get("properties"):
        yield "<p>Answer:</p>"
        yield from _fields(answer)
    failures = {status: found for status, found in operation["responses"].items() if status != "200"}
    if failures:
        texts = {status: _resolved(found, described)["description"] for status, found in failures.items()}
        rows = (f"<tr><td>{status}</td><td>{escape(text)}</td></tr>" for status, text in texts.items())
        yield f"<details><summary>Errors</summary><table>{''.join(rows)}</table></details>"


def _resolved(node: Json, described: Json) -> Json:
    """Return what a node refers to, or the node itself."""
    for name in node.get("$ref", "").split("/")[1:]:
        described = described[name]
    return described if "$ref" in node else node


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
