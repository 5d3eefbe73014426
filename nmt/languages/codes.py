"""Languages and writing systems, by their codes.

A language has two or three letters (ISO 639), with a script and a region: `de`, `deu`, `zh-TW`, `srp_Latn`. A script is
given by its code of ISO 15924, such as Latn. Chinese characters, kana and bopomofo count as one script, Hani.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple, TypeVar

KANA = "\u3041-\u3096\u3099-\u309f\u30a1-\u30fa\u30fc-\u30ff"
"""Ranges of the letters and their marks by which Japanese text differs from Chinese text."""


@dataclass(frozen=True)
class Script:
    """A row of scripts.tsv."""

    code: str
    name: str
    is_unspaced: bool
    """Whether texts have no spaces between words."""
    is_right_to_left: bool
    density: float
    """Characters of English text that say as much as one character, on average."""
    sentence_ends: str
    """The marks that end sentences in this script only; under `Zyyy`, the marks that do so in many scripts."""
    ranges: tuple[tuple[int, ...], ...]
    """First and last code points of its characters. Marks and digits of several scripts may be among them."""


@cache
def scripts() -> dict[str, Script]:
    """Return all scripts by code. Several codes may stand for one script: Hans, Hant and Jpan for Hani. So may the
    capitalized modifiers of locales: Latin for Latn."""
    by_code: dict[str, Script] = {}
    for code, other_codes, traits, ends, ranges, name in rows_of("scripts.tsv"):
        limits = []
        for pair in ranges.split():
            first, last = pair.split("-")
            limits.append((int(first, 16), int(last, 16)))
        script = Script(
            code,
            name,
            "unspaced" in traits,
            "right-to-left" in traits,
            float(traits.partition("density=")[2] or 1),
            ends,
            tuple(limits),
        )
        by_code |= dict.fromkeys([code, *other_codes.split()], script)
    return by_code


def rows_of(name: str) -> list[list[str]]:
    """Return the rows of a table in this folder, without its header."""
    text = (Path(__file__).parent / name).read_text(encoding="utf-8")
    return [line.split("\t") for line in text.splitlines()[1:]]


@cache
def _ranges() -> list[tuple[int, int, str]]:
    ranges = set[tuple[int, int, str]]()
    for script in scripts().values():
        ranges.update((first, last, script.code) for first, last in script.ranges)
    return sorted(ranges)


@cache
def script_of(character: str) -> str | None:
    """Return the script of a letter; None for other characters, and for letters that belong to no script."""
    if not character.isalpha():
        return None
    code = ord(unicodedata.normalize("NFKC", character)[0])  # full and half width are not scripts
    ranges = _ranges()
    first, last, script = ranges[bisect(ranges, (code + 1,)) - 1]
    return script if first <= code <= last else None


def script_of_text(lines: Iterable[str], least: float) -> str | None:
    """Return the script of more than half of the letters of a text; None if its share is less than `least`."""
    counts = Counter(map(script_of, "".join(lines)))
    del counts[None]  # no letters
    if not counts:
        return None
    script, n = counts.most_common(1)[0]
    return script if n >= least * counts.total() else None


def character_class(names: Iterable[str]) -> str:
    """Return the content of a regular expression's character class with the characters of some scripts."""
    table = scripts()
    ranges = [limits for name in names for limits in table[name].ranges]
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges)


class Language(NamedTuple):
    """A row of languages.tsv."""

    code: str
    """Its code: of two letters if ISO 639-1 has one."""
    name: str
    """Its English name."""
    scripts: tuple[str, ...]
    """The scripts in which it is written (ISO 15924), the most usual first; none if they are unknown."""
    scripts_by_region: dict[str, str]
    """The usual scripts of regions that differ from the most usual one, and of members that stand for the language:
    text in South Azerbaijani (azb) is usually labelled as Azerbaijani (az) in Arabic script."""
    macrolanguage: str | None
    """The code of the macrolanguage that it is a member of: ku for kmr and ckb."""


@cache
def _languages() -> dict[str, Language]:
    """Return the languages by code. A member that usually stands for its macrolanguage, as arb for ar, is that one."""
    by_code: dict[str, Language] = {}
    for code, other_codes, of_language, of_regions, macrolanguage, name in rows_of("languages.tsv"):
        regions = dict(entry.split("=") for entry in of_regions.split())
        language = Language(code, name, tuple(of_language.split()), regions, macrolanguage or None)
        by_code |= dict.fromkeys([code, *other_codes.split()], language)
    return by_code


