"""Bilingual files for review: the texts of a document and their translations, as XLIFF 1.2 or TMX.

The texts are plain: they have no markup, which is placed when the document is built.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from xml.sax.saxutils import escape, quoteattr

from nmt import __version__
from nmt.console import amount, printable, say
from nmt.documents.parallel import tmx
from nmt.documents.types import Document, spaced
from nmt.errors import DataError
from nmt.files.read import check_regular, open_regular, reading
from nmt.languages.codes import by_language, side_of
from nmt.prepare.formats.units import read_units, text_of, variants
from nmt.prepare.inputs import FORMATS, Input
from nmt.text import lines
from nmt.text.states import NEEDS_REVIEW, TRANSLATED
from nmt.text.words import beginning
from nmt.translate.types import Translation

if TYPE_CHECKING:
    from lxml import etree

_SHOWN = 40
"""Maximum number of characters of a text in a message."""


def bilingual_format(path: Path) -> str:
    """Return the format of a bilingual file by its name: xliff or tmx. Raises DataError if it is neither."""
    name = FORMATS.get(path.suffix.lower(), "")
    if name not in ("xliff", "tmx"):
        raise DataError(f"{path}: must end in .xlf, .xliff or .tmx, the formats of bilingual files")
    return name


def bilingual_content(
    path: Path, name: str, languages: tuple[str, str], document: Document, translations: Sequence[Translation]
) -> bytes:
    """Return the content of a bilingual file with the texts of a document and their translations, in order.

    path: the bilingual file, whose suffix determines the format; name: the file name of the document; languages: source
    and target. Confidences are properties of units in TMX, and notes in XLIFF, where the state is `translated` if the
    confidence is not low, or the translation is an exact match of a translation memory.
    """
    source, target = (language.replace("_", "-") for language in languages)
    units = [(src, replace(tgt, text=spaced(tgt.text))) for src, tgt in zip(document.texts, translations, strict=True)]
    if bilingual_format(path) == "tmx":
        rows = []
        for src, tgt in units:
            properties = f'<prop type="document">{escape(name)}</prop>'
            if tgt.confidence:
                properties += f'<prop type="confidence">{tgt.confidence.chrf:.1f}</prop>'
            rows.append((properties, src, tgt.text))
        lines = tmx(rows, source, target, "paragraph")
    else:
        lines = _xliff(name, source, target, units)
    return "".join(f"{line}\n" for line in lines).encode()


def _xliff(name: str, source: str, target: str, units: Sequence[tuple[str, Translation]]) -> Iterator[str]:
    languages = f"source-language={quoteattr(source)} target-language={quoteattr(target)}"
    yield from (
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">',
        f'<file original={quoteattr(name)} {languages} datatype="plaintext">',
        f'<header><tool tool-id="nmt" tool-name="nmt" tool-version="{__version__}"/></header>',
        "<body>",
    )
    for number, (src, tgt) in enumerate(units, start=1):
        state = NEEDS_REVIEW
        origin = ""
        note = ""
        if tgt.confidence:
            note = f'<note from="nmt">expected chrF {tgt.confidence.chrf:.0f}</note>'
            if not tgt.confidence.is_low:
                state = TRANSLATED
        if tgt.match == "exact":
            state = TRANSLATED
            origin = ' state-qualifier="exact-match"'
        target_side = f'<target state="{state}"{origin}>{escape(tgt.text)}</target>'
        sides = f"<source>{escape(src)}</source>{target_side}"
        yield f'<trans-unit id="{number}" xml:space="preserve">{sides}{note}</trans-unit>'
    yield from ("</body>", "</file>", "</xliff>")


class _Unit(NamedTuple):
    """A source text and its translation, which is empty if it is missing."""

    name: str
    """The unit in messages: `unit 7`."""
    source: str
    target: str


def source_language(path: Path) -> str:
    """Return the source language that a bilingual file states, or an empty string."""
    stated = re.search(rb"""(?:source-language|srclang)=["']([\w-]+)""", lines.beginning(path))
    return stated[1].decode() if stated else ""


