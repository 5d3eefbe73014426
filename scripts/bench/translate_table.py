"""The Markdown tables of translation speed and ratios."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from scripts.bench.peer import Peer, Search
from scripts.bench.table import rate
from scripts.bench.task import THREADS

FORCED = {
    "beam 5": Search(beam=5, batch=64, pieces=15),
    "greedy": Search(beam=1, batch=64, pieces=15),
    "beam 5, one by one": Search(beam=5, batch=1, pieces=15),
    "greedy, one by one": Search(beam=1, batch=1, pieces=15),
}
"""The searches of equal work."""
FREE = (Search(beam=5, batch=64), Search(beam=1, batch=64))

EQUAL_WORK = ("pieces/s (rounds)", *FORCED, "peak MB", "start-up s")
RATIOS = ("ratio (by round)", *FORCED)
FREE_LENGTHS = (
    "free lengths", "beam 5: sentences/s", "BLEU", "pieces", "greedy: sentences/s", "BLEU", "pieces",
)  # fmt: skip


@dataclass
class Row:
    """A toolkit, its results for each search in each round, and BLEU of its last translations."""

    peer: Peer
    rounds: dict[Search, list[dict[str, Any] | None]] = field(default_factory=dict)
    bleu: dict[Search, float] = field(default_factory=dict)
    problem: str = ""

    def results(self, search: Search) -> list[dict[str, Any]]:
        """The rounds that succeeded."""
        return [result for result in self.rounds.get(search, []) if result is not None]

    @property
    def all_results(self) -> list[dict[str, Any]]:
        """The results of every search."""
        return [result for search in self.rounds for result in self.results(search)]

    @property
    def is_ours(self) -> bool:
        """Whether this is an arm of nmt."""
        return not self.peer.environment

    @property
    def title(self) -> str:
        """The toolkit and what it chose."""
        notes = {result["note"] for result in self.all_results if result["note"]} - {self.peer.name.partition("-")[2]}
        return f"{self.peer.title} ({', '.join(sorted(notes))})" if notes else self.peer.title

    def rate(self, search: Search, key: str) -> float | None:
        """The median of a rate over the rounds."""
        results = self.results(search)
        return float(statistics.median(result[key] for result in results)) if results else None


def best_peer(rows: Sequence[Row], search: Search, kind: str) -> Row | None:
    """The fastest of the others on PyTorch with products in this number format."""
    rates = [
        (rate_of, row)
        for row in rows
        if not row.is_ours and row.peer.torch and row.peer.decoding is not None and row.peer.decoding.kind == kind
        if (rate_of := row.rate(search, "tgt_per_s")) is not None
    ]
    return max(rates, key=lambda pair: pair[0])[1] if rates else None


def render(rows: Sequence[Row], signature: str) -> str:
    """Return the requested tables, what failed and why, and the ratios of nmt to the best peers."""
    parts: list[str] = []
    if any(search.pieces for row in rows for search in row.rounds):
        forced = [row for row in rows if row.peer.decoding is not None and row.peer.decoding.forces]
        parts += table(EQUAL_WORK, [equal_work(row) for row in forced])
        parts += table(RATIOS, ratios(rows))
    if any(not search.pieces for row in rows for search in row.rounds):
        parts += table(FREE_LENGTHS, [free(row) for row in rows])
    if signature:
        parts.append(f"BLEU: {signature}")
    parts += [f"{row.peer.title}: {row.problem}" for row in rows if row.problem]
    return "\n".join((*parts, *notes(rows)))


def table(head: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
    """Its lines, and an empty one; nothing without a body."""
    first, *others = (f"| {' | '.join(line)} |" for line in (head, *body))
    return [first, f"|{'---|' * len(head)}", *others, ""] if others else []


def equal_work(row: Row) -> list[str]:
    """The line of a toolkit in the table of equal work."""

    def cell(search: Search) -> str:
        median = row.rate(search, "tgt_per_s")
        if median is None:
            return "failed" if row.problem else "–"
        rounds = " / ".join("failed" if result is None else rate(result) for result in row.rounds[search])
        return f"{median:,.0f} ({rounds})"

    every = row.all_results
    return [
        row.title,
        *(cell(search) for search in FORCED.values()),
        f"{max(result['peak_rss_mb'] for result in every):,.0f}" if every else "–",
        f"{statistics.median(result['start_s'] for result in every):.1f}" if every else "–",
    ]


def ratios(rows: Sequence[Row]) -> list[list[str]]:
    """The lines of each arm of nmt: its speed over that of the best PyTorch peers and of CTranslate2."""
    lines = []
    for ours in rows:
        if not ours.is_ours:
            continue
        for kind in ("float32", "bf16"):
            cells = [ratio_to_best(ours, rows, search, kind) for search in FORCED.values()]
            lines.append([f"{ours.title} / best PyTorch peer in {kind}", *cells])
        for other in rows:
            if not other.peer.torch:
                cells = [ratio(ours, other, search) for search in FORCED.values()]
                lines.append([f"{ours.title} / {other.title}", *cells])
    return [line for line in lines if any(cell != "–" for cell in line[1:])]


def ratio_to_best(ours: Row, rows: Sequence[Row], search: Search, kind: str) -> str:
    """The ratio to the best PyTorch peer in a number format, and which that is."""
    best = best_peer(rows, search, kind)
    text = "–" if best is None else ratio(ours, best, search)
    return text if best is None or text == "–" else f"{text}, {best.peer.title}"


def ratio(ours: Row, other: Row, search: Search) -> str:
    """The median of the ratios in each round, and their range."""
    both = zip(ours.rounds.get(search, []), other.rounds.get(search, []), strict=False)
    by_round = [a["tgt_per_s"] / b["tgt_per_s"] for a, b in both if a is not None and b is not None]
    if not by_round:
        return "–"
    return f"{statistics.median(by_round):.2f} ({min(by_round):.2f} to {max(by_round):.2f})"


def free(row: Row) -> list[str]:
    """The line of a toolkit in the table of free lengths."""
    cells = [row.title]
    for search in FREE:
        results = row.results(search)
        if not results:
            cells += ["failed" if row.problem and search in row.rounds else "–", "–", "–"]
            continue
        loud = "" if all(result["quiet_windows"] for result in results) else "*"
        cells += [
            f"{row.rate(search, 'pairs_per_s') or 0.0:,.1f}{loud}",
            f"{row.bleu[search]:.1f}" if search in row.bleu else "–",
            f"{results[0]['pieces_mean']:.1f}",
        ]
    return cells


def notes(rows: Sequence[Row]) -> list[str]:
    """Return the remarks below the tables."""
    found = []
    if any(not result["quiet_windows"] for row in rows for result in row.all_results):
        found.append("* no window was quiet: the median of all")
    forced = any(search.pieces for row in rows for search in row.rounds)
    for row in rows:
        if forced and row.peer.decoding is not None and row.peer.decoding.remark:
            found.append(f"{row.peer.title}: {row.peer.decoding.remark}")
        threads = set() if row.is_ours else {result["threads"] for result in row.all_results} - {None, THREADS}
        found += [f"{row.peer.title}: its torch had {count} threads, not {THREADS}" for count in sorted(threads)]
    return found