COUNTRIES = {"cn": "zh", "cz": "cs", "dk": "da", "gr": "el", "jp": "ja", "ua": "uk", "vn": "vi"}
"""Codes of countries that are taken for the codes of their languages, and are the codes of no language."""


def code_for(text: str) -> str | None:
    """Return the code of a language that is given by its English name or by its country, such as `cz` or `cz_CZ`; None
    if it is unknown."""
    by_name = {language.name.casefold(): language.code for language in _languages().values()}
    return (by_name | COUNTRIES).get(normalized(text).partition("_")[0])


def language_of(code: str) -> Language | None:
    """Return the language with a code of two or three letters; None if the table does not have it."""
    return _languages().get(code)


class Tag(NamedTuple):
    """The parts of a language code."""

    language: Language | None
    """None if the table has no such language."""
    script: str | None
    """The script that the code names, such as Hant."""
    region: str | None
    """The region, such as BR."""
    variants: tuple[str, ...]
    """Its other parts, such as 1996."""


_SCRIPT = re.compile("[a-z]{4}")
_REGION = re.compile("[a-z]{2}|[0-9]{3}")


def normalized(code: str) -> str:
    """Normalize a language code for comparison: `pt-BR`, `pt_br` and `PT_BR` all become `pt_br`."""
    return code.strip().replace("-", "_").lower()


@lru_cache(10_000)
def tag_of(code: str) -> Tag:
    """Return the parts of a language code. Case is ignored, and parts are separated by hyphens or underscores.

    The modifier of a locale, after @, may name a script: `sr@latin`, `en@shaw`. Other modifiers are ignored.
    """
    tag, _, modifier = normalized(code).partition("@")
    language, *subtags = tag.split("_")
    if modifier.title() in scripts():
        subtags.append(scripts()[modifier.title()].code.lower())
    script = next((subtag.title() for subtag in subtags if _SCRIPT.fullmatch(subtag)), None)
    region = next((subtag.upper() for subtag in subtags if _REGION.fullmatch(subtag)), None)
    variants = (subtag for subtag in subtags if subtag.title() != script and subtag.upper() != region)
    return Tag(language_of(language), script, region, tuple(variants))


def parts_of(code: str) -> tuple[str, str | None, str | None]:
    """Return the language, the script, by default the usual one, and the region of a code, for comparison.

    Codes of one language with two and with three letters have the same parts. An unknown language is the whole code.
    """
    language, script, region, _ = tag_of(code)
    if language is None:
        return normalized(code), script, region
    return language.code, script or language.scripts_by_region.get(region or "", *language.scripts[:1]), region


def side_of(tag: str, languages: Sequence[str]) -> int | None:
    """Return the index of the language code that a tag belongs to; None if it belongs to none.

    A tag belongs to a code of the same language and script whose region and other parts it has: `de-AT` to `de`,
    `pt-br` to `pt_BR`, `zh-TW` to `zh_Hant`, and `sr@latin` to `sr_Latn`, but neither `pt-PT` to `pt_BR` nor `sr-Latn`
    to `sr`. Without a script, the usual one is meant. If several codes fit, the most similar one is chosen.
    """
    fits = [_fit(tag, language) for language in languages]
    return next(iter(_best(fits)), None)


_Text = TypeVar("_Text")


def by_language(texts: Sequence[tuple[str, _Text]], codes: tuple[str, ...]) -> list[list[_Text]]:
    """Return the texts that belong to each language code, given pairs of a tag and a text; see `side_of`.

    Only texts with the most similar tag are returned: not texts in `de-AT` if there is `de`.
    """
    chosen = []
    for side, code in enumerate(codes):
        fits = [_fit(tag, code) if side_of(tag, codes) == side else None for tag, _ in texts]
        chosen.append([texts[i][1] for i in _best(fits)])
    return chosen


def names_of(language: str, names: Iterable[str]) -> list[str]:
    """Return the most similar of the names that belong to a language code; see `side_of`.

    Names with parts that are neither a script nor a region, such as `de_score`, belong to no code without them.
    """
    names = [*names]
    fits = [_fit(name, language) if tag_of(name).variants == tag_of(language).variants else None for name in names]
    return [names[i] for i in _best(fits)]


