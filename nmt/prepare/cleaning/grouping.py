"""Groups of similar pairs, such as duplicates, of which one is kept. They are found across all corpora."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache, partial

from nmt.languages.directions import LABEL, LanguagePair
from nmt.prepare.cleaning.settings import NEAR_DUPLICATES, CleanConfig
from nmt.text.case import lower
from nmt.text.letters import comparable

_NO_LETTERS = bytes(byte for byte in range(128) if not chr(byte).isalpha())
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")
_LEAST_ACCENT = 10  # combining class: marks of lower classes are part of the letters of Indic scripts and kana
# one that is in no letter of Yiddish, so that the text is pointed Hebrew
_HEBREW_POINT = "[\u0591-\u05c7](?<!אַ|אָ|יַ|ײַ|יִ|בֿ|כֿ|פֿ|וּ|כּ|פּ|תּ|שׂ)"


def normal_form(text: str, language: str) -> str:
    """Return a comparable text in NFKD without case, accents, digits, punctuation and white space; or the text itself
    if nothing remains. The vowel marks of Yiddish are letters.
    """
    text = comparable(lower(language)(text), language)
    letters = text.encode(errors="surrogatepass").translate(None, _NO_LETTERS).decode(errors="surrogatepass")
    return (letters if letters.isascii() else _BEYOND_ASCII.sub(_folded, letters)) or text


def _folded(match: re.Match[str]) -> str:
    run = match[0]
    return _fold_often(run) if len(run) < 3 else _fold(run)


def _fold(text: str) -> str:
    text = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    text = _no_letters().sub("", text)
    return re.sub("[\u0591-\u05c7]", "", text) if re.search(_HEBREW_POINT, text) else text


_fold_often = lru_cache(maxsize=1 << 12)(_fold)  # single letters with an accent, quotes


@cache
def _no_letters() -> re.Pattern[str]:
    """Return a pattern that matches the characters that normal forms exclude."""
    removed = [re.escape(chr(code)) for code in range(1 << 16) if _is_removed(chr(code))]
    return re.compile(f"[{''.join(removed)}\U0001f000-\U0001faff]+")


def _is_removed(char: str) -> bool:
    if unicodedata.combining(char) >= _LEAST_ACCENT:
        return unicodedata.name(char).startswith(("COMBINING", "ARABIC"))  # others are vowels and tones
    return unicodedata.category(char)[0] in "CNPSZ"


@dataclass(frozen=True)
class Grouping:
    """A rule by which similar pairs are dropped.

    The pair with the best score in each group is kept; of equal scores, or without scores, the first in the training
    text.
    """

    reason: str
    """One of `nmt.prepare.cleaning.counts.REASONS`."""
    key: Callable[[str, str], bytes]
    """A function of both sides, in comparable forms of letters, that returns sixteen bytes, equal for similar pairs."""


def groupings(clean: CleanConfig, languages: LanguagePair) -> list[Grouping]:
    """Return the groupings of a pair of languages, in the order in which they are applied."""
    rules = [Grouping("duplicate", pair_hash)]
    if NEAR_DUPLICATES in (clean.drop or ()):
        rules.append(Grouping("near_duplicate", normal_hash(languages)))
    return rules


def pair_hash(src: str, tgt: str) -> bytes:
    """Return a 16-byte hash of a pair of lines."""
    # a line cannot contain a line feed, so it separates the two sides unambiguously
    return hashlib.blake2b(f"{src}\n{tgt}".encode(), digest_size=16).digest()


def normal_hash(languages: LanguagePair) -> Callable[[str, str], bytes]:
    """Return a function that hashes the normal forms of both sides of a pair in 16 bytes; labels stay as they are."""
    first, second = (str if language == LABEL else partial(normal_form, language=language) for language in languages)
    return lambda src, tgt: pair_hash(first(src), second(tgt))
