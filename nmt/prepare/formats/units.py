"""Readers of formats with translation units: TMX, XLIFF and PO.

Of XML, one unit is in memory at a time. Files may come from strangers: the document type is not loaded, entities are
refused, nothing that a file refers to is opened, and the size of a unit and the depth of elements are limited.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import IO, TYPE_CHECKING

from nmt.console import printable
from nmt.errors import DataError, error_text
from nmt.files.read import DOCUMENT_BYTES
from nmt.languages.codes import by_language, parts_of, side_of, tag_of
from nmt.prepare.formats.tables import shown, written
from nmt.prepare.inputs import Input
from nmt.prepare.pairs import (
    MAX_TAG,
    NO_SCORE,
    Layout,
    Row,
    Units,
    limited,
    one_line,
    parse_score,
    side_in_columns,
    side_of_source,
)
from nmt.text.lines import LINE_BYTES
from nmt.text.po import Message, form_of_one, po_lines, po_messages
from nmt.text.words import UNSPACED

if TYPE_CHECKING:
    from lxml import etree


XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
"""The attribute `xml:lang`."""
_CODE = tuple(f"{{*}}{tag}" for tag in ("bpt", "ept", "it", "ph", "ut"))
_BREAKS = {"lb", "xlf:lb"}
_CODE_AND_TYPE = "concat(normalize-space((self::*[node()]|@equiv-text|@equiv|@disp)[1]), ' ', @type, @ctype, @subType)"
_WITHIN_WORD = re.compile(
    r"</?(a|abbr|b|big|c[fs]|cite|code|del|em|font|g|i|ins|mark|s|small|span|strike|strong|sub|sup|tt|u|wbr)\b.*"
    r"|(&(amp|shy|#173|#xad|zwn?j|apos|[lr]squo|#39|#x27|#8217|#x2019);|[&_'’\xad\u200b-\u200d\u2060\ufeff]) .*"
    r"|.* (fmt(xlf:.*)?|(x-)?(bold|color|font|italic|scap|strike|d?ulined|underlined?)|x-html-[biu])|\s.*",
    re.IGNORECASE,
)
"""Matches native code that may stand within a word, and its type: formatting, a soft hyphen, an apostrophe, the mark of
an access key, or unknown code."""
_MARK = "\ufdd0"  # of a placeholder; Unicode assigns no character to it
_BETWEEN_WORDS = re.compile(rf"(?<=[^\W{UNSPACED}]){_MARK}+(?=[^\W{UNSPACED}])")


class _Bounded:
    """A stream of XML that rejects units which would need too much memory."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self._stream = stream
        self._name = name
        self.size = 0
        """Bytes read since the last complete unit; a tag counts 32 more, since an element takes far more memory."""

    def read(self, n: int) -> bytes:
        """Return the next bytes. Raises DataError if the unit is too large."""
        data = self._stream.read(n)
        self.size += len(data) + 32 * data.count(b"<")
        if self.size > LINE_BYTES:
            raise DataError(f"{self._name}: a unit of more than {LINE_BYTES >> 20} MiB; is the file complete?")
        return data


