"""Word documents: the paragraphs of the body, of headers, footers, notes and text boxes.

A run is a stretch of characters of one format. That of most characters of a paragraph is its base; other formats, links
and fields are spans over the text, and notes, pictures and the like are marks in it.
https://ecma-international.org/publications-and-standards/standards/ecma-376/ describes the format, in part 1.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from functools import partial
from typing import Literal, NamedTuple

from lxml import etree

from nmt.documents.inline import Mark, Passage, Text, Token
from nmt.documents.office import Markup, Package, Paragraph, open_office
from nmt.documents.types import Document
from nmt.errors import DataError

_NAMESPACES = (
    "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}",
    "{http://purl.oclc.org/ooxml/wordprocessingml/main}",
)
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
_PARTS = re.compile(r"word/(document|header|footer|footnotes|endnotes)\d*\.xml")

_AROUND = frozenset(["hyperlink", "ins", "moveTo", "smartTag", "fldSimple", "customXml", "dir", "bdo", "sdt"])
"""Elements with runs in them that are translated."""
_PAIR = re.compile("(bookmark|commentRange|perm|moveFromRange|moveToRange)(Start|End)")
_BREAKS = frozenset(["tab", "br", "cr", "ptab"])
_HINTS = frozenset(["proofErr", "lastRenderedPageBreak", "softHyphen"])
"""Elements that are not needed, and not true of another text."""
_NOT_FORMAT = frozenset(["lang", "noProof"])
"""Properties by which Word divides text of one format into runs."""

_MAX_FORMAT = 2000
"""Characters of the properties of a run, which are copied to each part of it."""


def open_docx(name: str, content: bytes, should_stop: Callable[[], bool]) -> Document:
    """Take a Word document apart; see `open_office`. Raises DataError."""
    package = Package(name, content)
    members = [member for member in package if _PARTS.fullmatch(member)]
    if not any("document" in member for member in members):
        raise DataError(f"{name}: no word/document.xml in it; is it another kind of document?")
    return open_office(package, members, partial(_paragraphs, name), should_stop)


def _paragraphs(name: str, root: etree._Element) -> Iterator[Paragraph]:
    namespace = next((space for space in _NAMESPACES if root.tag.startswith(space)), None)
    if namespace is None:
        raise DataError(f"{name}: its root element is not that of a Word document; save the document again")
    for element in root.iter(f"{namespace}p"):
        tokens, base = _formatted(list(_Reader(namespace).inside(element)), namespace)
        yield Paragraph(Passage(tokens), partial(_rewrite, namespace, element, base))


class _Run(NamedTuple):
    """A part of the text of a run."""

    text: str
    element: etree._Element


class _Reader:
    """Makes tokens of the content of a paragraph; those of text know their run."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace

    def inside(self, parent: etree._Element) -> Iterator[_Run | Mark[Markup]]:
        """Yield the tokens of what is in an element."""
        children = [child for child in parent if not self._name(child).endswith("Pr")]
        fields = self._fields(children)
        i = 0
        while i < len(children):
            if i in fields:
                kind, end = fields[i]
                yield Mark(kind, Markup(children[i:end]), "field", is_strict=True)
                i = end
            else:
                yield from self._child(children[i])
                i += 1

    def _child(self, child: etree._Element) -> Iterator[_Run | Mark[Markup]]:
        name = self._name(child)
        if name == "r":
            yield from self._run(child)
        elif name in _AROUND:
            yield Mark("open", Markup(around=child), child, is_strict=True)
            yield from self.inside(_content(child))
            yield Mark("close", Markup(around=child), child)
        elif pair := _PAIR.fullmatch(name):
            key = pair[1], child.get(f"{self._namespace}id")
            yield Mark("open" if pair[2] == "Start" else "close", Markup([child]), key)
        elif name not in _HINTS:
            yield Mark("point", Markup([child]))

    def _run(self, run: etree._Element) -> Iterator[_Run | Mark[Markup]]:
        names = [self._name(child) for child in run]
        if not {"t", "noBreakHyphen", *_BREAKS}.intersection(names):
            yield Mark("point", Markup([run]))
            return
        for name, child in zip(names, run, strict=True):
            if name == "t":
                yield _Run(child.text or "", run)
            elif name == "noBreakHyphen":
                yield _Run("\u2011", run)
            elif name not in _HINTS and name != "rPr":
                yield Mark("break" if name in _BREAKS else "point", Markup([child], format=run))

    def _fields(self, children: Sequence[etree._Element]) -> dict[int, tuple[Literal["open", "close", "point"], int]]:
        """Return for what is before the result of a field, and after it, by the first element: the kind, and the end.

        A field without a result is a point; one of which a part is in another paragraph is not understood as one.
        """
        fields: dict[int, tuple[Literal["open", "close", "point"], int]] = {}
        begun: list[list[int]] = []
        for i, child in enumerate(children):
            signs = child.iterchildren(f"{self._namespace}fldChar") if self._name(child) == "r" else ()
            for sign in signs:
                kind = sign.get(f"{self._namespace}fldCharType")
                if kind == "begin":
                    begun.append([i])
                elif kind == "separate" and begun and len(begun[-1]) == 1:
                    begun[-1].append(i)
                elif kind == "end" and begun:
                    begin, *separate = begun.pop()
                    if separate and begin < separate[0] < i:
                        fields[begin] = "open", separate[0] + 1
                        fields[i] = "close", i + 1
                    else:
                        fields[begin] = "point", i + 1
        return fields

    def _name(self, element: etree._Element) -> str:
        """Return the name of an element of Word; empty for any other, and for comments."""
        tag = element.tag
        return tag.removeprefix(self._namespace) if isinstance(tag, str) and tag.startswith(self._namespace) else ""


