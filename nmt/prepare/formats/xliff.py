"""XLIFF, documents in translation: versions 1.0 to 1.2, and 2.0 to 2.2."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from nmt.errors import DataError
from nmt.prepare.formats.language import side_in_columns, side_of
from nmt.prepare.formats.xml import XML_LANG, XmlUnit, read_units, text_of
from nmt.prepare.inputs import Input
from nmt.prepare.pairs import Layout, Units, one_line

_UNTRANSLATED = {"new", "needs-translation", "needs-adaptation", "needs-l10n", "initial"}
"""Values of `state`; all others, such as `needs-review-translation`, are of translations."""
_SUGGESTED = {"fuzzy-match", "leveraged-mt", "mt-suggestion", "tm-suggestion"}
"""Values of `state-qualifier` for a target that no translator has confirmed."""


def read_xliff(file: Input, layout: Layout, units: Units) -> Iterator[tuple[str, str]]:
    """Yield the pairs of an XLIFF file, whose direction may be either.

    Segments are the `mrk` elements of a `seg-source` and its target with equal `mid`, or the `segment` elements of a
    version 2 unit. A unit is skipped if it is marked as not to be translated, and a segment without a target, or one
    whose state says that it is no translation yet. `approved` is not considered: few tools ever set it. Alternative
    translations (`alt-trans`, `matches`) are not read. `layout.columns`, such as `{en: source, de: target}`, is for
    files that do not name their languages.
    """
    for unit in read_units(file, "xliff", frozenset({"trans-unit", "unit"})):
        if unit.element.get("translate") == "no":
            units.skip("translate no")
            continue
        for element in unit.element.iter("segment") if unit.element.tag == "unit" else [unit.element]:
            reason = _unconfirmed(element)
            if reason is not None:
                units.skip(reason)
                continue
            side = _source_side(file.name, unit, element, layout, units)
            if side is None:
                continue
            for texts in _segments(element):
                if None in texts:
                    units.skip(f"no text in {layout.languages[side if texts[0] is None else 1 - side]}")
                    continue
                source, target = (one_line(text or "") for text in texts)
                yield (source, target) if side == 0 else (target, source)


def _unconfirmed(element: Element) -> str | None:
    """Return why the target of a segment is no translation yet, None if it is one or missing."""
    target = element.find("target")
    if target is None:
        return None
    marked = element if element.tag == "segment" else target
    state, qualifier = marked.get("state", ""), marked.get("state-qualifier", "")
    if state in _UNTRANSLATED:
        return f"state {state}"
    return f"state {qualifier}" if qualifier in _SUGGESTED else None


def _source_side(name: str, unit: XmlUnit, element: Element, layout: Layout, units: Units) -> int | None:
    """Return the index of the source language; None, and count the segment, if they are other languages."""
    side = side_in_columns(name, layout, "source", "target")
    if side is not None:
        return side
    source = _language(unit, element.find("source"), "source-language", "srcLang")
    target = _language(unit, element.find("target"), "target-language", "trgLang")
    if not target and element.find("target") is None:
        units.skip("no target")
        return None
    if not source or not target:
        raise DataError(
            f"{name}: no {'target' if source else 'source'} language is named; say which side is in which language: "
            f"columns: {{{layout.languages[0]}: source, {layout.languages[1]}: target}} or the reverse"
        )
    sides = side_of(source, layout.languages), side_of(target, layout.languages)
    if None in sides or sides[0] == sides[1]:
        units.skip(f"languages {source}-{target}")
        return None
    return sides[0]


def _language(unit: XmlUnit, text: Element | None, *attributes: str) -> str:
    """Return the language of a side: of its element if it has one, else of the file."""
    own = "" if text is None else text.get(XML_LANG, "")
    return own or next((unit.around[name] for name in attributes if name in unit.around), "")


def _segments(element: Element) -> Iterator[tuple[str | None, str | None]]:
    """Yield source and target of each segment, None for one that is missing."""
    source, target = element.find("source"), element.find("target")
    marked_source, marked_target = _marked(element.find("seg-source")), _marked(target)
    if not marked_source or not marked_target:
        yield None if source is None else text_of(source), None if target is None else text_of(target)
        return
    for mid in marked_source | marked_target:
        yield marked_source.get(mid), marked_target.get(mid)


def _marked(side: Element | None) -> dict[str, str]:
    """Return the text of each marked segment of a side by its `mid`; nothing if two have the same."""
    marks = [] if side is None else [mark for mark in side.iter("mrk") if mark.get("mtype") == "seg"]
    texts = {mark.get("mid", ""): text_of(mark) for mark in marks}
    return texts if len(texts) == len(marks) else {}
