"""XLIFF, documents in translation: versions 1.0 to 1.2, and 2.0 to 2.2."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from nmt.errors import DataError
from nmt.prepare.formats.language import side_in_columns, side_of_source
from nmt.prepare.formats.xml import XML_LANG, XmlUnit, read_units, text_of
from nmt.prepare.inputs import Input
from nmt.prepare.pairs import Layout, Row, Units, one_line

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
