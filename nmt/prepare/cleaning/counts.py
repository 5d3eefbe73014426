"""Counts of the pairs that cleaning reads, keeps and drops. Those of the parts of a corpus add up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field

from pydantic import TypeAdapter

from nmt.errors import DataError
from nmt.prepare.cleaning.reasons import HINTS, REASONS, counted
from nmt.tasks.task import Json

_N_SAMPLES = 3
_SAMPLE_CHARS = 120


@dataclass
class CleanReport:
    """Counts of pairs: read, kept, and dropped for each reason, with a few of the dropped ones as samples."""

    read: int = 0
    kept: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    samples: dict[str, list[tuple[int, str, str]]] = field(default_factory=dict)

    def drop(self, reason: str, line: int, src: str, tgt: str) -> None:
        """Count a dropped pair, and keep the first few as samples; `line` is its line number, from 1."""
        self.dropped[reason] = self.dropped.get(reason, 0) + 1
        samples = self.samples.setdefault(reason, [])
        if len(samples) < _N_SAMPLES:
            samples.append((line, src[:_SAMPLE_CHARS], tgt[:_SAMPLE_CHARS]))

    def add(self, other: CleanReport) -> None:
        """Add the counts of the part of the corpus that follows this one."""
        self.read += other.read
        self.kept += other.kept
        for reason, n in other.dropped.items():
            self.dropped[reason] = self.dropped.get(reason, 0) + n
        for reason, samples in other.samples.items():
            own = self.samples.setdefault(reason, [])
            own += samples[: _N_SAMPLES - len(own)]

    def shift(self, n: int) -> None:
        """Add `n`, the number of pairs of the corpus before this part, to the line numbers."""
        for reason, samples in self.samples.items():
            self.samples[reason] = [(line + n, src, tgt) for line, src, tgt in samples]

    def to_json(self) -> Json:
        """Return plain values."""
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


def total(reports: Iterable[CleanReport]) -> CleanReport:
    """Sum the counts of several reports; samples are left out."""
    result = CleanReport()
    for report in reports:
        result.read += report.read
        result.kept += report.kept
        for reason, n in report.dropped.items():
            result.dropped[reason] = result.dropped.get(reason, 0) + n
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
