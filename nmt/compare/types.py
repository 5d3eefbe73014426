"""What is compared, and what comes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nmt.evaluate.metrics import Reference
from nmt.evaluate.segments import SegmentScores
from nmt.significance.lines import LineCounts, Metric
from nmt.significance.paired import Interval


@dataclass(frozen=True)
class TextToTranslate:
    """A test set, the same for all systems."""

    name: str
    """The split, or the file of references."""
    references: tuple[Reference, ...]
    sources: tuple[str, ...] | None = None
    languages: tuple[str, str] | None = None
    """Source and target; None if only files are known."""
    notes: tuple[str, ...] = ()
    """What is known of the text, such as whether training has seen it."""


@dataclass(frozen=True)
class System:
    """One system's translations of the test set."""

    name: str
    translations: tuple[str, ...]
    run: Path | None = None
    step: int | None = None
    weights: str | None = None
    """raw, ema or average."""
    search: str | None = None
    precision: str | None = None
    segment_scores: Mapping[str, SegmentScores] = field(default_factory=dict)
    """Scores of the lines by other metrics, by the metric's name."""


@dataclass(frozen=True)
class Group:
    """Systems that differ only in their seed; a single system is a group of one."""

    name: str
    systems: tuple[System, ...]


@dataclass(frozen=True)
class GroupScore:
    """A group's score by a metric: the mean over its systems."""

    value: float
    interval: Interval
    """Over lines: where the score would be on other lines of the same kind."""
    by_system: tuple[float, ...]
    seed_deviation: float | None
    """Standard deviation over systems; None for one."""


@dataclass(frozen=True)
class Difference:
    """A group's score less that of the baseline."""

    value: float
    interval: Interval
    """Over lines; over lines and seeds if both groups have at least three systems."""
    p: float | None
    """Two-sided: by approximate randomization for single systems, by the t distribution over lines and seeds for groups
    of at least three; None where neither applies."""
    p_holm: float | None
    """p, corrected for the number of groups that are compared with the baseline."""
    line_error: float
    """Standard error over lines."""
    seed_error: float | None
    """Standard error over seeds; None unless both groups have several systems."""
    degrees_of_freedom: float | None
    """Of the t distribution; None if p is not from it."""
    advice: str | None
    """Whether more seeds or more lines would tell the difference better, as a sentence; None if p is not over seeds."""


@dataclass(frozen=True)
class Result:
    """The comparison by one metric."""

    metric: Metric
    scores: tuple[GroupScore, ...]
    """In the order of the groups."""
    differences: tuple[Difference | None, ...]
    """In the order of the groups; None for the baseline."""
    counts: tuple[tuple[LineCounts, ...], ...] = field(repr=False)
    """What each line contributes, by group and system: the page scores parts of the test set with it."""


@dataclass(frozen=True)
class Comparison:
    """Everything that `nmt compare` reports."""

    text: TextToTranslate
    groups: tuple[Group, ...]
    baseline: int
    """Position of the baseline among the groups."""
    results: tuple[Result, ...]
    trials: int
    seed: int
    notes: tuple[str, ...] = ()
    """What the reader should know, such as what one training cannot show."""
