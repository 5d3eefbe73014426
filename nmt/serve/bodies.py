"""Bodies of requests, read within limits of size and time, and parsed as JSON or forms."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

from python_multipart.multipart import parse_options_header
from starlette.formparsers import MultiPartParser
from starlette.requests import ClientDisconnect, Request

from nmt.serve.limits import CLIENT_LEFT, Refusal
from nmt.serve.settings import Limits
from nmt.serve.worker import aside

MAX_FIELDS = 1100
"""Maximum number of fields of a form: as many texts as `Limits.items`, and their parameters."""
MAX_PARTS = 32
"""Maximum number of fields of a multipart form, whose headers take longer to parse."""
TEXT_FIELD_BYTES = 64 << 10
"""Maximum size of a text field of a multipart form."""
JSON = "application/json"
MULTIPART = "multipart/form-data"
TYPE_CHARACTERS = 500
"""Maximum length of a `Content-Type`, whose parsing takes quadratic time."""
CHARSETS = (b"utf-8", b"utf8", b"utf_8", b"us-ascii")
"""Encodings of bodies. Python's other codecs may be slow, accept invalid text, or stay in memory for ever."""
MultiPartParser.spool_max_size = 1 << 30  # uploaded files stay in memory, whose size `Admission` limits
logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # its warnings quote requests


@dataclass(frozen=True)
class Upload:
    """An uploaded file of a form."""

    name: str
    content: bytes


Fields = Mapping[str, object]
"""The fields of a JSON object or a form. A repeated field of a form is a list; a file is an `Upload`."""


async def read_fields(request: Request, limits: Limits) -> Fields:
    """Read a request and return its fields, from a JSON body, or else from the query and a form, the query first.

    Raises Refusal if the body arrives too slowly, is too large, malformed or not UTF-8.
    """
    kind = content_type(request)
    try:
        async with asyncio.timeout(limits.body_seconds):
            if kind == MULTIPART:
                fields = await _multipart(request)
            else:
                body = await request.body()
                if kind == JSON:
                    return await aside(len(body), parse_json, body, limits)
                fields = await aside(len(body), parse_form, body)
    except ClientDisconnect:
        raise Refusal(CLIENT_LEFT, "The client disconnected") from None
    except TimeoutError:
        raise Refusal(408, "The request took too long to arrive", {"Connection": "close"}) from None
    query = request.scope["query_string"]
    return {**fields, **await aside(len(query), parse_form, query)}


def content_type(request: Request) -> str:
    """Return the content type of a request without parameters. Raises Refusal if its charset is not UTF-8, or if the
    header is too long."""
    header = request.headers.get("content-type", "")
    if len(header) > TYPE_CHARACTERS:
        raise Refusal(415, "The Content-Type is too long")
    kind, options = parse_options_header(header)  # the function that Starlette calls
    charset = options.get(b"charset", b"utf-8").lower()
    if kind != b"multipart/form-data":  # in which Starlette looks up the charset as it is written
        charset = charset.partition(b",")[0].strip(b"'\" ") or b"utf-8"
    if charset not in CHARSETS:
        raise Refusal(415, "The charset of the body must be UTF-8")
    return kind.decode("latin-1")


def parse_json(body: bytes, limits: Limits) -> Fields:
    """Parse a JSON object. Raises Refusal if it is invalid, or has more values than texts within the limits need."""
    # Python runs nothing else while it parses, and a list takes longer than as many characters of text
    if sum(map(body.count, (b",", b"[", b"{"))) > limits.characters + 4 * limits.items:
        raise Refusal(400, "Invalid request: request has more text or values than the limits allow")
    try:
        parsed = json.loads(body)
        json.dumps(parsed, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # JSON can contain half of a surrogate pair
        raise Refusal(400, "Invalid request: the text contains a lone surrogate, which is not valid Unicode") from None
    except UnicodeDecodeError:
        raise Refusal(400, "Invalid JSON format: the body is not UTF-8") from None
    except (ValueError, RecursionError):
        raise Refusal(400, "Invalid JSON format") from None
    if not isinstance(parsed, dict):
        raise Refusal(400, "Invalid JSON format: the body must be a JSON object")
    return parsed


def parse_form(body: bytes) -> Fields:
    """Parse a URL-encoded form. Raises Refusal if it is invalid."""
    try:
        return _by_name(parse_qsl(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS))
    except UnicodeDecodeError:
        raise Refusal(400, "Invalid form: the text is not UTF-8") from None
    except ValueError:
        raise Refusal(400, "Invalid form") from None


async def _multipart(request: Request) -> Fields:
    pairs = []
    async with request.form(max_files=1, max_fields=MAX_PARTS, max_part_size=TEXT_FIELD_BYTES) as form:
        for name, value in form.multi_items():
            field = value if isinstance(value, str) else Upload(value.filename or "", await value.read())
            pairs.append((name, field))
    return _by_name(pairs)


def _by_name(pairs: Iterable[tuple[str, object]]) -> Fields:
    fields: dict[str, list[object]] = {}
    for name, value in pairs:
        fields.setdefault(name, []).append(value)
    return {name: values if len(values) > 1 else values[0] for name, values in fields.items()}
