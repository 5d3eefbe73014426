"""Training rates, computed from the times of optimizer steps."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scripts.bench.peer import NOTHING, Counts

WINDOW = 5.0
"""Seconds, at least, over which a rate is taken."""
QUIET = 0.08
"""Share of a core that other processes may have used in a window that counts."""


@dataclass(frozen=True)
class Step:
    """An optimizer step: when it ended (s), what it learned from, the CPU seconds of all other processes by then."""

    time: float
    counts: Counts
    others: float


@dataclass(frozen=True)
class Window:
    """Consecutive steps: target tokens and pairs per second, and the cores that other processes used."""

    tgt_per_s: float
    pairs_per_s: float
    others: float


def cut(steps: Sequence[Step]) -> list[Window]:
    """The windows from the end of the first step; what is left at the end and shorter than a window is left out."""
    windows = []
    begin, counts = steps[0], NOTHING
    for step in steps[1:]:
        counts = counts.plus(step.counts)
        seconds = step.time - begin.time
        if seconds >= WINDOW:
            others = (step.others - begin.others) / seconds
            windows.append(Window(counts.tgt / seconds, counts.pairs / seconds, others))
            begin, counts = step, NOTHING
    return windows


def summary(steps: Sequence[Step], warm: float) -> dict[str, Any]:
    """Medians over the quiet windows after `warm` seconds, or over all windows if none was quiet.

    Raises ValueError if there is not one window.
    """
    measured = [step for step in steps if step.time - steps[0].time >= warm]
    windows = cut(measured) if measured else []
    if not windows:
        raise ValueError(f"{len(steps)} steps do not fill one window of {WINDOW:g} s after {warm:g} s")
    begin, *counted = measured
    total = NOTHING
    for step in counted:
        total = total.plus(step.counts)
    return {
        **medians(windows),
        "seconds": counted[-1].time - begin.time,
        "steps": len(counted),
        "others": (counted[-1].others - begin.others) / (counted[-1].time - begin.time),
        "tgt_per_step": total.tgt / len(counted),
        "pairs_per_step": total.pairs / len(counted),
        "tgt_per_pair": total.tgt / total.pairs,
        "tgt_padding": 1 - total.tgt / total.tgt_positions if total.tgt_positions else None,
        "src_padding": 1 - total.src / total.src_positions if total.src_positions else None,
    }


def medians(windows: Sequence[Window]) -> dict[str, Any]:
    """Over the quiet windows, or over all if none was quiet."""
    quiet = [window for window in windows if window.others < QUIET]
    return {
        "tgt_per_s": statistics.median(window.tgt_per_s for window in quiet or windows),
        "pairs_per_s": statistics.median(window.pairs_per_s for window in quiet or windows),
        "tgt_per_s_all_windows": statistics.median(window.tgt_per_s for window in windows),
        "quiet_windows": len(quiet),
        "windows": len(windows),
        "tgt_per_s_of_windows": [window.tgt_per_s for window in windows],
        "others_of_windows": [window.others for window in windows],
    }
