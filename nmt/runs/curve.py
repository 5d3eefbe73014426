"""The learning curve of a run: its validations, a row for each."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from nmt.errors import CheckpointError
from nmt.layout import RunDir
from nmt.runs.info import Weights
from nmt.runs.log import KINDS, is_validation, number, read_log


@dataclass(frozen=True)
class Point:
    """One validation. chrF and perplexity are those of the weights with the highest BLEU, or if nothing was translated
    the lowest perplexity; None if not recorded."""

    step: int
    minutes: float | None
    """Of training so far."""
    bleu: dict[Weights, float]
    """BLEU on the development set of the weights as trained, of their moving average and of the mean of the last
    checkpoints, of those there are."""
    chrf: float | None
    perplexity: float | None
    accuracy: float | None = None
    """Of pieces or labels, at the lowest perplexity, of a run that does not translate."""


def learning_curve(run: RunDir) -> list[Point]:
    """Read the validations of a run in the order of its log. Raises CheckpointError if there are none."""
    validations: dict[int, dict[Weights, dict[str, float | None]]] = {}
    # of a run that translates, all validations have BLEU
    records = [*read_log(run.log, having=b'"bleu"')] or read_log(run.log, having=b'"perplexity"')
    for record in records:
        step = number(record, "step")
        if is_validation(record) and step is not None:
            values = {name: number(record, name) for name in ("bleu", "chrf", "perplexity", "accuracy", "minutes")}
            if values["bleu"] is None and values["perplexity"] is None:
                continue
            validations.setdefault(int(step), {})[KINDS[record["kind"]]] = values
    if not validations:
        raise CheckpointError(f"{run.path}: no run with a validation; nmt train makes one")
    points = []
    for step, kinds in validations.items():
        bleu_of = {kind: values["bleu"] for kind, values in kinds.items() if values["bleu"] is not None}
        best = min(kinds.values(), key=lambda values: (-(values["bleu"] or 0.0), values["perplexity"] or math.inf))
        minutes = max((values["minutes"] for values in kinds.values() if values["minutes"] is not None), default=None)
        accuracy = None if bleu_of else best["accuracy"]
        points.append(Point(step, minutes, bleu_of, best["chrf"], best["perplexity"], accuracy))
    return points


def curve_table(points: Sequence[Point]) -> str:
    """Format a learning curve as a table in Markdown; without BLEU it is short."""
    if all(not point.bleu for point in points):
        lines = ["| minutes | steps | perplexity | accuracy |", "|---|---|---|---|"]
        for point in points:
            cells = [_rounded(point.minutes, 1), f"{point.step:,}"]
            cells += [_rounded(point.perplexity, 2), _rounded(point.accuracy, 4)]
            lines.append(f"| {' | '.join(cells)} |")
        return "\n".join(lines)
    lines = [
        "| minutes | steps | BLEU raw | moving average | mean of the last | chrF | perplexity |",
        "|---|---|---|---|---|---|---|",
    ]
    for point in points:
        bleu = [_rounded(point.bleu.get(kind), 1) for kind in KINDS.values()]
        others = [_rounded(point.chrf, 1), _rounded(point.perplexity, 2)]
        lines.append(f"| {' | '.join([_rounded(point.minutes, 1), f'{point.step:,}', *bleu, *others])} |")
    return "\n".join(lines)


def curve_json(points: Sequence[Point]) -> str:
    """Format a learning curve as a list of JSON objects; weights that were not scored are missing in `bleu`."""
    return json.dumps([asdict(point) for point in points], indent=1)


def _rounded(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"
