"""Characters that look or sound the same however they are encoded: white space, invisible characters, normal forms.

Text comes with no-break spaces from web pages, soft hyphens from PDF files, and combining marks from macOS. `plain`
removes such differences, for comparisons. A `Reading` removes only those that a vocabulary does not know: a French
model that has learned no-break spaces keeps them.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from unicodedata import is_normalized, normalize

import regex

_JOINED = (
    r"\p{Bali}\p{Beng}\p{Cakm}\p{Deva}\p{Gran}\p{Gujr}\p{Guru}\p{Java}\p{Khmr}\p{Knda}\p{Limb}\p{Mlym}\p{Mtei}\p{Mymr}"
    r"\p{Newa}\p{Orya}\p{Saur}\p{Sinh}\p{Sylo}\p{Taml}\p{Telu}\p{Tirh}\p{Adlm}\p{Arab}\p{Mand}\p{Mong}\p{Nkoo}"
    r"\p{Phag}\p{Rohg}\p{Syrc}\p{ExtPict}\p{EMod}\ufe0f"
)
"""Scripts that write joiners (ZWJ, ZWNJ), and emoji, as the content of a character class."""
# fillers, which stand for a missing part of a Hangul syllable, stay, and tags, which distinguish flags
_UNSEEN = regex.compile(
    r"(?![\u115f\u1160\u3164\uffa0\U000e0020-\U000e007f])"
    rf"\p{{DI}}(?:(?<![\u200c\u200d])|(?<![{_JOINED}].)(?![{_JOINED}]))"
)
"""Matches an invisible character; of joiners, only those that are not beside a character of `_JOINED`."""
_OTHER_SPACE = re.compile(r"[^\S \n]")
_SPACES = re.compile(r"[^\S \n][^\S\n]*+| [^\S\n]++")
_SPECIAL = regex.compile(rf"[^\S \n]|{_UNSEEN.pattern}")


GRAPHEME = r"(?:\p{RI}{1,2}|\X)"
"""The pattern of an extended grapheme cluster; it alone would take quadratic time for a sequence of flags."""


def plain(text: str) -> str:
    """Return one or several lines in NFC, without invisible characters, with one space for each run of white space.

    Joiners stay in scripts that write them, where they may distinguish words, and between emoji.
    """
    if not text.isascii():
        text = normalize("NFC", _UNSEEN.sub("", text))
    return _SPACES.sub(" ", text) if "  " in text or _OTHER_SPACE.search(text) else text


def folded(text: str) -> tuple[str, list[int], list[int]]:
    """Return a `plain` text, and where each of its characters begins and ends in the text as given."""
    parts, starts, ends = list[str](), list[int](), list[int]()
    for match in regex.finditer(rf"[^\S\n]+|{GRAPHEME}", text):
        parts.append(plain(match[0]))
        starts += [match.start()] * len(parts[-1])
        ends += [match.end()] * len(parts[-1])
    return "".join(parts), starts, ends


_TESTS: dict[str, Callable[[str], object]] = {
    "letters that are not in the normal form NFC": lambda line: not is_normalized("NFC", line),
    "composed letters": lambda line: is_normalized("NFC", line) and not is_normalized("NFD", line),
    "invisible characters": _UNSEEN.search,
    "unusual white space": _OTHER_SPACE.search,
}
NOT_NFC, COMPOSED, _, OTHER_SPACE = _TESTS


def form_shares(lines: Iterable[str]) -> dict[str, float]:
    """Return the share of lines with each form that distinguishes them from other spellings of the same text; 0 for
    forms of fewer than five lines."""
    lines = [*lines]
    counts = Counter(form for line in lines for form, has_form in _TESTS.items() if has_form(line))
    return {form: counts[form] / len(lines) if counts[form] >= _LEAST_LINES else 0.0 for form in _TESTS}


def unusual_forms(shares: dict[str, float], usual: dict[str, float]) -> list[str]:
    """Return the forms that are far more frequent than usual; composed letters only where most are usually not."""
    forms = [form for form in _TESTS if shares[form] >= max(_LEAST_SHARE, _TIMES.get(form, 4) * usual[form])]
    return [form for form in forms if form != COMPOSED or 0 < usual[NOT_NFC] >= usual[COMPOSED]]


_LEAST_LINES, _LEAST_SHARE = 5, 0.05
_TIMES = {NOT_NFC: 1.5, COMPOSED: 1.5}  # the normal form of a text does not depend on its subject


class Reading:
    """The form in which a vocabulary reads text.

    White space that it does not know is read as a space, an invisible character as nothing, and a letter with marks in
    the canonically equivalent form that the pieces have: composed, decomposed or partly so. A joiner is read as nothing
    beside scripts that do not write joiners. A text that has only known characters is unchanged, except for a sequence
    that is in no piece if the vocabulary has the character that it composes to: an `a` with a combining accent.
    """

    def __init__(self, pieces: Iterable[str], is_known: Callable[[str], bool]) -> None:
        """pieces: the pieces as text. is_known: whether the vocabulary has pieces for a character."""
        self._is_known = cache(is_known)
        pieces = [*pieces]
        # in the order of the pieces, which decides between equally good readings
        characters = dict.fromkeys(piece for piece in pieces if len(piece) == 1 and not piece.isascii())
        spelled = {normalize("NFD", character): character for character in characters}
        inner = {mark for form in spelled for mark in form[1:]}
        used = "\n".join(piece for piece in pieces if piece in characters or not inner.isdisjoint(piece))
        self._composed = {form: character for form, character in spelled.items() if form not in used}
        """Decompositions that are in no piece, and the characters that they compose to."""
        self._composed_from = defaultdict[str, list[tuple[str, str]]](list)
        for form, character in self._composed.items():
            self._composed_from[form[0]].append((form, character))
        unknown = f"[^\x00-\x08\x0a-\x7f{''.join(characters)}]"
        marks = "".join(form[1:] for form in self._composed) or "\n"
        self._suspect = re.compile(f"{unknown}|[{marks}]")
        # at most so many marks that the time for a text with thousands of them is linear
        self._cluster = regex.compile(rf"(?s:.)[\p{{M}}\u1160-\u11ff{marks}]{{1,8}}+|{unknown}")
        self._equivalent = lru_cache(1 << 14)(self._find_equivalent)

    def __call__(self, text: str) -> str:
        """Return a text as it is read."""
        if self._suspect.search(text) is None:
            return text
        return self.canonical(_SPECIAL.sub(lambda match: self._plain(match[0]), text))

    def canonical(self, text: str) -> str:
        """Return a text in the normal form that is read; white space and invisible characters stay."""
        return str(self._cluster.sub(lambda match: self._equivalent(match[0]), text))

    def _plain(self, character: str) -> str:
        if self._is_known(character):
            return character
        return " " if character.isspace() else ""

    def _find_equivalent(self, cluster: str) -> str:
        """Return the canonically equivalent text with the fewest unknown characters; of several, the shortest."""
        decomposed = normalize("NFD", cluster)
        texts = [decomposed]
        for text in texts:
            for start, first in enumerate(text):
                for form, character in self._composed_from.get(first, ()):
                    following = text[start + 1 :]
                    if not {*form[1:]} <= {*following}:
                        continue
                    for mark in form[1:]:
                        following = following.replace(mark, "", 1)
                    composed = text[:start] + character + following
                    if normalize("NFD", composed) == decomposed and composed not in texts:
                        texts.append(composed)
        if len(texts) == 1 and not self._n_unknown(cluster):
            return cluster
        texts.append(normalize("NFC", cluster))
        return min(texts, key=lambda text: (self._n_unknown(text), len(text)))

    def _n_unknown(self, text: str) -> int:
        return sum(not self._is_known(character) for character in text)
