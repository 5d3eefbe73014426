"""Counts of the pairs that cleaning reads, keeps and drops. Those of the parts of a corpus add up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter

from nmt.errors import DataError
from nmt.prepare.cleaning.lengths import Lengths
from nmt.prepare.cleaning.reasons import HINTS, REASONS, counted
from nmt.tasks.task import Json

_N_SAMPLES = 3
_SAMPLE_CHARS = 120
_N_KEPT_SAMPLES = 10
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # Fibonacci hashing: 2^64 over the golden ratio


@dataclass
class CleanReport:
    """Counts of pairs: read, kept, dropped for each reason and repaired, with a few of the latter two as samples, and
    what is known of the text that was read and of the text that is kept."""

    read: int = 0
    kept: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    samples: dict[str, list[tuple[int, str, str]]] = field(default_factory=dict)
    repaired: dict[str, int] = field(default_factory=dict)
    """Pairs by kind of repair, also of those that were dropped after it."""
    repaired_samples: dict[str, list[tuple[int, str, str]]] = field(default_factory=dict)
    """A few of their sides from where they differ, with the line number: before and after."""
    mix: dict[str, dict[str, int]] = field(default_factory=dict)
    """By language of a side, the number of lines by the language that they were identified as, of those that were not
    dropped before; empty if none were."""
    read_lengths: Lengths = field(default_factory=Lengths)
    kept_lengths: Lengths = field(default_factory=Lengths)
    kept_samples: list[tuple[int, int, str, str]] = field(default_factory=list)
    """A few of the pairs kept, spread over the corpus: those whose line numbers have the smallest hashes. Each is that
    hash, the line number and the two sides."""

    def drop(self, reason: str, line: int, src: str, tgt: str) -> None:
        """Count a dropped pair, and keep the first few as samples; `line` is its line number, from 1."""
        self.dropped[reason] = self.dropped.get(reason, 0) + 1
        _add_sample(self.samples, reason, (line, src, tgt))

    def repair(self, kind: str, line: int, before: str, after: str) -> None:
        """Count a pair with a side that was repaired, and keep the first few sides as samples."""
        self.repaired[kind] = self.repaired.get(kind, 0) + 1
        same = next((i for i, (old, new) in enumerate(zip(before, after, strict=False)) if old != new), 0)
        start = max(0, same - _SAMPLE_CHARS // 3)
        _add_sample(self.repaired_samples, kind, (line, before[start:], after[start:]))

    def keep(self, lines: npt.NDArray[np.int64], src: Sequence[str], tgt: Sequence[str]) -> None:
        """Add pairs (N,) that are left to the histograms, and perhaps to the samples; `kept` does not change. `lines`
        (N,): their line numbers, from 1."""
        self.kept_lengths.count_all(src, tgt)
        hashes = lines.astype(np.uint64) * _GOLDEN
        n = min(len(lines), _N_KEPT_SAMPLES)
        for i in np.argpartition(hashes, n - 1)[:n].tolist() if n else ():
            sample = (int(hashes[i]), int(lines[i]), src[i][:_SAMPLE_CHARS], tgt[i][:_SAMPLE_CHARS])
            self.kept_samples.append(sample)
        self.kept_samples = sorted(self.kept_samples)[:_N_KEPT_SAMPLES]

    def add(self, other: CleanReport) -> None:
        """Add the counts of the part of the corpus that follows this one."""
        self.read += other.read
        self.kept += other.kept
        _add_counts(self.dropped, other.dropped)
        _add_counts(self.repaired, other.repaired)
        for own, others in ((self.samples, other.samples), (self.repaired_samples, other.repaired_samples)):
            for kind, samples in others.items():
                for sample in samples:
                    _add_sample(own, kind, sample)
        for side, counts in other.mix.items():
            _add_counts(self.mix.setdefault(side, {}), counts)
        self.read_lengths.add(other.read_lengths)
        self.kept_lengths.add(other.kept_lengths)
        self.kept_samples = sorted(self.kept_samples + other.kept_samples)[:_N_KEPT_SAMPLES]

    def shift(self, n: int) -> None:
        """Add `n`, the number of pairs of the corpus before this part, to the line numbers."""
        self.renumber(lambda line: line + n)

    def renumber(self, number: Callable[[int], int]) -> None:
        """Replace the line numbers of all samples."""
        for own in (self.samples, self.repaired_samples):
            for kind, samples in own.items():
                own[kind] = [(number(line), first, second) for line, first, second in samples]
        self.kept_samples = [(value, number(line), src, tgt) for value, line, src, tgt in self.kept_samples]

    def to_json(self) -> Json:
        """Return plain values."""
        self.read_lengths.flush()
        self.kept_lengths.flush()
        return asdict(self)

    @classmethod
    def from_json(cls, values: Json) -> CleanReport:
        """Return the report of which these are the plain values."""
        return _REPORT.validate_python(values)

    @property
    def dropped_in_order(self) -> dict[str, int]:
        """`dropped`, reasons in the order in which they are tried."""
        return {reason: self.dropped[reason] for reason in REASONS if reason in self.dropped}


_REPORT = TypeAdapter(CleanReport)
_Samples = dict[str, list[tuple[int, str, str]]]


def _add_counts(counts: dict[str, int], others: Mapping[str, int]) -> None:
    for kind, n in others.items():
        counts[kind] = counts.get(kind, 0) + n


def _add_sample(samples: _Samples, kind: str, sample: tuple[int, str, str]) -> None:
    own = samples.setdefault(kind, [])
    if len(own) < _N_SAMPLES:
        line, first, second = sample
        own.append((line, first[:_SAMPLE_CHARS], second[:_SAMPLE_CHARS]))


def total(reports: Iterable[CleanReport]) -> CleanReport:
    """Sum the counts of several reports; samples are left out."""
    result = CleanReport()
    for report in reports:
        result.read += report.read
        result.kept += report.kept
        _add_counts(result.dropped, report.dropped)
        _add_counts(result.repaired, report.repaired)
    return result


def refuse_empty(report: CleanReport) -> None:
    """Raise DataError if no training pair is left."""
    if report.read == 0:
        raise DataError("data.train: the training corpus is empty: 0 pairs were read")
    if report.kept == 0:
        raise DataError(f"data.train: all {report.read:,} training pairs were dropped: {drop_summary(report)}")


def drop_summary(report: CleanReport) -> str:
    """Describe why pairs were dropped: the counts by reason, and a hint on the likely mistake if there is one."""
    hint = HINTS.get(max(report.dropped, key=lambda reason: report.dropped[reason]))
    return f"{counted(report.dropped)}; {hint}" if hint else counted(report.dropped)
