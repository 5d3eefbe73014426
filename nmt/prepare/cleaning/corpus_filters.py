"""Filters that judge a pair by what is usual in its corpus, or in all: they learn from a sample first."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from nmt.config import DataConfig
from nmt.prepare.cleaning.misaligned import Misaligned

_OFFSET = 15  # added to both lengths, since short pairs differ more
_LEAST_PAIRS = 100  # of fewer, nothing can be said
_LEAST_SPREAD = 0.02  # below it, most pairs have exactly the same ratio


@dataclass(frozen=True)
class LengthRatio:
    """Drops pairs whose length ratio is far from the median of their corpus."""

    most: float
    """Maximum distance, in median absolute deviations."""
    reason: str = "spread"
    per_corpus: bool = True

    def learn(self, pairs: Sequence[tuple[str, str]]) -> bytes:
        """Return the median of the logarithm of the ratio, and its median absolute deviation."""
        if len(pairs) < _LEAST_PAIRS:
            return json.dumps([0.0, math.inf]).encode()
        ratios = _log_ratios(pairs)
        median = np.median(ratios)
        return json.dumps([float(median), float(np.median(np.abs(ratios - median)))]).encode()

    def warning(self, learned: bytes) -> str | None:
        """Return why nothing is dropped, if too little was there to learn from."""
        return f"fewer than {_LEAST_PAIRS:,} pairs to learn from" if math.isinf(json.loads(learned)[1]) else None

    def dropped(self, learned: bytes, pairs: Sequence[tuple[str, str]]) -> npt.NDArray[np.bool_]:
        """Return which of the pairs (N,) are to be dropped."""
        median, spread = json.loads(learned)
        far: npt.NDArray[np.bool_] = np.abs(_log_ratios(pairs) - median) > self.most * max(spread, _LEAST_SPREAD)
        return far


def _log_ratios(pairs: Sequence[tuple[str, str]]) -> npt.NDArray[np.float64]:
    lengths = np.array([(len(src), len(tgt)) for src, tgt in pairs], np.float64).reshape(-1, 2) + _OFFSET
    ratios: npt.NDArray[np.float64] = np.log(lengths[:, 0] / lengths[:, 1])
    return ratios


SAMPLE_PAIRS = 500_000
"""Maximum number of pairs that a filter learns from."""


class CorpusFilter(Protocol):
    """A filter that learns from a sample of the pairs that are left after all other cleaning, and is then applied."""

    @property
    def reason(self) -> str:
        """One of `nmt.prepare.cleaning.counts.REASONS`."""

    @property
    def per_corpus(self) -> bool:
        """Whether it learns from each corpus on its own, or from all of them together."""

    def learn(self, pairs: Sequence[tuple[str, str]]) -> bytes:
        """Learn from a sample, at most `SAMPLE_PAIRS` pairs. Returns what it learned, the same bytes each time."""

    def warning(self, learned: bytes) -> str | None:
        """Return why it drops nothing after what it learned, if so."""

    def dropped(self, learned: bytes, pairs: Sequence[tuple[str, str]]) -> npt.NDArray[np.bool_]:
        """Return which of the pairs (N,) are to be dropped."""


def corpus_filters(config: DataConfig, key: str) -> list[CorpusFilter]:
    """Return the filters of a corpus, `train.0`, in the order in which they are applied."""
    clean = config.clean_of(key)
    filters: list[CorpusFilter] = []
    if clean.max_ratio_spread:
        filters.append(LengthRatio(clean.max_ratio_spread))
    if clean.misaligned:
        filters.append(Misaligned(clean.misaligned))
    return filters
