"""Languages and writing systems, by their codes.

A language has two or three letters (ISO 639), with a script and a region: `de`, `deu`, `zh-TW`, `srp_Latn`. A script is
given by its code of ISO 15924, such as Latn. Chinese characters, kana and bopomofo count as one script, Hani.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

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
    """The marks that end sentences in this script only. Those of `Zyyy` end sentences in many scripts."""
    ranges: tuple[tuple[int, ...], ...]
    """First and last code points of its characters. Marks and digits of several scripts may be among them."""


@cache
def scripts() -> dict[str, Script]:
    """Return all scripts by code. Several codes may stand for one script: Hans, Hant and Jpan for Hani."""
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
    """The usual scripts of regions that differ from the most usual one."""
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
"""Codes of countries that are taken for those of their languages, and are the codes of no language."""


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


_SCRIPT = re.compile("[a-z]{4}")
_REGION = re.compile("[a-z]{2}|[0-9]{3}")


def normalized(code: str) -> str:
    """Normalize a language code for comparison: `pt-BR`, `pt_br` and `PT_BR` all become `pt_br`."""
    return code.strip().replace("-", "_").lower()


@lru_cache(10_000)
def tag_of(code: str) -> Tag:
    """Return the parts of a language code. Case is ignored, and parts are separated by hyphens or underscores."""
    language, *subtags = normalized(code).split("_")
    script = next((subtag.title() for subtag in subtags if _SCRIPT.fullmatch(subtag)), None)
    region = next((subtag.upper() for subtag in subtags if _REGION.fullmatch(subtag)), None)
    return Tag(language_of(language), script, region)


def parts_of(code: str) -> tuple[str, str | None, str | None]:
    """Return the language, the script, by default the usual one, and the region of a code, for comparison.

    Codes of one language with two and with three letters have the same parts. An unknown language is the whole code.
    """
    language, script, region = tag_of(code)
    if language is None:
        return normalized(code), script, region
    return language.code, script or language.scripts_by_region.get(region or "", *language.scripts[:1]), region


def side_of(tag: str, languages: tuple[str, ...]) -> int | None:
    """Return the index of the language that a tag belongs to; None if it belongs to none.

    A code matches the tag or its beginning: `de` matches `de-AT`, and `pt_BR` matches `pt-br`, but not `pt-PT`. The
    longest code wins where several match.
    """
    return _match(tag, languages)[0]


def by_language(texts: Iterable[tuple[str, str]], codes: tuple[str, ...]) -> list[list[str]]:
    """Return the texts that belong to each language code, given pairs of a tag and a text.

    If a tag is exactly the code of a language, only texts with that tag are returned: not `de-AT` if there is `de`.
    """
    alike: list[list[str]] = [[] for _ in codes]
    exact: list[list[str]] = [[] for _ in codes]
    for tag, text in texts:
        side, is_exact = _match(tag, codes)
        if side is not None:
            chosen = exact if is_exact else alike
            chosen[side].append(text)
    return [exact_texts or texts for exact_texts, texts in zip(exact, alike, strict=True)]


@lru_cache(maxsize=1024)
def _match(tag: str, languages: tuple[str, ...]) -> tuple[int | None, bool]:
    """Return the index of the language of a tag, and whether the tag is exactly its code."""
    parts = _split(tag)
    codes = [_split(language) for language in languages]
    matching = [side for side, code in enumerate(codes) if parts[: len(code)] == code]
    if not matching:
        return None, False
    side = max(matching, key=lambda side: len(codes[side]))
    return side, parts == codes[side]


def _split(tag: str) -> list[str]:
    """Return the parts of a language tag for comparison: `km` and `kh` for `khm_Khmr_KH`.

    The script of a language that has only one is left out.
    """
    code, *subtags = re.split("[-_@]", tag.strip().lower())  # `@` as in sr@latin of gettext
    language = language_of(code)
    if language is None:
        return [code, *subtags]
    usual = {*language.scripts, *language.scripts_by_region.values()}
    parts = [language.code]
    for subtag in subtags:
        if {subtag.title()} != usual:
            parts.append(subtag)
    return parts


_SUBTAGS = re.compile(r"(-[a-z]{4})?(-([a-z]{2}|\d{3}))?")  # a script, a region


def names_of(language: str, names: Iterable[str]) -> list[str]:
    """Return the names that match a language: its code, or else its code with a script or region, such as `de-AT`.

    Case is ignored, and subtags may follow a hyphen or an underscore.
    """
    names = [*names]
    exact = [name for name in names if normalized(name) == normalized(language)]
    if exact:
        return exact
    code = _split(language)
    alike = []
    for name in names:
        parts = _split(name)
        if parts[: len(code)] == code and _SUBTAGS.fullmatch("-".join(["", *parts[len(code) :]])):
            alike.append(name)
    return alike


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


def scripts_of(code: str) -> tuple[str, ...]:
    """Return the scripts in which a language is written, the most usual first; none if they are unknown.

    A script in the code, or else the usual one of its region, is the only one. Writing systems that share letters are
    one script: Hani for `ja`, `zh` and `zh_Hant`.
    """
    language, script, region = tag_of(code)
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
