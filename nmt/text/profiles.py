"""Profiles of languages, by which a text in another language is noticed.

A profile has the most frequent letter trigrams of a text, and the forms of its letters. A check by profiles needs a few
thousand letters. A closely related language, such as Dutch for German, is not detected reliably.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from pydantic import Field

from nmt.console import say
from nmt.errors import DataError
from nmt.files.document import Document, read_document
from nmt.files.write import write_file
from nmt.languages.codes import language_name
from nmt.text.words import UNSPACED

LEAST = 500
"""Number of trigrams that a check of a text needs."""
_MOST = 250  # trigrams of a profile: more would describe the subject rather than the language
_LONGEST_WORD = 40  # letters: longer ones are several words without spaces, or noise
_LEAST_LETTERS = 0.9  # of the characters of a text that is judged: code and tables have fewer
_UNLIKE, _LIKE_OTHER = 0.5, 0.05  # measured by scripts/measure/damage.py: see docs/data.md
# Chinese and the like have words without spaces and many characters: single characters in place of trigrams
_WORDS = re.compile(rf"[{UNSPACED}]|[^\W\d_]+")


def trigrams(lines: Iterable[str]) -> Counter[str]:
    """Count the letter trigrams of the words of lines, including a space before and after each word."""
    words = Counter(word for line in lines for word in _WORDS.findall(line.lower()) if len(word) <= _LONGEST_WORD)
    counts = Counter[str]()
    for word, n in words.items():
        for i in range(len(word)):
            counts[f" {word} "[i : i + 3]] += n
    return counts


Letters: TypeAlias = dict[str, dict[str, str]]
"""By language the usual forms of letters; see `nmt.text.letters.usual_forms`."""


class Profiles(Document):
    """The profiles of the languages of a model."""

    profiles: dict[str, dict[str, float]]
    """The most frequent trigrams of each language, with their shares of all trigrams."""
    letters: Letters = Field({})
    """The forms that the model reads, with `data.clean.repair: [letters]`."""

    @classmethod
    def of(cls, languages: Sequence[str], pairs: Sequence[Sequence[str]]) -> Profiles:
        """Return the profiles of the languages of sample pairs."""
        profiles = {}
        for side, language in enumerate(languages):
            counts = trigrams(pair[side] for pair in pairs)
            most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_MOST]
            profiles[language] = {gram: round(n / counts.total(), 5) for gram, n in most}
        return cls(profiles=profiles)

    def other(self, counts: Counter[str], language: str) -> str | None:
        """Return how a text differs from a language, as in `looks like English, not German`, or None.

        `counts`: the trigrams of the text, at least `LEAST` for a reliable result.
        """
        likeness = {}  # the share of the trigrams in this text, relative to that in the text they were learned from
        for code, shares in self.profiles.items():
            if (learned := sum(shares.values())) > 0:
                likeness[code] = sum(counts[gram] for gram in shares) / max(1, counts.total()) / learned
        if language not in likeness or len(likeness) < 2 or not counts:
            return None
        expected = likeness.pop(language)
        other, most = max(likeness.items(), key=lambda item: item[1])
        if most - expected > _LIKE_OTHER:
            return f"looks like {language_name(other)}, not {language_name(language)}"
        return f"does not look like {language_name(language)}" if 2 * expected - most < _UNLIKE else None

    def save(self, path: Path) -> None:
        """Write the profiles as JSON. Raises OSError."""
        write_file(path, f"{self.model_dump_json()}\n".encode())

    @classmethod
    def load(cls, path: Path) -> Profiles | None:
        """Read profiles that `save` wrote; None if there is no such file. Raises DataError if it is damaged."""
        return read_document(path, cls, DataError) if path.exists() else None


def checked(windows: Iterable[list[str]], profiles: Profiles | None, language: str) -> Iterator[list[str]]:
    """Yield the windows of a text unchanged, and warn if its beginning is not in the language.

    `profiles`: the profiles of the model; None: nothing is checked.
    """
    counts = Counter[str]()
    n_chars = 0
    for window in windows:
        for line in window:
            if profiles is None:
                break
            counts += trigrams([line[:1000]])
            n_chars += len("".join(line[:1000].split()))
            if counts.total() >= LEAST:
                difference = profiles.other(counts, language)
                if difference and counts.total() > _LEAST_LETTERS * n_chars:
                    say(f"warning: the text {difference}; translating it anyway")
                profiles = None
        yield window
