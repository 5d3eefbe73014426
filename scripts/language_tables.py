"""Write the tables of languages and scripts, nmt/languages/{languages,scripts}.tsv.

It needs packages that nmt does not need: pip install babel langcodes pycountry regex; then run python
scripts/language_tables.py. The data come from ISO 639-3 and ISO 15924 (pycountry), CLDR (babel: likely scripts,
aliases, names), IANA's registry of language subtags (langcodes: macrolanguages) and Unicode (regex).
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Set
from itertools import groupby
from pathlib import Path

import babel
import langcodes
import pycountry
import regex
from babel.core import get_global

TABLES = Path(__file__).parents[1] / "nmt" / "languages"

SCRIPTS = {
    "ajp": "Arab", "azj": "Latn", "ber": "Latn Tfng", "fat": "Latn", "ko": "Hang", "nah": "Latn", "prs": "Arab",
    "tw": "Latn",
    # by region, border or religion
    "az": "Latn Arab Cyrl", "bal": "Arab Latn", "brh": "Arab Latn", "bs": "Latn Cyrl", "cnr": "Latn Cyrl",
    "crh": "Latn Cyrl", "gag": "Latn Cyrl", "kaa": "Cyrl Latn", "kk": "Cyrl Arab Latn", "kmr": "Latn",
    "ks": "Arab Deva", "ku": "Latn Arab Cyrl", "ky": "Cyrl Arab", "lad": "Hebr Latn", "lzz": "Latn Geor",
    "mn": "Cyrl Mong", "pa": "Guru Arab", "rom": "Latn Cyrl", "sd": "Arab Deva", "sh": "Latn Cyrl", "sr": "Cyrl Latn",
    "tk": "Latn Cyrl Arab", "tly": "Latn Arab Cyrl", "tt": "Cyrl Latn", "ttt": "Latn Cyrl", "ug": "Arab Cyrl Latn",
    "uz": "Latn Cyrl Arab", "ale": "Latn Cyrl", "ess": "Latn Cyrl",
    # South and East Asia
    "bax": "Bamu Latn", "cdo": "Hans Latn", "cjm": "Cham Latn", "grt": "Beng Latn", "hak": "Latn Hant",
    "hnj": "Hmnp Latn", "hoc": "Deva Wara", "kok": "Deva Latn", "kyu": "Kali Latn", "lif": "Deva Limb",
    "mni": "Beng Mtei", "mro": "Mroo Latn", "mww": "Hmnp Latn", "nan": "Latn Hant", "nnp": "Wcho Latn",
    "nod": "Lana Thai", "nst": "Tnsa Latn", "pi": "Latn Deva Khmr Mymr Sinh Thai", "rhg": "Rohg Latn Arab",
    "sa": "Deva Latn", "sat": "Olck Beng Deva Latn Orya", "unr": "Beng Deva",
    # Indonesia and Malaysia
    "ace": "Latn Arab", "ban": "Latn Bali", "bbc": "Latn Batk", "bjn": "Latn Arab", "bug": "Latn Bugi",
    "jv": "Latn Java", "mak": "Latn Bugi", "min": "Latn Arab", "ms": "Latn Arab", "rej": "Latn Rjng", "su": "Latn Sund",
    # Africa
    "bm": "Latn Nkoo", "ff": "Latn Adlm Arab", "ffm": "Latn Adlm Arab", "fub": "Arab Latn Adlm",
    "fuf": "Latn Adlm Arab",
    "fuh": "Latn Adlm Arab", "fuv": "Latn Adlm Arab", "ha": "Latn Arab", "kr": "Latn Arab", "rif": "Latn Tfng",
    "shi": "Tfng Latn", "swb": "Arab Latn", "taq": "Latn Tfng", "thz": "Latn Tfng", "tmh": "Latn Tfng",
    "tzm": "Tfng Latn", "vai": "Vaii Latn", "wni": "Arab Latn", "zdj": "Arab Latn", "zgh": "Tfng Latn",
    # North America
    "chp": "Latn Cans", "cr": "Cans Latn", "crj": "Cans Latn", "crk": "Cans Latn", "crl": "Cans Latn",
    "crm": "Cans Latn", "crx": "Latn Cans", "csw": "Cans Latn", "den": "Latn Cans", "ikt": "Latn Cans",
    "iu": "Cans Latn", "oj": "Cans Latn", "ojb": "Latn Cans", "ojs": "Cans Latn", "ojw": "Latn Cans",
    "osa": "Osge Latn",
}  # fmt: skip
"""Scripts of languages where CLDR's likely script, which comes first, is not the only one of today's text, or where it
is missing or wrong."""
SEPARATE = {"kmr", "azj"}
"""Members that CLDR replaces by their macrolanguage, though other members are written in another script."""
MEMBERS = {
    "az": "azb=Arab azj=Latn", "ku": "ckb=Arab kmr=Latn", "mn": "mvf=Mong", "no": "nb=Latn", "ps": "pbt=Arab",
    "uz": "uzs=Arab",
}  # fmt: skip
"""Members, with their scripts, that stand for their macrolanguage but have a row of their own."""
CODES = {
    "sh": "hbs scr",
    "he": "heb iw",
    "id": "ind in",
    "yi": "yid ji ydd",
    "ro": "ron rum mo",
    "jv": "jav jw",
    "nso": "ns",
}
"""Codes of languages, where neither ISO 639-3 nor CLDR's aliases have all."""

