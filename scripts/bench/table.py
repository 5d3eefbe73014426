"""The Markdown table of training speed and ratios."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scripts.bench.peer import Peer
from scripts.bench.task import THREADS

COLUMNS = (
    "toolkit", "target tokens/s (rounds)", "of the best peer", "pairs/s", "target tokens a pair",
    "padding target / source", "peak memory MB", "first step s", "quiet windows",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A toolkit and its result in each round, None where it failed; and why it failed."""

    peer: Peer
    rounds: Sequence[dict[str, Any] | None]
    problem: str = ""

    @property
    def results(self) -> list[dict[str, Any]]:
        """The rounds that succeeded."""
        return [result for result in self.rounds if result is not None]

    @property
    def is_ours(self) -> bool:
        """Whether this is an arm of nmt."""
        return not self.peer.environment

    def median(self, key: str) -> float:
        """Return the median of a figure over the rounds."""
        return float(statistics.median(result[key] for result in self.results))


def best_peer(rows: Sequence[Row]) -> Row | None:
    """The fastest of the others."""
    measured = [row for row in rows if row.results and not row.is_ours]
    return max(measured, key=lambda row: row.median("tgt_per_s"), default=None)


def render(rows: Sequence[Row]) -> str:
    """Return the table, what failed and why, and the ratios of nmt to the best peer."""
    best = best_peer(rows)
    head = [f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"]
    lines = [*head, *(render_row(row, best) for row in rows)]
    notes = [f"{row.peer.title}: {row.problem}" for row in rows if row.problem]
    if any(not result["quiet_windows"] for row in rows for result in row.results):
        notes.append("* no window was quiet: the median of all")
    odd = [row for row in rows if any(result["threads"] != THREADS for result in row.results)]
    notes += [f"{row.peer.title}: its torch had {row.results[-1]['threads']} threads, not {THREADS}" for row in odd]
    if best is not None:
        notes += [render_ratio(row, best) for row in rows if row.is_ours and row.results]
    return "\n".join((*lines, "", *notes))


def render_row(row: Row, best: Row | None) -> str:
    """One line of the table."""
    if not row.results:
        return f"| {row.peer.title} | failed {'| – ' * (len(COLUMNS) - 2)}|"
    rounds = " / ".join("failed" if result is None else rate(result) for result in row.rounds)
    share = row.median("tgt_per_s") / best.median("tgt_per_s") if best is not None else None
    cells = (
        row.peer.title,
        f"{row.median('tgt_per_s'):,.0f} ({rounds})",
        "–" if share is None else f"{share:.2f}",
        f"{row.median('pairs_per_s'):,.0f}",
        f"{row.median('tgt_per_pair'):.1f}",
        " / ".join(padding(row, side) for side in ("tgt", "src")),
        f"{max(result['peak_rss_mb'] for result in row.results):,.0f}",
        f"{row.median('first_step_s'):.1f}",
        " / ".join(f"{result['quiet_windows']} of {result['windows']}" for result in row.results),
    )
    return f"| {' | '.join(cells)} |"


def padding(row: Row, side: str) -> str:
    """The share of padding in a side's positions; a dash if the toolkit does not report it."""
    if row.results[0][f"{side}_padding"] is None:
        return "–"
    return f"{row.median(f'{side}_padding'):.0%}"


def rate(result: dict[str, Any]) -> str:
    """The rate of one round; with a star if no window was quiet."""
    return f"{result['tgt_per_s']:,.0f}{'' if result['quiet_windows'] else '*'}"


def render_ratio(row: Row, best: Row) -> str:
    """Return the speed of an arm of nmt relative to the best peer, over all rounds and in each."""
    ratio = row.median("tgt_per_s") / best.median("tgt_per_s")
    by_round = [
        ours["tgt_per_s"] / theirs["tgt_per_s"]
        for ours, theirs in zip(row.rounds, best.rounds, strict=True)
        if ours is not None and theirs is not None
    ]
    span = f" (by round {min(by_round):.2f} to {max(by_round):.2f})" if by_round else ""
    return f"{row.peer.title} / {best.peer.title}: {ratio:.2f}{span}"
