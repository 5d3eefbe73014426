"""HTML documents, whose texts are translated while all tags stay as they are written, even in malformed HTML.

https://html.spec.whatwg.org/multipage/parsing.html describes how browsers parse HTML. This module builds no tree: every
character belongs to a tag, a comment or a text, and is written again.
"""

from __future__ import annotations

import html
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from nmt.documents.inline import Mark, Passage, Text, Token
from nmt.documents.types import (
    Document,
    DocumentOptions,
    Languages,
    Results,
    Rules,
    decoded,
    encoding_of_mark,
    in_target,
    spaced,
)
from nmt.errors import DataError
from nmt.languages.codes import is_other_language
from nmt.text.formats import browser_encoding
from nmt.text.message_formats import STATEMENT, TEMPLATE, masked
from nmt.text.translated import Translated

_BLOCKS = frozenset(
    re.findall(
        r"\w+",
        "address article aside audio base blockquote body br button canvas caption center col colgroup dd "
        "details dialog dir div dl dt fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 "
        "h6 head header hgroup hr html iframe legend li link main menu meta nav noframes noscript object "
        "ol optgroup option p pre script search section select slot style summary table tbody td template "
        "textarea tfoot th thead title tr track ul video",
    )
)
"""Block elements and `br`, which divide texts. All other elements, such as `b` and unknown ones, are inline."""

_VOID = frozenset(re.findall(r"\w+", "area base br col embed hr img input link meta param source track wbr"))
"""Elements without content and end tag."""

_OPAQUE = frozenset(["script", "style", "code", "pre", "kbd", "samp", "var", "textarea", "svg", "math", "del"])
"""Elements whose content is not translated."""

_RAW = frozenset(["script", "style"])
"""Elements that contain no tags."""

_READINGS = ("rt", "rp")
"""Elements of ruby that are omitted: a reading, or a bracket around it."""

_END_READINGS = _BLOCKS | {"ruby", "rb", "rtc"}
"""Elements whose tags end a reading without an end tag, as other readings do."""

