"""XML formats with translation units, TMX and XLIFF: one unit is read after the other, however large the file is.

XML from strangers is parsed: entities that a document type defines are refused, whether they expand to gigabytes or
name a file; nothing that a file refers to is opened; and the size of a unit, of a tag, of the document type and the
depth are limited.
"""

from __future__ import annotations

import codecs
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from nmt.console import printable
from nmt.errors import DataError
from nmt.prepare.formats.language import MAX_TAG, by_language, limited, side_in_columns, side_of_source
from nmt.prepare.inputs import Input
from nmt.prepare.pairs import NO_SCORE, Layout, Row, Units, one_line, parse_score
from nmt.text.encodings import extends_ascii
from nmt.text.lines import LINE_BYTES

XML_LANG = "http://www.w3.org/XML/1998/namespace}lang"
"""The attribute `xml:lang`."""

_CHUNK_BYTES = 1 << 18
_MAX_TAG_BYTES = 1 << 22  # expat holds a tag or a comment in memory and may scan it again for each chunk
_MAX_DEPTH = 100
_MAX_ELEMENTS = 1 << 16  # of a unit
_MAX_NAMES = 1 << 14  # different ones of elements and attributes, which expat keeps
_MAX_DOCTYPE_BYTES = 1 << 16
_DECLARED = re.compile(rb"\s*<\?xml[^>]{0,200}?\sencoding\s*=\s*[\"']([\w.:-]{1,40})[\"']")
_MARKS = {  # byte order marks, or `<` as the first character; UTF-32 first, whose mark begins as that of UTF-16
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
    b"<\0": "utf-16-le",
    b"\0<": "utf-16-be",
}
_CODE = {"bpt", "ept", "it", "ph", "ut"}
_BREAKS = {"lb", "xlf:lb"}


class XmlUnit(NamedTuple):
    """An element with everything in it. Names in the namespace of the outermost element are without it."""

    element: Element
    around: tuple[Mapping[str, str], ...]
    """Attributes of the elements around it, outermost first."""


def read_units(file: Input, root: str, tags: frozenset[str]) -> Iterator[XmlUnit]:
    """Yield the outermost elements of these names from a file whose outermost element is `root`.

    Raises DataError, with the line and the number of the unit, where the file is not such XML or exceeds a limit.
    """
    with file.open() as stream:
        parser = _Parser(file.name, root, tags)
        start = stream.read(_CHUNK_BYTES)
        chunks: Iterable[bytes] = itertools.chain([start], iter(lambda: stream.read(_CHUNK_BYTES), b""))
        encoding = _encoding(start)
        if encoding != "utf-8":
            if encoding not in _MARKS.values() and not extends_ascii(encoding):
                raise parser.error(f"the encoding {encoding} in its first line is not supported; write UTF-8")
            chunks = _in_utf8(chunks, encoding)
        try:
            for chunk in chunks:
                yield from parser.feed(chunk)
            yield from parser.feed(b"", is_last=True)
        except UnicodeError:
            raise parser.error(f"not {encoding}, its encoding") from None


def text_of(element: Element) -> str:
    """Return the text of an element, without the native code that `bpt`, `ept`, `it`, `ph` and `ut` hold and what is
    inside it, such as a footnote in `sub`. All other inline elements contribute their text; a line break that one
    stands for becomes a space."""
    if not len(element):
        return element.text or ""
    parts = [element.text or ""]
    for child in element:
        if not _BREAKS.isdisjoint(child.attrib.values()):  # of type, ctype or subType
            parts.append(" ")
        elif child.tag not in _CODE:
            parts.append(text_of(child))
        if child.tail:
            parts.append(child.tail)
    return "".join(parts)


def _encoding(start: bytes) -> str:
    """Return the encoding of a file by its beginning. A declaration of UTF-16 that reads as ASCII is wrong."""
    for mark, encoding in _MARKS.items():
        if start.startswith(mark):
            return encoding
    declared = _DECLARED.match(start)
    name = declared[1].decode("ascii").lower() if declared else "utf-8"
    return "utf-8" if re.match("utf[-_]?(8|16|32)|us-ascii", name) else name


