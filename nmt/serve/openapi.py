"""The description of the interface for programs (OpenAPI) and for people."""

from __future__ import annotations

import json
from html import escape
from importlib.resources import files
from typing import Any

from nmt import __version__
from nmt.serve.service import Service
from nmt.serve.v1 import TranslateRequest

Json = dict[str, Any]


def specification(service: Service) -> Json:
    """Return the interface in OpenAPI 3.1: a file, and in it what depends on the server."""
    described: Json = json.loads(files("nmt.serve.page").joinpath("openapi.json").read_text(encoding="utf-8"))
    described["info"]["version"] = __version__
    described["info"]["description"] += f" Languages: {', '.join(service.models.languages)}."
    described["components"]["schemas"]["TranslateRequest"] = TranslateRequest.model_json_schema()
    return described | ({"security": [{"key": []}]} if service.keys is not None else {})


def docs_page(described: Json) -> str:
    """Return a self-contained HTML page that documents the result of `specification`."""
    title, description = (escape(described["info"][key]) for key in ("title", "description"))
    operations = [
        (f"{method.upper()} {path}", operation, described["components"]["schemas"])
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    ]
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<title>{title}</title>\n<link rel="stylesheet" href="docs.css">\n</head>\n<body>',
            f"<h1>{title} {escape(__version__)}</h1>\n<p>{description}</p>",
            '<p>For programs: <a href="spec">OpenAPI</a>. Errors are JSON: <code>{"error": text}</code>.</p>',
            *(_described(*operation) for operation in operations),
            "</body>\n</html>\n",
        ]
    )


def _described(name: str, operation: Json, schemas: Json) -> str:
    """Return what a path does, and a table of the fields of its body."""
    start = f"<h2><code>{escape(name)}</code></h2>\n<p>{escape(operation['summary'])}</p>"
    if "requestBody" not in operation:
        return start
    content = operation["requestBody"]["content"]
    schema = next(iter(content.values()))["schema"]
    schema = schemas.get(schema.get("$ref", "").rpartition("/")[2], schema)
    rows = []
    for field, details in schema.get("properties", {}).items():
        meaning = details.get("description", "") + (" Required." if field in schema.get("required", ()) else "")
        kind = json.dumps({key: value for key, value in details.items() if key not in ("description", "title")})
        rows.append(
            f"<tr><td><code>{field}</code></td><td><code>{escape(kind)}</code></td><td>{escape(meaning)}</td></tr>"
        )
    head = "<thead><tr><th>Name</th><th>Type</th><th>Meaning</th></tr></thead>"
    return f"{start}\n<p>Body: {', '.join(content)}</p>\n<table>{head}<tbody>{''.join(rows)}</tbody></table>"
