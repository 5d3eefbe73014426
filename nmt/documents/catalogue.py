"""PO catalogues of gettext, in which only messages without a translation are translated."""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence

from nmt.documents.inline import Text
from nmt.documents.types import Document, DocumentOptions, Languages
from nmt.documents.units import Filled, Unit, message_tokens, open_units, plain
from nmt.text.message_formats import directives, formats_of
from nmt.text.po import CHARSET, Message, form_of_one, po_charset, po_escaped, po_lines, po_messages

_CATEGORIES = {"msgid": "one", "msgid_plural": "other"}
"""The plural categories of the texts of a message with a plural."""


def open_catalogue(name: str, content: bytes, _: DocumentOptions) -> Document:
    """Open a PO file. Raises DataError if it is malformed."""
    charset = po_charset(name, content)
    lines = list(po_lines(name, content))
    messages = [*po_messages(name, lines)]
    headers = [header for message in messages if (header := message.header) is not None]
    one = form_of_one(next(iter(headers), {}))
    messages = [message for message in messages if message.texts["msgid"] and not message.is_obsolete]
    units = [*map(_unit, messages)]
    mark = codecs.BOM_UTF8 if content.startswith(codecs.BOM_UTF8) else b""

    def write(results: Sequence[Filled], _: Languages) -> bytes:
        written = list(lines)
        missing = (message for message, unit in zip(messages, units, strict=True) if not unit.target)
        for message, filled in zip(missing, results, strict=True):
            _fill(written, message, one, filled)
        return mark + _encoded("".join(written), charset)

    return open_units(units, write, fills_forms=False)


def _unit(message: Message) -> Unit:
    texts = message.texts
    formats = formats_of(texts["msgid"], message.flags)
    keys = [key for key in _CATEGORIES if key in texts]
    source = {_category(message, key): [*message_tokens(texts[key], formats)] for key in keys}
    name = "\x04".join(texts[key] for key in ("msgctxt", "msgid") if key in texts)
    forms = {key.removeprefix("msgstr"): [Text(text)] for key, text in texts.items() if key.startswith("msgstr")}
    is_translated = any(map(plain, forms.values()))
    return Unit(name, source, formats, None, forms if is_translated else {}, " ".join(message.flags & {"fuzzy"}))


def _category(message: Message, key: str) -> str:
    return _CATEGORIES[key] if "msgid_plural" in message.parts else ""


def _fill(lines: list[str], message: Message, one: int, filled: Filled) -> None:
    """Write the translations of a message into `lines`, and mark it fuzzy if they differ in placeholders or numbers.

    one: the plural form for one object.
    """
    forms = {category: plain(tokens) for category, tokens in filled.forms.items()}
    for key, source in message.sources(one).items():
        first, *continued = message.lines[key]
        line_end = lines[first][len(lines[first].rstrip("\r\n")) :] or "\n"
        form = forms.get(key.removeprefix("msgstr"), forms[_category(message, source)])
        lines[first] = "".join(f"{line}{line_end}" for line in _written(key, form))
        for number in continued:
            lines[number] = ""
    # msgfmt --check requires the placeholders of the plural in the singular
    texts = [*map(plain, filled.unit.source.values()), *forms.values()]
    is_equal = all(len({tuple(directives(text, flag)) for text in texts}) == 1 for flag in filled.unit.formats)
    is_fuzzy = filled.previous.state if filled.previous else filled.problems or not is_equal
    if is_fuzzy and "fuzzy" not in message.flags:
        start = min(number for numbers in message.lines.values() for number in numbers)
        lines[start] = f"#, fuzzy{line_end}{lines[start]}"


def _written(key: str, text: str) -> list[str]:
    """Return the lines of a PO entry: one line, or for a text of several lines one more for each of them."""
    parts = [po_escaped(part) for part in re.findall("[^\n]*\n|[^\n]+", text)]
    if len(parts) <= 1:
        return [f'{key} "{"".join(parts)}"']
    return [f'{key} ""', *(f'"{part}"' for part in parts)]


def _encoded(text: str, charset: str) -> bytes:
    """Encode a file in its charset, or in UTF-8, declared in its header, if the charset lacks a character."""
    try:
        return text.encode(charset)
    except UnicodeEncodeError:
        return re.sub(CHARSET, r"\1UTF-8", text, count=1).encode("utf-8")
