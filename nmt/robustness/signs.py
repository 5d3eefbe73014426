"""Signs that a translation went wrong, which a score over all lines hides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from nmt.evaluate.metrics import default_tokenizer

N_GRAM = 4
MORE_OFTEN = 2
"""How many times more an n-gram occurs in a translation than any does in the source, if it counts as repeated."""
LENGTH = 2.0
"""A translation with so many times the characters of its reference is too long, and the other way round too short."""


@dataclass(frozen=True)
class Signs:
    """Numbers of translations."""

    empty: int
    copied: int
    """They are their source, and the reference is not."""
    repeated: int
    """An n-gram (4 words) occurs at least 2 times more than any does in the source: the sign of oscillating output
    of Raunak et al., 2021, arXiv:2104.06683. Characters take the place of words in scripts without spaces."""
    length: int
    """They have more than twice as many characters as their reference, or less than half as many."""


def count_signs(
    sources: Sequence[str], translations: Sequence[str], references: Sequence[str], languages: tuple[str, str]
) -> Signs:
    """Count the signs; `languages` of source and target. A blank source or reference has none."""
    found: Counter[str] = Counter()
    for source, translation, reference in zip(sources, translations, references, strict=True):
        source, translation, reference = source.strip(), translation.strip(), reference.strip()
        if not (source and reference):
            continue
        if not translation:
            found["empty"] += 1
            continue
        ratio = len(translation) / len(reference)
        found["copied"] += translation == source != reference
        found["repeated"] += _most_often(translation, languages[1]) >= _most_often(source, languages[0]) + MORE_OFTEN
        found["length"] += not 1 / LENGTH <= ratio <= LENGTH
    return Signs(found["empty"], found["copied"], found["repeated"], found["length"])


def _most_often(text: str, language: str) -> int:
    """Return how often the most frequent n-gram occurs; 1 if there is none."""
    words = text.split() if default_tokenizer(language) == "13a" else [*text.replace(" ", "")]
    counts = Counter(zip(*(words[i:] for i in range(N_GRAM)), strict=False))
    return max(counts.values(), default=1)
