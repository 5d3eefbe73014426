"""The words of Keras's IMDB classifier: lower case, no punctuation, numbered by frequency."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

PADDING, START, UNKNOWN = 0, 1, 2
FIRST = 3
"""Number of the most frequent word."""
_FILTERED = str.maketrans(dict.fromkeys('!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t', " "))


def words_of(line: str) -> list[str]:
    """Return the words of a line."""
    return line.lower().translate(_FILTERED).split()


def numbers_of(lines: Iterable[str], size: int) -> dict[str, int]:
    """Return the numbers of the most frequent words, `size` with those that stand for no word."""
    counts = Counter(word for line in lines for word in words_of(line))
    return {word: number for number, (word, _) in enumerate(counts.most_common(size - FIRST), FIRST)}


def encode(line: str, numbers: dict[str, int], longest: int) -> list[int]:
    """Return START and the numbers of the words, of which the last `longest` are kept."""
    return [START, *(numbers.get(word, UNKNOWN) for word in words_of(line))][-longest:]


def padded(rows: Sequence[list[int]], length: int) -> list[list[int]]:
    """Fill up rows in front, as Keras does."""
    return [[PADDING] * (length - len(row)) + row for row in rows]


def read(folder: Path, split: str) -> tuple[list[str], list[str]]:
    """Return texts and labels of SPLIT.txt and SPLIT.label."""
    text, label = (
        (folder / f"{split}.{ending}").read_text(encoding="utf-8").split("\n")[:-1] for ending in ("txt", "label")
    )
    return text, label
