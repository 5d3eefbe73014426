"""Characters that look or sound the same however they are encoded: white space, invisible characters, normal forms.

Text comes with no-break spaces from web pages, soft hyphens from PDF files, and combining marks from macOS. `plain`
removes such differences, for comparisons. A `Reading` removes only those that a vocabulary does not know: a French
model that has learned no-break spaces keeps them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from typing import NamedTuple
from unicodedata import is_normalized, normalize

import regex

from nmt.languages.codes import character_class

INVISIBLE = (
    "\u00ad\u034f\u061c\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""The default ignorable characters of Unicode, as the content of a character class, without joiners, which some scripts
need, and the fillers that stand for a missing part of a Hangul syllable."""
OTHER_SPACE = r"[^\S \n]"
"""A pattern of white space other than a space and a line feed."""
_CONJUNCT = character_class([
    "Bali", "Beng", "Cakm", "Deva", "Gran", "Gujr", "Guru", "Java", "Khmr", "Knda", "Limb",
    "Mlym", "Mtei", "Mymr", "Newa", "Orya", "Saur", "Sinh", "Sylo", "Taml", "Telu", "Tirh",
])  # fmt: skip  # scripts in which a joiner makes another word: र्‍य, र्य
_CURSIVE = character_class(["Adlm", "Arab", "Mand", "Mong", "Nkoo", "Phag", "Rohg", "Syrc"])  # write joiners, too
_MARKS = 8
_EMOJI = "\u2190-\u2bff\ufe0f\U0001f000-\U0001faff"


def _unseen(scripts: str) -> str:
    """Return a pattern of an invisible character; of joiners (ZWJ, ZWNJ), only those that are not beside a character of
    a class."""
    return f"[{INVISIBLE}\u200c\u200d](?:(?<=[{INVISIBLE}])|(?<![{scripts}].)(?![{scripts}]))"


_UNSEEN = re.compile(_unseen(_CONJUNCT + _EMOJI))
_OTHER_SPACE = re.compile(OTHER_SPACE)
_SPACES = re.compile(rf"{OTHER_SPACE}[^\S\n]*+| [^\S\n]++")


def plain(text: str) -> str:
    """Return one or several lines in NFC, without invisible characters, with one space for each run of white space.

    Joiners stay in Indic scripts, where they distinguish words, and between emoji.
    """
    return bare(text if text.isascii() else normalize("NFC", text))


def bare(text: str) -> str:
    """Return a text in NFC as `plain` does."""
    if not text.isascii():
        seen, n = _UNSEEN.subn("", text)
        text = normalize("NFC", seen) if n else text
    return _SPACES.sub(" ", text) if "  " in text or _OTHER_SPACE.search(text) else text


class Folded(NamedTuple):
    """A `plain` text with the place of each of its characters in the text as given."""

    text: str
    starts: list[int]
    ends: list[int]

    @classmethod
    def of(cls, text: str) -> Folded:
        """Return a folded text."""
        folded = plain(text)
        if folded == text:
            places = range(len(text) + 1)
            return cls(text, [*places[:-1]], [*places[1:]])
        parts, starts, ends = list[str](), list[int](), list[int]()
        for match in regex.finditer(r"[^\S\n]+|\X", text):
            part = plain(match[0])
            parts.append(part)
            starts += [match.start()] * len(part)
            ends += [match.end()] * len(part)
        return cls("".join(parts), starts, ends)