_QUOTED = rf"""(?:"(?:[^"{{<]++|{TEMPLATE}|[{{<])*+"|'(?:[^'{{<]++|{TEMPLATE}|[{{<])*+')"""
_TAG = re.compile(
    rf"""<(/?)([A-Za-z][^\s/<>"']*+)((?:[^>={{<]++|{TEMPLATE}|[{{<]|=\s*+(?:{_QUOTED}|(?!["'])[^\s>]*+))*+)>"""
)
"""A quote that does not begin a value is a character like others."""
_OTHER = re.compile(
    rf"<(?:!(?=--).*?(?:-->|\Z)|\?(?:php\b|=).*?(?:\?>|\Z)|[!?].*?(?:>|\Z))|{STATEMENT}",
    re.DOTALL,
)
"""A comment, declaration, instruction or statement of a template."""
_NEXT = re.compile(f"{TEMPLATE}|<")
_BEGINNING = re.compile("</?[A-Za-z]")
_PLAIN_TAG = re.compile(r"<(/?)([A-Za-z][^\s/<>]*+)([^<>]*+)>")
_ATTRIBUTE = re.compile(rf"""([^\s"'>/=]++)(?:\s*+=\s*+({_QUOTED}|[^\s"'>][^\s>]*+))?""")
_MAX_PIECES_OF_NUMBER = 8
_UP_TO = r"""(<(?:[^"'>]|"[^"]*"|'[^']*')*?\s"""
"""Matches a tag up to an attribute that is outside other attributes. Its group ends in the attribute."""
_OF_TARGET = rf"""(?i)\A(?!<(?!html\b|body\b)[^>]*\slang\s*+=\s*+["']?(?!TARGET\b)\w){_UP_TO}"""
"""Matches the same in a tag without a third language, or of `html` or `body`."""
_STATED = re.compile(
    rf"""(?i){_UP_TO}(?:translate\s*+=\s*+["']?(no|yes)|class\s*+=\s*+(?:"[^"]*?|'[^']*?|)(?<![\w-])notranslate)(?![\w-]))"""
)
_LANGUAGE = re.compile(rf"""(?i)(?!<(?:html|body)\b){_UP_TO}(?:xml:)?lang\s*+=)\s*+["']?([\w-]*)""")
"""Matches a tag that states the language of its content, but not of the page, which is in the source language."""
_RULES = Rules(
    {
        rf"""(?i)\A{_UP_TO}lang\s*+=\s*+["']?)(?:SOURCE)\b[\w-]*""": r"\1TARGET",
        rf"""(?i)\A{_UP_TO}xml:lang\s*+=\s*+["']?)(?:SOURCE)\b[\w-]*""": r"\1TARGET",
    },
    {
        rf"""{_OF_TARGET}dir\s*+=\s*+["']?)rtl\b""": r"\1ltr",
        rf"""{_OF_TARGET}style\s*+=\s*+(?:"[^"]*?|'[^']*?)(?<![\w-])direction\s*+:\s*+)rtl\b""": r"\1ltr",
    },
    {
        rf"""{_OF_TARGET}dir\s*+=\s*+["']?)ltr\b""": r"\1rtl",
        rf"""{_OF_TARGET}style\s*+=\s*+(?:"[^"]*?|'[^']*?)(?<![\w-])direction\s*+:\s*+)ltr\b""": r"\1rtl",
        r"""(?i)\A<html\b(?!(?:[^"'>]|"[^"]*"|'[^']*')*?\sdir\b)""": r'\g<0> dir="rtl"',
    },
)
_SHOWN = frozenset(["alt", "title", "placeholder"])
"""Attributes whose text is shown to readers."""
_CHARSET = re.compile(rb"<meta\s[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_COMMENT = re.compile(rb"<!--.*?(?:-->|\Z)", re.DOTALL)
_HEAD_BYTES = 4096  # browsers search only the first 1024 bytes for the charset


@dataclass(frozen=True)
class _Value:
    """The text of an attribute; `raw` is its spelling in the document, including quotes."""

    number: int
    text: str
    raw: str


HtmlMarkup: TypeAlias = "tuple[str | _Value, ...]"
"""The parts of a tag or comment: strings as they are written, and values to translate."""


@dataclass(frozen=True)
class _Piece:
    """A part of a document: a tag with its name, a comment without a name, or a text (`is_text`)."""

    raw: str
    name: str = ""
    is_end: bool = False
    attributes: str = ""
    is_text: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether it is the start of an element that has no content and no end tag."""
        return self.name in _VOID or _ATTRIBUTE.sub(" ", self.attributes).endswith("/")  # outside values


class HtmlFragment:
    """A parsed fragment of HTML. Its texts have no line breaks and no white space at their ends."""

    def __init__(self, text: str, attributes: bool = False, source: str = "") -> None:
        """Parse an HTML page or a fragment of a page.

        attributes: whether to translate the attributes `alt`, `title` and `placeholder`, too; their texts come last;
        source: the language to translate; elements in another one are not translated, unless it is empty or unknown.
        """
        reader = _Reader(attributes, source)
        self._passage = Passage(reader.tokens(list(_pieces(text))))
        self._values = reader.values
        self.texts = [*self._passage.texts, *(value.text for value in self._values)]
        self.n_readings = reader.n_readings
        """Number of ruby readings, which are omitted."""

    def translated_text(self, results: Sequence[Translated | str], languages: Languages = ("", "")) -> str:
        """Return the HTML with its texts translated: one result for each text. Raises ValueError if numbers differ.

        languages: source and target, whose codes and directions replace each other in tags.
        """
        return self.written(Results(self.texts, results), languages)

    def written(self, results: Results, languages: Languages) -> str:
        """Return what `translated_text` does."""
        _, tokens = self._passage.translated(results)
        values = [_written(value, result.text) for value, result in zip(self._values, results, strict=True)]
        return "".join(_token_text(token, values, languages) for token in tokens)


def open_html(name: str, content: bytes, options: DocumentOptions) -> Document:
    """Open an HTML file. Raises DataError if it cannot be decoded."""
    encoding = encoding_of_mark(content) or _declared(name, content)
    fragment = HtmlFragment(decoded(name, content, encoding), attributes=True, source=options.source)

    def write(results: Results, languages: Languages) -> bytes:
        return fragment.written(results, languages).encode(encoding, "xmlcharrefreplace")

    return Document(fragment.texts, write, n_readings=fragment.n_readings)


def _declared(name: str, content: bytes) -> str:
    declaration = _CHARSET.search(_COMMENT.sub(b"", content[:_HEAD_BYTES]))
    if declaration is None:
        return "utf-8"
    label = declaration[1].decode("ascii")
    if re.match("utf-?(16|32)", label, re.IGNORECASE):  # impossible, since the label was read as ASCII
        return "utf-8"
    if (encoding := browser_encoding(label)) is None:
        raise DataError(f"{name}: the charset {label} is not supported; save the file as UTF-8 and declare UTF-8")
    return encoding


def _token_text(token: Token[HtmlMarkup], values: Sequence[str], languages: Languages) -> str:
    if isinstance(token, Text):
        return token.raw or _restored(html.escape(token.text, quote=False))
    tag = "".join(part if isinstance(part, str) else values[part.number] for part in token.markup)
    if not _TAG.fullmatch(tag):  # a comment, or an element that is not translated
        return tag
    return in_target(tag, languages, _RULES)


def _written(value: _Value, text: str) -> str:
    if text == value.text:
        return value.raw
    quote = value.raw[0] if value.raw[0] in "\"'" else '"'
    escaped = html.escape(text, quote=False).replace(quote, "&quot;" if quote == '"' else "&#39;")
    return f"{quote}{_restored(escaped)}{quote}"


def _restored(escaped: str) -> str:
    """Return escaped text with expressions and statements of templates, which are not HTML, as they were."""
    return re.sub(TEMPLATE, lambda match: html.unescape(match[0]), escaped)


def _pieces(text: str) -> Iterator[_Piece]:
    """Divide a document into tags, comments and texts, in linear time even if it is broken."""
    tag = _TAG
    start = 0
    position = 0
    while begin := _NEXT.search(text, position):
        position = begin.start()
        if match := _OTHER.match(text, position):
            piece = _Piece(match[0])
        elif _BEGINNING.match(text, position):
            if tag.match(text, position) is None:  # avoids quadratic time: no later tag has an end
                tag = _PLAIN_TAG
            if match := tag.match(text, position):
                piece = _Piece(match[0], match[2].lower(), bool(match[1]), match[3])
        if match is None:
            position = begin.end()
            continue
        if start < position:
            yield _Piece(text[start:position], is_text=True)
        yield piece
        start = end = match.end()
        if piece.name in _RAW and not piece.is_end:
            closing = re.compile(rf"</{piece.name}(?![\w-])", re.IGNORECASE).search(text, end)
            start = closing.start() if closing else len(text)
            yield _Piece(text[end:start])
        position = start
    if start < len(text):
        yield _Piece(text[start:], is_text=True)


class _Reader:
    """A converter of the pieces of a document to tokens, which collects the attributes to translate."""

    def __init__(self, attributes: bool, source: str) -> None:
        self._attributes = attributes
        self._source = source
        self.values: list[_Value] = []
        self.n_readings = 0

    def tokens(self, pieces: Sequence[_Piece]) -> Iterator[Token[HtmlMarkup]]:
        ends, roots = _kept(pieces, self._source)
        is_omitted = False
        i = n_rubies = 0
        while i < len(pieces):
            piece = pieces[i]
            is_omitted &= piece.name not in _END_READINGS
            if n_rubies > 0 and piece.name in _READINGS:
                is_omitted = not piece.is_end
                self.n_readings += is_omitted and piece.name == "rt"
            elif is_omitted:
                pass
            elif roots[i] not in (-1, roots[i - 1]):
                start = i
                while roots[i + 1] == roots[start]:
                    i += 1
                is_inline = (start, i) == (roots[start], ends[roots[start]]) and piece.name not in _BLOCKS
                raw = "".join(inner.raw for inner in pieces[start : i + 1])
                yield Mark("point" if is_inline else "break", (raw,))
            elif piece.is_text:
                yield Text(html.unescape(piece.raw), piece.raw)
            else:
                if piece.name in _BLOCKS:
                    n_rubies = 0
                elif piece.name == "ruby" and piece.is_end:
                    n_rubies -= 1
                elif piece.name == "ruby":
                    n_rubies += 1
                yield self._mark(piece)
            i += 1

    def _mark(self, piece: _Piece) -> Mark[HtmlMarkup]:
        markup = self._markup(piece)
        if piece.name in _BLOCKS:
            return Mark("break", markup)
        if piece.is_end:
            return Mark("close", markup, piece.name)
        return Mark("open" if piece.name and not piece.is_empty else "point", markup, piece.name)

    def _markup(self, piece: _Piece) -> HtmlMarkup:
        if not self._attributes or piece.is_end:
            return (piece.raw,)
        offset = len(piece.raw) - len(piece.attributes) - 1
        parts: list[str | _Value] = []
        start = 0
        for attribute in _ATTRIBUTE.finditer(piece.attributes):
            if attribute[1].lower() not in _SHOWN or not attribute[2]:
                continue
            written = attribute[2][1:-1] if attribute[2][0] in "\"'" else attribute[2]
            text = " ".join(spaced(html.unescape(written)).split())
            if any(map(str.isalpha, masked(text))):
                value = _Value(len(self.values), text, attribute[2])
                self.values.append(value)
                parts += piece.raw[start : offset + attribute.start(2)], value
                start = offset + attribute.end(2)
        return (*parts, piece.raw[start:])


def _kept(pieces: Sequence[_Piece], source: str) -> tuple[dict[int, int], list[int]]:
    """Return the last piece of each element by its first piece, and the first piece of the outermost element around
    each piece that is not translated; -1 for other pieces, and one more at the end.

    An element that is never closed extends to the next block element.
    """
    opened = defaultdict[str, list[int]](list)
    ends = {}
    for i, piece in enumerate(pieces):
        if piece.name and not piece.is_end and not piece.is_empty:
            opened[piece.name].append(i)
        elif piece.is_end and opened[piece.name]:
            ends[opened[piece.name].pop()] = i
    last = len(pieces) - 1
    for i in reversed(range(len(pieces))):
        ends.setdefault(i, i if pieces[i].is_empty else last)
        if pieces[i].name in _BLOCKS:
            last = max(i - 1, 0)
    roots = []
    around = [(len(pieces), -1, False, False)]
    for i, piece in enumerate(pieces):
        while around[-1][0] < i:
            around.pop()
        end, root, is_no, is_other = around[-1]
        if piece.name and not piece.is_end:
            end = min(end, ends[i])
            is_no |= piece.name in _OPAQUE or _is_number(pieces[i : min(end, i + _MAX_PIECES_OF_NUMBER) + 1])
            if stated := _STATED.match(piece.raw):
                is_no = stated[2] is None or stated[2].lower() == "no"
            if language := _LANGUAGE.match(piece.raw):
                is_other = is_other_language(language[2], source)
            if root < 0 or not (is_no or is_other):
                root = i if is_no or is_other else -1
            around.append((end, root, is_no, is_other))
        roots.append(root)
    return ends, [*roots, -1]


def _is_number(pieces: Sequence[_Piece]) -> bool:
    """Return whether pieces are a superscript number, such as a footnote mark, which is not a part of a word."""
    if pieces[0].name != "sup" or len(pieces) > _MAX_PIECES_OF_NUMBER:
        return False
    return not any(any(map(str.isalpha, piece.raw)) for piece in pieces if piece.is_text)
