"""Bodies of requests: read within limits of size and time, and parsed as JSON or forms."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from urllib.parse import parse_qsl

from python_multipart.multipart import Field, File, FormParser, parse_options_header
from starlette.requests import ClientDisconnect, Request

from nmt.serve.limits import CLIENT_LEFT, Refusal

MAX_FIELDS = 1100
"""Of a form: as many texts as `Limits.items`, and what goes with them."""
MAX_PARTS = 32
"""Fields and files of a multipart form, whose heads take longer to parse."""
TEXT_FIELD_BYTES = 64 << 10
"""The largest field beside the file in a form with one."""


@dataclass(frozen=True)
class Upload:
    """A file in a form."""

    name: str
    content: bytes


Fields = Mapping[str, object]
"""Of a JSON object or a form. A field that a form has several times is a list; a file is an `Upload`."""


HEADER_CHARACTERS = 1024
"""Of the content type of a request, and of each header of a part of a form."""
logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # its warnings quote what clients send


async def read_body(request: Request, seconds: float) -> bytes:
    """Return the body. Raises Refusal if it takes longer than `seconds`, or if it is too large for the gate."""
    try:
        async with asyncio.timeout(seconds):
            return await request.body()
    except ClientDisconnect:
        raise Refusal(CLIENT_LEFT, "The client has left") from None
    except TimeoutError:
        raise Refusal(408, "The request took too long to arrive", {"Connection": "close"}) from None


def parse_fields(content_type: str, body: bytes) -> Fields:
    """Parse a JSON object or a form, by its content type. Raises Refusal."""
    kind, boundary = _kind(content_type)
    if kind == "application/json":
        return parse_json(body)
    fields: dict[str, list[object]] = {}
    try:
        if kind == "multipart/form-data":
            pairs = _multipart(body, boundary)
        else:
            pairs = [*parse_qsl(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)]
    except ValueError:
        raise Refusal(400, "Invalid form") from None
    for name, value in pairs:
        fields.setdefault(name, []).append(value)
    return {name: values if len(values) > 1 else values[0] for name, values in fields.items()}


def parse_json(body: bytes) -> Fields:
    """Parse a JSON object. Raises Refusal."""
    try:
        parsed = json.loads(body)
        json.dumps(parsed, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # JSON can express half of a surrogate pair
        raise Refusal(400, "Invalid request: text with a lone surrogate is not Unicode") from None
    except (ValueError, RecursionError):
        raise Refusal(400, "Invalid JSON format") from None
    if not isinstance(parsed, dict):
        raise Refusal(400, "Invalid JSON format: an object is needed")
    return parsed


def is_json(content_type: str) -> bool:
    """Whether the content type of a request is JSON."""
    return _kind(content_type)[0] == "application/json"


def _kind(content_type: str) -> tuple[str, bytes]:
    if len(content_type) > HEADER_CHARACTERS:
        raise Refusal(400, "Invalid content type: too long")
    kind, parameters = parse_options_header(content_type)
    return kind.decode("latin-1"), parameters.get(b"boundary", b"")


def _multipart(body: bytes, boundary: bytes) -> list[tuple[str, object]]:
    """Parse a form as RFC 7578 describes it, in memory. Raises Refusal, or ValueError for what is none."""
    if body.count(b"--" + boundary) > MAX_PARTS + 1:
        raise Refusal(400, f"Invalid form: more than {MAX_PARTS} fields; send JSON")
    parts: list[Field | File] = []
    ends: list[None] = []
    limits = {"MAX_HEADER_SIZE": HEADER_CHARACTERS, "MAX_MEMORY_FILE_SIZE": math.inf}
    add, end = parts.append, partial(ends.append, None)
    FormParser("multipart/form-data", add, add, end, boundary or None, config=limits).write(body)
    if not ends:
        raise ValueError("it has no end")
    return [_pair(part) for part in parts]


def _pair(part: Field | File) -> tuple[str, object]:
    name = (part.field_name or b"").decode()
    if isinstance(part, File):
        part.file_object.seek(0)
        return name, Upload((part.file_name or b"").decode(), part.file_object.read())
    value = part.value or b""
    if len(value) > TEXT_FIELD_BYTES:
        raise Refusal(413, f"A field of the form is too large: at most {TEXT_FIELD_BYTES} bytes")
    return name, value.decode()