def read_reviewed(
    path: Path, document: Path, texts: Sequence[str], languages: tuple[str, str] | None = None
) -> list[str]:
    """Return the translation of each text of a document from a bilingual file.

    languages: source and target; if None, a file in any two languages is accepted.

    A text has the translation of the unit with the same source text; several units with the same source text belong to
    the occurrences of the text in order. A translation memory (TMX) may have one unit for all occurrences, older units
    of the same text, and units of other documents, which are counted and reported.

    Raises DataError if the file is not XLIFF 1.2 or TMX, has other languages, lacks a text or a translation, and, for
    XLIFF, if it has a unit that is not in the document.
    """
    is_memory = bilingual_format(path) == "tmx"
    by_text = defaultdict[str, deque[_Unit]](deque)
    for unit in _memory_units(path, languages) if is_memory else _xliff_units(path, languages):
        by_text[_key(unit.source)].append(unit)
    everything = [unit for units in by_text.values() for unit in units]
    chosen = []
    for key, n in Counter(map(_key, texts)).items() if is_memory else ():
        by_text[key] = deque(by_text[key], maxlen=n)  # the latest
    for number, text in enumerate(texts, start=1):
        units = by_text[_key(text)]
        if not units:
            where = f"no unit for text {number} of {document}, {printable(beginning(text, _SHOWN))!r}"
            raise DataError(f"{path}: has {where}; does it belong to another document, or was a source text edited?")
        # a memory has the same unit for all occurrences
        chosen.append(units[0] if is_memory and len(units) == 1 else units.popleft())
    used = {*map(id, chosen)}
    unused = [unit for unit in everything if id(unit) not in used]
    if unused and not is_memory:
        where = f"{unused[0].name}, {printable(beginning(unused[0].source, _SHOWN))!r}, is not in {document}"
        raise DataError(f"{path}: {where}; does it belong to another document?")
    if empty := [unit for unit in chosen if not unit.target]:
        where = f"{amount(len(empty), 'unit')} without a translation, first {empty[0].name}"
        raise DataError(f"{path}: {where}, {printable(beginning(empty[0].source, _SHOWN))!r}; translate them")
    if unused:
        say(f"{path}: {amount(len(unused), 'unit')} not needed for {document}")
    return [unit.target for unit in chosen]


def _key(text: str) -> str:
    """Return a text without differences in white space, which programs may change."""
    return " ".join(text.split())


def _file(path: Path) -> Input:
    with reading(path):
        check_regular(path)
    return Input(str(path), "", partial(open_regular, path), path)


def _xliff_units(path: Path, languages: tuple[str, str] | None) -> list[_Unit]:
    """Return the units of an XLIFF 1.2 file in the order of their numbers. Raises DataError for other languages."""
    numbered = []
    for n, unit in enumerate(read_units(_file(path), "xliff", frozenset({"trans-unit"})), start=1):
        if languages is not None:
            _check_languages(path, unit, languages)
        number = unit.get("id", "")[:_SHOWN]
        texts = (text_of(unit.find(f"{{*}}{side}")).text for side in ("source", "target"))
        # programs keep the numbers, though perhaps not the order; units with other identifiers keep their order
        place = int(number) if number.isdecimal() else n
        numbered.append((place, _Unit(f"unit {printable(number) or n}", *texts)))
    return [unit for _, unit in sorted(numbered, key=itemgetter(0))]


def _check_languages(path: Path, unit: etree._Element, languages: tuple[str, str]) -> None:
    for file in unit.iterancestors("{*}file"):
        named = file.get("source-language", ""), file.get("target-language", "")
        if any(code and side_of(code, languages) != side for side, code in enumerate(named)):
            of_file, of_model = (" into ".join(map(printable, pair)) for pair in (named, languages))
            raise DataError(f"{path}: translates from {of_file}, but the model from {of_model}")


def _memory_units(path: Path, languages: tuple[str, str] | None) -> Iterator[_Unit]:
    """Yield the units of a TMX file. Raises DataError if one has not two texts, and no languages are given."""
    source = ""
    for n, unit in enumerate(read_units(_file(path), "tmx", frozenset({"header", "tu"}))):  # the header is the first
        if unit.tag.endswith("header"):
            source = unit.get("srclang", "")
            continue
        texts = [(language, segment.text) for language, segment in variants(unit)]
        if languages:
            sides = [next(iter(in_language), "") for in_language in by_language(texts, languages)]
        elif len(texts) == 2:
            (first, _), (second, _) = texts
            sides = [text for _, text in texts]
            if side_of(second, (source, first)) == 0:
                sides.reverse()
        else:
            expected = "a text and its translation belong; with --run, other languages are left out"
            raise DataError(f"{path}: unit {n}: {amount(len(texts), 'text')}, where {expected}")
        yield _Unit(f"unit {n}", *sides)
