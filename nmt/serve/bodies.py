"""Bodies of requests: read within limits of size and time, and parsed as JSON or forms."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from email.parser import HeaderParser
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request

from nmt.serve.refusal import CLIENT_LEFT, Refusal

MAX_FIELDS = 1100
"""Of a form: as many texts as `Limits.items`, and what goes with them."""
TEXT_FIELD_BYTES = 64 << 10
"""The largest field beside the file in a form with one."""


@dataclass(frozen=True)
class Upload:
    """A file in a form."""

    name: str
    content: bytes


Fields = Mapping[str, object]
"""Of a JSON object or a form. A field that a form has several times is a list; a file is an `Upload`."""


HEADER_CHARACTERS = 2048
"""Of a header with parameters; parsing them takes quadratic time."""


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


def _kind(content_type: str) -> tuple[str, str]:
    if len(content_type) > HEADER_CHARACTERS:
        raise Refusal(400, "Invalid content type: too long")
    header = Message()
    header["Content-Type"] = content_type
    boundary = header.get_param("boundary", "")
    return header.get_content_type(), boundary if isinstance(boundary, str) else ""


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


def _multipart(body: bytes, boundary: str) -> Fields:
    """Parse what RFC 7578 describes. Raises Refusal."""
    if not 1 <= len(boundary) <= 70 or not boundary.isascii():
        raise Refusal(400, "Invalid form: no boundary")
    delimiter = b"\r\n--" + boundary.encode()
    # before the first boundary and after the last one there is nothing
    _, *parts = (b"\r\n" + body).split(delimiter, MAX_FIELDS)
    if not parts or not parts.pop().startswith(b"--"):
        raise Refusal(400, "Invalid form: it has no end")
    return _merged([_part(part) for part in parts])


def _part(part: bytes) -> tuple[str, object]:
    head, separator, content = part.partition(b"\r\n\r\n")
    if len(head) > HEADER_CHARACTERS:
        raise Refusal(400, "Invalid form: the head of a part is too long")
    try:
        headers = HeaderParser().parsestr(head.decode().lstrip())
        name = headers.get_param("name", header="content-disposition")
        if not separator or not isinstance(name, str):
            raise ValueError(name)
        file_name = headers.get_filename()
        if file_name is not None:
            file_name.encode()  # half of a surrogate pair is no name
            return name, Upload(file_name, content)
        if len(content) > TEXT_FIELD_BYTES:
            raise Refusal(413, f"The field {name[:50]!r} is too large: at most {TEXT_FIELD_BYTES} bytes")
        return name, content.decode()
    except ValueError:
        raise Refusal(400, "Invalid form") from None
