"""PO catalogues of gettext, in which only messages without a translation are translated."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nmt.documents.inline import Mark, Passage, Text, Token, tagged
from nmt.documents.types import Document, Languages, Results
from nmt.text.constraints import spans
from nmt.text.letters import western_digits
from nmt.text.message_formats import directives, formats_of
from nmt.text.po import CHARSET, Message, form_of_one, po_charset, po_escaped, po_lines, po_messages

_ACCELERATOR = re.compile(r"[&_](?=\w)")
"""The sign before the accelerator key of a menu item, as in `&File` or `_File`."""


@dataclass(frozen=True)
class _Missing:
    """A message without a translation; `texts` has its text, or its singular and plural."""

    message: Message
    texts: list[str]
    formats: list[str]
    """The `GRAMMARS` of the texts."""
    passages: list[Passage[str]]


def open_catalogue(name: str, content: bytes) -> Document:
    """Open a PO file. Raises DataError if it is malformed."""
    charset = po_charset(name, content)
    lines = list(po_lines(name, content))
    messages = [*po_messages(name, lines)]
    headers = (header for message in messages if (header := message.header) is not None)
    one = form_of_one(next(headers, {}))
    missing = [_missing(message) for message in messages if _is_missing(message)]
    texts = [text for entry in missing for passage in entry.passages for text in passage.texts]
    flags = [entry.formats[0] for entry in missing for passage in entry.passages for _ in passage.texts]
    mark = codecs.BOM_UTF8 if content.startswith(codecs.BOM_UTF8) else b""

    def write(results: Results, _: Languages) -> bytes:
        written = list(lines)
        for entry in missing:
            _fill(written, entry, one, results)
        return mark + _encoded("".join(written), charset)

    return Document(texts, write, flags=flags)


def _is_missing(message: Message) -> bool:
    texts = message.texts
    if message.is_obsolete or not texts["msgid"]:
        return False
    return not any(text for key, text in texts.items() if key.startswith("msgstr"))


def _missing(message: Message) -> _Missing:
    texts = [message.texts[key] for key in ("msgid", "msgid_plural") if key in message.parts]
    formats = formats_of(texts[0], message.flags)
    return _Missing(message, texts, formats, [Passage(_tokens(text, formats)) for text in texts])


def _tokens(text: str, formats: Sequence[str]) -> Iterator[Token[str]]:
    inner = " ".join(directive[1:] for flag in formats for directive in directives(text, flag))
    for token in tagged(text, inner):
        if isinstance(token, Mark):
            yield token
            continue
        for i, part in enumerate(re.split(r"([\n\t])", token.text)):
            yield Mark("break", part) if i % 2 else Text(part, part)


def _fill(lines: list[str], entry: _Missing, one: int, results: Results) -> None:
    """Write the translations of a message into `lines`, and mark it fuzzy if they differ in placeholders or numbers.

    one: the plural form for one object.
    """
    forms = [_text(passage, results) for passage in entry.passages]
    for key, source in entry.message.sources(one).items():
        text = forms[source == "msgid_plural"]
        first, *continued = entry.message.lines[key]
        line_end = lines[first][len(lines[first].rstrip("\r\n")) :] or "\n"
        lines[first] = "".join(f"{line}{line_end}" for line in _written(key, text))
        for number in continued:
            lines[number] = ""
    if _is_changed(entry, forms) and "fuzzy" not in entry.message.flags:
        start = min(number for numbers in entry.message.lines.values() for number in numbers)
        lines[start] = f"#, fuzzy{line_end}{lines[start]}"


def _is_changed(entry: _Missing, forms: Sequence[str]) -> bool:
    """Return whether translations lack a number, or have different placeholders, tags, addresses or accelerators."""
    for flag in entry.formats:
        if len({tuple(directives(text, flag)) for text in [*entry.texts, *forms]}) > 1:
            return True
    for text, form in zip(entry.texts, forms, strict=True):
        exact, numbers = _checked(text, entry.formats[0])
        translated_exact, translated_numbers = _checked(form, entry.formats[0])
        if exact != translated_exact or not numbers <= translated_numbers:
            return True
    return False


def _checked(text: str, flag: str) -> tuple[Counter[str], Counter[str]]:
    """Return the placeholders, tags, addresses and accelerators of a text, and its numbers without separators.

    Digits of other scripts are digits, as in `١٥` for 15.
    """
    exact = Counter(_ACCELERATOR.findall(text))
    numbers = Counter[str]()
    for span in spans(western_digits(text), flag):
        if span.kind == "number":
            numbers[re.sub(r"\D", "", span.wanted)] += 1
        else:
            exact[text[span.start : span.end]] += 1
    return exact, numbers


def _text(passage: Passage[str], results: Results) -> str:
    _, tokens = passage.translated(results)
    return "".join(token.text if isinstance(token, Text) else token.markup for token in tokens)


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
