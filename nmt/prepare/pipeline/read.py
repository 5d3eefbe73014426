"""The stage `read`: what the training corpora consist of, as parts that are cleaned independently.

Aligned files that are plain text are cut where they are. All other sources, which can only be read from front to back,
are written as files of lines first.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from pydantic import BaseModel

from nmt.config import DataConfig, Source
from nmt.console import COMPRESSED
from nmt.prepare.pairs import OpenSource, SentencePair
from nmt.prepare.parts import Range, cut_aligned, read_range
from nmt.prepare.pipeline.files import SIDES, read_side, write_side
from nmt.prepare.pipeline.work import Work
from nmt.prepare.sources import open_source, text_folder
from nmt.tasks.task import Done, Json, Task

SCORES = "scores.npy"


class Part(BaseModel):
    """Pairs of a training corpus that follow each other."""

    key: str
    """Of the corpus: `train.0`."""
    corpus: str
    first: int
    """Number of pairs of the corpus before it."""
    lines: Range | str
    """Of aligned files, or a folder with the text and perhaps the scores."""
    version: str
    """Identifies the content."""

    def pairs(self) -> Iterator[SentencePair]:
        """Yield the pairs. Raises DataError."""
        if isinstance(self.lines, Range):
            for src, tgt in read_range(self.lines):
                yield SentencePair(src, tgt, self.corpus)
            return
        folder = Path(self.lines)
        texts = zip(*(read_side(folder, side) for side in SIDES), strict=True)
        scores = np.load(folder / SCORES).tolist() if (folder / SCORES).exists() else itertools.repeat(math.nan)
        for (src, tgt), score in zip(texts, scores, strict=False):
            yield SentencePair(src, tgt, self.corpus, None if math.isnan(score) else score)


class _Arguments(BaseModel):
    source: Source
    languages: tuple[str, str]
    root: str
    part_pairs: int


def training_parts(
    work: Work, data: DataConfig, sources: Sequence[OpenSource]
) -> tuple[list[Part], list[dict[str, int]]]:
    """Return the parts of all training corpora, and what was skipped of each, by reason."""
    root = text_folder(data.root)
    streamed = [i for i, source in enumerate(data.train) if not _is_plain(source)]
    tasks = [
        Task(
            f"read/{i:05}",
            read_source,
            _Arguments(
                source=_pinned(data.train[i], sources[i].record.commit),
                languages=data.languages,
                root=str(root),
                part_pairs=work.sizes.part_pairs,
            ).model_dump(mode="json"),
            version=sources[i].record.model_dump_json(),
        )
        for i in streamed
    ]
    done = dict(zip(streamed, work.stage("read", "reading", tasks, _n_read), strict=True))
    parts: list[Part] = []
    for i, (source, opened) in enumerate(zip(data.train, sources, strict=True)):
        version = opened.record.model_dump_json()
        lines: Sequence[Range | str]
        if i in done:
            n = len(_Summary.model_validate(done[i].summary).counts)
            lines = [str(done[i].folder / f"{k:05}") for k in range(n)]
        else:
            files = source.files or {}
            first, second = (root / files[language] for language in data.languages)
            lines = cut_aligned(first, second, data.languages, work.sizes.part_pairs)
        parts += [
            Part(key=f"train.{i}", corpus=source.label, first=k * work.sizes.part_pairs, lines=each, version=version)
            for k, each in enumerate(lines)
        ]
    skipped = [_skipped(done[i]) if i in done else {} for i in range(len(sources))]
    return parts, skipped


def read_source(folder: Path, arguments: Json) -> Json:
    """Write the pairs of a source as files of lines. Returns the number of pairs of each, and what was skipped."""
    task = _Arguments.model_validate(arguments)
    source = open_source(task.source, task.languages, Path(task.root))
    pairs, counts = source.pairs(), list[int]()
    while block := list(islice(pairs, task.part_pairs)):
        part = folder / f"{len(counts):05}"
        part.mkdir()
        for side in SIDES:
            write_side(part, side, [pair[side] for pair in block])
        if any(pair.score is not None for pair in block):
            scores = [np.nan if pair.score is None else pair.score for pair in block]
            np.save(part / SCORES, np.array(scores, np.float32))
        counts.append(len(block))
    return {"counts": counts, "skipped": source.units.skipped}


class _Summary(BaseModel):
    counts: list[int]
    skipped: dict[str, int]


def _pinned(source: Source, commit: str | None) -> Source:
    """Return a source whose content cannot change any more between now and when it is read."""
    return source if commit is None else source.model_copy(update={"revision": commit})


def _n_read(done: Done) -> int:
    return sum(_Summary.model_validate(done.summary).counts)


def _skipped(done: Done) -> dict[str, int]:
    return _Summary.model_validate(done.summary).skipped


def _is_plain(source: Source) -> bool:
    """Whether a source is aligned files that can be read from anywhere."""
    return source.files is not None and not any(name.lower().endswith(COMPRESSED) for name in source.files.values())
