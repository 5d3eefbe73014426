"""The normal form of a text, in which near-duplicates are equal: without case, accents, digits, punctuation and white
space."""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache

_ASCII = bytes(range(128))
_LOWER = bytes.maketrans(_ASCII, _ASCII.lower())
_NO_LETTERS = bytes(byte for byte in _ASCII if not chr(byte).isalpha())
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")
_LEAST_ACCENT = 10  # combining class: those below are part of the letters of Indic scripts and kana


def normal_form(text: str) -> str:
    """Return a text in NFKD without case, accents, digits, punctuation and white space; itself if nothing is left."""
    letters = text.encode(errors="surrogatepass").translate(_LOWER, _NO_LETTERS).decode(errors="surrogatepass")
    return (letters if letters.isascii() else _BEYOND_ASCII.sub(_folded, letters)) or text


def _folded(match: re.Match[str]) -> str:
    run = match[0]
    return _fold_often(run) if len(run) < 3 else _fold(run)


def _fold(text: str) -> str:
    text = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return _no_letters().sub("", text)


_fold_often = lru_cache(maxsize=1 << 12)(_fold)  # single letters with an accent, quotes


@cache
def _no_letters() -> re.Pattern[str]:
    """Return a pattern for what is not in a normal form."""
    removed = [re.escape(chr(code)) for code in range(1 << 16) if _is_removed(chr(code))]
    return re.compile(f"[{''.join(removed)}\U0001f000-\U0001faff]+")


def _is_removed(char: str) -> bool:
    return unicodedata.category(char)[0] in "CNPSZ" or unicodedata.combining(char) >= _LEAST_ACCENT
