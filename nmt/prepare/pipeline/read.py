"""The stage `read`: the training corpora are divided into parts that are cleaned independently.

Uncompressed aligned files are divided by the offsets of their lines. All other files can only be read from the start
to the end, and are written as files of lines first.
"""

from __future__ import annotations

import codecs
import itertools
import math
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel

from nmt.console import COMPRESSED, Item, Progress
from nmt.data.settings import DataConfig
from nmt.data.sources import AnyTrainSource, TrainFiles
from nmt.errors import DataError
from nmt.files.read import open_regular, reading
from nmt.languages.directions import LanguagePair
from nmt.prepare.inputs import has_verses
from nmt.prepare.pairs import OpenSource, SentencePair, Units, read_scores
from nmt.prepare.pipeline.work import SIDES, Work
from nmt.prepare.sources import check_count, read_part, text_folder
from nmt.tasks.perform import Json
from nmt.text.formats import text_problem
from nmt.text.lines import LINE_BYTES, READ_TWICE, TextPair, read_lines, unequal
from nmt.text.pairing import Place, at_intervals, with_places

_CUT_BYTES = 1 << 24  # searched for line feeds at a time
_READ_BYTES = 1 << 20  # decoded at a time: their lines fit a processor's cache
_SCORES = "scores.npy"
_DOCUMENTS = "documents.npy"
_MOST_TASKS = 64  # per source


def write_sides(folder: Path, sides: Iterable[Sequence[str]]) -> None:
    """Write both sides of the pairs of a part of a corpus, one sentence per line."""
    for side, lines in zip(SIDES, sides, strict=True):
        with (folder / f"text.{side}").open("wb") as file:
            if lines:
                file.write("\n".join(lines).encode())
                file.write(b"\n")


def read_side(folder: Path, side: int) -> list[str]:
    """Read one side of the pairs of a part of a corpus."""
    return (folder / f"text.{side}").read_bytes().decode().split("\n")[:-1]


def read_sides(folder: Path) -> tuple[list[str], list[str]]:
    """Read both sides of the pairs of a part of a corpus."""
    return read_side(folder, 0), read_side(folder, 1)


def read_pairs(folder: Path) -> Iterator[TextPair]:
    """Yield the pairs of a part of a corpus that `write_sides` has written."""
    return zip(*read_sides(folder), strict=True)


class FileRange(BaseModel, frozen=True):
    """Consecutive lines of one file."""

    path: str
    start: int
    """Offset of the first byte."""
    end: int
    """Offset after the last byte."""


class Range(BaseModel, frozen=True):
    """Consecutive pairs of lines of two aligned files."""

    files: list[FileRange]
    """The two sides, and the file of scores if there is one."""
    line: int
    """Number of the first line, from 1."""
    n_lines: int


def cut_aligned(paths: Sequence[Path], n_lines: int) -> list[Range]:
    """Divide aligned, uncompressed files into ranges of `n_lines` lines; the last range may have fewer.

    `paths`: the two sides, and perhaps a file with a score for each pair. Raises DataError if the files have different
    numbers of lines, or cannot be read.
    """
    cuts = [_offsets(path, n_lines) for path in paths]
    total = cuts[0][1]
    for path, (_, n) in zip(paths, cuts, strict=True):
        if n != total:
            raise unequal(paths[0], total, path, n)
    ranges = []
    for i, first in enumerate(range(0, total, n_lines)):
        files = [
            FileRange(path=str(path), start=offsets[i], end=offsets[i + 1])
            for path, (offsets, _) in zip(paths, cuts, strict=True)
        ]
        ranges.append(Range(files=files, line=1 + first, n_lines=min(n_lines, total - first)))
    return ranges


def read_range(part: Range) -> Iterator[TextPair]:
    """Yield the pairs of a range; raises the same errors as `read_aligned`."""
    first, second = (_range_lines(part, file) for file in part.files[:2])
    return zip(first, second, strict=True)


def read_range_scores(part: Range) -> Iterator[float]:
    """Yield the scores of a range that has a file of scores. Raises DataError for a line that is not a number."""
    return read_scores(_range_lines(part, part.files[2]), part.files[2].path, part.line)