_Fit = tuple[bool, bool, int]
"""Whether a tag is a code except for case and separators, whether it has no parts that the code lacks, and how many
parts the code has besides language and script."""


def _best(fits: list[_Fit | None]) -> list[int]:
    """Return the indices of the best of the fits."""
    best = max(filter(None, fits), default=())
    return [i for i, fit in enumerate(fits) if fit == best]


@lru_cache(10_000)
def _fit(tag: str, code: str) -> _Fit | None:
    """Return how similar a tag is to the language code that it belongs to; None if it does not belong to it."""
    parts, expected = ({region, *variants} - {None} for _, _, region, variants in (tag_of(tag), tag_of(code)))
    if _represented(tag) != _represented(code) or not _is_script(parts_of(tag)[1], parts_of(code)[1]):
        return None
    is_code = normalized(tag) == normalized(code)
    return (is_code, parts == expected, len(expected)) if parts >= expected else None


def _represented(code: str) -> str:
    """Return the code of a language, or of the macrolanguage that it stands for, as azj for az."""
    language = tag_of(code).language
    if language is None:
        return normalized(code).partition("_")[0]
    above = language_of(language.macrolanguage or "")
    return above.code if above and language.code in above.scripts_by_region else language.code


def _is_script(name: str | None, expected: str | None) -> bool:
    """Return whether two codes stand for the same letters, except that Hans and Hant differ. An unknown script may be
    any."""
    if expected is None or {name, expected} == {"Hans", "Hant"}:
        return expected is None
    return scripts().get(str(name), name) == scripts().get(expected, expected)


def macrolanguage_of(code: str) -> str:
    """Return the code of the macrolanguage of a language, or of the language itself."""
    language = tag_of(code).language
    return code if language is None else language.macrolanguage or language.code


@cache
def related_codes(code: str) -> str:
    """Return the codes of a language in the table, of its macrolanguage and of its members, divided by `|`."""
    above = macrolanguage_of(code)
    related = []
    for other, language in _languages().items():
        if language.code == above or code in (language.code, language.macrolanguage):
            related.append(other)
    return "|".join(related)


def is_other_language(tag: str, code: str) -> bool:
    """Return whether a tag and a code belong to different languages; False if the table lacks one of them."""
    other = tag_of(tag).language
    related = related_codes(parts_of(code)[0])
    return other is not None and related != "" and other.code not in related.split("|")


def scripts_of(code: str) -> tuple[str, ...]:
    """Return the scripts in which a language is written, the most usual first; none if they are unknown.

    A script in the code, or else the usual one of its region, is the only one. Writing systems that share letters are
    one script: Hani for `ja`, `zh` and `zh_Hant`.
    """
    language, script, region, _ = tag_of(code)
    if language is None or script or region in language.scripts_by_region:
        names = [parts_of(code)[1]]
    else:
        names = [*language.scripts]
    table = scripts()
    return tuple(dict.fromkeys(table[name].code for name in names if name in table))


def usual_script(code: str) -> Script:
    """Return the most usual script of a language; if it is unknown, the row of what scripts have in common."""
    table = scripts()
    return table.get(parts_of(code)[1] or "", table["Zyyy"])


def is_spaced(code: str) -> bool:
    """Return whether spaces separate the words of a language; True if its script is unknown."""
    return not usual_script(code).is_unspaced


def is_right_to_left(code: str) -> bool:
    """Return whether a language is written from right to left; False if its script is unknown."""
    return usual_script(code).is_right_to_left


def language_name(code: str) -> str:
    """Return the English name of a language, such as "Portuguese (BR)" for `pt_BR`; an unknown code is returned as
    is."""
    language = tag_of(code).language
    if language is None:
        return code
    more = code.replace("-", "_").partition("_")[2]
    return f"{language.name} ({more})" if more else language.name


@cache
def plural_categories(code: str) -> tuple[str, ...]:
    """Return the plural categories of a language, such as `one` and `other`, in the order of CLDR 49; none if they are
    unknown."""
    language = tag_of(code).language
    for categories, languages in rows_of("plurals.tsv"):
        if language is not None and language.code in languages.split():
            return tuple(categories.split())
    return ()