ALSO = {
    "Hani": "Hans Hant Hanb Jpan Hrkt Hira Kana Bopo", "Hang": "Kore Jamo", "Latn": "Latf Latg", "Arab": "Aran",
    "Cyrl": "Cyrs", "Geor": "Geok", "Syrc": "Syre Syrj Syrn",
}  # fmt: skip
"""Codes of ISO 15924 that stand for the letters of a script."""
MODIFIERS = {
    "Adlm": "Adlam", "Arab": "Arabic", "Armn": "Armenian", "Beng": "Bengali", "Cher": "Cherokee", "Cyrl": "Cyrillic",
    "Deva": "Devanagari", "Ethi": "Ethiopic", "Geor": "Georgian", "Grek": "Greek", "Guru": "Gurmukhi", "Hebr": "Hebrew",
    "Java": "Javanese", "Latn": "Latin Iqtelif Ijekavianlatin", "Mong": "Mongolian", "Nkoo": "Nko", "Shaw": "Shavian",
    "Syrc": "Syriac", "Tfng": "Tifinagh",
}  # fmt: skip
"""Capitalized modifiers of locales that name a script: iqtelif is the Latin alphabet of Tatar."""
UNSPACED = [
    "Hani", "Thai", "Laoo", "Khmr", "Mymr", "Tibt", "Lana", "Tale", "Talu", "Tavt", "Ahom",
    "Java", "Bali", "Batk", "Kawi", "Maka", "Yiii", "Tang", "Kits", "Jurc", "Nshu", "Seal",
]  # fmt: skip
"""Scripts without spaces between words. In nearly all of them, lines may break after any syllable or are broken by a
dictionary (Unicode's line-breaking classes SA, AK, AS and ID), unlike in Buginese, where many texts have spaces."""
DENSITY = {"Hani": 3.4, "Hang": 2.3, "Ethi": 1.8}
"""Characters of the English text of the Universal Declaration of Human Rights for each character of it in a script,
where they are far from one: the mean of its languages."""
COMMON = "Zyyy"
PATTERNS = {"Hani": r"(?=[\u2e80-\U0010ffff])[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{scx=Bopomofo}]"}
MOST_GAP = 0x100
NOT_ENDS = "\u104a"  # the Burmese comma
MORE_ENDS = {COMMON: "…", "Hebr": "\u05c3", "Grek": ";\u037e", "Yiii": "。"}


def languages() -> list[str]:
    """Return the rows of the table of languages."""
    likely = get_global("likely_subtags")
    macrolanguages = macrolanguages_of_registry()
    codes: dict[str, list[str]] = defaultdict(list)
    names = {}
    english = babel.Locale("en").languages
    for language in pycountry.languages:
        code = getattr(language, "alpha_2", language.alpha_3)
        if language.type == "S" or not (language.type in "LC" or code in likely):
            continue
        names[code] = english.get(code, getattr(language, "common_name", language.name))
        codes[code] += [language.alpha_3] if code != language.alpha_3 else []
        codes[code] += [language.bibliographic] if hasattr(language, "bibliographic") else []
    names |= {"sh": "Serbo-Croatian", "ber": "Berber", "nah": "Nahuatl", "ajp": "South Levantine Arabic"}
    members = set()
    for alias, code in get_global("language_aliases").items():
        if macrolanguages.get(alias) == code and alias in names and alias not in SEPARATE and len(alias) == 3:
            codes[code].append(alias)
            members.add(alias)
    rows = []
    for code in sorted(names.keys() - members - {"hbs"}):
        default = likely.get(code, "__").split("_")[1]
        written = SCRIPTS.get(code, default).split()
        regions = [
            f"{key.split('_')[1]}={value.split('_')[1]}"
            for key, value in likely.items()
            if re.fullmatch(f"{code}_[A-Z]{{2}}", key) and value.split("_")[1] != default
        ]
        own = CODES[code].split() if code in CODES else codes[code]
        regions = [*sorted(regions), *MEMBERS.get(code, "").split()]
        lists = [" ".join(items) for items in (own, written, regions)]
        rows.append("\t".join([code, *lists, macrolanguages.get(code, ""), names[code]]))
    return rows