def _in_utf8(chunks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """Recode a file. Up to an error, all is yielded before it is raised, so that its line is known."""
    decoder = codecs.getincrementaldecoder(encoding)()
    for chunk in chunks:
        try:
            text = decoder.decode(chunk)
        except UnicodeDecodeError as error:
            n_before = len(error.object) - len(chunk)  # undecoded bytes of the chunk before
            yield decoder.decode(chunk[: max(0, error.start - n_before)]).encode("utf-8")
            raise
        yield text.encode("utf-8")
    yield decoder.decode(b"", final=True).encode("utf-8")


class _Parser:
    """Builds a tree of each unit, and none of what is around them."""

    def __init__(self, name: str, root: str, tags: frozenset[str]) -> None:
        self._name, self._root, self._tags, self._tag, self._id = name, root, tags, "", ""
        self._namespace = ""
        self._around: list[dict[str, str]] = []
        self._builder: TreeBuilder | None = None
        self._depth = self._unit_depth = self._n_units = self._n_elements = 0
        self._unit_start = self._fed = 0  # bytes
        self._doctype_start: int | None = None
        self._complete: list[XmlUnit] = []
        self._names: dict[str, str] = {}
        self._expat = parser = expat.ParserCreate("utf-8", "}", self._names)
        parser.buffer_text = True
        parser.specified_attributes = True  # without the default values of a document type
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.StartDoctypeDeclHandler = self._start_doctype
        parser.EndDoctypeDeclHandler = self._end_doctype
        parser.EntityDeclHandler = self._refuse_entity
        parser.SkippedEntityHandler = self._refuse_unknown

    def feed(self, data: bytes, is_last: bool = False) -> list[XmlUnit]:
        """Parse the next bytes; return the units that are complete now."""
        self._complete = []
        self._fed += len(data)
        try:
            self._expat.Parse(data, is_last)
        except expat.ExpatError as error:
            what = expat.ErrorString(error.code)
            advice = "is its encoding the declared one? xmllint --recover repairs what it can"
            raise self.error(f"broken XML ({what}); {advice}", error.lineno) from None
        self._check_size()
        return self._complete

    def error(self, problem: str, line: int | None = None) -> DataError:
        """Return an error at a line, or at the current one, and at a unit."""
        unit = f"{'' if self._builder else 'after '}{self._tag} {self._n_units}{self._id}" if self._n_units else ""
        at = f"line {line or self._expat.CurrentLineNumber}"
        return DataError(f"{self._name}: {unit or 'before the first unit'} ({at}): {problem}")

    def _check_size(self) -> None:
        position = self._expat.CurrentByteIndex
        if self._builder and position - self._unit_start > LINE_BYTES:
            raise self.error(f"a {self._tag} of more than {LINE_BYTES >> 20} MB; is the file damaged?")
        if self._fed - position > _MAX_TAG_BYTES:
            raise self.error(f"a tag or comment of more than {_MAX_TAG_BYTES >> 20} MB; is the file damaged?")
        self._check_doctype()
        if len(self._names) > _MAX_NAMES:
            raise self.error(f"more than {_MAX_NAMES:,} different names of elements and attributes; is it damaged?")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth == 1:
            self._open_root(name)
        elif self._depth > _MAX_DEPTH:
            raise self.error(f"more than {_MAX_DEPTH} elements inside each other; is the file damaged?")
        name = name.removeprefix(self._namespace)
        if self._builder is None and name not in self._tags:
            self._around.append(attributes)
            return
        if self._builder is None:
            self._tag = name
            self._n_units += 1
            own = attributes.get("tuid") or attributes.get("id")
            self._id = f" {printable(own[:40])!r}" if own else ""
            self._n_elements, self._unit_start, self._unit_depth = 0, self._expat.CurrentByteIndex, self._depth
            self._builder = TreeBuilder()
            self._expat.CharacterDataHandler = self._builder.data
        self._n_elements += 1
        if self._n_elements > _MAX_ELEMENTS:
            raise self.error(f"more than {_MAX_ELEMENTS:,} elements in one; is the file damaged?")
        self._builder.start(name, attributes)

    def _open_root(self, name: str) -> None:
        namespace, _, local = name.rpartition("}")
        self._namespace = namespace and namespace + "}"
        if local != self._root:
            raise self.error(f"its outermost element is <{local[:40]}>, where <{self._root}> is needed")

    def _end(self, name: str) -> None:
        if self._builder is None:
            self._around.pop()
        else:
            self._builder.end(name.removeprefix(self._namespace))
            if self._depth == self._unit_depth:
                self._complete.append(XmlUnit(self._builder.close(), tuple(self._around)))
                self._builder = self._expat.CharacterDataHandler = None
        self._depth -= 1

    def _start_doctype(self, *_: object) -> None:
        self._doctype_start = self._expat.CurrentByteIndex

    def _end_doctype(self) -> None:
        self._check_doctype()
        self._doctype_start = None

    def _check_doctype(self) -> None:
        start = self._doctype_start
        if start is not None and self._expat.CurrentByteIndex - start > _MAX_DOCTYPE_BYTES:
            raise self.error(f"a DOCTYPE of more than {_MAX_DOCTYPE_BYTES >> 10} kB; remove it, it is not needed")

    def _refuse_entity(self, name: str, *_: object) -> None:
        raise self.error(f"its DOCTYPE defines the entity {name[:40]}, which is refused as unsafe; remove the DOCTYPE")

    def _refuse_unknown(self, name: str, *_: object) -> None:
        raise self.error(f"the entity &{name[:40]}; is not defined; write the character itself")


def read_tmx(file: Input, layout: Layout, units: Units) -> Iterator[Row]:
    """Yield the pairs of a TMX file.

    The text of `seg` is taken with that of highlighted parts (`hi`), but without native code (`bpt`, `ept`, `it`, `ph`,
    `ut`) and the footnotes and alternative texts within that code (`sub`), which would interrupt the sentence. If a
    unit has several texts in a language, the first of each language is paired with all of the other. `layout.columns`
    gives languages by the names that the file has for them, such as `{de: German}`, and `layout.score` is the type
    of the properties (`prop`) with scores.
    """
    first, second = layout.languages
    names = (layout.columns.get(first, first), layout.columns.get(second, second))
    for unit in read_units(file, "tmx", frozenset({"tu"})):
        texts = [
            (variant.get(XML_LANG) or variant.get("lang") or "", text_of(segment))
            for variant in unit.element
            if variant.tag == "tuv" and (segment := variant.find("seg")) is not None
        ]
        sides = by_language(texts, names)
        missing = [language for language, side in zip(layout.languages, sides, strict=True) if not side]
        if missing:
            units.skip(f"no text in {' or '.join(missing)}")
            continue
        score = None
        if layout.score is not None:
            score = _score(unit.element, layout.score)
            if score is None:
                units.skip(NO_SCORE)
                continue
        one, other = ([one_line(text) for text in side] for side in sides)
        if len(one) + len(other) > 2:
            tags = ", ".join(dict.fromkeys(tag[:MAX_TAG] for tag, _ in texts))
            units.skip(limited(f"several texts in a language, all used ({tags})", "several texts, all used", units))
        yield from ((one[0], text, score) for text in other)
        yield from ((text, other[0], score) for text in one[1:])


def _score(unit: Element, kind: str) -> float | None:
    """Return the number in the first property of a type, of the unit or of one of its texts."""
    return next((parse_score(prop.text) for prop in unit.iter("prop") if prop.get("type") == kind), None)


_UNTRANSLATED = {"new", "needs-translation", "needs-adaptation", "needs-l10n", "initial"}
"""Values of `state`; all others, such as `needs-review-translation`, are of translations."""
_SUGGESTED = {"fuzzy-match", "leveraged-mt", "mt-suggestion", "tm-suggestion"}
"""Values of `state-qualifier` for a target that no translator has confirmed."""


def read_xliff(file: Input, layout: Layout, units: Units) -> Iterator[Row]:
    """Yield the pairs of an XLIFF file, whose direction may be either.

    Segments are the `mrk` elements of a `seg-source` and its target with equal `mid`, or the `segment` elements of a
    version 2 unit. A unit is skipped if it is marked as not to be translated, and a segment without a target, or one
    whose state says that it is no translation yet. `approved` is not considered: few tools ever set it. Alternative
    translations (`alt-trans`, `matches`) are not read. `layout.columns`, such as `{en: source, de: target}`, is for
    files that do not name their languages.
    """
    given = side_in_columns(file.name, layout, "source", "target")
    for unit in read_units(file, "xliff", frozenset({"trans-unit", "unit"})):
        for element in unit.element.iter("segment") if unit.element.tag == "unit" else [unit.element]:
            reason = _unconfirmed(unit, element)
            if reason is not None:
                units.skip(reason)
                continue
            side = _source_side(file.name, unit, element, layout, units) if given is None else given
            if side is not None:
                for texts in _pairs(element, layout.languages[side], layout.languages[1 - side], units):
                    yield texts[side], texts[1 - side], None


def _unconfirmed(unit: XmlUnit, element: Element) -> str | None:
    """Return why the target of a segment is no translation yet, None if it is one or missing."""
    if unit.element.get("translate") == "no":
        return "translate no"
    target = element.find("target")
    if target is None:
        return None
    marked = element if element.tag == "segment" else target
    state, qualifier = marked.get("state", ""), marked.get("state-qualifier", "")
    if state in _UNTRANSLATED:
        return f"state {state}"
    return f"state {qualifier}" if qualifier in _SUGGESTED else None


def _source_side(name: str, unit: XmlUnit, element: Element, layout: Layout, units: Units) -> int | None:
    """Return the index of the source language; None, and count the segment, if it is in other languages."""
    source = _language(unit, element.find("source"), "source-language", "srcLang")
    target = _language(unit, element.find("target"), "target-language", "trgLang")
    if not target and element.find("target") is None:
        units.skip("no target")
        return None
    if not source or not target:
        first, second = layout.languages
        raise DataError(
            f"{name}: no {'target' if source else 'source'} language is named; say which side is in which language: "
            f"columns: {{{first}: source, {second}: target}} or the reverse"
        )
    return side_of_source(source, target, layout, units)


def _language(unit: XmlUnit, text: Element | None, *attributes: str) -> str:
    """Return the language of a side: of its element if it has one, else of the file."""
    own = "" if text is None else text.get(XML_LANG, "")
    around = (element.get(name) for element in reversed(unit.around) for name in attributes)
    return own or next(filter(None, around), "")


def _pairs(element: Element, source_language: str, target_language: str, units: Units) -> Iterator[tuple[str, str]]:
    """Yield source and target of each marked segment, or of the element if they are not marked alike."""
    source, target = element.find("source"), element.find("target")
    sources, targets = _marked(element.find("seg-source")), _marked(target)
    if not sources or not targets:
        sources = {} if source is None else {"": text_of(source)}
        targets = {} if target is None else {"": text_of(target)}
    for mid in sources | targets:
        if mid in sources and mid in targets:
            yield one_line(sources[mid]), one_line(targets[mid])
        else:
            units.skip(f"no text in {target_language if mid in sources else source_language}")


def _marked(side: Element | None) -> dict[str, str]:
    """Return the text of each marked segment of a side by its `mid`; nothing if two have the same."""
    marks = [] if side is None else [mark for mark in side.iter("mrk") if mark.get("mtype") == "seg"]
    texts = {mark.get("mid", ""): text_of(mark) for mark in marks}
    return texts if len(texts) == len(marks) else {}
