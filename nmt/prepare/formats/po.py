"""PO, the message catalogues of GNU gettext.

https://www.gnu.org/software/gettext/manual/html_node/PO-Files.html
"""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from nmt.console import printable
from nmt.errors import DataError
from nmt.files.read import DOCUMENT_BYTES
from nmt.prepare.formats.encoding import extends_ascii
from nmt.prepare.formats.language import side_in_columns, side_of_source
from nmt.prepare.inputs import Input
from nmt.prepare.pairs import Layout, Row, Units, one_line
from nmt.text.formats import text_problem

_START_BYTES = 1 << 10
_HEADER_BYTES = 1 << 16
_CHARSET = re.compile(rb"Content-Type:[^\n]{0,200}?charset=([\w.:-]{1,40})", re.IGNORECASE)
_STRING = r'"([^"\\]*(?:\\.[^"\\]*)*)"'
_KEYWORD = re.compile(rf"(msgctxt|msgid|msgid_plural|msgstr|msgstr\[(0|[1-9]\d?)\])(?:\s*{_STRING})?")
_CONTINUED = re.compile(_STRING)
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "\\": "\\", '"': '"'}
_BEFORE = {
    "msgctxt": ("",),
    "msgid": ("", "msgctxt"),
    "msgid_plural": ("msgid",),
    "msgstr": ("msgid",),
    "msgstr[0]": ("msgid_plural",),
}
"""Keyword -> the keywords that it may follow in a message; the further plural forms follow each other."""


@dataclass
class _Message:
    parts: dict[str, list[str]] = field(default_factory=dict)
    """Keyword -> parts of its text, in the order of the file."""
    is_fuzzy: bool = False
    is_obsolete: bool = False

    @property
    def last(self) -> str:
        """The last keyword."""
        return next(reversed(self.parts), "")

    @property
    def is_complete(self) -> bool:
        """Whether only more of its last text or another plural form may follow."""
        return self.last.startswith("msgstr")

    @property
    def texts(self) -> dict[str, str]:
        """Keyword -> text."""
        return {keyword: "".join(parts) for keyword, parts in self.parts.items()}


def read_po(file: Input, layout: Layout, units: Units) -> Iterator[Row]:
    """Yield the pairs of a PO file.

    Fuzzy, obsolete and untranslated messages are skipped. A message with a plural gives a pair for the singular and one
    for the plural if the translation has two forms, one for the plural if it has one form, and is skipped if it has
    more: none of them is the translation of the plural alone. The languages are those of `layout.columns`, such as
    `{en: msgid, de: msgstr}`; without it the header's `Language` is that of `msgstr`, and its `X-Source-Language`, else
    English, that of `msgid`.
    """
    side = side_in_columns(file.name, layout, "msgid", "msgstr")
    headers: Mapping[str, str] = {}
    for message in _messages(file.name, _lines(file)):
        texts = message.texts
        if not texts["msgid"] and "msgctxt" not in texts:
            headers = headers or _headers(texts.get("msgstr", ""))
        elif message.is_obsolete or message.is_fuzzy:
            units.skip("obsolete" if message.is_obsolete else "fuzzy")
        elif side is not None or (side := _side_of_msgid(file.name, headers, layout, units)) is not None:
            for source, target in _pairs(texts, units):
                if target:
                    pair = one_line(source), one_line(target)
                    yield pair[side], pair[1 - side], None
                else:
                    units.skip(f"no text in {layout.languages[1 - side]}")


def _pairs(texts: Mapping[str, str], units: Units) -> list[tuple[str, str]]:
    """Return the texts of a message that translate each other."""
    if "msgstr" in texts:
        return [(texts["msgid"], texts["msgstr"])]
    forms = [texts[key] for key in texts if key.startswith("msgstr")]
    if len(forms) > 2:
        units.skip("plural")
        return []
    return list(zip([texts["msgid"], texts["msgid_plural"]][-len(forms) :], forms, strict=True))


