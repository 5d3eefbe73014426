"""A training text, seen from a test set: how frequent the words are in it, and which of the lines it holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from nmt.compare.page.words import find_words
from nmt.data.corpus import read_manifest
from nmt.data.manifest import Manifest
from nmt.errors import DataError
from nmt.files.read import open_regular
from nmt.layout import DataDir

MOST_LINES = 10_000_000
"""Lines of the training text that are compared with those of the test set."""
MOST_COUNTED = 300_000
"""Lines whose words are counted."""
FREQUENCIES = (0, 1, 4, 19, 99, 999)
"""The last frequency of each class of words but the last class."""


@dataclass(frozen=True)
class TrainingText:
    """A training text, seen from a test set."""

    directory: DataDir
    n_lines: int
    """Of it, those that were compared with the test set."""
    all_lines: int
    n_counted: int
    """Of it, those whose words were counted."""
    frequencies: Counter[str]
    """How often the words of the references occur."""
    seen: tuple[frozenset[int], frozenset[int]]
    """The numbers of the lines whose source, and whose reference, is a line of the training text."""


def read_training_text(
    directory: DataDir, languages: tuple[str, str], sides: tuple[Sequence[str], Sequence[str]], words: Collection[str]
) -> TrainingText:
    """Read the training text of a data directory, in full or, of a very large one, the first lines.

    Args:
        languages: source and target.
        sides: the test set's sources and references.
        words: what is counted on the target side.

    Raises DataError if the text is missing or damaged, or in other languages.
    """
    manifest = read_manifest(directory)
    if "train" not in manifest.splits or {*manifest.languages} != {*languages}:
        raise DataError(f"{directory.path}: holds no training text in {' and '.join(languages)}")
    all_lines = sum(n for _, n in _files(manifest))
    every = -(-min(all_lines, MOST_LINES) // MOST_COUNTED)
    frequencies: Counter[str] = Counter()
    seen, n_lines = [], 0
    for language, own in zip(languages, sides, strict=True):
        wanted = {line.encode(): False for line in own if line}
        n_lines = 0
        for line in _lines(directory, manifest, language):
            if line in wanted:
                wanted[line] = True
            if language == languages[1] and n_lines % every == 0:
                frequencies.update(filter(words.__contains__, find_words(line.decode(errors="replace"))))
            n_lines += 1
        seen.append(frozenset(number for number, line in enumerate(own) if wanted.get(line.encode())))
    return TrainingText(directory, n_lines, all_lines, -(-n_lines // every), frequencies, (seen[0], seen[1]))


def _files(manifest: Manifest) -> Iterator[tuple[str, int]]:
    """Yield the names and sizes of the parts of the training set."""
    train = manifest.splits["train"]
    if train.shards is None:
        yield "train", train.pairs
    else:
        yield from ((shard.name, shard.pairs) for shard in train.shards)


def _lines(directory: DataDir, manifest: Manifest, language: str) -> Iterator[bytes]:
    """Yield the first lines of the training text."""
    left = MOST_LINES
    for name, _ in _files(manifest):
        path = directory.text(name, language)
        try:
            with open_regular(path) as file:
                for line in file:
                    if left == 0:
                        return
                    left -= 1
                    yield line.removesuffix(b"\n")
        except OSError as error:
            raise DataError(f"{path}: {error.strerror}") from error


@dataclass(frozen=True)
class WordClass:
    """The words of the references that occur in the training text about as often."""

    name: str
    n: int
    """Occurrences in the references."""
    n_found: list[int]
    """By system: how many of them are in its translation of the line."""


def by_frequency(
    training: TrainingText, references: Sequence[Sequence[str]], systems: Sequence[Sequence[Sequence[str]]]
) -> list[WordClass]:
    """Count the words of the references that the systems' translations of their lines have.

    references: the words of each line; systems: the same of each system's translations.
    """
    n = [0] * (len(FREQUENCIES) + 1)
    n_found = [[0] * len(systems) for _ in n]
    for number, reference in enumerate(references):
        translated = [Counter(system[number]) for system in systems]
        for word, times in Counter(reference).items():
            frequency = training.frequencies[word]
            place = sum(frequency > most for most in FREQUENCIES)
            n[place] += times
            for system, counter in enumerate(translated):
                n_found[place][system] += min(times, counter[word])
    lows = [0, *(most + 1 for most in FREQUENCIES)]
    names = [f"{low:,}–{high:,}" if low < high else f"{low:,}" for low, high in zip(lows, FREQUENCIES, strict=False)]
    names.append(f"{lows[-1]:,} and more")
    return [WordClass(*row) for row in zip(names, n, n_found, strict=True) if row[1]]
