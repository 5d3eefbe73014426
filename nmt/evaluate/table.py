"""Scores of several test sets as a table, and the history of a run's scores."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from nmt.console import aligned, printable
from nmt.evaluate.metrics import Score
from nmt.evaluate.report import Report, facts, metric_name, metric_value
from nmt.runs.scores import RecordedScore, ScoreRecord

AnyScore = Score | RecordedScore


def render_table(reports: Sequence[Report]) -> str:
    """Format reports on several splits, which were translated alike, as a table with a row for each split.

    Below it are the signatures, what was scored, and notes; where these are not the same for all splits, the splits
    that they belong to.
    """
    metrics = metrics_of(report.scores for report in reports)
    rows = [["split", *(printable(metric_name(metric)) for metric in metrics), "lines"]]
    signatures: dict[str, list[str]] = {}
    notes: dict[str, list[str]] = {}
    for report in reports:
        split = str(report.subject.split)
        rows.append([printable(split), *values(report.scores, metrics), f"{report.n_lines:,}"])
        for score in report.scores:
            signatures.setdefault(signature(score), []).append(split)
        for note in report.notes:
            notes.setdefault(f"note: {note}", []).append(split)
    subject = {name: value for name, value in vars(reports[0].subject).items() if name != "split"}
    below = [*_with_splits(signatures, len(reports)), facts(subject), *_with_splits(notes, len(reports))]
    return "\n".join([*aligned(rows, right=range(1, len(rows[0]))), *map(printable, below)])


def metrics_of(rows: Iterable[Sequence[AnyScore]]) -> list[str]:
    """Return the metrics of all rows, in the order in which they appear."""
    return list(dict.fromkeys(score.metric for scores in rows for score in scores))


def values(scores: Sequence[AnyScore], metrics: Sequence[str]) -> list[str]:
    """Return the cells of a row of scores."""
    by_metric = {score.metric: metric_value(score.metric, score.value) for score in scores}
    return [by_metric.get(metric, "-") for metric in metrics]


def signature(score: AnyScore) -> str:
    """Format a score's signature."""
    direction = "" if score.higher_is_better else "  (lower is better)"
    return f"{metric_name(score.metric)}: {score.signature}{direction}"


def _with_splits(lines: Mapping[str, Sequence[str]], n_splits: int) -> list[str]:
    return [line if len(splits) == n_splits else f"{line} ({', '.join(splits)})" for line, splits in lines.items()]


# --- history --------------------------------------------------------------------------------------


class History:
    """What was measured of a run, oldest first, and which of it is comparable: for each split and metric, the scores
    with the signature and the text of the newest one, if possible of one without notes."""

    def __init__(self, records: Sequence[ScoreRecord]) -> None:
        self.records = records
        self._standard = {
            (record.split, score.metric): (score.signature, record.text)
            for record in sorted(records, key=lambda record: not record.notes)  # the last one counts
            for score in record.scores
        }

    def is_comparable(self, record: ScoreRecord, score: RecordedScore) -> bool:
        """Whether signature and text of a score are those that count for its split and metric."""
        return self._standard[record.split, score.metric] == (score.signature, record.text)

    def text(self) -> str:
        """Format the history as a table; scores that are not comparable are marked with an asterisk."""
        metrics = metrics_of(record.scores for record in self.records)
        names = [f"{printable(metric_name(metric))} " for metric in metrics]  # the space is for asterisks
        rows = [["date (UTC)", "split", "lines", "step", "weights", *names, "precision", "search"]]
        comparable, others = dict[str, dict[str, None]](), dict[str, None]()
        for record in self.records:
            cells = dict.fromkeys(metrics, "- ")
            for score in record.scores:
                is_comparable = self.is_comparable(record, score)
                if is_comparable:
                    comparable.setdefault(signature(score), {})[record.split] = None
                else:
                    others[f"* {signature(score)}"] = None
                cells[score.metric] = f"{metric_value(score.metric, score.value)}{' ' if is_comparable else '*'}"
            step = "-" if record.step is None else f"{record.step:,}"
            weights = record.weights or f"ensemble of {len(record.ensemble)}"
            date, split = record.date[:16].replace("T", " "), printable(record.split)
            how = printable(record.precision), printable(record.search)
            rows.append([date, split, f"{record.lines:,}", step, weights, *cells.values(), *how])
        n_splits = len({record.split for record in self.records})
        below = _with_splits({line: [*splits] for line, splits in comparable.items()}, n_splits)
        if others:
            below += [
                "* not comparable with the other scores of the split: another signature, or another text",
                *others,
            ]
        return "\n".join([*aligned(rows, right={2, 3, *range(5, 5 + len(metrics))}), *map(printable, below)])

    def json(self) -> str:
        """Format the history as a JSON list of the records; each score has `comparable`, too."""
        objects = []
        for record in self.records:
            scores = [score.model_dump() | {"comparable": self.is_comparable(record, score)} for score in record.scores]
            objects.append(record.model_dump() | {"scores": scores})
        return json.dumps(objects, ensure_ascii=False, indent=1)
