"""XML formats with translation units, TMX and XLIFF: one unit is read after the other, however large the file is.

XML from strangers is parsed: libxml2 gets no document type, whose entities could expand to gigabytes or name a file,
opens nothing that a file refers to, and the size of a unit and the depth are limited.
"""

from __future__ import annotations

import codecs
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from lxml import etree

from nmt.console import printable
from nmt.errors import DataError, error_text
from nmt.prepare.formats.language import MAX_TAG, by_language, limited, side_in_columns, side_of_source
from nmt.prepare.inputs import Input
from nmt.prepare.pairs import NO_SCORE, Layout, Row, Units, one_line, parse_score
from nmt.text.encodings import extends_ascii
from nmt.text.lines import LINE_BYTES

XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
"""The attribute `xml:lang`."""

_START_BYTES = 1 << 16  # the outermost element begins in them
_CHUNK_BYTES = 1 << 18
_MAX_TAGS = 1 << 20  # of a unit
_DECLARED = re.compile(rb"\s*<\?xml[^>]{0,200}?\sencoding\s*=\s*[\"']([\w.:-]{1,40})[\"']")
_DOCTYPE = re.compile(rb"(?s)((?:\xef\xbb\xbf)?(?>\s|<\?.*?\?>|<!--.*?-->)*+)<!DOCTYPE([^\[>]*(?:\[[^\]]*\]\s*)?>)?")
_MARKS = {  # byte order marks, or `<` as the first character; UTF-32 first, whose mark begins as that of UTF-16
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
    b"<\0": "utf-16-le",
    b"\0<": "utf-16-be",
}
_CODE = tuple(f"{{*}}{tag}" for tag in ("bpt", "ept", "it", "ph", "ut"))
_BREAKS = {"lb", "xlf:lb"}


def read_units(file: Input, root: str, tags: frozenset[str]) -> Iterator[etree._Element]:
    """Yield the outermost elements of these names, each with everything in it, from a file whose outermost element is
    `root`; names are local, in any namespace. An element is emptied when the next one is asked for.

    Raises DataError, with the line and the number of the unit, where the file is not such XML or exceeds a limit.
    """
    with file.open() as stream:
        reader = _UnitReader(file.name, root, tags)
        start = stream.read(_START_BYTES)
        chunks: Iterable[bytes] = itertools.chain([start], iter(lambda: stream.read(_CHUNK_BYTES), b""))
        encoding = _encoding(start)
        if encoding != "utf-8":
            if encoding not in _MARKS.values() and not extends_ascii(encoding):
                raise reader.error(f"the encoding {encoding} in its first line is not supported; write UTF-8")
            chunks = _in_utf8(chunks, encoding)
        try:
            for chunk in filter(None, chunks):
                yield from reader.feed(chunk)
            yield from reader.feed(b"")
        except UnicodeError:
            raise reader.error(f"not {encoding}, its encoding") from None


def text_of(element: etree._Element) -> str:
    """Return the text of an element, without the native code that `bpt`, `ept`, `it`, `ph` and `ut` hold and what is
    inside it, such as a footnote in `sub`, which are removed from the tree. All other inline elements contribute their
    text; after one that stands for a line break there is a space."""
    if len(element):
        for child in element.iterdescendants():
            if not _BREAKS.isdisjoint(child.attrib.values()):  # of type, ctype or subType
                child.tail = f" {child.tail or ''}"
        etree.strip_elements(element, *_CODE, with_tail=False)
        return "".join(element.itertext())
    return element.text or ""


def _encoding(start: bytes) -> str:
    """Return the encoding of a file by its beginning. A declaration of UTF-16 that reads as ASCII is wrong."""
    for mark, encoding in _MARKS.items():
        if start.startswith(mark):
            return encoding
    declared = _DECLARED.match(start)
    name = declared[1].decode("ascii").lower() if declared else "utf-8"
    return "utf-8" if re.match("utf[-_]?(8|16|32)|us-ascii", name) else name


