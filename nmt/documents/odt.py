"""OpenDocument texts: the paragraphs and headings of the body, of tables, notes and text boxes, headers and footers.

https://docs.oasis-open.org/office/OpenDocument/v1.3/ describes the format, in part 3.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from lxml import etree

from nmt.documents.inline import Mark, Passage, Text, Token
from nmt.documents.office import Markup, Package, Paragraph, open_office
from nmt.documents.types import Document
from nmt.errors import DataError

_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_OFFICE = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}"
_MANIFEST = "META-INF/manifest.xml"

_AROUND = frozenset(f"{_TEXT}{name}" for name in ("span", "a", "meta"))
_PAIR = re.compile(re.escape(_TEXT) + "(bookmark|reference-mark|change|toc-mark|alphabetical-index-mark)-(start|end)")
_KEYS = (f"{_TEXT}name", f"{_TEXT}change-id", f"{_TEXT}id")
_BREAKS = frozenset([f"{_TEXT}tab", f"{_TEXT}line-break"])
_SPACE = f"{_TEXT}s"
_UNTOUCHED = frozenset([f"{_OFFICE}annotation", f"{_TEXT}tracked-changes"])
"""Comments, and what was deleted."""


def open_odt(name: str, content: bytes, should_stop: Callable[[], bool]) -> Document:
    """Take an OpenDocument text apart; see `open_office`. Raises DataError."""
    package = Package(name, content)
    members = [member for member in package if member in ("content.xml", "styles.xml")]
    if "content.xml" not in members:
        raise DataError(f"{name}: no content.xml in it; is it another kind of document?")
    if b"encryption-data" in package.content(_MANIFEST):
        raise DataError(f"{name}: encrypted; save it without a password")
    return open_office(package, members, _paragraphs, should_stop)


def _paragraphs(root: etree._Element) -> Iterator[Paragraph]:
    walk = etree.iterwalk(root, events=("start",), tag=(f"{_TEXT}p", f"{_TEXT}h", *_UNTOUCHED))
    for _, element in walk:
        if element.tag in _UNTOUCHED:
            walk.skip_subtree()
        else:
            yield Paragraph(Passage(_tokens(element)), partial(_rewrite, element))


def _tokens(parent: etree._Element) -> Iterator[Token[Markup]]:
    if parent.text:
        yield Text(parent.text, parent.text)
    for child in parent:
        if child.tag in _AROUND:
            yield Mark("open", Markup(around=child), child, is_strict=True)
            yield from _tokens(child)
            yield Mark("close", Markup(around=child), child)
        elif child.tag == _SPACE:
            yield Mark("space", Markup([child]))
        elif child.tag in _BREAKS:
            yield Mark("break", Markup([child]))
        elif isinstance(child.tag, str) and (pair := _PAIR.fullmatch(child.tag)):
            key = pair[1], *(child.get(name) for name in _KEYS)
            yield Mark("open" if pair[2] == "start" else "close", Markup([child]), key)
        else:
            yield Mark("point", Markup([child]))
        if child.tail:
            yield Text(child.tail, child.tail)


def _rewrite(paragraph: etree._Element, tokens: Iterable[Token[Markup]]) -> None:
    """Give a paragraph this content."""
    _clear(paragraph)
    around = [paragraph]
    for token in tokens:
        if isinstance(token, Text):
            _append_text(around[-1], token.raw or token.text)
        elif token.markup.around is None:
            for element in token.markup.elements:
                element.tail = None
                around[-1].append(element)
        elif token.kind == "open":
            _clear(token.markup.around)
            token.markup.around.tail = None
            around[-1].append(token.markup.around)
            around.append(token.markup.around)
        else:
            around.pop()


def _clear(element: etree._Element) -> None:
    element.text = None
    del element[:]


def _append_text(parent: etree._Element, text: str) -> None:
    last = next(parent.iterchildren(reversed=True), None)  # len(parent) takes linear time
    if last is not None:
        last.tail = (last.tail or "") + text
    else:
        parent.text = (parent.text or "") + text
