"""Words and clusters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import regex

from nmt.languages.codes import character_class, scripts
from nmt.text.reading import GRAPHEME

LETTERWISE = r"\ufe10-\ufe19\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6" + character_class(
    {script.code for script in scripts().values() if script.is_unspaced} - {"Tibt"}
)
"""Characters of scripts whose words nothing separates, and full-width forms, as the content of a character class. A
mark separates the syllables of Tibetan."""
UNSPACED = LETTERWISE + character_class(["Tibt"])
"""Characters of scripts without spaces between words, and full-width forms."""

# beyond \X: vowels before their consonant; marks that take space; vowels after it; consonants below it; and consonants
# without a vowel, such as the last one of a Burmese syllable
CLUSTER = regex.compile(
    rf"(?:\p{{Logical_Order_Exception}}(?=\p{{L}}))*+{GRAPHEME}"
    r"(?:\p{M}"
    r"|(?<=[\p{L}\p{M}])(?!\p{Logical_Order_Exception})\p{InSC=Vowel_Dependent}"
    r"|(?<=[\p{InSC=Virama}\p{InSC=Invisible_Stacker}]\u200d?|[\p{L}\p{M}]\u200d)(?=\p{Lo})\X"
    r"|(?<=[\p{L}\p{M}])\p{Lo}\p{M}?[\p{InSC=Pure_Killer}\p{InSC=Consonant_Killer}])*+"
)
"""A pattern of a cluster, which readers take for one character: an extended grapheme cluster of Unicode or, in some
scripts, several, such as a consonant with the vowels on all sides of it."""
_UNIT = regex.compile(
    rf"[[\p{{L}}\p{{M}}\p{{N}}_\u200c\u200d]--[{LETTERWISE}]]++\p{{M}}*+|[[{LETTERWISE}]&&\p{{Nd}}]++|{CLUSTER.pattern}",
    regex.V1,
)
# `re` is several times as fast for text in which clusters are characters with their marks, and all letters belong to
# scripts with spaces: without line ends, signs that enclose digits, joiners of emoji, and all of the higher planes
_SIMPLE = re.compile(rf"[^\r{LETTERWISE}\u0600-\u0605\u06dd\u070f\u0890-\u0891\u08e2\u200d\U00010000-\U0010ffff]*+")
_MARKS = "".join(regex.findall(r"\p{M}", "".join(map(chr, range(1 << 16)))))
_SIMPLE_WORD = re.compile(rf"[\w{_MARKS}\u200c]+|\S[{_MARKS}]*")
_SIMPLE_UNIT = re.compile(rf"{_SIMPLE_WORD.pattern}|\s[{_MARKS}]*")


def units(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each unit of a text: a word, or a cluster outside words.

    A word is a sequence of letters, digits and underscores with their marks. In scripts without spaces, each number and
    each other cluster is a unit.
    """
    unit = _SIMPLE_UNIT if _SIMPLE.fullmatch(text) else _UNIT
    return (match.span() for match in unit.finditer(text))


def words(text: str) -> list[str]:
    """Return the units of a text except white space."""
    if _SIMPLE.fullmatch(text):
        return _SIMPLE_WORD.findall(text)
    return [unit for unit in _UNIT.findall(text) if not unit.isspace()]


def shortened(text: str, first: int, last: int, ellipsis: str) -> str:
    """Return the first and the last clusters of a text, or all if they are not more."""
    clusters = CLUSTER.findall(text)
    if len(clusters) <= first + last:
        return text
    return "".join([*clusters[:first], ellipsis, *clusters[-last:]])


def beginning(text: str, most: int) -> str:
    """Return the beginning of a text, at most `most` characters; it ends between two clusters if possible."""
    ends = (cluster.end() for cluster in CLUSTER.finditer(text[: most + 1]))
    return text[: max((end for end in ends if end <= most), default=most)]


def replaced(text: str, new: Mapping[tuple[int, int], str]) -> str:
    """Replace parts of a text, which do not overlap, by other texts."""
    parts = list[str]()
    position = 0
    for (start, end), other in sorted(new.items()):
        parts += text[position:start], other
        position = end
    return "".join([*parts, text[position:]])
