"""Small profiles of languages: the most frequent letter trigrams of a text, by which another text is judged.

A few thousand letters are needed for a judgement. A language that resembles the profiled one closely, such as Dutch
beside German, is not reliably found.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from pydantic import BaseModel, Field

from nmt.console import say
from nmt.errors import DataError
from nmt.files.document import Document, read_document
from nmt.files.write import write_file
from nmt.text.language_names import language_name

LEAST = 500
"""Trigrams that a judgement of a text needs."""
_MOST = 250  # trigrams of a profile: more would describe the subject rather than the language
_MOST_CHARS = 1000  # of a line
_UNLIKE, _LIKE_OTHER = 0.5, 0.05  # measured by scripts/measure/damage.py: see docs/data.md
# Chinese and the like have words without spaces and many characters: single characters in place of trigrams
_WORDS = re.compile("[\u0e00-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]|[^\\W\\d_]+")


def trigrams(lines: Iterable[str]) -> Counter[str]:
    """Count the trigrams of the words of lines, spaces around words included; digits and marks do not count."""
    words = Counter(word for line in lines for word in _WORDS.findall(line.lower()))
    counts = Counter[str]()
    for word, n in words.items():
        for i in range(len(word)):
            counts[f" {word} "[i : i + 3]] += n
    return counts


class Profile(BaseModel):
    """What a language looks like."""

    trigrams: tuple[str, ...]
    share: float = Field(gt=0.0)
    """How much of the text that it was made of these trigrams make up."""

    def likeness(self, counts: Counter[str]) -> float:
        """Return how much these trigrams make up of a text, relative to `share`."""
        return sum(counts[gram] for gram in self.trigrams) / counts.total() / self.share


class Profiles(Document):
    """The profiles of both languages of a model."""

    profiles: dict[str, Profile]
    """By language."""

    @classmethod
    def of(cls, counts: Mapping[str, Counter[str]]) -> Profiles:
        """Return the profiles of texts with these trigrams, by language."""
        most = {language: sorted(own, key=lambda gram: (-own[gram], gram))[:_MOST] for language, own in counts.items()}
        return cls(
            profiles={
                language: Profile(
                    trigrams=tuple(grams),
                    share=sum(counts[language][gram] for gram in grams) / counts[language].total(),
                )
                for language, grams in most.items()
                if grams
            }
        )

    def other(self, counts: Counter[str], language: str) -> str | None:
        """Return how a text is unlike a language: `looks like English, not German`; None if it is not clearly unlike.

        counts: the trigrams of the text; with few of them a judgement is not reliable, see `LEAST`.
        """
        if language not in self.profiles or len(self.profiles) < 2 or not counts:
            return None
        like = {code: profile.likeness(counts) for code, profile in self.profiles.items()}
        own = like.pop(language)
        [(code, others)] = like.items()
        if others - own > _LIKE_OTHER:
            return f"looks like {language_name(code)}, not {language_name(language)}"
        return f"does not look like {language_name(language)}" if 2 * own - others < _UNLIKE else None

    def save(self, path: Path) -> None:
        """Write the profiles as JSON. Raises OSError."""
        write_file(path, f"{self.model_dump_json()}\n".encode())

    @classmethod
    def load(cls, path: Path) -> Profiles | None:
        """Read what `save` wrote; None if there is no such file. Raises DataError if it is damaged."""
        with suppress(FileNotFoundError):
            return read_document(path, cls, DataError)
        return None


class LanguageCheck:
    """Judges the language of a text by its beginning, which may come in pieces."""

    def __init__(self, profiles: Profiles | None, language: str) -> None:
        """`profiles`: None if there are none; nothing is found then."""
        self._profiles, self._language, self._counts = profiles, language, Counter[str]()

    def warn(self, lines: Sequence[str]) -> None:
        """Add lines; warn if the text is unlike the language, once, as soon as that can be judged."""
        for line in lines:
            if self._profiles is None:
                return
            self._counts += trigrams([line[:_MOST_CHARS]])
            if self._counts.total() >= LEAST:
                if found := self._profiles.other(self._counts, self._language):
                    say(f"warning: the text {found}; it is translated all the same")
                self._profiles = None
