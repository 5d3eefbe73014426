"""Writing systems: the scripts of languages and of letters, and tests for text in another script."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cache

_WRITTEN_IN = {
    "LATIN": "af ak an ast ay az bcl bi bm br bs ca ceb cs cy da de dsb ee en eo es et eu ext ff fi fil fj fo fr "
    "fur fy ga gd gl gn gv ha haw hr hsb ht hu id ig ilo io is it jv kab kg ki kl kw la lb lg li lij lmo "
    "ln lt lv mg mi ms mt nah nb nds nl nn no nso ny oc om pap pl pt qu rm rn ro rw sc scn sco se sg sk "
    "sl sm sn so sq srn ss st su sv sw szl tl tn to tpi tr ts tum tw ty ve vec vi vo wa war wo xh yo zu",
    "CYRILLIC": "ab av ba be bg bua ce cu cv kbd kk ky mk mn myv mdf mhr mrj os ru rue sah tg tt tyv udm uk kv",
    "LATIN CYRILLIC": "cnr crh sh sr tk uz",
    "ARABIC": "ar arz azb bal ckb fa glk lrc mzn pnb ps sd ug ur",
    "LATIN ARABIC": "ku",
    "LATIN CJK": "hak nan",
    "HEBREW": "he iw lad yi",
    "GREEK": "el grc pnt",
    "ARMENIAN": "hy hyw",
    "GEORGIAN": "ka xmf lzz",
    "DEVANAGARI": "awa bho brx doi gom hi hne kok mag mai mr ne new sa",
    "DEVANAGARI ARABIC": "ks",
    "BENGALI": "as bn bpy",
    "GURMUKHI": "pa",
    "GUJARATI": "gu",
    "ORIYA": "or ory",
    "TAMIL": "ta",
    "TELUGU": "te",
    "KANNADA": "kn tcy",
    "MALAYALAM": "ml",
    "SINHALA": "si",
    "THAANA": "dv",
    "MEETEI BENGALI": "mni",
    "OL": "sat",
    "THAI": "th",
    "LAO": "lo",
    "TIBETAN": "bo dz",
    "MYANMAR": "my shn mnw",
    "KHMER": "km",
    "ETHIOPIC": "am ti",
    "TIFINAGH": "ber tzm zgh",
    "CHEROKEE": "chr",
    "CANADIAN": "cr iu",
    "CJK": "zh yue wuu lzh gan ja",
    "HANGUL": "ko",
}
_SCRIPTS = {language: scripts.split() for scripts, all_ in _WRITTEN_IN.items() for language in all_.split()}
"""Language code -> its scripts, each by the first word of the Unicode names of its letters."""

_SUBTAGS = {
    "Latn": "LATIN", "Cyrl": "CYRILLIC", "Arab": "ARABIC", "Deva": "DEVANAGARI", "Beng": "BENGALI", "Grek": "GREEK",
    "Hebr": "HEBREW", "Hans": "CJK", "Hant": "CJK", "Jpan": "CJK", "Armn": "ARMENIAN", "Geor": "GEORGIAN",
    "Guru": "GURMUKHI", "Tibt": "TIBETAN", "Olck": "OL", "Tfng": "TIFINAGH", "Mong": "MONGOLIAN", "Ethi": "ETHIOPIC",
}  # fmt: skip


def scripts_of(language: str) -> frozenset[str]:
    """Return the scripts of a language, given by a code such as `sr` or `sr_Latn`; empty if unknown."""
    code, *subtags = language.split("_")
    for subtag in subtags:
        if subtag.title() in _SUBTAGS:
            return frozenset([_SUBTAGS[subtag.title()]])
    return frozenset(_SCRIPTS.get(code.lower(), ()))


@cache
def script_of(char: str) -> str | None:
    """Return the script of a letter, or None for other characters. Chinese characters and kana count as one script."""
    if not char.isalpha():
        return None
    words = unicodedata.name(unicodedata.normalize("NFKC", char)[0], "").split()  # full and half width are not scripts
    script = words[0].partition("-")[0] if words else None
    return "CJK" if script in ("HIRAGANA", "KATAKANA", "IDEOGRAPHIC", "BOPOMOFO") else script


_BEYOND_LATIN = re.compile("[^\x00-\u024f\u1e00-\u1eff\u2000-\u206f]")
_OWN, _OTHER = "a", "b"


class _Kinds(dict[int, str]):
    """A table for `str.translate` that keeps letters only: `_OWN` for certain scripts, `_OTHER` for all others."""

    def __init__(self, scripts: frozenset[str]) -> None:
        self._scripts = scripts

    def __missing__(self, code: int) -> str:
        script = script_of(chr(code))
        self[code] = "" if script is None else _OWN if script in self._scripts else _OTHER
        return self[code]


def in_other_script(scripts: frozenset[str], least: float) -> Callable[[str], bool]:
    """Return a test for texts in which the share of letters in these scripts is less than `least`."""
    kinds = _Kinds(scripts)
    has_latin = "LATIN" in scripts

    def test(text: str) -> bool:
        if has_latin and not _BEYOND_LATIN.search(text):
            return False
        letters = text.translate(kinds)
        return letters.count(_OWN) < least * len(letters)

    return test


_UNSPACED = {"CJK", "THAI", "LAO", "TIBETAN", "MYANMAR", "KHMER"}


def is_spaced(language: str) -> bool:
    """Return whether spaces separate the words of a language; True for unknown languages."""
    return not scripts_of(language) & _UNSPACED
