"""Two tables of translation speed and the ratios, in Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from scripts.bench.peer import Peer, Search
from scripts.bench.table import rate
from scripts.bench.task import THREADS

FORCED = Search(beam=5, batch=64, pieces=15)
BEAM, GREEDY = Search(beam=5, batch=64), Search(beam=1, batch=64)
BEAM_ALONE, GREEDY_ALONE = Search(beam=5, batch=1), Search(beam=1, batch=1)

EQUAL_WORK = (
    "toolkit", "pieces/s (rounds)", "of the best PyTorch peer", "pieces a sentence", "quiet windows",
    "peak memory MB", "start-up s",
)  # fmt: skip
FREE = (
    "toolkit", "beam 5: sentences/s", "BLEU", "pieces", "greedy: sentences/s", "BLEU",
    "beam 5 one by one", "greedy one by one",
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


def best_peer(rows: Sequence[Row], kinds: Sequence[str] = ("float32", "bf16")) -> Row | None:
    """The fastest of the others on PyTorch, of those with products in these number formats."""
    rates = [
        (rate_of, row)
        for row in rows
        if not row.is_ours and row.peer.torch and row.peer.decoding is not None and row.peer.decoding.kind in kinds
        if (rate_of := row.rate(FORCED, "tgt_per_s")) is not None
    ]
    return max(rates, key=lambda pair: pair[0])[1] if rates else None


def render(rows: Sequence[Row], signature: str) -> str:
    """Return the requested tables, what failed and why, and the ratios of nmt to the best peers."""
    best = best_peer(rows)
    parts: list[str] = []
    if any(FORCED in row.rounds for row in rows):
        parts += table(EQUAL_WORK, rows, lambda row: equal_work(row, best))
    if any(search.pieces == 0 for row in rows for search in row.rounds):
        parts += table(FREE, rows, free)
    if signature:
        parts.append(f"BLEU: {signature}")
    parts += [f"{row.peer.title}: {row.problem}" for row in rows if row.problem]
    parts += notes(rows)
    return "\n".join((*parts, *ratios(rows)))


def table(head: Sequence[str], rows: Sequence[Row], cells: Callable[[Row], Sequence[str]]) -> list[str]:
    """Its lines, and an empty one."""
    lines = (head, *(cells(row) for row in rows))
    first, *others = (f"| {' | '.join(line)} |" for line in lines)
    return [first, f"|{'---|' * len(head)}", *others, ""]


def equal_work(row: Row, best: Row | None) -> list[str]:
    """The line of a toolkit in the table of equal work."""
    results = row.results(FORCED)
    every = row.all_results
    memory = [result["peak_rss_mb"] for search in (BEAM, FORCED) for result in row.results(search)]
    ends = [
        f"{max(memory):,.0f}" if memory else "–",
        f"{statistics.median(result['start_s'] for result in every):.1f}" if every else "–",
    ]
    if not results:
        return [row.title, "failed" if row.problem else "–", "–", "–", "–", *ends]
    median = row.rate(FORCED, "tgt_per_s") or 0.0
    share = median / (best.rate(FORCED, "tgt_per_s") or 1.0) if best is not None else None
    least = min(result["pieces_least"] for result in results)
    most = max(result["pieces_most"] for result in results)
    rounds = " / ".join("failed" if result is None else rate(result) for result in row.rounds[FORCED])
    return [
        row.title,
        f"{median:,.0f} ({rounds})",
        "–" if share is None else f"{share:.2f}",
        f"{least}" if least == most else f"{least} to {most}",
        " / ".join(f"{result['quiet_windows']} of {result['windows']}" for result in results),
        *ends,
    ]


def free(row: Row) -> list[str]:
    """The line of a toolkit in the table of free lengths."""

    def cell(search: Search) -> str:
        results = row.results(search)
        if not results:
            return "failed" if row.problem and search in row.rounds else "–"
        loud = "" if all(result["quiet_windows"] for result in results) else "*"
        return f"{row.rate(search, 'pairs_per_s') or 0.0:,.1f}{loud}"

    def score(search: Search) -> str:
        return f"{row.bleu[search]:.1f}" if search in row.bleu else "–"

    lengths = [f"{result['pieces_mean']:.1f}" for result in row.results(BEAM)]
    return [
        row.title, cell(BEAM), score(BEAM), lengths[0] if lengths else "–",
        cell(GREEDY), score(GREEDY), cell(BEAM_ALONE), cell(GREEDY_ALONE),
    ]  # fmt: skip


def notes(rows: Sequence[Row]) -> list[str]:
    """Return the remarks below the tables."""
    found = []
    if any(not result["quiet_windows"] for row in rows for result in row.all_results):
        found.append("* no window was quiet: the median of all")
    forced = any(FORCED in row.rounds for row in rows)
    for row in rows:
        if forced and row.peer.decoding is not None and row.peer.decoding.remark:
            found.append(f"{row.peer.title}: {row.peer.decoding.remark}")
        threads = set() if row.is_ours else {result["threads"] for result in row.all_results} - {None, THREADS}
        found += [f"{row.peer.title}: its torch had {count} threads, not {THREADS}" for count in sorted(threads)]
    return found


def ratios(rows: Sequence[Row]) -> list[str]:
    """Return the ratios of each arm of nmt to the best PyTorch peer, in float32 and any format, and to CTranslate2."""
    bests = [best for best in (best_peer(rows, ["float32"]), best_peer(rows)) if best is not None]
    others = [*dict.fromkeys(best.peer.name for best in bests), *(row.peer.name for row in rows if not row.peer.torch)]
    by_name = {row.peer.name: row for row in rows}
    pairs = [(ours, by_name[name]) for ours in rows if ours.is_ours for name in others]
    return [line for ours, other in pairs if (line := ratio(ours, other))]


def ratio(ours: Row, other: Row) -> str:
    """Return the ratio of two speeds at equal work, over all rounds and in each; nothing if one was not measured."""
    mine, its = ours.rate(FORCED, "tgt_per_s"), other.rate(FORCED, "tgt_per_s")
    if not mine or not its:
        return ""
    both = zip(ours.rounds[FORCED], other.rounds[FORCED], strict=True)
    by_round = [a["tgt_per_s"] / b["tgt_per_s"] for a, b in both if a is not None and b is not None]
    span = f" (by round {min(by_round):.2f} to {max(by_round):.2f})" if by_round else ""
    return f"{ours.title} / {other.peer.title}: {mine / its:.2f}{span}"