def read_units(file: Input, root: str, tags: frozenset[str]) -> Iterator[etree._Element]:
    """Yield the complete elements with these local names from a file whose outermost element is `root`.

    An element is emptied when the next one is requested. Raises DataError, with the line, if the file is not such XML
    or uses entities, and if a unit is too large.
    """
    from lxml import etree  # takes 10 MiB, which other formats do not need

    with file.open() as opened:
        stream = _Bounded(opened, file.name)
        events = etree.iterparse(
            stream, events=("start", "end"), tag=[f"{{*}}{tag}" for tag in (root, *tags)], resolve_entities=False,
            collect_ids=False, remove_comments=True, remove_pis=True, huge_tree=True,
        )  # fmt: skip
        is_begun = False
        try:
            for event, element in events:
                name = element.tag.rpartition("}")[2]
                if not is_begun:
                    if name != root or element.getparent() is not None:
                        break
                    is_begun = True
                    document_type = element.getroottree().docinfo.internalDTD
                    if document_type is not None and any(document_type.iterentities()):
                        raise DataError(f"{file.name}: its DOCTYPE defines entities, which is unsafe; remove it")
                elif event == "end" and name in tags:
                    for entity in element.iter(etree.Entity):
                        raise DataError(f"{file.name}: line {entity.sourceline}: entity {entity.name!r} is not defined")
                    yield element
                    element.clear(keep_tail=True)
                    stream.size = 0
                    for node in (element, *element.iterancestors()):
                        if (parent := node.getparent()) is not None:
                            del parent[: parent.index(node)]
        except etree.XMLSyntaxError as error:
            first = next(iter(events.error_log.filter_from_errors()), None)
            if not (is_begun or stream.size):
                raise DataError(f"{file.name}: is empty") from None
            what, line = (error.msg, error.lineno) if first is None else (first.message, first.line)
            raise DataError(
                f"{file.name}: line {line}: broken XML ({printable(error_text(what))}); check that its encoding is the "
                "declared one; xmllint --recover repairs some files"
            ) from None
        if not is_begun:
            raise DataError(f"{file.name}: its outermost element is not <{root}>")


def text_of(element: etree._Element | None) -> str:
    """Return the text of an element without native code, which is removed from the tree; "" if there is no element.

    Native code is the content of `bpt`, `ept`, `it`, `ph` and `ut`, including footnotes in `sub`. Other inline elements
    contribute their text. An element for a line break adds a space, and so does a placeholder between two letters or
    digits, such as `{0}` or `<br/>`, unless its native code is unknown or may stand within a word, such as `<b>`.
    """
    if element is None:
        return ""
    if len(element):
        from lxml import etree

        for child in element.iterdescendants():
            if not _BREAKS.isdisjoint(child.attrib.values()):  # of type, ctype or subType
                child.tail = f" {child.tail or ''}"
        for child in element.iter("{*}ph", "{*}x"):
            if not _WITHIN_WORD.fullmatch(str(child.xpath(_CODE_AND_TYPE))):
                child.tail = f"{_MARK}{child.tail or ''}"
        etree.strip_elements(element, *_CODE, with_tail=False)
        return _BETWEEN_WORDS.sub(" ", "".join(element.itertext())).replace(_MARK, "")
    return element.text or ""


def read_tmx(file: Input, layout: Layout, units: Units) -> Iterator[Row]:
    """Yield the pairs of a TMX file.

    The text of `seg` includes highlighted parts (`hi`), but no native code, see `text_of`. If a unit has several texts
    in a language, the first text of each language is paired with all texts in the other one. `layout.columns` maps
    languages to their names in the file, such as `{de: German}`; of several, a unit is read with the first that it has.
    `layout.score` is the type of the properties (`prop`) with scores.
    """
    names = tuple(layout.all_names)
    n_first = len(layout.names(layout.languages[0]))
    types = _OF if layout.document is None else (layout.document,)
    for unit in read_units(file, "tmx", frozenset({"tu"})):
        texts = [(language, text) for language, text in variants(unit) if text]
        by_name = by_language(texts, names)
        first = next(filter(None, by_name[:n_first]), [])
        second = next(filter(None, by_name[n_first:]), [])
        other_tags = dict.fromkeys(tag for tag, _ in texts if tag and side_of(tag, names) is None)
        note = ""
        if other_tags:
            note = limited(f" (found {shown([*other_tags])}; see columns)", "", units)
        if units.skip_blank(("".join(first), "".join(second)), layout.languages, note):
            continue
        documents = (prop.text for prop in unit.iterchildren("{*}prop") if prop.get("type") in types)
        units.enter(next(documents, file.name))
        score = None
        if layout.score is not None and (score := _score(unit, layout.score)) is None:
            units.skip(NO_SCORE)
            continue
        if len(first) + len(second) > 2:
            tags = ", ".join(dict.fromkeys(tag[:MAX_TAG] for tag, _ in texts))
            units.skip(limited(f"several texts in a language, all used ({tags})", "several texts, all used", units))
        yield first[0], second[0], score
        for pair in [*product(first[:1], second[1:]), *product(first[1:], second[:1])]:
            units.separate()  # another version does not follow the one before it
            yield *pair, score


