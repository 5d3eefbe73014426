"""Statistics of cleaning: counts of pairs dropped by reason, counts of repairs, and histograms of lengths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter

from nmt.errors import DataError
from nmt.tasks.perform import Json
from nmt.text.ids import Numbers

REASONS = {
    "empty": "empty side",
    "blank": "blank line",
    "overlap": "in a dev or test set",
    "control": "control character",
    "long": "too long (characters)",
    "ratio": "length ratio",
    "copied": "copied source",
    "score": "low score",
    "broken": "broken text",
    "words": "too many words",
    "word": "too long a word",
    "shouted": "all in capitals",
    "script": "another script",
    "blocked": "on a block list",
    "links": "links differ",
    "tags": "tags differ",
    "numbers": "numbers differ",
    "sentences": "sentences differ in number",
    "truncated": "truncated",
    "language": "another language",
    "duplicate": "duplicate",
    "near_duplicate": "near-duplicate",
    "misaligned": "misaligned",
    "valid": "split off for development",
    "test": "split off for testing",
    "shared": "shares a side with a set that was split off",
    "pieces": "too long (pieces)",
}
"""The description of each reason in reports, in the order in which reasons are tried."""

REPAIRS = {
    "encoding": "wrong encoding",
    "entities": "HTML entities",
    "control": "control characters",
    "unicode": "Unicode form",
    "spaces": "white space",
    "letters": "forms of letters",
}
"""The description of each repair in reports, in the order in which repairs are made."""

HINTS = {
    "control": "is it text, with a line feed at the end of each line?",
    "long": "data.max_chars is the limit; does each line contain one sentence?",
    "ratio": "do the two files contain the same sentences?",
    "copied": "both sides are identical: is this one file with both languages?",
    "score": "clean.min_score is the limit; are higher scores better in this corpus?",
    "script": "are the languages of the two sides swapped? An unusual script is part of the code, as in sr_Latn",
    "language": "are the languages of the two sides swapped?",
    "truncated": "does one side lack final punctuation? Then remove truncated from clean.drop",
    "blocked": "do the block lists contain a frequent word?",
    "overlap": "is data.train the development or test set?",
    "pieces": "data.max_pieces is the limit",
    "valid": "data.valid can name files, or ask for fewer pairs; with data.documents, whole documents are split off",
}
"""The likely mistake if most pairs are dropped for a reason."""


def counted(dropped: Mapping[str, int]) -> str:
    """Format the counts by reason, such as `duplicate 3, length ratio 1`; empty if nothing was dropped."""
    reasons = [*REASONS, *sorted(dropped.keys() - REASONS.keys())]  # an earlier version may have had others
    return ", ".join(f"{REASONS.get(reason, reason)} {dropped[reason]:,}" for reason in reasons if reason in dropped)


def skipped_units(name: str, skipped: Mapping[str, int]) -> str:
    """Describe the units of a corpus that are not one pair: the counts by reason."""
    reasons = ", ".join(f"{reason} {n:,}" for reason, n in sorted(skipped.items()))
    return f"{name}: units that are not one pair: {reasons}"


CHARS = [*range(1, 8), *(2**k * quarters // 4 for k in range(3, 12) for quarters in range(4, 8)), 4096]
"""The lower edge of each histogram bin but the first, in characters: bin i is for lengths in [CHARS[i - 1], CHARS[i]);
bin 0 is for sides without text."""
RATIOS = [round(2 ** (k / 8), 3) for k in range(-24, 25)]
"""The same for the length of the second side divided by the first side's; bin 0 is for ratios below 1/8."""


