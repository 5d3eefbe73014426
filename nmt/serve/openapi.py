"""The description of the HTTP interface: OpenAPI for programs, and a web page for people."""

from __future__ import annotations

import json
from html import escape
from typing import Any

from nmt import __version__
from nmt.figures.html import asset
from nmt.serve.service import Service
from nmt.serve.v1 import TranslateRequest

Json = dict[str, Any]


def specification(service: Service) -> Json:
    """Return the description of all endpoints in OpenAPI 3.1."""
    described: Json = json.loads(asset("nmt.serve.page", "openapi.json"))
    described["info"]["version"] = __version__
    described["info"]["description"] += f" Languages: {', '.join(service.models.languages)}."
    described["components"]["schemas"]["TranslateRequest"] = TranslateRequest.model_json_schema()
    return described | ({"security": [{"key": []}]} if service.keys is not None else {})


def docs_page(described: Json) -> str:
    """Return an HTML page that documents the endpoints of an OpenAPI description (the result of `specification`)."""
    title, description = (escape(described["info"][key]) for key in ("title", "description"))
    operations = [
        _documented(f"{method.upper()} {path}", operation, described["components"]["schemas"])
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    ]
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="stylesheet" href="docs.css">
</head>
<body>
<h1>{title} {escape(__version__)}</h1>
<p>{description}</p>
<p>For programs: <a href="spec">OpenAPI</a>. Errors are JSON: <code>{{"error": text}}</code>.</p>
{"".join(operations)}
</body>
</html>
"""


def _documented(name: str, operation: Json, schemas: Json) -> str:
    """Return a section about an endpoint, with a table of the fields of its request body."""
    start = f"<h2><code>{escape(name)}</code></h2>\n<p>{escape(operation['summary'])}</p>\n"
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
    return f"{start}<p>Body: {', '.join(content)}</p>\n<table>{head}<tbody>{''.join(rows)}</tbody></table>\n"