def variants(unit: etree._Element) -> Iterator[tuple[str, str]]:
    """Yield the language and the text of each variant in a unit of TMX."""
    for variant in unit.iterchildren("{*}tuv"):
        yield variant.get(XML_LANG) or variant.get("lang") or "", one_line(text_of(variant.find("{*}seg")))


_OF = ("document", "file", "x-document", "x-file")
"""Types of the properties with the document of a unit."""


def _score(unit: etree._Element, kind: str) -> float | None:
    """Return the number in the first property of this type in a unit or one of its texts; None if there is none."""
    return next((parse_score(prop.text) for prop in unit.iter("{*}prop") if prop.get("type") == kind), None)


_UNTRANSLATED = {"new", "initial"}
"""Values of `state` for a target that is no translation yet, or no reviewed one, beside those with `needs-`."""
_SUGGESTED = {"fuzzy-match", "leveraged-mt", "mt-suggestion", "tm-suggestion"}
"""Values of `state-qualifier` for a target that no translator has confirmed."""


def read_xliff(file: Input, layout: Layout, units: Units) -> Iterator[Row]:
    """Yield the pairs of an XLIFF file in either direction.

    Segments are the `mrk` elements of a `seg-source` and its target with equal `mid`, or the `segment` elements of a
    version 2 unit. Units that are marked as not to be translated, by themselves or by their group or file, segments
    without a target, and segments whose state says that they are no translation yet, or need a review, are skipped. The
    attribute `approved` is ignored, since few tools set it; alternative translations (`alt-trans`, `matches`) are not
    read. `layout.columns`, such as `{en: source, de: target}`, names the sides of files that do not name their
    languages.
    """
    given = side_in_columns(file.name, layout, "source", "target")
    for unit in read_units(file, "xliff", frozenset({"trans-unit", "unit"})):
        for element in _segments(unit):
            reason = _unconfirmed(unit, element)
            if reason is not None:
                units.skip(reason)
                continue
            names = (around.get("original") or around.get("id") for around in unit.iterancestors("{*}file"))
            units.enter(next(names, file.name))
            side = given
            if side is None:
                side = _source_side(file.name, unit, element, layout, units)
            if side is not None:
                for texts in _pairs(element):
                    yield texts[side], texts[1 - side], None


def _segments(unit: etree._Element) -> Iterable[etree._Element]:
    """Return the segments of a unit of version 2, or the unit of an earlier version itself."""
    return unit.iter("{*}segment") if unit.tag.rpartition("}")[2] == "unit" else [unit]


def _unconfirmed(unit: etree._Element, element: etree._Element) -> str | None:
    """Return why the target of a segment is not yet a translation; None if it is a translation or is missing."""
    if (unit.get("translate") or _inherited(unit, "translate")) == "no":
        return "translate no"
    target = element.find("{*}target")
    if target is None:
        return None
    marked = target if element is unit else element  # in version 2
    state = marked.get("state", "")
    qualifier = marked.get("state-qualifier", "")
    if state in _UNTRANSLATED or state.startswith("needs-"):
        return f"state {state}"
    return f"state {qualifier}" if qualifier in _SUGGESTED else None


def _source_side(name: str, unit: etree._Element, element: etree._Element, layout: Layout, units: Units) -> int | None:
    """Return the index of the source language. A segment in other languages is counted, and None returned."""
    source = _language(unit, element.find("{*}source"), "source-language", "srcLang")
    target = _language(unit, element.find("{*}target"), "target-language", "trgLang")
    if not target and element.find("{*}target") is None:
        units.skip("no target")
        return None
    if not source or not target:
        missing = "target" if source else "source"
        raise DataError(
            f"{name}: no {missing} language is given; state which language is the source, with "
            f"{written(layout, 'source', 'target')} or the reverse"
        )
    return side_of_source(source, target, layout, units)


def _language(unit: etree._Element, text: etree._Element | None, *attributes: str) -> str:
    """Return the language of a source or target element, or else the language given by an enclosing element."""
    language = "" if text is None else text.get(XML_LANG, "")
    return language or _inherited(unit, *attributes)