@dataclass
class LengthCounts:
    """Histograms of the lengths of pairs. The histograms of the parts of a corpus add up."""

    src: list[int] = field(default_factory=lambda: [0] * (len(CHARS) + 1))
    """Pairs by the length of the first side, see CHARS."""
    tgt: list[int] = field(default_factory=lambda: [0] * (len(CHARS) + 1))
    ratio: list[int] = field(default_factory=lambda: [0] * (len(RATIOS) + 1))
    """Pairs with text on both sides, see RATIOS."""

    def count(self, src: Iterable[int], tgt: Iterable[int]) -> None:
        """Count pairs, by the lengths of their sides in characters."""
        src_chars = np.fromiter(src, np.int64)
        tgt_chars = np.fromiter(tgt, np.int64)
        has_text = (src_chars > 0) & (tgt_chars > 0)
        ratios = tgt_chars[has_text] / src_chars[has_text]
        self.add(LengthCounts(_histogram(src_chars, CHARS), _histogram(tgt_chars, CHARS), _histogram(ratios, RATIOS)))

    def add(self, other: LengthCounts) -> None:
        """Add the histograms of other pairs to this one."""
        self.src = np.add(self.src, other.src).tolist()
        self.tgt = np.add(self.tgt, other.tgt).tolist()
        self.ratio = np.add(self.ratio, other.ratio).tolist()


def _histogram(values: npt.NDArray[Any], edges: Sequence[float]) -> list[int]:
    counts: list[int] = np.bincount(np.searchsorted(edges, values, "right"), minlength=len(edges) + 1).tolist()
    return counts


_Samples: TypeAlias = dict[str, list[tuple[int, str, str]]]
_N_SAMPLES = 3
_SAMPLE_CHARS = 120
_N_KEPT_SAMPLES = 10
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # Fibonacci hashing: 2^64 over the golden ratio