def _content(element: etree._Element) -> etree._Element:
    """Return what holds the runs of an element: a control has its content in an element of its own."""
    inner = next((child for child in element if str(child.tag).endswith("}sdtContent")), None)
    return element if inner is None else inner


def _formatted(
    tokens: Sequence[_Run | Mark[Markup]], namespace: str
) -> tuple[list[Token[Markup]], etree._Element | None]:
    """Make a span of each stretch of text whose format is not that of most, and return a run of that, too."""
    elements = {token.element for token in tokens if isinstance(token, _Run)}  # a run has many texts
    by_run = {element: _format(element, namespace) for element in elements}
    formats = {id(token): by_run[token.element] for token in tokens if isinstance(token, _Run)}
    lengths = Counter[bytes]()
    for token in tokens:
        if isinstance(token, _Run):
            lengths[formats[id(token)]] += len(token.text)
    base = max(lengths, key=lambda key: lengths[key], default=b"")
    base_run = next((token.element for token in tokens if isinstance(token, _Run) and formats[id(token)] == base), None)
    found: list[Token[Markup]] = []
    for key, group in itertools.groupby(tokens, lambda token: formats.get(id(token))):
        if key is None:
            found += [token for token in group if isinstance(token, Mark)]
            continue
        runs = [token for token in group if isinstance(token, _Run)]
        texts = [Text(run.text, run.text) for run in runs]
        mark = Markup(format=runs[0].element)
        found += texts if key == base else [Mark("open", mark, key, is_strict=True), *texts, Mark("close", mark, key)]
    return found, base_run


def _format(run: etree._Element, namespace: str) -> bytes:
    """Return the format of a run, equal for equal formats."""
    properties = run.find(f"{namespace}rPr")
    if properties is None:
        return b""
    if (
        sum(1 + len(str(each.text or "")) + sum(map(len, each.attrib.values())) for each in properties.iter())
        > _MAX_FORMAT
    ):
        raise DataError(f"a run has more than {_MAX_FORMAT:,} characters of properties; save the document again")
    kept = (child for child in properties if str(child.tag).removeprefix(namespace) not in _NOT_FORMAT)
    return b"".join(etree.tostring(child, with_tail=False) for child in kept)


def _rewrite(
    namespace: str, paragraph: etree._Element, base: etree._Element | None, tokens: Iterable[Token[Markup]]
) -> None:
    """Give a paragraph this content."""
    _clear(paragraph)
    around, formats = [paragraph], [base]
    for token in tokens:
        if isinstance(token, Text):
            _append_text(namespace, around[-1], formats[-1], token.raw or token.text)
            continue
        markup = token.markup
        if markup.around is not None and token.kind == "open":
            around[-1].append(markup.around)
            around.append(_content(markup.around))
            _clear(around[-1])
        elif markup.around is not None:
            around.pop()
        elif markup.elements:
            run = around[-1] if markup.format is None else _append_run(namespace, around[-1], markup.format)
            run.extend(markup.elements)
        elif token.kind == "open":
            formats.append(markup.format)
        else:
            formats.pop()


def _clear(element: etree._Element) -> None:
    """Remove all but the properties of an element."""
    element[:] = [child for child in element if str(child.tag).endswith("Pr")]


def _append_run(namespace: str, parent: etree._Element, like: etree._Element | None) -> etree._Element:
    run = etree.SubElement(parent, f"{namespace}r")
    properties = None if like is None else like.find(f"{namespace}rPr")
    if properties is not None:
        run.append(deepcopy(properties))
    return run


def _append_text(namespace: str, parent: etree._Element, like: etree._Element | None, text: str) -> None:
    if text:
        element = etree.SubElement(_append_run(namespace, parent, like), f"{namespace}t", {_SPACE: "preserve"})
        element.text = text