def _offsets(path: Path, n_lines: int) -> tuple[list[int], int]:
    """Return the offsets of the lines 1, 1 + n_lines, … and of the end of a file, and its number of lines."""
    offsets = [0]
    n = 0
    size = 0
    end = b"\n"
    with reading(path), open_regular(path, READ_TWICE) as file:
        while block := file.read(_CUT_BYTES):
            feeds = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
            offsets += [size + 1 + int(feed) for feed in feeds[-(n + 1) % n_lines :: n_lines]]
            n += len(feeds)
            size += len(block)
            end = block[-1:]
    if offsets[-1] != size:
        offsets.append(size)
    return offsets, n + (end != b"\n")


def _range_lines(part: Range, file_range: FileRange) -> Iterator[str]:
    return chain.from_iterable(_blocks(part, file_range))


def _blocks(part: Range, file_range: FileRange) -> Iterator[list[str]]:
    """Yield lists of consecutive lines of a range of a file."""
    path = Path(file_range.path)
    number = part.line
    after = part.line + part.n_lines
    with reading(path), open_regular(path, READ_TWICE) as file:
        file.seek(file_range.start)
        while (position := file.tell()) < file_range.end:
            data = file.read(min(_READ_BYTES, file_range.end - position))
            if not data.endswith(b"\n"):
                data += file.readline(LINE_BYTES + 2)
            lines = _decoded(data, number)
            if lines is None:
                break
            number += len(lines)
            if number > after:
                break
            yield lines
    if number != after:
        deque(read_lines(path), 0)  # raises the error with its line
        raise DataError(f"{path}: changed while it was read; prepare it again when it is complete")


def _decoded(data: bytes, number: int) -> list[str] | None:
    """Decode whole lines of a file, starting at line `number`; None if a line is invalid."""
    if len(data) > LINE_BYTES and max(map(len, data.split(b"\n"))) > LINE_BYTES:
        return None
    if number == 1:
        if text_problem(data[: data.find(b"\n") + 1] or data):
            return None
        data = data.removeprefix(codecs.BOM_UTF8)
    try:
        lines = data.decode("utf-8").split("\n")
    except UnicodeDecodeError:
        return None
    if data.endswith(b"\n"):
        lines.pop()
    return [line.removesuffix("\r") for line in lines] if b"\r" in data else lines


class Part(BaseModel, frozen=True):
    """Consecutive pairs of a training corpus."""

    key: str
    """The key of the corpus: `train.0`."""
    corpus: str
    first: int
    """Number of pairs of the corpus before this part."""
    n: int
    lines: Range | str
    """Lines of aligned files, or a folder with the text and perhaps the scores."""
    version: str
    """Identifies the content."""

    def pairs(self) -> Iterator[SentencePair]:
        """Yield the pairs of this part. Raises DataError if they cannot be read."""
        scores: Iterator[float] = itertools.repeat(math.nan)
        documents: Iterator[int] = itertools.repeat(0)
        if isinstance(self.lines, Range):
            pairs = read_range(self.lines)
            if len(self.lines.files) > 2:
                scores = read_range_scores(self.lines)
        else:
            folder = Path(self.lines)
            pairs = read_pairs(folder)
            documents = iter(np.load(folder / _DOCUMENTS).tolist())
            if (folder / _SCORES).exists():
                scores = iter(np.load(folder / _SCORES).tolist())
        for (src, tgt), score, document in zip(pairs, scores, documents, strict=False):
            yield SentencePair(src, tgt, self.corpus, None if math.isnan(score) else score, document)


Skipped: TypeAlias = dict[str, dict[str, int]]
"""For each source, by key, the number of units that are not one pair, by reason."""


@dataclass(frozen=True)
class ReadText:
    """Training corpora that have been read."""

    parts: list[Part]
    skipped: Skipped
    places: dict[str, list[Place]] = field(default_factory=dict)
    """The places of the pairs of a sample in each corpus, by key"""


class _Reading(BaseModel):
    sources: list[AnyTrainSource]
    languages: LanguagePair
    root: Path
    part_pairs: int
    version: str


