"""Labelled texts from local corpora: NAME.txt and NAME.label for train, valid and test.

domains   English sentences; the label is their corpus
pairs     a German line, a mark, and an English line; the label says whether the lines translate each other
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from nmt.errors import DataError
from scripts.bench.text import write_lines

DOMAINS = ("ding", "europarl", "libreoffice", "multi30k", "tatoeba", "wesnoth")
"""Corpora that are written alike, cased and not tokenized."""
SIZES = {"train": 1000, "valid": 200, "test": 300}
"""Sentences of each corpus; of pairs six times as many."""
MARK = "§"
"""Between the two lines of a pair: Keras takes it for a word, too."""
PAIRS_OF = "multi30k"

Example = tuple[str, str]
"""Text and label."""


def read(data: Path, corpus: str, language: str = "en") -> list[str]:
    """Return the lines of a corpus, without blanks at their ends. Raises DataError."""
    file = data / corpus / f"train.{language}"
    if not file.is_file():
        raise DataError(f"{file} is missing; give --data, a folder with {', '.join(DOMAINS)} and in each train.en")
    return [line.strip() for line in file.read_text(encoding="utf-8").split("\n")]


def domains(data: Path) -> dict[str, list[Example]]:
    """Return the examples of each split; no text is twice, whatever its case."""
    seen: set[str] = set()
    found: dict[str, list[Example]] = {split: [] for split in SIZES}
    for corpus in DOMAINS:
        lines = [line for line in read(data, corpus) if line]
        random.Random(corpus).shuffle(lines)
        fresh = new(lines, seen)
        for split, n in SIZES.items():
            chosen = list(islice(fresh, n))
            if len(chosen) < n:
                raise DataError(f"{data / corpus}: {sum(SIZES.values()):,} different lines are needed, found fewer")
            found[split] += [(line, corpus) for line in chosen]
    return found


def new(lines: list[str], seen: set[str]) -> Iterator[str]:
    """Yield lines that were not seen before."""
    for line in lines:
        if line.lower() not in seen:
            seen.add(line.lower())
            yield line


def pairs(data: Path) -> dict[str, list[Example]]:
    """Return the examples of each split; among half of its pairs, English lines go round by one pair."""
    lines = [pair for pair in zip(read(data, PAIRS_OF, "de"), read(data, PAIRS_OF), strict=True) if all(pair)]
    random.Random(PAIRS_OF).shuffle(lines)
    found: dict[str, list[Example]] = {}
    for split, n in SIZES.items():
        own, lines = lines[: n * len(DOMAINS)], lines[n * len(DOMAINS) :]
        wrong, good = own[: len(own) // 2], own[len(own) // 2 :]
        others = [english for _, english in wrong]
        found[split] = [(f"{german} {MARK} {english}", "good") for german, english in good]
        found[split] += [
            (f"{german} {MARK} {english}", "wrong")
            for (german, _), english in zip(wrong, [*others[1:], *others[:1]], strict=True)
        ]
    return found


TASKS = {"domains": domains, "pairs": pairs}


def write_task(task: str, data: Path, folder: Path) -> None:
    """Write the files of a task. Raises DataError."""
    for split, examples in TASKS[task](data).items():
        random.Random(split).shuffle(examples)
        write_lines(folder / f"{split}.txt", [text for text, _ in examples])
        write_lines(folder / f"{split}.label", [label for _, label in examples])
