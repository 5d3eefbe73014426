"""Parser of PO files, the message catalogues of GNU gettext.

https://www.gnu.org/software/gettext/manual/html_node/PO-Files.html
"""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from gettext import c2py

from nmt.console import printable
from nmt.errors import DataError
from nmt.text.formats import extends_ascii, text_problem
from nmt.text.words import beginning

_START_BYTES = 1 << 10
_HEADER_BYTES = 1 << 16
CHARSET = r'(?i)(Content-Type:(?:[^\\\n"]|\\[^n]|"[ \t]*\r?\n[ \t]*"){0,200}?charset=)([\w.:-]{1,40})'
"""Matches the charset in a header, whose text may continue in another string; group 1 is what precedes it."""
_CHARSET = re.compile(CHARSET.encode())
_STRING = r'"([^"\\]*(?:\\.[^"\\]*)*)"'
_KEYWORD = re.compile(rf"(msgctxt|msgid|msgid_plural|msgstr|msgstr\[(0|[1-9]\d?)\])(?:\s*{_STRING})?")
_CONTINUED = re.compile(_STRING)
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "\\": "\\", '"': '"'}
_WRITTEN = str.maketrans({character: f"\\{letter}" for letter, character in _ESCAPED.items()})
_BEFORE = {
    "msgctxt": ("",),
    "msgid": ("", "msgctxt"),
    "msgid_plural": ("msgid",),
    "msgstr": ("msgid",),
    "msgstr[0]": ("msgid_plural",),
}
"""Keyword -> the keywords that it may follow in a message; each further plural form follows the one before it."""


@dataclass
class Message:
    """A message, with the numbers of its lines in the file, counted from 0."""

    parts: dict[str, list[str]] = field(default_factory=dict)
    """Keyword -> the parts of its text, in the order of the file."""
    lines: dict[str, list[int]] = field(default_factory=dict)
    """Keyword -> the line numbers of its text."""
    flags: set[str] = field(default_factory=set)
    """Flags such as `fuzzy` and `c-format`; `possible-c-format` counts as `c-format`, as for gettext."""
    is_obsolete: bool = False

    @property
    def last(self) -> str:
        """The keyword that was read last, such as `msgid`."""
        return next(reversed(self.parts), "")

    @property
    def is_complete(self) -> bool:
        """Whether the message has a translation, so that only a continuation or a plural form may follow."""
        return self.last.startswith("msgstr")

    @property
    def texts(self) -> dict[str, str]:
        """The texts by keyword."""
        return {keyword: "".join(parts) for keyword, parts in self.parts.items()}

    @property
    def header(self) -> dict[str, str] | None:
        """The fields of the header, by their names in lower case, if the message is one; None for other messages."""
        texts = self.texts
        if texts["msgid"] or "msgctxt" in texts:
            return None
        fields = (line.partition(":") for line in texts.get("msgstr", "").split("\n"))
        return {name.strip().lower(): value.strip() for name, _, value in fields}

    def sources(self, one: int) -> dict[str, str]:
        """Return the keyword of the text that each translation stands for: `msgid` or `msgid_plural`.

        one: the plural form for one object. If there is only one form, it serves all numbers, so it stands for the
        plural.
        """
        forms = [keyword for keyword in self.parts if keyword.startswith("msgstr")]
        is_plural = "msgid_plural" in self.parts
        sources = dict.fromkeys(forms, "msgid_plural" if is_plural else "msgid")
        if len(forms) > 1:
            sources[forms[one if one < len(forms) else 0]] = "msgid"
        return sources


def form_of_one(header: Mapping[str, str]) -> int:
    """Return the number of the plural form for one object by the expression in a header; 0 if there is no valid one.

    https://www.gnu.org/software/gettext/manual/html_node/Plural-forms.html
    """
    expression = re.search(r"\bplural\s*=([^;]*)", header.get("plural-forms", ""))
    try:
        # it rejects all that is not an expression of n, and long or deeply nested ones
        return max(0, c2py(expression[1])(1)) if expression else 0
    except (ArithmeticError, MemoryError, SyntaxError, ValueError):
        return 0


