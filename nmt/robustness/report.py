"""The robustness of a model as text and as JSON."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from nmt.console import aligned, printable
from nmt.evaluate.report import Subject, facts
from nmt.robustness.robustness import SAMPLES, Measured, Plan, Row
from nmt.robustness.signs import LENGTH, MORE_OFTEN, N_GRAM

COLUMNS = 110
LEGEND = (
    "rate: share of the places where the change has an effect (letters inside words, words, marks)",
    "lines: those that differ from the original; kept: share of its chrF, with its 95 % interval over lines (paired "
    f"bootstrap, {SAMPLES:,} samples); same: chrF between the translations of the original and of the changed text, in "
    "both directions",
    "numbers of translations: empty; copied (the source, which is not the reference); repeated (some "
    f"{N_GRAM} words in a row occur at least {MORE_OFTEN} times more than any in the source); length (more than "
    f"{LENGTH:g} times the characters of the reference, or less than 1/{LENGTH:g})",
)


@dataclass(frozen=True)
class Report:
    """What was measured of what."""

    subject: Subject
    n_lines: int
    n_all_lines: int
    """Lines of the text that these were chosen from."""
    plan: Plan
    measured: Measured

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader should know."""
        notes, changed = [], {row.change for row in self.measured.rows}
        if left_out := [change for change in self.plan.changes if change not in changed]:
            notes.append(f"left out, because no line has a place for it: {', '.join(left_out)}")
        if self.n_lines < self.n_all_lines:
            notes.append(f"{self.n_lines:,} of {self.n_all_lines:,} lines, spread evenly: not comparable with all")
        return tuple(notes)


def render_text(report: Report) -> str:
    """Format the report as a table, then what was measured and notes."""
    header = (
        "change", "rate", "lines", "chrF", "kept %", "95 %", "BLEU", "same", "empty", "copied", "repeated", "length",
    )  # fmt: skip
    table = aligned([header, *map(_cells, report.measured.rows)], range(1, len(header)))
    return "\n".join(map(printable, [*table, *_below(report)]))


def _cells(row: Row) -> tuple[str, ...]:
    scores = f"{row.chrf:.2f}", f"{row.bleu:.2f}"
    signs = [str(n) for n in asdict(row.signs).values()]
    if row.change is None:
        return "none", "", "", scores[0], "", "", scores[1], "", *signs
    kept = "-" if row.chrf_kept is None else f"{row.chrf_kept:.1f}"
    interval = "" if row.chrf_kept_interval is None else "-".join(f"{end:.1f}" for end in row.chrf_kept_interval)
    return (
        row.change, f"{row.rate:g} %", f"{row.n_changed:,}", scores[0], kept, interval, scores[1],
        f"{row.consistency:.2f}", *signs,
    )  # fmt: skip


def _below(report: Report) -> Iterator[str]:
    about = facts({"lines": report.n_lines, **vars(report.subject), "seed": report.plan.seed})
    for sentence in (*LEGEND, about, *(f"note: {note}" for note in report.notes)):
        yield from textwrap.wrap(sentence, COLUMNS, subsequent_indent="  ")
    yield from report.measured.signatures


def render_json(report: Report) -> str:
    """Format the report as one JSON object; missing values are null."""
    return json.dumps(
        {
            "rows": [_entry(row) for row in report.measured.rows],
            "lines": report.n_lines,
            **asdict(report.subject),
            "seed": report.plan.seed,
            "signatures": report.measured.signatures,
            "notes": report.notes,
        },
        ensure_ascii=False,
        indent=1,
    )


def _entry(row: Row) -> dict[str, object]:
    entry = asdict(row)
    signs = entry.pop("signs")
    return {**entry, **signs}
