"""Markdown: CommonMark with tables and strikethrough, https://spec.commonmark.org/.

markdown-it-py finds the blocks of a document and parses their texts. Its tokens have no places within a line: they are
found again from left to right. A text in which this fails is left as it is, and reported.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import unescape
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.common.utils import normalizeReference

from nmt.documents.inline import Mark, Passage, Text, Token, tagged
from nmt.documents.types import Document, DocumentOptions, Languages, Results, decoded_text
from nmt.text.message_formats import TEMPLATE

_LEFT_OUT = "left as it is, since its markup is not understood"
_MAX_INLINE = 20_000
"""Maximum number of characters of a paragraph: some markup takes a time that grows with its square."""
_FRONT_MATTER = re.compile(r"\ufeff?(?s:---[ \t]*\r?\n.*?\n---|\+\+\+[ \t]*\r?\n.*?\n\+\+\+)[ \t]*(?=[\r\n]|\Z)")
_SHOWN = re.compile(r"(?m)^(?:title|linkTitle|description|summary):[ \t]+(?=[^\W\d_]|[\"'])([^\r\n]*?)[ \t]*\r?$")
"""Matches a line of front matter with a text for readers."""
_KEPT = re.compile(r"\[!\w+\]|:::.*|[!?]{3}.*|\$\$.*|\{[#.:%][^}\n]*\}")
"""Matches a line of a text that is for programs, such as the kind of a note."""
_POINT = re.compile(r"(\[\^[^\]\s]+\]:?|\A\[[ xX]\](?=\s)|\s\{[#.:][^{}\n]*\}\Z)")
"""Matches a mark in a text: a reference to a footnote, or its number; the box of a task; attributes of a heading."""
_SIGN = re.compile(
    rf"(?P<kept>{TEMPLATE})|\\(?=[!-/:-@\[-`{{-~])|[`*\[\]|]|<(?=[A-Za-z/!?])|&(?=#?\w+;)|(?<!\w)_|_(?!\w)|~~"
)
"""Matches what would be markup in a text, and expressions of templates, which stay."""
_LINE_START = re.compile(r"(?m)^(\s*(?:\d{1,9}(?=[.)](?:\s|\Z)))?)([#>+=.)-]|~~~)")
_ESCAPE = re.compile(r"\\[!-/:-@\[-`{-~]|&#?\w{1,31};")
_DESTINATION = re.compile(
    r"\]\(\s*(?:<[^<>\n]*>|(?:\\.|\((?:\\.|[^()\s\\])*\)|[^()\s\\])*)"
    r"""(?:\s+(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\((?:\\.|[^()\\])*\)))?\s*\)"""
)
"""Matches the end of a link with its address and title."""
_ELEMENTS = ("em", "strong", "s")


def open_markdown(name: str, content: bytes, _: DocumentOptions) -> Document:
    """Open a Markdown file. Raises DataError if it cannot be decoded."""
    text, encoding = decoded_text(name, content)
    reader = _Reader(text)
    passage = Passage(reader.tokens())

    def write(results: Results, _: Languages) -> bytes:
        written = reader.spelled(passage.translated(results)[1])
        if reader.left_out:
            results.problems[_LEFT_OUT] += reader.left_out
        return written.encode(encoding)

    return Document(passage.texts, write)


class _Reader:
    """A converter of a document to tokens, and of tokens to a document."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
        self._environment: dict[str, Any] = {}
        """The references of the document."""
        self.left_out: list[str] = []
        """The lines of texts that are not understood."""

    def tokens(self) -> Iterator[Token[str]]:
        """Yield the tokens of the document."""
        text = self._text
        front = _FRONT_MATTER.match(text)
        begin = front.end() if front else 0
        end = 0
        for value in _SHOWN.finditer(text, 0, begin):
            yield Mark("break", text[end : value.start(1)], "yaml")
            yield Text(_of_yaml(value[1]), value[1])
            end = value.end(1)
        # what is not Markdown is blank to the parser, which takes only line feeds for line ends
        body = re.sub(r"[^\n]", " ", text[:begin].replace("\ufeff", " ")) + text[begin:].replace(
            "\ufeff", " ", not begin
        )
        lines = [0, *(match.end() for match in re.finditer("\n", body)), len(body)]
        kind = ""
        for block in self._parser.parse(body.replace("\r", " "), self._environment):
            if block.type == "inline" and block.map and block.content.strip():
                rows = lines[block.map[0] : block.map[1]]
                in_cell = kind in ("th_open", "td_open")
                place = _place(body, block.content, [max(rows[0], end), *rows[1:]], in_cell)
                if place is None or len(block.content) > _MAX_INLINE:
                    self.left_out.append(f"line {block.map[0] + 1}")
                else:
                    yield Mark("break", text[end : place[0]])
                    yield from self._lines(block.content, place)
                    end = place[-1]
            kind = block.type
        yield Mark("break", text[end:])

    def _lines(self, content: str, place: Sequence[int]) -> Iterator[Token[str]]:
        """Yield the tokens of a text, divided at lines that are kept. place: the offsets of its characters."""
        start = 0
        for line in re.finditer(r"[^\n]+", content):
            if _KEPT.fullmatch(line[0].strip()):
                yield from self._inline(content[start : line.start()], place[start : line.start() + 1])
                yield Mark("break", self._text[place[line.start()] : place[line.end()]])
                start = line.end()
        yield from self._inline(content[start:], place[start:])

    def _inline(self, content: str, place: Sequence[int]) -> Iterator[Token[str]]:
        """Yield the tokens of text without such lines."""
        body = content.strip()
        first = content.find(body)
        tokens: list[Token[str]] = []
        raw = self._text[place[0] : place[-1]]
        end = first
        if body:
            [parsed] = self._parser.parseInline(body, self._environment)
            walk = _Walk(content, place, self._text, first, self._environment.get("references", {}))
            tokens = [Mark("break", self._text[place[0] : place[first]]), *walk.tokens(parsed.children or ())]
            end = walk.end
        if content[end:].strip():
            self.left_out.append(f"line {self._text.count(chr(10), 0, place[0]) + 1}")
            yield Mark("break", raw)
            return
        yield from tokens
        yield Mark("break", self._text[place[end] : place[-1]])

    def spelled(self, tokens: Iterable[Token[str]]) -> str:
        """Return the document."""
        parts: list[str] = []
        opened: dict[object, int] = {}
        spans = []
        is_start = True
        context: object = None
        for token in tokens:
            if isinstance(token, Mark):
                if token.kind == "break":
                    is_start, context = True, token.key
                elif token.kind == "open":
                    opened[token.key] = len(parts)
                elif token.key in _ELEMENTS and token.key in opened:
                    spans.append((str(token.key), opened[token.key], len(parts)))
                is_start &= token.kind == "break" or not token.markup
                is_joined = token.markup.startswith("`") and "".join(parts[-2:]).endswith("`")
                parts.append(" " * is_joined + token.markup)  # two spans of code would be one
                if isinstance(token.key, _Link) and token.kind == "close" and token.key.label:
                    inside = "".join(parts[opened[token.key] + 1 : -1])
                    parts[-1] = token.markup if inside == token.key.label else f"][{token.key.label}]"
                continue
            written = token.raw
            if token.text and not written:
                written = _SIGN.sub(_escaped, token.text)
                written = _LINE_START.sub(r"\1\\\2", written.lstrip()) if is_start else written
                if context == "yaml":
                    is_plain = re.fullmatch(r"[^\W\d_][\w ,.()/-]*", token.text)
                    written = token.text if is_plain else json.dumps(token.text, ensure_ascii=False)
            parts.append(written)
            _, line_end, last = written.rpartition("\n")
            is_start = (is_start or bool(line_end)) and not last.strip("> \t")
        for element, start, end in spans:
            if not (_is_sign(parts, start, 1) and _is_sign(parts, end, -1)):  # next to a letter and inside a bracket
                parts[start], parts[end] = f"<{element}>", f"</{element}>"
        return "".join(parts)


