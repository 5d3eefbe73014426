"""Bodies of requests: read within limits of size and time, and parsed as JSON or forms."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import Field, File, FormParser, parse_options_header
from starlette.requests import ClientDisconnect, Request

from nmt.serve.refusal import CLIENT_LEFT, Refusal

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
HEADERS = 8
"""Of a part of a form."""
logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # its warnings quote what clients send


def announced_bytes(request: Request) -> int:
    """Return the length of the body by the head of a request; 0 where it does not say."""
    try:
        return int(request.headers.get("content-length", "0"))
    except ValueError:
        return 0


async def read_body(request: Request, most: int, seconds: float) -> bytes:
    """Return the body. Raises Refusal if it is larger than `most` bytes or takes longer than `seconds`.

    What is too large is not kept: it is refused as soon as that is known.
    """
    announced = announced_bytes(request)
    body = bytearray()
    if announced <= most:
        try:
            async with asyncio.timeout(seconds):
                async for chunk in request.stream():
                    body += chunk
                    if len(body) > most:
                        break
        except ClientDisconnect:
            raise Refusal(CLIENT_LEFT, "The client has left") from None
        except TimeoutError:
            raise Refusal(408, "The request took too long to arrive", {"Connection": "close"}) from None
    if max(announced, len(body)) > most:
        raise Refusal(413, f"The request is too large: at most {most} bytes")
    return bytes(body)


def parse_fields(content_type: str, body: bytes) -> Fields:
    """Parse a JSON object or a form, by its content type. Raises Refusal."""
    kind, boundary = _kind(content_type)
    if kind == "application/json":
        return parse_json(body)
    if kind == "multipart/form-data":
        return _multipart(body, boundary)
    return _form(body)


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
    """Whether a body is said to be JSON."""
    return _kind(content_type)[0] == "application/json"


def _kind(content_type: str) -> tuple[str, bytes]:
    if len(content_type) > HEADER_CHARACTERS:
        raise Refusal(400, "Invalid content type: too long")
    kind, parameters = parse_options_header(content_type)
    return kind.decode("latin-1"), parameters.get(b"boundary", b"")


def _form(body: bytes) -> Fields:
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)
    except ValueError:
        raise Refusal(400, "Invalid form") from None
    return _merged(pairs)


def _merged(pairs: list[tuple[str, object]] | list[tuple[str, str]]) -> Fields:
    fields: dict[str, list[object]] = {}
    for name, value in pairs:
        fields.setdefault(name, []).append(value)
    return {name: values if len(values) > 1 else values[0] for name, values in fields.items()}


def _multipart(body: bytes, boundary: bytes) -> Fields:
    """Parse a form as RFC 7578 describes it, in memory. Raises Refusal."""
    pairs: list[tuple[str, object]] = []
    is_complete = False

    def add(name: bytes | None, value: object) -> None:
        pairs.append(((name or b"").decode(), value))
        if len(pairs) > MAX_PARTS:
            raise Refusal(400, f"Invalid form: more than {MAX_PARTS} fields; send JSON")

    def add_field(field: Field) -> None:
        value = field.value or b""
        if len(value) > TEXT_FIELD_BYTES:
            raise Refusal(413, f"A field of the form is too large: at most {TEXT_FIELD_BYTES} bytes")
        add(field.field_name, value.decode())

    def add_file(file: File) -> None:
        file.file_object.seek(0)
        add(file.field_name, Upload((file.file_name or b"").decode(), file.file_object.read()))

    def end() -> None:
        nonlocal is_complete
        is_complete = True

    limits = {"MAX_HEADER_COUNT": HEADERS, "MAX_HEADER_SIZE": HEADER_CHARACTERS, "MAX_MEMORY_FILE_SIZE": math.inf}
    try:
        FormParser("multipart/form-data", add_field, add_file, end, boundary or None, config=limits).write(body)
    except (FormParserError, ValueError):
        raise Refusal(400, "Invalid form") from None
    if not is_complete:
        raise Refusal(400, "Invalid form: it has no end")
    return _merged(pairs)
