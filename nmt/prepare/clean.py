"""Cleaning of training pairs: each pair that is dropped is counted under one reason, the first that holds.

The reasons, in the order in which they are tried, after white space was taken off both ends of both sides:

empty       a side has no text
overlap     the source stands in a development or test set, and so does the target: training on it would be cheating
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
from typing import Any

from nmt.config import DataConfig
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
"""Each reason with its words for a report, in the order in which they are tried."""

_N_SAMPLES = 3
_SAMPLE_CHARS = 120
_RATIO_OFFSET = 15


@dataclass
class CleanReport:
    """How many pairs were read, kept, and dropped for which reason, with the lines of a few of the dropped ones."""

    read: int = 0
    kept: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    samples: dict[str, list[tuple[int, str, str]]] = field(default_factory=dict)

    def drop(self, reason: str, line: int, src: str, tgt: str) -> None:
        """Count a pair that was dropped, and remember the first few; `line` is the number of its line, from 1."""
        self.dropped[reason] = self.dropped.get(reason, 0) + 1
        samples = self.samples.setdefault(reason, [])
        if len(samples) < _N_SAMPLES:
            samples.append((line, src[:_SAMPLE_CHARS], tgt[:_SAMPLE_CHARS]))

    def as_dict(self) -> dict[str, Any]:
        """The counts as plain values, reasons in their order."""
        order = [reason for reason in REASONS if reason in self.dropped]
        return {
            "read": self.read,
            "kept": self.kept,
            "dropped": {reason: self.dropped[reason] for reason in order},
        }


def total(reports: Iterable[CleanReport]) -> CleanReport:
    """The counts of several reports together, without samples."""
    found = CleanReport()
    for report in reports:
        found.read += report.read
        found.kept += report.kept
        for reason, n in report.dropped.items():
            found.dropped[reason] = found.dropped.get(reason, 0) + n
    return found


def pair_hash(src: str, tgt: str) -> bytes:
    """16 bytes that stand for a pair of lines."""
    # a line feed cannot stand within a line, so it parts the two sides without doubt
    return hashlib.blake2b(f"{src}\n{tgt}".encode(), digest_size=16).digest()


def counted(dropped: Mapping[str, int]) -> str:
    """Reasons with their counts for a person, `duplicate 3, length ratio 1`; empty if nothing was dropped."""
    return ", ".join(f"{words} {dropped[reason]:,}" for reason, words in REASONS.items() if reason in dropped)


class Cleaner:
    """Decides pair by pair, and remembers what it has seen: a hash of 128 bits a pair, whatever its length."""

    def __init__(self, config: DataConfig, held_out_src: Collection[str], held_out_tgt: Collection[str]) -> None:
        """`held_out_src`, `held_out_tgt`: the lines of all development and test sets, by side."""
        self._config = config
        self._held_out_src = {line.strip() for line in held_out_src}
        self._held_out_tgt = {line.strip() for line in held_out_tgt}
        self._seen: set[bytes] = set()
        self.report = CleanReport()
        """On the pairs so far; a new one may be put in its place where another corpus begins."""

    def clean(self, pair: SentencePair) -> SentencePair | None:
        """The pair with both ends of both sides stripped, or None if it is dropped; counted either way."""
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