@dataclass(frozen=True)
class FormCounts:
    """Counts of lines by what distinguishes them from `plain` text."""

    lines: int
    composed: int
    """Lines that are not in NFD, as those with an é of one character."""
    decomposed: int
    """Lines that are not in NFC."""
    invisible: int
    spaces: int
    """Lines with white space other than a space."""

    @classmethod
    def of(cls, lines: Iterable[str]) -> FormCounts:
        """Return the counts of lines."""
        counts = [0] * 5
        for line in lines:
            counts[0] += 1
            if not line.isascii():
                counts[1] += not is_normalized("NFD", line)
                counts[2] += not is_normalized("NFC", line)
                counts[3] += _UNSEEN.search(line) is not None
            counts[4] += _OTHER_SPACE.search(line) is not None
        return cls(*counts)

    def differing(self, usual: FormCounts) -> Iterator[tuple[str, float, float]]:
        """Yield the forms that are far more, or for the normal form also far less, frequent than usual: their name, and
        the share of lines here and usually."""
        shares = self.decomposed / max(self._n_letters, 1), usual.decomposed / max(usual._n_letters, 1)
        if self._n_letters >= _LEAST and abs(shares[0] - shares[1]) >= _MOST_OTHER_FORM:
            yield "normal form", *shares
        for name, n, n_usual in (
            ("invisible characters", self.invisible, usual.invisible),
            ("other white space", self.spaces, usual.spaces),
        ):
            shares = n / max(self.lines, 1), n_usual / max(usual.lines, 1)
            if n >= _LEAST and shares[0] >= max(_LEAST_SHARE, _TIMES * shares[1]):
                yield name, *shares

    @property
    def _n_letters(self) -> int:
        return self.composed + self.decomposed


_LEAST = 5  # lines
_MOST_OTHER_FORM = 0.25
_LEAST_SHARE, _TIMES = 0.05, 4


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
        self._composites: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        """By their first character, canonical decompositions and the characters of the vocabulary that they compose to.
        """
        characters = {piece for piece in pieces if len(piece) == 1 and not piece.isascii()}
        decomposed = {form: character for character in characters if (form := normalize("NFD", character)) != character}
        inner = {mark for form in decomposed for mark in form[1:]}
        used = "\n".join(piece for piece in pieces if not inner.isdisjoint(piece))
        pairs = set[tuple[str, str]]()
        for form, character in decomposed.items():
            if form not in used and form not in characters:
                self._composites[form[0]].append((form, character))
                pairs |= {*pairwise(form)}
        first = _class_of({before for before, _ in pairs})
        second = _class_of({after for _, after in pairs})
        unknown = f"[^\\x00-\\x08\\x0a-\\x7f{_class_of(characters)}]"
        pair = f"[{first}](?=[^\\x00-\\x7f]{{0,2}}[{second}])" if pairs else "(?!)"  # marks may be in another order
        self._suspect = re.compile(f"{unknown}|{pair}")
        # at most so many marks that the time for a text with thousands of them is linear
        self._cluster = regex.compile(rf"(?:{unknown}|{pair})[\p{{M}}{second}]{{0,{_MARKS}}}+")
        self._equivalent = lru_cache(1 << 14)(self._find_equivalent)

    def __call__(self, text: str) -> str:
        """Return a text as it is read."""
        if not self.has_unknown(text):
            return text
        return self.canonical(_SPECIAL.sub(lambda match: self._plain(match[0]), text))

    def has_unknown(self, text: str) -> bool:
        """Return whether a text has characters that the vocabulary may not know."""
        return self._suspect.search(text) is not None

    def canonical(self, text: str) -> str:
        """Return a text in the normal form that is read; white space and invisible characters stay."""
        return self._cluster.sub(lambda match: self._equivalent(match[0]), text)

    def _plain(self, character: str) -> str:
        if self._is_known(character):
            return character
        return " " if character.isspace() else ""

    def _find_equivalent(self, cluster: str) -> str:
        """Return the canonically equivalent text with the fewest unknown characters."""
        decomposed = normalize("NFD", cluster)
        texts = [decomposed]
        for text in texts:
            for start, first in enumerate(text):
                for form, character in self._composites.get(first, ()):
                    following = text[start + 1 :]
                    for mark in form[1:]:
                        following = following.replace(mark, "", 1)
                    composed = text[:start] + character + following
                    if normalize("NFD", composed) == decomposed and composed not in texts:
                        texts.append(composed)
        best = min(texts, key=lambda text: (self._n_unknown(text), len(text)))
        return best if self._n_unknown(best) < max(self._n_unknown(cluster), 1) else cluster

    def _n_unknown(self, text: str) -> int:
        return sum(not self._is_known(character) for character in text)


_SPECIAL = re.compile(f"{OTHER_SPACE}|{_unseen(_CONJUNCT + _CURSIVE + _EMOJI)}")


def _class_of(characters: Iterable[str]) -> str:
    """Return the content of a character class."""
    return "".join(f"\\U{ord(character):08x}" for character in sorted(characters))
