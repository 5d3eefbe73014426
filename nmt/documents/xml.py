"""XML whose texts are replaced, while all other bytes stay as they are written.

The parser, expat, tells at which byte each tag and text begins. Files may come from strangers: a DOCTYPE is read only
if it defines no entities, nothing that a file refers to is opened, and the depth and number of elements are limited.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, NoReturn, TypeAlias
from xml.parsers import expat
from xml.sax.saxutils import escape

from nmt.console import printable
from nmt.documents.inline import Mark, Text, Token
from nmt.documents.types import decoded, encoding_of_mark, spliced
from nmt.errors import DataError, error_text
from nmt.text.formats import extends_ascii

_BYTES = 1 << 28
_MAX_DEPTH = 200
_MAX_ELEMENTS = 50_000
"""Maximum number of elements and texts in a unit: each takes far more memory than its characters."""
_CHUNK = 1 << 16
_DECLARED = re.compile(rb"""\s*<\?xml\b[^>]{0,200}?\sencoding\s*=\s*["']([\w.:-]{1,40})""")
_START_TAG = re.compile(rb"""<[^"'>]++(?:"[^"]*+"[^"'>]*+|'[^']*+'[^"'>]*+)*+>""")
escaped = partial(escape, entities={"\r": "&#13;"})
_CDATA, _END_CDATA = "<![CDATA[", "]]>"
_KINDS: dict[str, Literal["open", "close"]] = {_CDATA: "open", _END_CDATA: "close"}

Edit: TypeAlias = tuple[int, int, str]
"""Offsets of bytes, from the first to the one after the last, and what replaces them."""


@dataclass(eq=False)
class Other:
    """A comment, a processing instruction, or the beginning or end of a CDATA section."""

    raw: str


@dataclass(eq=False)
class Element:
    """An element, with offsets in `XmlFile.data`. Of an element around a unit, only the start tag is known."""

    name: str
    """Its name without a prefix."""
    attributes: dict[str, str]
    """By their names without prefixes; of two with the same name, the one without a prefix."""
    parent: Element | None
    start: int
    """The offset of its start tag."""
    inside: int
    """The offset of its content, which is that of its end if it is an empty tag."""
    inside_end: int = 0
    end: int = 0
    items: list[Element | Other | str] = field(default_factory=list)
    """Its content: elements, texts, and other markup."""

    def children(self, name: str) -> Iterator[Element]:
        """Yield the elements directly inside it with a name."""
        return (item for item in self.items if isinstance(item, Element) and item.name == name)

    def child(self, name: str) -> Element | None:
        """Return the first element directly inside it with a name."""
        return next(self.children(name), None)

    @property
    def text(self) -> str:
        """All text inside it."""
        parts = (item.text if isinstance(item, Element) else item for item in self.items if not isinstance(item, Other))
        return "".join(parts)

    def around(self) -> Iterator[Element]:
        """Yield the element and those around it, from the inside to the outside."""
        element: Element | None = self
        while element is not None:
            yield element
            element = element.parent

    def inherited(self, attribute: str, default: str = "") -> str:
        """Return the value of an attribute of the innermost element around it, itself included, that has it."""
        return next((it.attributes[attribute] for it in self.around() if attribute in it.attributes), default)


