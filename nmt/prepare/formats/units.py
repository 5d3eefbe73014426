"""Readers of formats with translation units: TMX, XLIFF, PO, and the examples of LIFT dictionaries.

With XML, one unit is in memory at a time. Files may come from strangers: the document type is not loaded, entities are
refused, nothing that a file refers to is opened, and the size of a unit and the depth of elements are limited.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from html import unescape
from itertools import product
from typing import IO, TYPE_CHECKING

from nmt.console import printable
from nmt.errors import DataError, error_text
from nmt.files.read import DOCUMENT_BYTES
from nmt.languages.codes import by_language, parts_of, side_of, tag_of
from nmt.prepare.formats.tables import shown, written
from nmt.prepare.inputs import Input
from nmt.prepare.pairs import MAX_TAG, NO_SCORE, Layout, Row, Units, parse_score, side_in_columns, side_of_source
from nmt.text.constraints import spans
from nmt.text.lines import LINE_BYTES
from nmt.text.po import form_of_one, po_lines, po_messages
from nmt.text.segments import Codes, Segment, one_line
from nmt.text.states import UNCONFIRMED, state_of
from nmt.text.tokenizer import is_blank
from nmt.text.words import UNSPACED

if TYPE_CHECKING:
    from lxml import etree


XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
"""The attribute `xml:lang`."""
_OF = ("document", "file", "x-document", "x-file")
"""Types of the properties with the document of a unit."""
_CODES = tuple(f"{{*}}{tag}" for tag in ("bpt", "ept", "it", "ph", "ut", "x", "bx", "ex", "sc", "ec", "cp"))
"""Inline elements that are empty or have native code instead of text."""
_OF_MEMOQ = re.compile(r'\A<mq:[^>]*?\bval="([^"]*)".*', re.DOTALL)
_KINDS = re.compile(
    r"\w+ (\s*<br\b.*|\s+ \S*|.* (?:(?:fmt(?:xlf:)?|x-)?lb|x-html-br))"
    r"|((?:[be]pt|it|[be]x|[es]c) .*|\w+ .* (?:fmt.*|(?:x-)?(?:bold|color|font|italic|scap|strike|d?ulined|underlined?)"
    r"|x-html-[biu])|\w+ \s*</?(?:a|abbr|b|big|c[fs]|cite|code|del|em|font|g|i|ins|mark|s|small|span|strike|strong|sub"
    r"|sup|tt|u|wbr)\b.*)"
    r"|(cp .*|\w+ [&_'‘’\xad\u200b-\u200d\u2060\ufeff]?+ \S*)|.*",
    re.DOTALL | re.IGNORECASE,
)
"""Matches the name of an element, its native code and its type. Group 1 is a line break or white space; group 2 begins
or ends a span, such as formatting; group 3 may stand within a word: code without content, which is unknown, a soft
hyphen, an apostrophe, or the mark of an access key. Any other code stands between words."""
# Marks of codes of each group in a text; Unicode assigns no characters to them.
_MARKS = _APART, _BREAK, _SPAN, _UNKNOWN = "\ufdd0", " \ufdd1", "\ufdd2", "\ufdd3"
_BETWEEN_WORDS = re.compile(rf"(?<=[^\W{UNSPACED}])[\ufdd1-\ufdd3]*+\ufdd0[\ufdd0-\ufdd3]*+(?=[^\W{UNSPACED}])")
# A code that is neither a break nor part of a span stands for a word: the space of this word is removed with it.
_WORD = r"[\ufdd1\ufdd2]*+[\ufdd0\ufdd3][\ufdd0-\ufdd3]*+"
_REMOVED = re.compile(
    rf"(?<=[{UNSPACED}])\s*+{_WORD}\s*+(?=[{UNSPACED}])|(?<=[(\[{{„‚¿¡]){_WORD}\s++"
    rf"|(?<!\s)\s*+(?:{_WORD}(?=[.,;:!?…)\]}}«»“”’、。]+(?!\w))|[\ufdd0-\ufdd3]++(?=\s))"
    r"|(?<=\s) \ufdd1|[\ufdd0-\ufdd3]++"
)
_BLANK = Segment("")


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


def text_of(element: etree._Element | None) -> Segment:
    """Return the text of an element, without codes, which are removed from the tree; empty if there is no element.

    Codes are inline elements without text, and native code, the content of `bpt`, `ept`, `it`, `ph` and `ut`, including
    footnotes in `sub`. Other inline elements contribute their text. A code that is a placeholder, such as `%s` or
    `{0}`, or a URL, is that text. Where spaces on both sides belonged to a code, one remains, and none before a final
    mark, after an opening bracket, or in scripts without spaces. A line break becomes a space, and so does a code
    between two letters or digits, such as `<img/>`, unless it is unknown or may stand within a word, such as `<b>`.
    """
    if element is None:
        return _BLANK
    if len(element):
        from lxml import etree

        for code in element.iter(*_CODES):
            code.tail = f"{_read_as(code)}{code.tail or ''}"
        for span in element.iter("{*}g", "{*}pc"):
            span.text = f"{_SPAN}{span.text or ''}"
            span.tail = f"{_SPAN}{span.tail or ''}"
        etree.strip_elements(element, *_CODES, with_tail=False)
        etree.strip_tags(element, "{*}g", "{*}pc")
    text = "".join(element.itertext())
    codes = Codes.OTHER if _APART in text or _UNKNOWN in text else Codes(_BREAK in text or _SPAN in text)
    return Segment(one_line(_REMOVED.sub("", _BETWEEN_WORDS.sub(" ", text))), codes)


def _read_as(code: etree._Element) -> str:
    """Return the text of a code that is a placeholder or an address, and the mark of any other code."""
    values = [code.get(key, "") for key in ("equiv-text", "disp", "equiv", "type", "ctype", "subType")]
    texts = [unescape(_OF_MEMOQ.sub(r"\1", content)) for content in (code.text, *values[:3]) if content]
    for text in texts:
        wanted = "".join(span.wanted for span in spans(text) if span.kind not in ("tag", "number"))
        if wanted and wanted.replace(" ", "") == text.replace(" ", ""):
            return text
    kind = _KINDS.fullmatch(f"{code.tag.rpartition('}')[2]} {''.join(texts[:1])} {''.join(values[3:])}")
    return _MARKS[(kind and kind.lastindex) or 0]


def read_tmx(file: Input, layout: Layout, units: Units) -> Iterator[Row]:
    """Yield the pairs of a TMX file, or the examples of a LIFT dictionary with their translations.

    The text of `seg` includes highlighted parts (`hi`), but no codes, see `text_of`. Units whose state, by a property,
    is `UNCONFIRMED` are skipped. If a unit has several texts in a language, the first text of each language is paired
    with all texts in the other one. `layout.columns` maps languages to their names in the file, such as `{de: German}`;
    of several, a unit is read with the first that it has. `layout.score` is the type of the properties (`prop`) with
    scores.
    """
    names = tuple(layout.all_names)
    n_first = len(layout.names(layout.languages[0]))
    types = _OF if layout.document is None else (layout.document,)
    for unit in read_units(file, file.format, frozenset({"tu", "example"})):
        properties = [(prop.get("type", ""), prop.text or "") for prop in unit.iter("{*}prop")]
        if _skip_unconfirmed(properties, units):
            continue
        texts = [(language, text) for language, text in variants(unit) if not is_blank(text.text)]
        by_name = by_language(texts, names)
        first = next(filter(None, by_name[:n_first]), [_BLANK])
        second = next(filter(None, by_name[n_first:]), [_BLANK])
        other_tags = dict.fromkeys(tag for tag, _ in texts if tag and side_of(tag, names) is None)
        note = f" (found {shown([*other_tags])}; see columns)" if other_tags else ""
        if units.skip_blank((first[0].text, second[0].text), layout.languages, note):
            continue
        units.enter(next((value for kind, value in properties if kind in types), file.name))
        score = next((parse_score(value) for kind, value in properties if kind == layout.score), None)
        if score is None and layout.score is not None:
            units.skip(NO_SCORE)
            continue
        if len(first) + len(second) > 2:
            tags = ", ".join(dict.fromkeys(tag[:MAX_TAG] for tag, _ in texts))
            units.skip(f"several texts in a language, all used ({tags})", "several texts, all used")
        yield units.row(first[0], second[0], score)
        for pair in [*product(first[:1], second[1:]), *product(first[1:], second[:1])]:
            units.separate()  # another version does not follow the one before it
            yield units.row(*pair, score)


def variants(unit: etree._Element) -> Iterator[tuple[str, Segment]]:
    """Yield the language and the text of each variant in a unit of TMX, or of an example and its translations."""
    for variant in [*unit.iterchildren("{*}tuv", "{*}form"), *unit.iterfind("{*}translation/{*}form")]:
        text = next(variant.iterchildren("{*}seg", "{*}text"), None)
        yield variant.get(XML_LANG) or variant.get("lang") or "", text_of(text)


def _skip_unconfirmed(marks: Iterable[tuple[str, str]], units: Units) -> bool:
    """Return whether a name and its value are `UNCONFIRMED`; if so, count a skipped unit for the first that are."""
    mark = state_of(marks, UNCONFIRMED)
    if mark:
        units.skip(mark, "other states")
    return bool(mark)


def read_xliff(file: Input, layout: Layout, units: Units) -> Iterator[Row]:
    """Yield the pairs of an XLIFF file in either direction.

    Segments are the `mrk` elements of a `seg-source` and its target with equal `mid`, or the `segment` elements of a
    version 2 unit. Units that are marked as not to be translated, by themselves or by their group or file, segments
    without a target, and segments in a state that is `UNCONFIRMED`, are skipped. The attribute `approved` is ignored,
    since few tools set it, and so are locks; alternative translations (`alt-trans`, `matches`) are not read.
    `layout.columns`, such as `{en: source, de: target}`, names the sides of files that do not name their languages.
    """
    given = side_in_columns(file.name, layout, "source", "target")
    for unit in read_units(file, "xliff", frozenset({"trans-unit", "unit"})):
        segments = unit.iterfind("{*}seg-defs/{*}seg")  # of SDLXLIFF
        states = {seg.get("id"): [("conf", seg.get("conf", "Unspecified"))] for seg in segments}
        data = {item.get("id"): item.text for item in unit.iterfind("{*}originalData/{*}data")}
        for code in unit.iterfind(".//*[@dataRef]"):
            code.text = data.get(code.get("dataRef"))
        for element in [*unit.iter("{*}segment")] or [unit]:  # of version 2; or of an earlier one
            target = element.find("{*}target")
            marks = [("translate", _inherited(unit, "translate"))]
            if target is not None:
                marks += unit.items() + element.items() + target.items()
            if _skip_unconfirmed(marks, units):
                continue
            names = (around.get("original") or around.get("id") for around in unit.iterancestors("{*}file"))
            units.enter(next(names, file.name))
            side = _source_side(file.name, unit, element, layout, units) if given is None else given
            if side is None:
                continue
            for mid, texts in _pairs(element):
                if not _skip_unconfirmed(states.get(mid, ()), units):
                    yield units.row(texts[side], texts[1 - side])


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
    """Return the first of these attributes of a unit and of the elements around it, from the inside to the outside; an
    empty text if none has them."""
    around = (element.get(name) for element in (unit, *unit.iterancestors()) for name in attributes)
    return next(filter(None, around), "")


def _pairs(element: etree._Element) -> Iterator[tuple[str, tuple[Segment, Segment]]]:
    """Yield the `mid`, the source and the target of each marked segment, or of the whole element, whose `mid` is empty,
    if nothing is marked; a missing text is blank."""
    source = element.find("{*}source")
    target = element.find("{*}target")
    sources = _marked(element.find("{*}seg-source"))
    targets = _marked(target)
    if not sources or not targets:
        sources = {"": text_of(source)}
        targets = {"": text_of(target)}
    for mid in sources | targets:
        yield mid, (sources.get(mid, _BLANK), targets.get(mid, _BLANK))


def _marked(side: etree._Element | None) -> dict[str, Segment]:
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
    `msgstr` is in the header's `Language`, and `msgid` in its `X-Source-Language`, or else in English. If
    the header names neither script nor region, the nearest part of the path that names a script counts, such as
    sr@latin. The form for one object follows from its `Plural-Forms`.
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
            texts, sources = message.texts, message.sources(one)
            if len(sources) > 2:
                units.skip("plural")
                continue
            for form, source in sources.items():
                pair = one_line(texts[source]), one_line(texts[form])
                yield pair[side], pair[1 - side], None


def _side_of_msgid(name: str, headers: Mapping[str, str], layout: Layout, units: Units) -> int | None:
    """Return the index of the language of `msgid`. A message in other languages is counted, and None returned."""
    source = headers.get("x-source-language") or "en"
    target = headers.get("language", "")
    if not target:
        names = written(layout, "msgid", "msgstr")
        raise DataError(f"{name}: no Language in its header; state the languages with {names} or the reverse")
    if not any(tag_of(target)[1:3]):  # script and region
        parts = (part for part in reversed(re.split("[/.]", name)) if tag_of(part).script)
        target = next((part for part in parts if parts_of(part)[0] == parts_of(target)[0]), target)
    return side_of_source(source, target, layout, units)


def _lines(file: Input) -> Iterator[str]:
    """Yield the lines of a file, decoded with the charset given in its header."""
    with file.open() as stream:
        raw = stream.read(DOCUMENT_BYTES + 1)
    if len(raw) > DOCUMENT_BYTES:
        raise DataError(f"{file.name}: is larger than {DOCUMENT_BYTES >> 20} MB; split it")
    yield from po_lines(file.name, raw)
