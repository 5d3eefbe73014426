"""The stage `read`: divides the training corpora into parts that are cleaned independently.

Aligned files that are plain text are cut where they are. All others, which can only be read from front to back, are
written as files of lines first.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeGuard

import numpy as np
from pydantic import BaseModel

from nmt.config import DataConfig
from nmt.config.source import AnyTrainSource, TrainFiles
from nmt.console import COMPRESSED
from nmt.prepare.pairs import OpenSource, SentencePair, Units
from nmt.prepare.parts import Range, cut_aligned, read_range, read_range_scores
from nmt.prepare.pipeline.work import SIDES, Work, read_side, write_side
from nmt.prepare.sources import check_count, read_part, text_folder
from nmt.tasks.perform import Done, Json, Task

_SCORES = "scores.npy"
_MOST_TASKS = 64  # that read a source


class Part(BaseModel, frozen=True):
    """Pairs of a training corpus that follow each other."""

    key: str
    """Of the corpus: `train.0`."""
    corpus: str
    first: int
    """Number of pairs of the corpus before it."""
    n: int
    lines: Range | str
    """Of aligned files, or a folder with the text and perhaps the scores."""
    version: str
    """Identifies the content."""

    def pairs(self) -> Iterator[SentencePair]:
        """Yield the pairs. Raises DataError."""
        scores: Iterator[float] = itertools.repeat(math.nan)
        if isinstance(self.lines, Range):
            pairs = read_range(self.lines)
            if self.lines.scores is not None:
                scores = read_range_scores(self.lines)
        else:
            folder = Path(self.lines)
            src, tgt = (read_side(folder, side) for side in SIDES)
            pairs = zip(src, tgt, strict=True)
            if (folder / _SCORES).exists():
                scores = iter(np.load(folder / _SCORES).tolist())
        for (one, other), score in zip(pairs, scores, strict=False):
            yield SentencePair(one, other, self.corpus, None if math.isnan(score) else score)


class _Arguments(BaseModel):
    parts: list[AnyTrainSource]
    languages: tuple[str, str]
    root: str
    part_pairs: int


class _Summary(BaseModel):
    counts: list[int]
    """Pairs of each folder with text."""
    skipped: dict[str, int]


def training_parts(
    work: Work, data: DataConfig, sources: Mapping[str, OpenSource]
) -> tuple[list[Part], list[dict[str, int]], list[Done]]:
    """Return the parts of training corpora, what was skipped of each, by reason, and the tasks that were done.

    `sources`: by key.

    Raises DataError, also for a corpus that does not have as many pairs as the config expects.
    """
    root = text_folder(data.root)
    tasks: list[Task] = []
    for source in sources.values():
        for batch in _batches(source):
            if not _is_plain(batch[0]):
                arguments = _Arguments(
                    parts=batch, languages=data.languages, root=str(root), part_pairs=work.sizes.part_pairs
                )
                name, version = f"read/{len(tasks):05}", source.record.model_dump_json()
                tasks.append(Task(name, write_lines, arguments.model_dump(mode="json"), version))
    done = work.stage("read", "reading", tasks, lambda each: sum(_Summary.model_validate(each.summary).counts))
    written = iter(done)
    parts: list[Part] = []
    skipped: list[dict[str, int]] = []
    for key, source in sources.items():
        config, units, n = data.train[int(key.removeprefix("train."))], Units(), 0
        for batch in _batches(source):
            own = batch[0]
            lines, counts = (
                _cut(own, data, root, work.sizes.part_pairs) if _is_plain(own) else _written(next(written), units)
            )
            firsts = itertools.accumulate(counts, initial=n)
            parts += [
                Part(
                    key=key, corpus=config.label, first=first, n=count, lines=each,
                    version=source.record.model_dump_json(),
                )
                for each, first, count in zip(lines, firsts, counts, strict=False)
            ]  # fmt: skip
            n += sum(counts)
        check_count(config, n)
        skipped.append(units.skipped)
    return parts, skipped, done


def write_lines(folder: Path, arguments: Json) -> Json:
    """Write the pairs of parts of a source as files of lines, in folders of their own. Returns a `_Summary`."""
    task, units, counts = _Arguments.model_validate(arguments), Units(), list[int]()
    pairs = itertools.chain.from_iterable(
        read_part(part, task.languages, Path(task.root), units) for part in task.parts
    )
    while block := list(islice(pairs, task.part_pairs)):
        write_part(folder / f"{len(counts):05}", block)
        counts.append(len(block))
    return _Summary(counts=counts, skipped=units.skipped).model_dump()


def write_part(folder: Path, pairs: Sequence[SentencePair]) -> None:
    """Write pairs as files of lines, and their scores if there are any, into a new folder."""
    folder.mkdir(parents=True)
    write_side(folder, 0, [pair.src for pair in pairs])
    write_side(folder, 1, [pair.tgt for pair in pairs])
    if any(pair.score is not None for pair in pairs):
        scores = [math.nan if pair.score is None else pair.score for pair in pairs]
        np.save(folder / _SCORES, np.array(scores, np.float64))


def _batches(source: OpenSource) -> list[list[AnyTrainSource]]:
    """Return the parts of a source by the tasks that read them: a folder may have thousands of small files."""
    size = -(-len(source.parts) // _MOST_TASKS)
    return [list(source.parts[i : i + size]) for i in range(0, len(source.parts), size)]


def _is_plain(part: AnyTrainSource) -> TypeGuard[TrainFiles]:
    """Whether a part is aligned files that can be read from anywhere."""
    if not isinstance(part, TrainFiles):
        return False
    return not any(name.lower().endswith(COMPRESSED) for name in (*part.files.values(), part.score or ""))


def _cut(part: TrainFiles, data: DataConfig, root: Path, n: int) -> tuple[list[Range], list[int]]:
    """Return ranges of at most `n` lines of aligned files, and how many lines they have."""
    first, second = (root / part.files[language] for language in data.languages)
    scores = None if part.score is None else root / part.score
    ranges = cut_aligned(first, second, n, scores)
    return ranges, [each.n_lines for each in ranges]


def _written(done: Done, units: Units) -> tuple[list[str], list[int]]:
    """Return the folders that a task has written, and how many pairs they have; count what it skipped."""
    summary = _Summary.model_validate(done.summary)
    for reason, n in summary.skipped.items():
        units.skipped[reason] = units.skipped.get(reason, 0) + n
    return [str(done.folder / f"{number:05}") for number in range(len(summary.counts))], summary.counts