class XmlFile:
    """An XML file, as UTF-8."""

    def __init__(self, name: str, content: bytes) -> None:
        """Decode a file. Raises DataError if it is too large, or not in the encoding that it declares."""
        if len(content) > _BYTES:
            raise DataError(f"{name}: more than {_BYTES >> 20} MB of XML; divide the file")
        declared = _DECLARED.match(content.removeprefix(codecs.BOM_UTF8))
        mark = encoding_of_mark(content)
        self.encoding = mark or (declared[1].decode().lower() if declared else "utf-8")
        if mark is None and not extends_ascii(self.encoding):
            raise DataError(f"{name}: the encoding {self.encoding} is not supported; save the file as UTF-8")
        self.name = name
        self.data = decoded(name, content, self.encoding).encode()

    def raw(self, start: int, end: int) -> str:
        """Return what is written between two offsets."""
        return self.data[start:end].decode()

    def elements(self, root: str, wanted: frozenset[str]) -> Iterator[Element]:
        """Yield the complete elements with these names, but none inside another; `root` is the outermost element.

        Raises DataError if the file is not well-formed, has another root, or is not safe to read.
        """
        builder = _Builder(self, root, wanted)
        for start in range(0, max(1, len(self.data)), _CHUNK):
            end = start + _CHUNK
            builder.feed(self.data[start:end], end >= len(self.data))
            yield from builder.complete
            builder.complete.clear()

    def with_attribute(self, element: Element, name: str, value: str) -> Edit:
        """Return the edit that sets an attribute, which is added at the end of the start tag if it is missing. A name
        without a prefix is that of an attribute with any prefix, too."""
        tag = self.raw(element.start, element.inside)
        quoted = rf"""\s(?:[\w.-]+:)?{re.escape(name)}\s*=\s*(["'])((?:(?!\1).)*)\1"""
        found = re.match(rf"""(?:[^"']|"[^"]*"|'[^']*')*?{quoted}""", tag, re.DOTALL)
        if found is None:
            place = element.start + len(re.sub(r"\s*/?>\Z", "", tag).encode())
            return place, place, f' {name}="{attribute(value)}"'
        before = len(tag[: found.start(2)].encode())
        start = element.start + before
        return start, start + len(found[2].encode()), attribute(value)

    def with_content(self, element: Element, content: str) -> Edit:
        """Return the edit that replaces what is inside an element."""
        if element.inside < element.end:
            return element.inside, element.inside_end, content
        tag = re.sub(r"\s*/>\Z", "", self.raw(element.start, element.end))
        return element.start + len(tag.encode()), element.end, f">{content}</{tag[1:].split()[0]}>"

    def indentation(self, element: Element) -> str:
        """Return the white space before an element, from the end of the tag or text before it."""
        before = self.data[max(0, element.start - 99) : element.start]
        return before[len(before.rstrip()) :].decode()

    def written(self, edits: Iterable[Edit]) -> bytes:
        """Return the file with edits, which must not overlap, in its own encoding."""
        content = spliced(self.data, ((start, end, text.encode()) for start, end, text in edits))
        return content if self.encoding == "utf-8" else content.decode().encode(self.encoding, "xmlcharrefreplace")


def attribute(value: str) -> str:
    """Return text as it is written in an attribute."""
    return escape(value, {'"': "&quot;", "'": "&apos;", "\n": "&#10;", "\t": "&#9;"})