def _in_utf8(chunks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """Recode a file. Up to an error, all is yielded before it is raised, so that its unit is known."""
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


class _UnitReader:
    """Yields the units of a file that comes in chunks of UTF-8, and discards the text before them."""

    def __init__(self, name: str, root: str, tags: frozenset[str]) -> None:
        self._name, self._root, self._tags = name, root, tags
        self._unit: Any = None  # the element that is open
        self._last: Any = None  # the last that is complete
        self._number, self._label, self._own = 0, "", ""
        self._is_begun = False
        self._n_bytes = self._n_tags = 0  # since the last complete unit, or some more
        self._parser = etree.XMLPullParser(
            ("start", "end"), tag=[f"{{*}}{tag}" for tag in (root, *tags)], encoding="utf-8", huge_tree=True,
            resolve_entities=False, load_dtd=False, no_network=True, collect_ids=False, remove_comments=True,
            remove_pis=True,
        )  # fmt: skip

    def feed(self, data: bytes) -> Iterator[etree._Element]:
        """Parse the next bytes, or nothing at the end; yield the units that are complete now."""
        if self._n_bytes == self._number == 0:
            data = self._without_doctype(data)
        problems = []
        try:
            self._parser.feed(data) if data else self._parser.close()
        except etree.XMLSyntaxError as error:
            problems.append((error.msg, error.lineno))
        # lxml does not raise all errors of `feed`, and begins a new document after them
        log = self._parser.feed_error_log.filter_from_errors()
        problems = [(entry.message, entry.line) for entry in log] + problems
        self._n_bytes += len(data)
        self._n_tags += data.count(b"<")
        for event, element in self._parser.read_events():
            if event == "end" and element is self._unit:
                yield element
                element.clear(keep_tail=True)
                self._unit, self._last = None, element
                self._n_bytes = self._n_tags = 0
            elif event == "start" and self._unit is None:
                self._start(element)
        self._check(problems)
        if self._last is not None:
            for node in (self._last, *self._last.iterancestors()):
                if (parent := node.getparent()) is not None:
                    del parent[: parent.index(node)]

    def _start(self, element: etree._Element) -> None:
        name = element.tag.rpartition("}")[2]
        if not self._is_begun:
            self._is_begun = name == self._root and element.getparent() is None
        elif name in self._tags:
            self._unit, self._label = element, name
            self._number += 1
            self._own = element.get("tuid") or element.get("id") or ""

    def _check(self, problems: Sequence[tuple[str, int]]) -> None:
        for what, line in problems:
            advice = "is its encoding the declared one? xmllint --recover repairs what it can"
            raise self.error(f"broken XML ({printable(error_text(what))}); {advice}", line)
        if not self._is_begun:
            raise self.error(f"its outermost element is not <{self._root}>")
        if self._n_bytes > LINE_BYTES or self._n_tags > _MAX_TAGS:
            most = f"{LINE_BYTES >> 20} MB or {_MAX_TAGS:,} tags"
            raise self.error(f"more than {most} without the end of a unit; is the file damaged?")

    def error(self, problem: str, line: int = 0) -> DataError:
        """Return an error at a line, or at the current unit."""
        own = f" {printable(self._own[:40])!r}" if self._own else ""
        after = "" if self._unit is not None else "after "
        unit = f"{after}{self._label} {self._number}{own}" if self._number else "before the first unit"
        at = next((node.sourceline for node in (self._unit, self._last) if node is not None), 1)
        return DataError(f"{self._name}: {unit} (line {line or at}): {problem}")

    def _without_doctype(self, start: bytes) -> bytes:
        """Cut the document type out of the beginning of a file, which keeps its lines."""
        found = _DOCTYPE.match(start)
        if found is None:
            return start
        if found[2] is None or b"<!ENTITY" in found[2]:
            raise self.error("its DOCTYPE defines entities, which is refused as unsafe, or has no end; remove it")
        return found[1] + b"\n" * found[2].count(b"\n") + start[found.end() :]


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
            for variant in unit.iterchildren("{*}tuv")
            if (segment := next(variant.iterchildren("{*}seg"), None)) is not None
        ]
        sides = by_language(texts, names)
        missing = [language for language, side in zip(layout.languages, sides, strict=True) if not side]
        if missing:
            units.skip(f"no text in {' or '.join(missing)}")
            continue
        score = None
        if layout.score is not None:
            score = _score(unit, layout.score)
            if score is None:
                units.skip(NO_SCORE)
                continue
        one, other = ([one_line(text) for text in side] for side in sides)
        if len(one) + len(other) > 2:
            tags = ", ".join(dict.fromkeys(tag[:MAX_TAG] for tag, _ in texts))
            units.skip(limited(f"several texts in a language, all used ({tags})", "several texts, all used", units))
        yield from ((one[0], text, score) for text in other)
        yield from ((text, other[0], score) for text in one[1:])