@dataclass
class CleanReport:
    """Counts of pairs that were read, kept, dropped and repaired, with samples and histograms of lengths."""

    read: int = 0
    kept: int = 0
    several: int = 0
    """Kept pairs whose first side has several sentences, estimated from a sample."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Pairs by reason."""
    samples: _Samples = field(default_factory=dict)
    """The first few dropped pairs by reason: line number and sides."""
    repaired: Counter[str] = field(default_factory=Counter)
    """Pairs by kind of repair, including pairs that were dropped after it."""
    repaired_samples: _Samples = field(default_factory=dict)
    """A few repaired sides, from the first difference: line number, text before and after."""
    mix: dict[str, dict[str, int]] = field(default_factory=dict)
    """For the language of a side, the number of lines by identified language, among the lines that earlier steps did
    not drop; empty if languages are not identified."""
    read_lengths: LengthCounts = field(default_factory=LengthCounts)
    kept_lengths: LengthCounts = field(default_factory=LengthCounts)
    kept_samples: list[tuple[int, int, str, str]] = field(default_factory=list)
    """A few kept pairs, spread over the corpus: hash of the line number, line number and sides. The smallest hashes are
    chosen."""

    def drop(self, reason: str, line: int, src: str, tgt: str) -> None:
        """Count a dropped pair, and keep the first few as samples; `line` is its line number, from 1."""
        self.dropped[reason] += 1
        _add_sample(self.samples, reason, (line, src, tgt))

    def repair(self, kind: str, line: int, before: str, after: str) -> None:
        """Count a pair with a repaired side, and keep the first few sides as samples."""
        self.repaired[kind] += 1
        same = next((i for i, (old, new) in enumerate(zip(before, after, strict=False)) if old != new), 0)
        start = max(0, same - _SAMPLE_CHARS // 3)
        _add_sample(self.repaired_samples, kind, (line, before[start:], after[start:]))

    def keep(self, lines: Numbers, src: Sequence[str], tgt: Sequence[str]) -> None:
        """Add N remaining pairs to the histograms and samples, without changing `kept`.

        `lines` (N,): their line numbers, from 1.
        """
        self.kept_lengths.count(map(len, src), map(len, tgt))
        hashes = lines.astype(np.uint64) * _GOLDEN
        n = min(len(lines), _N_KEPT_SAMPLES)
        if n == 0:
            return
        for i in np.argpartition(hashes, n - 1)[:n].tolist():
            texts = src[i][:_SAMPLE_CHARS], tgt[i][:_SAMPLE_CHARS]
            self.kept_samples.append((int(hashes[i]), int(lines[i]), *texts))
        self.kept_samples = sorted(self.kept_samples)[:_N_KEPT_SAMPLES]

    def add(self, other: CleanReport) -> None:
        """Add the counts of the next part of the same corpus."""
        self._add_counts(other)
        for samples, more in ((self.samples, other.samples), (self.repaired_samples, other.repaired_samples)):
            for kind, of_kind in more.items():
                for sample in of_kind:
                    _add_sample(samples, kind, sample)
        for side, counts in other.mix.items():
            sums = Counter(self.mix.get(side))
            sums.update(counts)
            self.mix[side] = sums
        self.read_lengths.add(other.read_lengths)
        self.kept_lengths.add(other.kept_lengths)
        self.kept_samples = sorted(self.kept_samples + other.kept_samples)[:_N_KEPT_SAMPLES]

    def _add_counts(self, other: CleanReport) -> None:
        self.read += other.read
        self.kept += other.kept
        self.several += other.several
        self.dropped.update(other.dropped)
        self.repaired.update(other.repaired)

    def renumber(self, number: Callable[[int], int]) -> None:
        """Replace each line number of the samples by `number(line)`."""
        for samples in (self.samples, self.repaired_samples):
            for kind, of_kind in samples.items():
                samples[kind] = [(number(line), first, second) for line, first, second in of_kind]
        self.kept_samples = [(value, number(line), src, tgt) for value, line, src, tgt in self.kept_samples]

    def to_json(self) -> Json:
        """Return the report as plain values for JSON."""
        values: Json = _REPORT.dump_python(self)
        return values

    @classmethod
    def from_json(cls, values: Json) -> CleanReport:
        """Construct a report from plain values; see `to_json`."""
        return _REPORT.validate_python(values)

    @property
    def dropped_in_order(self) -> dict[str, int]:
        """The number of dropped pairs by reason, in the order in which reasons are tried."""
        return summed([self.dropped], REASONS)


_REPORT = TypeAdapter(CleanReport)


def summed(counts: Iterable[Mapping[str, int]], order: Iterable[str]) -> dict[str, int]:
    """Add up counts by kind, and return them in the given order."""
    sums = Counter[str]()
    for counts_by_kind in counts:
        sums.update(counts_by_kind)
    return {kind: sums[kind] for kind in order if kind in sums}


def _add_sample(samples: _Samples, kind: str, sample: tuple[int, str, str]) -> None:
    of_kind = samples.setdefault(kind, [])
    if len(of_kind) < _N_SAMPLES:
        line, first, second = sample
        of_kind.append((line, first[:_SAMPLE_CHARS], second[:_SAMPLE_CHARS]))


def total(reports: Iterable[CleanReport]) -> CleanReport:
    """Return the sums of the counts of several reports, without samples."""
    result = CleanReport()
    for report in reports:
        result._add_counts(report)
    return result


def refuse_empty(report: CleanReport, skipped: Iterable[str] = ()) -> None:
    """Raise DataError if no training pairs remain. `skipped`: descriptions by `skipped_units`."""
    if report.read == 0:
        raise DataError("; ".join(["data.train: the training corpus is empty: 0 pairs were read", *skipped]))
    if report.kept == 0:
        raise DataError(f"data.train: all {report.read:,} training pairs were dropped: {drop_summary(report)}")


def drop_summary(report: CleanReport) -> str:
    """Describe why pairs were dropped: the counts by reason, and a hint if a mistake is likely."""
    hint = HINTS.get(max(report.dropped, key=lambda reason: report.dropped[reason]))
    return f"{counted(report.dropped)}; {hint}" if hint else counted(report.dropped)
