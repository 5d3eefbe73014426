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

from collections.abc import Iterable
from dataclasses import dataclass

from nmt.config import DataConfig
from nmt.prepare.cleaning.counts import CleanReport
from nmt.prepare.pairs import SentencePair
from nmt.text.tokenizer import CONTROL

_RATIO_OFFSET = 15


@dataclass(frozen=True)
class HeldOut:
    """The lines of all development and test sets by side, stripped: training text must not contain their pairs."""

    src: frozenset[str]
    tgt: frozenset[str]

    @classmethod
    def of(cls, pairs: Iterable[SentencePair]) -> HeldOut:
        """Return the lines of these pairs."""
        pairs = list(pairs)
        return cls(frozenset(pair.src.strip() for pair in pairs), frozenset(pair.tgt.strip() for pair in pairs))


class Cleaner:
    """Cleans the training pairs of one corpus, one by one."""

    def __init__(self, config: DataConfig, key: str, held_out: HeldOut) -> None:
        """`key`: that of the corpus, `train.0`."""
        self._config, self._key, self._held_out = config, key, held_out
        self.report = CleanReport()
        """The counts so far."""

    def clean(self, pair: SentencePair) -> SentencePair | None:
        """Return the pair with both sides stripped, or None if it is dropped; count it in either case."""
        src, tgt = pair.src.strip(), pair.tgt.strip()
        self.report.read += 1
        self.report.read_lengths.count(len(src), len(tgt))
        reason = self._reason(src, tgt)
        if reason is not None:
            self.report.drop(reason, self.report.read, src, tgt)
            return None
        self.report.kept += 1
        return SentencePair(src, tgt, pair.corpus, pair.score)

    def _reason(self, src: str, tgt: str) -> str | None:
        if not src or not tgt:
            return "empty"
        if src in self._held_out.src and tgt in self._held_out.tgt:
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
        return None
