"""The result of a challenge set as text, as JSON, and all of its contrasts as a file."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from nmt.challenge.outcome import KindResult, Outcome, by_kind
from nmt.console import printable, printable_sentence
from nmt.evaluate.report import Subject

LEGEND = (
    "right: pairs whose reference is more probable than the changed one, log-probabilities summed over pieces, with a "
    "95 % interval (Wilson); per piece: by their mean, which does not favour shorter lines; margin: mean difference of "
    "the sums, in nats"
)


@dataclass(frozen=True)
class Report:
    """How a model did on a challenge set."""

    subject: Subject
    n_lines: int
    """Lines that contrasts were made from, or entries that were read."""
    kinds: tuple[str, ...]
    outcomes: tuple[Outcome, ...]
    seed: int | None
    """Of the contrasts; None if they were read."""
    notes: tuple[str, ...]

    def failures(self, n: int) -> Iterator[str]:
        """Yield for each kind up to `n` contrasts that the model gets wrong, the worst first, as lines to print."""
        for kind in self.kinds:
            wrong = [each for each in self.outcomes if each.contrast.kind == kind and each.margin <= 0]
            for outcome in sorted(wrong, key=lambda outcome: outcome.margin)[:n]:
                contrast = outcome.contrast
                worst = max(zip(outcome.changed, contrast.changed, strict=True))[1]
                yield f"{kind}, {contrast.origin}, margin {outcome.margin:.2f}"
                yield f"  source     {printable_sentence(contrast.source)}"
                yield f"  reference  {printable_sentence(contrast.reference)}"
                yield f"  changed    {printable_sentence(worst)}"


def render_text(report: Report) -> str:
    """Format the result as a table, then what was scored and notes."""
    rows = [
        ("kind", "pairs", "right %", "95 %", "per piece %", "margin"),
        *map(_cells, by_kind(report.outcomes, report.kinds)),
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join([first.ljust(widths[0]), *(cell.rjust(n) for cell, n in zip(cells, widths[1:], strict=True))])
        for first, *cells in rows
    ]
    facts = {"lines": report.n_lines, **vars(report.subject), "seed": report.seed}
    lines.append(", ".join(f"{name} {_fact(value)}" for name, value in facts.items() if value is not None))
    lines.append(LEGEND)
    lines += [f"note: {note}" for note in report.notes]
    return "\n".join(map(printable, lines))


def _cells(result: KindResult) -> tuple[str, ...]:
    if not result.n:
        return result.kind, "0", "-", "-", "-", "-"
    shares = [100 * n / result.n for n in (result.n_right, result.n_right_per_piece)]
    low, high = result.interval
    interval = f"{100 * low:.1f}-{100 * high:.1f}"
    return result.kind, f"{result.n:,}", f"{shares[0]:.1f}", interval, f"{shares[1]:.1f}", f"{result.margin:.2f}"


def _fact(value: object) -> str:
    return " + ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def render_json(report: Report) -> str:
    """Format the result as one JSON object; missing values are null."""
    return json.dumps(
        {
            "kinds": [*map(_entry, by_kind(report.outcomes, report.kinds))],
            "lines": report.n_lines,
            **asdict(report.subject),
            "seed": report.seed,
            "notes": report.notes,
        },
        ensure_ascii=False,
        indent=1,
    )


def _entry(result: KindResult) -> dict[str, object]:
    n, entry = result.n, {"kind": result.kind, "pairs": result.n}
    values = {
        "right": result.n_right,
        "right_per_piece": result.n_right_per_piece,
        "share": result.n_right / n if n else None,
        "interval": result.interval if n else None,
        "share_per_piece": result.n_right_per_piece / n if n else None,
        "margin": result.margin if n else None,
    }
    return {**entry, **values}


def contrasts_json(outcomes: Sequence[Outcome]) -> str:
    """Return the contrasts in the form of LingEval97, with the log-probability and the number of pieces of each line.

    The scripts of LingEval97 take it, and `read_published`.
    """
    entries = []
    for _, group in itertools.groupby(outcomes, lambda outcome: (outcome.contrast.origin, outcome.contrast.reference)):
        same = list(group)
        contrast = same[0].contrast
        errors = [
            {"type": each.contrast.kind, "contrastive": line, **probability._asdict()}
            for each in same
            for line, probability in zip(each.contrast.changed, each.changed, strict=True)
        ]
        entries.append(
            {
                "source": contrast.source,
                "reference": contrast.reference,
                "origin": contrast.origin,
                **same[0].reference._asdict(),
                "errors": errors,
            }
        )
    return json.dumps(entries, ensure_ascii=False, indent=1) + "\n"
