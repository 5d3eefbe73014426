"""TMX, translation memories: versions 1.1 to 1.4b."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from nmt.prepare.formats.language import MAX_TAG, by_language, limited
from nmt.prepare.formats.xml import XML_LANG, read_units, text_of
from nmt.prepare.inputs import Input
from nmt.prepare.pairs import NO_SCORE, Layout, Row, Units, one_line, parse_score


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