def training_parts(work: Work, data: DataConfig, sources: Mapping[str, OpenSource]) -> ReadText:
    """Divide training corpora, given by key, into parts.

    Raises DataError, also for a corpus that does not have as many pairs as the config expects.
    """
    root = text_folder(data.root)
    batches = []
    arguments = []
    for key, source in sources.items():
        for batch in _batches(source):
            batches.append((key, batch))
            if not _is_plain(batch[0], root):
                arguments.append(
                    _Reading(
                        sources=batch, languages=data.pair, root=root, part_pairs=work.sizes.part_pairs,
                        version=source.record.model_dump_json(),
                    )
                )  # fmt: skip
    written = iter(work.run_stage("read", "reading", write_lines, arguments))
    parts: list[Part] = []
    counts = dict.fromkeys(sources, 0)
    skipped = {key: Counter[str]() for key in sources}
    for key, batch in batches:
        record = sources[key].record
        lines = list[Range | str]()
        if _is_plain(plain := batch[0], root):
            paths = [root / plain.files[language] for language in data.pair]
            if plain.score:
                paths.append(root / plain.score)
            ranges = cut_aligned(paths, work.sizes.part_pairs)
            lines = [*ranges]
            sizes = [file_range.n_lines for file_range in ranges]
        else:
            done = next(written)
            sizes = done.summary["counts"]
            lines = [str(done.folder / f"{number:05}") for number in range(len(sizes))]
            skipped[key].update(done.summary["skipped"])
        for part_lines, n in zip(lines, sizes, strict=True):
            parts.append(
                Part(
                    key=key,
                    corpus=record.corpus,
                    first=counts[key],
                    n=n,
                    lines=part_lines,
                    version=record.model_dump_json(),
                )
            )
            counts[key] += n
    for key, n in counts.items():
        check_count(data.train_sources[key], n)
    return ReadText(parts, {key: dict(counts) for key, counts in skipped.items()})


def sample_parts(work: Work, sources: Mapping[str, OpenSource], n: int) -> ReadText:
    """Write at most `n` pairs of each training corpus, spread over it, as a part."""
    parts = []
    skipped = {}
    places = {}
    for key, source in sources.items():
        with Progress(f"reading {key}", None, "pairs") as progress:
            chosen = spread(with_places(progress.track(source.pairs())), n)
        places[key] = [place for _, place in chosen]
        folder = work.folder / "sample" / key
        write_part(folder, [pair for pair, _ in chosen])
        parts.append(Part(key=key, corpus=source.record.corpus, first=0, n=len(chosen), lines=str(folder), version=""))
        skipped[key] = dict(source.units.skipped)
    return ReadText(parts, skipped, places)


def spread(items: Iterable[Item], n: int) -> list[Item]:
    """Return at most `n` items at nearly regular intervals, using memory for twice as many."""
    chosen = at_intervals(items, 2 * n)
    return [chosen[i * len(chosen) // n] for i in range(n)] if len(chosen) > n else chosen


def write_lines(folder: Path, task: _Reading) -> Json:
    """Write the pairs of sources as files of lines, with a folder for each part, and return the numbers of pairs."""
    units = Units()
    counts = list[int]()
    pairs = chain.from_iterable(read_part(source, task.languages, task.root, units) for source in task.sources)
    while block := list(islice(pairs, task.part_pairs)):
        write_part(folder / f"{len(counts):05}", block)
        counts.append(len(block))
    return {"counts": counts, "pairs": sum(counts), "skipped": units.skipped}


def write_part(folder: Path, pairs: Sequence[SentencePair]) -> None:
    """Write pairs as files of lines, and their scores if there are any, into a new folder."""
    folder.mkdir(parents=True)
    write_sides(folder, ([pair[side] for pair in pairs] for side in SIDES))
    np.save(folder / _DOCUMENTS, np.array([pair.document for pair in pairs], np.int64))
    scores = scores_of(pairs)
    if scores is not None:
        np.save(folder / _SCORES, scores)


def scores_of(pairs: Sequence[SentencePair]) -> npt.NDArray[np.floating] | None:
    """Return the scores of pairs (N,), NaN where there is none; None if no pair has a score."""
    if all(pair.score is None for pair in pairs):
        return None
    return np.array([math.nan if pair.score is None else pair.score for pair in pairs], np.float64)


def _batches(source: OpenSource) -> list[list[AnyTrainSource]]:
    """Distribute the parts of a source over tasks: a folder may have thousands of small files."""
    size = -(-len(source.parts) // _MOST_TASKS)
    return [list(source.parts[i : i + size]) for i in range(0, len(source.parts), size)]


def _is_plain(part: AnyTrainSource, root: Path) -> TypeGuard[TrainFiles]:
    """Return whether a part consists of aligned files that can be read from any position."""
    if not isinstance(part, TrainFiles) or has_verses(part, root):
        return False
    return not any(name.lower().endswith(COMPRESSED) for name in (*part.files.values(), part.score or ""))
