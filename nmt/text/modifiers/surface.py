"""Case and final punctuation. What a translation must copy (URLs, tags, numbers …) stays as it is."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

from nmt.text.constraints import spans

END_MARKS = ".!?…。！？｡։।॥؟۔"
"""Marks that end a sentence."""

# a letter that begins a word, also of one with an apostrophe or written with combining marks
_INITIAL = re.compile(r"(?<![\w'’\u0300-\u036f])[^\W\d_]")
_DOTTED = ("tr", "az")  # Turkish and Azerbaijani: the capital of i is İ, that of ı is I


def upper_case(src: str, tgt: str, _: Random, languages: tuple[str, str] = ("", "")) -> tuple[str, str]:
    """Return both sides in upper case."""
    if not _has_case(src):
        return src, tgt
    return _outside_spans(src, _upper(languages[0])), _outside_spans(tgt, _upper(languages[1]))


def title_case(src: str, tgt: str, _: Random, languages: tuple[str, str] = ("", "")) -> tuple[str, str]:
    """Return both sides with a capital at the start of each word."""
    if not _has_case(src):
        return src, tgt
    return _titled(src, languages[0]), _titled(tgt, languages[1])


def lower_case(src: str, tgt: str, _: Random, languages: tuple[str, str] = ("", "")) -> tuple[str, str]:
    """Return the source in lower case, and the target."""

    def lower(text: str) -> str:
        return (text.replace("I", "ı").replace("İ", "i") if _is_dotted(languages[0]) else text).lower()

    return _outside_spans(src, lower), tgt


def drop_end_punctuation(src: str, tgt: str, _: Random) -> tuple[str, str]:
    """Return both sides without the marks at their ends, if both have some."""
    sides = _without_end_marks(src), _without_end_marks(tgt)
    return sides if sides[0] != src and sides[1] != tgt else (src, tgt)


def _without_end_marks(text: str) -> str:
    kept = text.rstrip()
    shorter = kept.rstrip(END_MARKS)
    is_within = any(span.end > len(shorter) for span in spans(text))
    return text if shorter == kept or not shorter.strip() or is_within else shorter.rstrip()


def _has_case(text: str) -> bool:
    """Whether most letters are of a script with case: a name in Latin letters is no reason to change the rest."""
    letters = [*filter(str.isalpha, text)]
    return 2 * sum(map(str.__ne__, map(str.lower, letters), map(str.upper, letters))) > len(letters)


def _titled(text: str, language: str) -> str:
    upper = _upper(language)

    def capital(match: re.Match[str]) -> str:
        letter = match[0]
        return upper(letter) if letter == "i" else letter.title()

    protected = [range(span.start, span.end) for span in spans(text)]
    return _INITIAL.sub(lambda match: match[0] if _is_in(match.start(), protected) else capital(match), text)


def _is_in(index: int, ranges: list[range]) -> bool:
    return any(index in each for each in ranges)


def _upper(language: str) -> Callable[[str], str]:
    if _is_dotted(language):
        return lambda text: text.replace("i", "İ").upper()
    return str.upper


def _is_dotted(language: str) -> bool:
    return re.split("[_-]", language)[0] in _DOTTED


def _outside_spans(text: str, change: Callable[[str], str]) -> str:
    """Change the text around protected spans."""
    parts, end = list[str](), 0
    for span in spans(text):
        parts += change(text[end : span.start]), text[span.start : span.end]
        end = span.end
    return "".join([*parts, change(text[end:])])