def _side_of_msgid(name: str, headers: Mapping[str, str], layout: Layout, units: Units) -> int | None:
    """Return the index of the language of `msgid` by the header; None, and count the message, for other languages."""
    source, target = headers.get("x-source-language") or "en", headers.get("language", "")
    if not target:
        first, second = layout.languages
        raise DataError(
            f"{name}: no Language in its header; say which side is in which language: columns: {{{first}: msgid, "
            f"{second}: msgstr}} or the reverse"
        )
    return side_of_source(source, target, layout, units)


def _headers(text: str) -> dict[str, str]:
    lines = (line.partition(":") for line in text.split("\n"))
    return {name.strip().lower(): value.strip() for name, _, value in lines}


def _lines(file: Input) -> Iterator[str]:
    """Yield the lines of a file, in the charset of its header."""
    with file.open() as stream:
        raw = stream.read(DOCUMENT_BYTES + 1)
    if len(raw) > DOCUMENT_BYTES:
        raise DataError(f"{file.name}: more than {DOCUMENT_BYTES >> 20} MB; split it")
    if problem := text_problem(file.name, raw[:_START_BYTES]):
        raise DataError(f"{file.name}: {problem}")
    declared = _CHARSET.search(raw, 0, _HEADER_BYTES)
    charset = declared[1].decode("ascii") if declared else "utf-8"
    if charset == "CHARSET":  # of a template
        charset = "utf-8"
    if not extends_ascii(charset):
        raise DataError(f"{file.name}: the charset {charset} of its header is not supported; write UTF-8")
    for number, line in enumerate(io.BytesIO(raw.removeprefix(codecs.BOM_UTF8)), start=1):
        try:
            yield line.decode(charset)
        except UnicodeError:
            why = "its charset; correct its header" if declared else "and its header names no other charset"
            raise DataError(f"{file.name}: line {number}: not {charset}, {why}") from None


def _messages(name: str, lines: Iterable[str]) -> Iterator[_Message]:
    """Yield the messages of a PO file."""
    message, number = _Message(), 0
    for number, line in enumerate(map(str.strip, lines), start=1):
        if message.is_complete and not _goes_on(line):
            yield message
            message = _Message()
        problem = _add(message, line)
        if problem:
            raise DataError(f"{name}: line {number}: {problem}; msgfmt --check lists all such places")
    if message.is_complete:
        yield message
    elif message.parts:
        raise DataError(f"{name}: line {number}: the file ends inside a message; is it cut off?")


def _goes_on(line: str) -> bool:
    """Whether a line belongs to the message before it."""
    return line.removeprefix("#~").lstrip().startswith(('"', "msgstr["))


def _add(message: _Message, line: str) -> str | None:
    """Add a line to a message. Return the problem if it does not belong there."""
    is_obsolete = line.startswith("#~")
    line = line[2:].lstrip() if is_obsolete else line
    if not line or (is_obsolete and line[0] == "|"):
        return None
    if line[0] == "#":
        flags = line[2:].split(",") if line[1:2] in (",", "=") else ()
        message.is_fuzzy |= "fuzzy" in (flag.strip() for flag in flags)
        return "a comment inside a message" if message.parts else None
    if message.parts and is_obsolete != message.is_obsolete:
        return "only a part of the message is marked as obsolete"
    message.is_obsolete = is_obsolete
    if (continued := _CONTINUED.fullmatch(line)) and message.parts:
        message.parts[message.last].append(_unescape(continued[1]))
    elif keyword := _KEYWORD.fullmatch(line):
        if message.last not in _before(keyword):
            return f"{keyword[1]} after {message.last or 'the message before'}"
        if message.parts and not message.parts[message.last]:
            return f"{keyword[1]}, where the text of {message.last} is needed"
        message.parts[keyword[1]] = [] if keyword[3] is None else [_unescape(keyword[3])]
    else:
        return f"neither a quoted text nor a keyword with one: {printable(line[:40])}"
    return None


def _before(keyword: re.Match[str]) -> tuple[str, ...]:
    """Return the keywords that this one may follow in a message."""
    form = int(keyword[2] or 0)
    return (f"msgstr[{form - 1}]",) if form else _BEFORE[keyword[1]]


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[0]), text) if "\\" in text else text
