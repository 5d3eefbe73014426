"""Filters that judge a pair by what is usual in its corpus, or in all: they learn from a sample first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from nmt.config import DataConfig
from nmt.prepare.cleaning.length_ratio import LengthRatio
from nmt.prepare.cleaning.misaligned import Misaligned

SAMPLE_PAIRS = 500_000
"""Maximum number of pairs that a filter learns from."""


class CorpusFilter(Protocol):
    """A filter that learns from a sample of the pairs that are left after all other cleaning, and is then applied."""

    @property
    def reason(self) -> str:
        """One of `nmt.prepare.cleaning.reasons.REASONS`."""

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