def po_charset(name: str, raw: bytes) -> str:
    """Return the charset of a PO file. Raises DataError for another format or an unsupported charset."""
    if problem := text_problem(raw[:_START_BYTES]):
        raise DataError(f"{name}: {problem}")
    declared = _CHARSET.search(raw, 0, _HEADER_BYTES)
    charset = declared[2].decode("ascii") if declared else "utf-8"
    if charset == "CHARSET":  # of a template
        charset = "utf-8"
    if not extends_ascii(charset):
        raise DataError(f"{name}: the charset {charset} in its header is not supported; save the file as UTF-8")
    return charset


def po_lines(name: str, raw: bytes) -> Iterator[str]:
    """Yield the decoded lines of a PO file with their ends, without a byte order mark. Raises DataError."""
    charset = po_charset(name, raw)
    for number, line in enumerate(io.BytesIO(raw.removeprefix(codecs.BOM_UTF8)), start=1):
        try:
            yield line.decode(charset)
        except UnicodeError:
            is_declared = _CHARSET.search(raw, 0, _HEADER_BYTES)
            why = "its charset; correct its header" if is_declared else "and its header names no other charset"
            raise DataError(f"{name}: line {number}: not {charset}, {why}") from None


def po_messages(name: str, lines: Iterable[str]) -> Iterator[Message]:
    """Yield the messages of a PO file. Raises DataError with the line of an error."""
    message = Message()
    number = 0
    for number, line in enumerate(map(str.strip, lines), start=1):
        continues = line.removeprefix("#~").lstrip().startswith(('"', "msgstr["))
        if message.is_complete and not continues:
            yield message
            message = Message()
        problem = _add(message, line, number - 1)
        if problem:
            raise DataError(f"{name}: line {number}: {problem}; msgfmt --check lists all such places")
    if message.is_complete:
        yield message
    elif message.parts:
        raise DataError(f"{name}: line {number}: the file ends inside a message; is it cut off?")


def _add(message: Message, line: str, place: int) -> str | None:
    """Add a line to a message, and return the problem if the line does not belong there."""
    is_obsolete = line.startswith("#~")
    line = line[2:].lstrip() if is_obsolete else line
    if not line or (is_obsolete and line[0] == "|"):
        return None
    if line[0] == "#":
        if line[1:2] in (",", "="):
            message.flags.update(flag.removeprefix("possible-") for flag in re.findall(r"[^\s,]+", line[2:]))
        return "a comment inside a message" if message.parts else None
    if message.parts and is_obsolete != message.is_obsolete:
        return "only a part of the message is marked as obsolete"
    message.is_obsolete = is_obsolete
    if (continued := _CONTINUED.fullmatch(line)) and message.parts:
        message.parts[message.last].append(_unescape(continued[1]))
        message.lines[message.last].append(place)
    elif keyword := _KEYWORD.fullmatch(line):
        if message.last not in _before(keyword):
            return f"{keyword[1]} after {message.last or 'the message before'}"
        if message.parts and not message.parts[message.last]:
            return f"{keyword[1]}, where the text of {message.last} is needed"
        message.parts[keyword[1]] = [] if keyword[3] is None else [_unescape(keyword[3])]
        message.lines[keyword[1]] = [place]
    else:
        return f"neither a quoted text nor a keyword with one: {printable(beginning(line, 40))}"
    return None


def _before(keyword: re.Match[str]) -> tuple[str, ...]:
    """Return the keywords that a keyword may follow in a message."""
    form = int(keyword[2] or 0)
    return (f"msgstr[{form - 1}]",) if form else _BEFORE[keyword[1]]


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[0]), text) if "\\" in text else text


def po_escaped(text: str) -> str:
    """Escape a text for a quoted string of a PO file."""
    return text.translate(_WRITTEN)
