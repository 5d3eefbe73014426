"""Cleaning of training pairs: each dropped pair is counted under one reason, the first that applies.

The reasons, in the order in which they are tried, after both sides have been stripped of white space:

empty       a side has no text
overlap     the source occurs in a development or test set, and so does the target: training on it would be cheating
control     a side has a control character other than the tab, such as NUL or a form feed: mostly broken text
long        a side has more than `data.max_chars` characters
ratio       the sides differ in length by more than `data.max_ratio`
copied      both sides are the same text
duplicate   the same pair was kept before
valid       it was split off as the development set (a number in `data.valid`)
shared      it has a side in common with a pair that was split off
pieces      a side has more than `data.max_pieces` pieces, found when the pairs that are left have been encoded

Development and test sets are references: they are never dropped or altered.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from nmt.config import DataConfig
from nmt.errors import DataError
from nmt.prepare.pairs import SentencePair
from nmt.text.tokenizer import CONTROL

REASONS = {
    "empty": "empty side",
    "overlap": "in a dev or test set",
    "control": "control character",
    "long": "too long (characters)",
    "ratio": "length ratio",
    "copied": "copied source",
    "duplicate": "duplicate",
    "valid": "split off for development",
    "shared": "shares a side with the development set",
    "pieces": "too long (pieces)",
}
"""Description of each reason in reports, in the order in which reasons are tried."""

HINTS = {
    "control": "is it text, with a line feed at the end of each line?",
    "long": "data.max_chars is the limit; is there a sentence on each line?",
    "ratio": "do the two files hold the same sentences?",
    "copied": "both sides are identical: is this one file with both languages?",
    "overlap": "is data.train the development or test set?",
    "pieces": "data.max_pieces is the limit",
}
"""Likely mistakes if most pairs are dropped for a reason."""

_N_SAMPLES = 3
_SAMPLE_CHARS = 120
_RATIO_OFFSET = 15


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

    @property
    def dropped_in_order(self) -> dict[str, int]:
        """`dropped`, reasons in the order in which they are tried."""
        return {reason: self.dropped[reason] for reason in REASONS if reason in self.dropped}


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


def counted(dropped: Mapping[str, int]) -> str:
    """Format the counts by reason, `duplicate 3, length ratio 1`; empty if nothing was dropped."""
    return ", ".join(f"{name} {dropped[reason]:,}" for reason, name in REASONS.items() if reason in dropped)


def pair_hash(src: str, tgt: str) -> bytes:
    """Return a hash of 16 bytes of a pair of lines."""
    # a line cannot contain a line feed, so it separates the two sides unambiguously
    return hashlib.blake2b(f"{src}\n{tgt}".encode(), digest_size=16).digest()


class Cleaner:
    """Cleans pair by pair; of the pairs seen it keeps a hash of 128 bits each, to find duplicates."""

    def __init__(self, config: DataConfig, held_out_src: Collection[str], held_out_tgt: Collection[str]) -> None:
        """`held_out_src`, `held_out_tgt`: the lines of all development and test sets, by side."""
        self._config = config
        self._held_out_src = {line.strip() for line in held_out_src}
        self._held_out_tgt = {line.strip() for line in held_out_tgt}
        self._seen: set[bytes] = set()
        self.report = CleanReport()
        """The counts so far; may be replaced where another corpus begins."""

    def clean(self, pair: SentencePair) -> SentencePair | None:
        """Return the pair with both sides stripped, or None if it is dropped; count it in either case."""
        src, tgt = pair.src.strip(), pair.tgt.strip()
        self.report.read += 1
        reason = self._reason(src, tgt)
        if reason is not None:
            self.report.drop(reason, self.report.read, src, tgt)
            return None
        self.report.kept += 1
        return SentencePair(src, tgt, pair.corpus)

    def _reason(self, src: str, tgt: str) -> str | None:
        if not src or not tgt:
            return "empty"
        if src in self._held_out_src and tgt in self._held_out_tgt:
            return "overlap"
        if CONTROL.search(src) or CONTROL.search(tgt):
            return "control"
        shorter, longer = sorted((len(src), len(tgt)))
        if longer > self._config.max_chars:
            return "long"
        if longer + _RATIO_OFFSET > self._config.max_ratio * (shorter + _RATIO_OFFSET):
            return "ratio"
        if src == tgt:
            return "copied"
        key = pair_hash(src, tgt)
        if key in self._seen:
            return "duplicate"
        self._seen.add(key)
        return None