class _Builder:
    """A builder of elements from the events of the parser."""

    def __init__(self, file: XmlFile, root: str, wanted: frozenset[str]) -> None:
        self._file = file
        self._root = root
        self._wanted = wanted
        self.complete: list[Element] = []
        self._element: Element | None = None
        self._unit: Element | None = None
        self._depth = 0
        self._n_items = 0
        parser = self._parser = expat.ParserCreate("utf-8")
        parser.ordered_attributes = True
        parser.buffer_text = True
        parser.buffer_size = _CHUNK
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.CommentHandler = lambda _: self._other(b"-->")
        parser.ProcessingInstructionHandler = lambda *_: self._other(b"?>")
        parser.StartCdataSectionHandler = lambda: self._add(Other(_CDATA))
        parser.EndCdataSectionHandler = lambda: self._add(Other(_END_CDATA))
        parser.EntityDeclHandler = self._entity
        parser.SkippedEntityHandler = self._entity

    def feed(self, chunk: bytes, is_last: bool) -> None:
        """Parse the next bytes. Raises DataError."""
        try:
            self._parser.Parse(chunk, is_last)
        except expat.ExpatError as error:
            problem = printable(error_text(expat.ErrorString(error.code)))
            raise DataError(
                f"{self._file.name}: line {error.lineno}: broken XML ({problem}); is the file complete?"
            ) from None

    def _refuse(self, problem: str) -> NoReturn:
        raise DataError(f"{self._file.name}: line {self._parser.CurrentLineNumber}: {problem}")

    def _entity(self, name: str, *_: object) -> None:
        self._refuse(f"the entity {printable(name)!r}, which is not safe to read; write its text instead")

    def _start(self, name: str, attributes: Sequence[str]) -> None:
        data, start = self._file.data, self._parser.CurrentByteIndex
        name = name.rpartition(":")[2]
        if self._element is None and name != self._root:
            self._refuse(f"the outermost element is <{printable(name)}>, not <{self._root}>")
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            self._refuse(f"more than {_MAX_DEPTH} nested elements")
        pairs = sorted(zip(attributes[::2], attributes[1::2], strict=True), key=lambda pair: ":" not in pair[0])
        values = {key.rpartition(":")[2]: value for key, value in pairs}
        tag = _START_TAG.match(data, start)
        assert tag is not None, "well-formed"
        element = Element(name, values, self._element, start, tag.end())
        if self._unit is not None:
            self._add(element)
        elif name in self._wanted:
            self._unit = element
            self._n_items = 0
        self._element = element

    def _end(self, _: str) -> None:
        element = self._element
        assert element is not None, "begun"
        element.inside_end = self._parser.CurrentByteIndex
        element.end = element.inside_end
        if not self._file.data.endswith(b"/>", element.start, element.inside):
            element.end = self._file.data.index(b">", element.inside_end) + 1
        if element is self._unit:
            self.complete.append(element)
            self._unit = None
        self._element = element.parent
        self._depth -= 1

    def _add(self, item: Element | Other | str) -> None:
        if self._unit is None or self._element is None:
            return
        self._n_items += 1
        if self._n_items > _MAX_ELEMENTS:
            self._refuse(f"a unit of more than {_MAX_ELEMENTS:,} elements; is the file complete?")
        self._element.items.append(item)

    def _text(self, text: str) -> None:
        items = self._element.items if self._element else []
        if items and isinstance(items[-1], str):
            items[-1] += text  # comes in parts
        else:
            self._add(text)

    def _other(self, end: bytes) -> None:
        start = self._parser.CurrentByteIndex
        self._add(Other(self._file.raw(start, self._file.data.index(end, start) + len(end))))


def xml_tokens(
    file: XmlFile,
    element: Element,
    text_tokens: Callable[[str], Iterable[Token[str]]],
    is_opaque: Callable[[Element], bool] = lambda _: False,
    escape: Callable[[str], str] = escaped,
) -> Iterator[Token[str]]:
    """Divide the content of an element into texts and marks, which are written as in the file.

    text_tokens: divides texts; is_opaque: whether an element is one mark, with its content; escape: spells the marks
    inside texts.
    """
    in_cdata = False
    for item in element.items:
        if isinstance(item, Other):
            in_cdata = item.raw == _CDATA
            yield Mark(_KINDS.get(item.raw, "point"), item.raw, _CDATA)
        elif isinstance(item, str):
            for token in text_tokens(item):
                if isinstance(token, Mark):
                    yield Mark(token.kind, token.markup if in_cdata else escape(token.markup), token.key)
                else:
                    yield Text(token.text)
        elif is_opaque(item) or item.inside == item.end:
            yield Mark("point", file.raw(item.start, item.end), item)
        else:
            yield Mark("open", file.raw(item.start, item.inside), item, is_strict=True)
            yield from xml_tokens(file, item, text_tokens, is_opaque, escape)
            yield Mark("close", file.raw(item.inside_end, item.end), item)


def xml_spelled(tokens: Iterable[Token[str]], escape: Callable[[str], str] = escaped) -> str:
    """Return tokens as they are written in XML. escape: spells texts outside CDATA sections."""
    parts = []
    in_cdata = False
    for token in tokens:
        if isinstance(token, Mark):
            in_cdata = token.markup == _CDATA or (in_cdata and token.markup != _END_CDATA)
            parts.append(token.markup)
        else:
            parts.append(token.text.replace(_END_CDATA, "]] >") if in_cdata else escape(token.text))
    return "".join(parts)