def _inherited(unit: etree._Element, *attributes: str) -> str:
    """Return the first of these attributes that an enclosing element has, from the inside to the outside; else ""."""
    around = (element.get(name) for element in unit.iterancestors() for name in attributes)
    return next(filter(None, around), "")


def _pairs(element: etree._Element) -> Iterator[tuple[str, str]]:
    """Yield the source and target of each marked segment, or of the whole element if nothing is marked; a missing one
    is blank."""
    source = element.find("{*}source")
    target = element.find("{*}target")
    sources = _marked(element.find("{*}seg-source"))
    targets = _marked(target)
    if not sources or not targets:
        sources = {"": text_of(source)}
        targets = {"": text_of(target)}
    for mid in sources | targets:
        yield one_line(sources.get(mid, "")), one_line(targets.get(mid, ""))


def _marked(side: etree._Element | None) -> dict[str, str]:
    """Return the texts of the marked segments of a side by `mid`; an empty mapping if two have the same `mid`."""
    if side is None:
        return {}
    marks = [mark for mark in side.iter("{*}mrk") if mark.get("mtype") == "seg"]
    texts = {mark.get("mid", ""): text_of(mark) for mark in marks}
    return texts if len(texts) == len(marks) else {}


def read_po(file: Input, layout: Layout, units: Units) -> Iterator[Row]:
    """Yield the pairs of a PO file.

    Fuzzy, obsolete and untranslated messages are skipped. A message with a plural gives two pairs if its translation
    has two forms, one pair (of the plural) if it has one form, and is skipped if it has more forms, since none of them
    translates only the plural. `layout.columns`, such as `{en: msgid, de: msgstr}`, names the languages. Without it,
    the header's `Language` is the language of `msgstr`, and `X-Source-Language`, or else English, that of `msgid`. The
    name of the file or of a folder counts if it names a script, such as sr@latin, which headers often lack. The form
    for one object follows from its `Plural-Forms`.
    """
    side = side_in_columns(file.name, layout, "msgid", "msgstr")
    headers: Mapping[str, str] = {}
    one = 0
    for message in po_messages(file.name, _lines(file)):
        if header := message.header:
            if not headers:
                headers = header
                one = form_of_one(header)
        elif message.is_obsolete:
            units.skip("obsolete")
        elif "fuzzy" in message.flags:
            units.skip("fuzzy")
        elif side is not None or (side := _side_of_msgid(file.name, headers, layout, units)) is not None:
            for source, target in _pairs_of_message(message, one, units):
                pair = one_line(source), one_line(target)
                yield pair[side], pair[1 - side], None


def _pairs_of_message(message: Message, one: int, units: Units) -> list[tuple[str, str]]:
    """Return the text pairs of a message."""
    texts, sources = message.texts, message.sources(one)
    if len(sources) > 2:
        units.skip("plural")
        return []
    return [(texts[source], texts[form]) for form, source in sources.items()]


def _side_of_msgid(name: str, headers: Mapping[str, str], layout: Layout, units: Units) -> int | None:
    """Return the index of the language of `msgid`. A message in other languages is counted, and None returned."""
    source = headers.get("x-source-language") or "en"
    target = headers.get("language", "")
    if not target:
        names = written(layout, "msgid", "msgstr")
        raise DataError(f"{name}: no Language in its header; state the languages with {names} or the reverse")
    named = (
        part for part in re.split("[/.]", name) if tag_of(part).script and parts_of(part)[0] == parts_of(target)[0]
    )
    return side_of_source(source, next(named, target), layout, units)


def _lines(file: Input) -> Iterator[str]:
    """Yield the lines of a file, decoded with the charset given in its header."""
    with file.open() as stream:
        raw = stream.read(DOCUMENT_BYTES + 1)
    if len(raw) > DOCUMENT_BYTES:
        raise DataError(f"{file.name}: is larger than {DOCUMENT_BYTES >> 20} MB; split it")
    yield from po_lines(file.name, raw)