def _is_sign(parts: Sequence[str], place: int, inwards: int) -> bool:
    """Return whether a sign of emphasis is one where it is written."""
    inside, outside = _beside(parts, place, inwards), _beside(parts, place, -inwards)
    if inside.isspace() or ("_" in parts[place] and outside.isalnum()):
        return False
    return not _is_apart(inside) or _is_apart(outside)


def _is_apart(character: str) -> bool:
    """Return whether a character is white space or punctuation."""
    return character.isspace() or unicodedata.category(character)[0] in "PS"


def _beside(parts: Sequence[str], place: int, step: int) -> str:
    """Return the character beside a sign of emphasis, other signs left out; a space at the ends of a document."""
    place += step
    while 0 <= place < len(parts):
        if part := parts[place].strip("*_~"):
            return part[0 if step > 0 else -1]
        place += step
    return " "


def _escaped(sign: re.Match[str]) -> str:
    if sign["kept"]:
        return sign[0]
    return "&#124;" if sign[0] == "|" else f"\\{sign[0]}"  # the parser divides cells at an escaped one, too


def _of_yaml(raw: str) -> str:
    """Return the text of a value in YAML."""
    if raw[:1] == raw[-1:] == "'" and len(raw) > 1:
        return raw[1:-1].replace("''", "'")
    if raw[:1] == raw[-1:] == '"' and len(raw) > 1:
        return re.sub(r'\\(["\\])', r"\1", raw[1:-1])
    return raw


def _place(text: str, content: str, rows: Sequence[int], in_cell: bool) -> list[int] | None:
    """Return the offset of each character of a text that begins in the first of some lines, and of its end; None if it
    is not there. rows: the offsets of the lines."""
    place: list[int] = []
    for row, line in zip(rows, content.split("\n"), strict=False):
        end = text.find("\n", row)
        whole = text[row : len(text) if end < 0 else end].replace("\r", " ")
        written = line if line in whole else line.replace("|", r"\|")  # in the cell of a table
        start = whole.find(written) if in_cell else whole.rfind(written)
        if start < 0:
            return None
        place += [
            start + row + match.start()
            for match in re.finditer(r"\\\||(?s:.)" if written != line else "(?s:.)", written)
        ]
        place.append(row + start + len(written))
    return place if len(place) == len(content) + 1 else None