def _score(unit: etree._Element, kind: str) -> float | None:
    """Return the number in the first property of a type, of the unit or of one of its texts."""
    return next((parse_score(prop.text) for prop in unit.iter("{*}prop") if prop.get("type") == kind), None)


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
        for element in unit.iter("{*}segment") if unit.tag.endswith("}unit") or unit.tag == "unit" else [unit]:
            reason = _unconfirmed(unit, element)
            if reason is not None:
                units.skip(reason)
                continue
            side = _source_side(file.name, unit, element, layout, units) if given is None else given
            if side is not None:
                for texts in _pairs(element, layout.languages[side], layout.languages[1 - side], units):
                    yield texts[side], texts[1 - side], None


def _unconfirmed(unit: etree._Element, element: etree._Element) -> str | None:
    """Return why the target of a segment is no translation yet, None if it is one or missing."""
    if unit.get("translate") == "no":
        return "translate no"
    target = element.find("{*}target")
    if target is None:
        return None
    marked = target if element is unit else element  # in version 2
    state, qualifier = marked.get("state", ""), marked.get("state-qualifier", "")
    if state in _UNTRANSLATED:
        return f"state {state}"
    return f"state {qualifier}" if qualifier in _SUGGESTED else None


def _source_side(name: str, unit: etree._Element, element: etree._Element, layout: Layout, units: Units) -> int | None:
    """Return the index of the source language; None, and count the segment, if it is in other languages."""
    source = _language(unit, element.find("{*}source"), "source-language", "srcLang")
    target = _language(unit, element.find("{*}target"), "target-language", "trgLang")
    if not target and element.find("{*}target") is None:
        units.skip("no target")
        return None
    if not source or not target:
        first, second = layout.languages
        raise DataError(
            f"{name}: no {'target' if source else 'source'} language is named; name the side of each language: "
            f"columns: {{{first}: source, {second}: target}} or the reverse"
        )
    return side_of_source(source, target, layout, units)


def _language(unit: etree._Element, text: etree._Element | None, *attributes: str) -> str:
    """Return the language of a side: of its element if it has one, else of the file."""
    own = "" if text is None else text.get(XML_LANG, "")
    around = (element.get(name) for element in unit.iterancestors() for name in attributes)
    return own or next(filter(None, around), "")


def _pairs(
    element: etree._Element, source_language: str, target_language: str, units: Units
) -> Iterator[tuple[str, str]]:
    """Yield source and target of each marked segment, or of the element if they are not marked alike."""
    source, target = element.find("{*}source"), element.find("{*}target")
    sources, targets = _marked(element.find("{*}seg-source")), _marked(target)
    if not sources or not targets:
        sources = {} if source is None else {"": text_of(source)}
        targets = {} if target is None else {"": text_of(target)}
    for mid in sources | targets:
        if mid in sources and mid in targets:
            yield one_line(sources[mid]), one_line(targets[mid])
        else:
            units.skip(f"no text in {target_language if mid in sources else source_language}")


def _marked(side: etree._Element | None) -> dict[str, str]:
    """Return the text of each marked segment of a side by its `mid`; nothing if two have the same."""
    marks = [] if side is None else [mark for mark in side.iter("{*}mrk") if mark.get("mtype") == "seg"]
    texts = {mark.get("mid", ""): text_of(mark) for mark in marks}
    return texts if len(texts) == len(marks) else {}