def macrolanguages_of_registry() -> dict[str, str]:
    """Return the macrolanguage of each of its members."""
    registry = (Path(langcodes.__file__).parent / "data" / "language-subtag-registry.txt").read_text(encoding="utf-8")
    return dict(re.findall(r"Subtag: (\w+)\n(?:(?!%%).*\n)*?Macrolanguage: (\w+)", registry))


def scripts() -> list[str]:
    """Return the rows of the table of scripts."""
    names = {script.alpha_4: script.name for script in pycountry.scripts} | {"Hani": "CJK", COMMON: "Common"}
    script_of = scripts_of_characters(names.keys() - set(" ".join(ALSO.values()).split()))
    ranges = ranges_of(script_of)
    ends: dict[str, str] = defaultdict(str)
    for code in range(sys.maxunicode + 1):
        if regex.match(r"\p{Sentence_Terminal}", chr(code)) and chr(code) not in NOT_ENDS:
            ends[script_of.get(code, COMMON)] += chr(code)
    rows = []
    for script in sorted({*ranges, COMMON}):
        traits = ["unspaced"] if script in UNSPACED else []
        traits += [f"density={DENSITY[script]}"] if script in DENSITY else []
        characters = [chr(code) for code, name in script_of.items() if name == script]
        if script != COMMON and any(regex.match(r"[\p{bc=R}\p{bc=AL}]", character) for character in characters):
            traits.append("right-to-left")
        marks = ends[script] + MORE_ENDS.get(script, "")
        name = re.split(r" \(|,", names[script])[0]
        names_of_script = " ".join(filter(None, (table.get(script) for table in (ALSO, MODIFIERS))))
        rows.append("\t".join([script, names_of_script, " ".join(traits), marks, " ".join(ranges[script]), name]))
    return rows


def scripts_of_characters(scripts: Set[str]) -> dict[int, str]:
    """Return the script of each code point, in order."""
    script_of: dict[int, str] = {}
    for script in sorted(scripts - {"Zinh", "Zzzz"}):
        try:
            pattern = regex.compile(PATTERNS.get(script, rf"\p{{Script={script}}}"))
        except regex.error:  # no script of Unicode
            continue
        for code in range(sys.maxunicode + 1):
            if pattern.match(chr(code)) and script_of.get(code, COMMON) == COMMON:
                script_of[code] = script
    return dict(sorted(script_of.items()))


def ranges_of(script_of: dict[int, str]) -> dict[str, list[str]]:
    """Return ranges that have all characters of each script. They may contain others that are not letters."""
    listed = [
        (code, script) for code, script in script_of.items() if script != COMMON or regex.match(r"\p{L}", chr(code))
    ]
    ranges: dict[str, list[str]] = defaultdict(list)
    for script, group in groupby(listed, key=lambda item: item[1]):
        codes = [code for code, _ in group]
        first = codes[0]
        for code, following in zip(codes, [*codes[1:], sys.maxsize], strict=True):
            if following - code > MOST_GAP:
                ranges[script].append(f"{first:04X}-{code:04X}")
                first = following
    ranges.pop(COMMON)
    return ranges


if __name__ == "__main__":
    for name, header, rows in (
        ("languages", "code\tother codes\tscripts\tscripts by region or member\tmacrolanguage\tname", languages()),
        ("scripts", "code\tother codes\ttraits\tends of sentences\tcharacters\tname", scripts()),
    ):
        text = "\n".join([header, *rows])
        (TABLES / f"{name}.tsv").write_text(f"{text}\n", encoding="utf-8")