@dataclass(eq=False)
class _Link:
    """A link or an image, the key of its marks."""

    start: int
    """The offset of its text."""
    label: str = ""
    """The label of its reference, if this is its text."""


class _Walk:
    """A walk through a text and its parsed tokens."""

    def __init__(self, content: str, place: Sequence[int], text: str, start: int, references: Container[str]) -> None:
        self._content = content
        self._references = references
        self._links: list[_Link] = []
        self._in_address = False
        self._place = place
        self._text = text
        self.end = start
        """The offset up to which tokens have been found; less than the length if one is not found."""

    def _taken(self, pattern: str) -> str:
        """Return the spelling of the next characters, which match a pattern; an empty string if they do not."""
        found = re.compile(pattern).match(self._content, self.end)
        if found is None:
            raise ValueError
        start, self.end = self.end, found.end()
        return self._text[self._place[start] : self._place[self.end]]

    def tokens(self, parsed: Sequence[Any]) -> list[Token[str]]:
        """Return the tokens, up to one that is not found."""
        tokens: list[Token[str]] = []
        try:
            for child in parsed:
                tokens += self._of(child)
        except ValueError:
            self.end = 0
        return tokens

    def _of(self, child: Any) -> Iterator[Token[str]]:
        name, _, side = child.type.rpartition("_")
        if self._in_address:
            self._in_address = child.type != "link_close"
        elif child.type == "text":
            yield from self._plain(child.content)
        elif child.type == "softbreak":
            yield Text(" ", self._taken(r"[ \t]*\n[ \t]*"))
        elif child.type == "hardbreak":
            yield Mark("break", self._taken(r"(?:[ \t]*|\\)\n[ \t]*"))
        elif child.type == "code_inline":
            yield Mark("point", self._taken(rf"(?s){child.markup}(?!`).*?(?<!`){child.markup}(?!`)"))
        elif child.type == "html_inline":
            raw = self._taken(re.escape(child.content))
            tag = next(iter(tagged(raw)))
            yield tag if isinstance(tag, Mark) and tag.markup == raw else Mark("point", raw)
        elif child.type == "image":
            yield self._opened(r"!\[")
            for inside in child.children or ():
                yield from self._of(inside)
            yield self._target(self._links.pop())
        elif name == "link" and child.markup == "autolink":
            yield Mark("point", self._taken("<[^>]*>"))
            self._in_address = True
        elif name == "link" and side == "open":
            yield self._opened(r"\[")
        elif name == "link":
            yield self._target(self._links.pop())
        elif name in _ELEMENTS:
            yield Mark("open" if side == "open" else "close", self._taken(re.escape(child.markup)), name)
        else:
            raise ValueError

    def _opened(self, pattern: str) -> Mark[str]:
        """Return the mark that opens a link or an image."""
        markup = self._taken(pattern)
        self._links.append(_Link(self.end))
        return Mark("open", markup, self._links[-1])

    def _target(self, link: _Link) -> Mark[str]:
        """Return the mark that closes a link or an image. A reference without a label is given its text as label."""
        label = re.compile(r"\]\[((?:\\.|[^\[\]\\])*)\]").match(self._content, self.end)
        if _DESTINATION.match(self._content, self.end):
            return Mark("close", self._taken(_DESTINATION.pattern), link)
        if label and normalizeReference(label[1]) in self._references:
            return Mark("close", self._taken(label.re.pattern), link)
        link.label = self._text[self._place[link.start] : self._place[self.end]]
        return Mark("close", self._taken(r"\](?:\[\])?"), link)

    def _plain(self, text: str) -> Iterator[Token[str]]:
        """Yield the tokens of characters, which may be written as escapes and entities."""
        for i, part in enumerate(_POINT.split(text)):
            start, meaning = self.end, part
            while part:
                end = self.end + len(part)
                sign = _ESCAPE.search(self._content, self.end)
                sign = sign if sign and sign.start() < end else None
                n_plain = sign.start() - self.end if sign else len(part)
                meant = unescape(sign[0]) if sign and sign[0][0] == "&" else sign[0][1:] if sign else ""
                if sign and (sign[0] == meant or not part.startswith(meant, n_plain)):  # it stands for itself
                    n_plain, sign, meant = n_plain + 1, None, ""
                if not self._content.startswith(part[:n_plain], self.end):
                    raise ValueError
                self.end = sign.end() if sign else self.end + n_plain
                part = part[n_plain + len(meant) :]
            raw = self._text[self._place[start] : self._place[self.end]]
            if raw:
                yield Mark("point", raw) if i % 2 else Text(meaning, raw)
