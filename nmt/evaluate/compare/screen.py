"""Output of a comparison as text and as JSON; docs/comparing.md describes the JSON.

Kocmi, Zouhar, Federmann and Post: Navigating the Metrics Maze: Reconciling Score Magnitudes and Accuracies (ACL 2024,
arXiv:2401.06760), from the human judgements of pairs of systems of WMT and others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from nmt.console import aligned, printable
from nmt.evaluate.compare.systems import Comparison, Difference, Group, GroupScore, Result
from nmt.evaluate.line_statistics import Metric
from nmt.evaluate.metrics import metric_name
from nmt.evaluate.significance import Interval
from nmt.tables import NOTE, Cell, Table, wrapped

SIGNIFICANT = 0.05
UNDECIDED = (
    "the test and the interval disagree on whether there is a difference. BLEU's brevity penalty skews the interval "
    "where translations are about as long as the references; otherwise p is close to the limit. A larger test set may "
    "decide."
)


def agreement(metric: Metric, difference: float) -> str | None:
    """Return how often people agree with a metric on a difference of this size; None if no figure was published."""
    if metric.formula == "bleu":
        for_65, for_80 = 1.06, 2.34
    elif metric.formula == "chrf":
        for_65, for_80 = 0.76, 1.63
    elif "wmt22-comet-da" in metric.signature:
        for_65, for_80 = 0.0026, 0.0056  # published for scores times 100
    else:
        return None
    if abs(difference) >= for_80:
        return "over 80 %"
    return "65 to 80 %" if abs(difference) >= for_65 else "under 65 %"


def number(metric: Metric, value: float, signed: bool = False) -> str:
    """Format a score, or a difference if `signed`. Scores of metrics with values around 1 get more digits."""
    return f"{value:{'+' if signed else ''}.{4 if metric.formula == 'mean' else 2}f}"


def spanned(metric: Metric, interval: Interval, signed: bool = False) -> str:
    """Format an interval of scores, or of differences if `signed`."""
    return " to ".join(number(metric, end, signed) for end in interval)


def title(metric: Metric) -> str:
    """Return the name of a metric, with a remark if lower scores are better."""
    return metric_name(metric.name) + ("" if metric.higher_is_better else " (lower is better)")


def _text(comparison: Comparison, is_explained: bool) -> str:
    """Format the comparison as a table for each metric, followed by verdicts and notes, explanations and signatures."""
    lines = wrapped(_title(comparison))
    header, *rows = score_cells(comparison)
    cells, table = iter(rows), []
    for result in comparison.results:
        table.append([title(result.metric), *header])
        table += [[printable(_counted(group)), *next(cells)] for group in comparison.groups]
    formatted = iter(aligned(table, range(1, len(table[0]))))
    for result in comparison.results:
        lines += ["", *islice(formatted, 1 + len(comparison.groups))]
        lines += [line for sentence in errors(comparison, result) for line in wrapped(f"  {sentence}")]
    notes = [f"{NOTE}{note}" for note in comparison.notes]
    for sentences in (verdicts(comparison), explanations(comparison) if is_explained else (), notes):
        found = [line for sentence in sentences for line in wrapped(sentence)]
        lines += ["", *found] if found else []
    lines += ["", *(result.metric.signature for result in comparison.results)] if is_explained else []
    return "\n".join(map(printable, lines))


def as_table(comparison: Comparison, is_explained: bool = True) -> Table:
    """Return a table with a row for each group and a column for each metric; its text shows all results.

    is_explained: whether the text ends with explanations and signatures, which are the same for all directions.

    The best score of each metric is bold, and scores that differ significantly from the baseline's have a dagger.
    """
    text, baseline, groups = comparison.text, comparison.groups[comparison.baseline].name, comparison.groups
    columns = [[title(result.metric), *_paper_cells(result)] for result in comparison.results]
    header, *rows = zip(["", *map(_counted, groups)], *columns, strict=True)
    is_tested = any(difference.p_holm is not None for difference in _differences(comparison))
    dagger = f"†: differs from {baseline} with p < {SIGNIFICANT} ({_test(comparison)}) and an interval without 0"
    notes = [
        "bold: the best score",
        *[dagger] * is_tested,
        *["±: standard deviation over seeds"] * any(len(group.systems) > 1 for group in groups),
        *(result.metric.signature for result in comparison.results),
        *(f"{NOTE}{note}" for note in comparison.notes),
    ]
    records = [
        {
            "text": text.name, "languages": "-".join(text.languages or ()), "lines": len(text.references),
            "metric": result.metric.name, "group": group.name, "systems": len(group.systems),
            **vars(score), "difference": {} if difference is None else vars(difference),
            "signature": result.metric.signature,
        }
        for result in comparison.results
        for group, score, difference in zip(groups, result.scores, result.differences, strict=True)
    ]  # fmt: skip
    return Table(
        header, rows, range(1, len(header)), _title(comparison), notes, records, _text(comparison, is_explained)
    )


def _title(comparison: Comparison) -> str:
    text, baseline = comparison.text, comparison.groups[comparison.baseline].name
    direction = f"{'-'.join(text.languages)}, " if text.languages else ""
    return f"{text.name}: {direction}{len(text.references):,} lines, compared with {baseline}"


def _paper_cells(result: Result) -> list[Cell]:
    """Return the score of each group by one metric, with its standard deviation over seeds."""
    metric = result.metric
    best = (max if metric.higher_is_better else min)(score.value for score in result.scores)
    cells = []
    for score, difference in zip(result.scores, result.differences, strict=True):
        deviation = "" if score.seed_deviation is None else f" ± {number(metric, score.seed_deviation)}"
        p = None if difference is None or _is_undecided(difference) else difference.p_holm
        is_significant = p is not None and p < SIGNIFICANT
        cells.append(Cell(f"{number(metric, score.value)}{deviation}", score.value == best, is_significant))
    return cells


def score_cells(comparison: Comparison) -> list[tuple[str, ...]]:
    """Return the header of the score tables and a row for each metric and group, without empty columns."""
    of_lines = any(len(group.systems) > 1 for group in comparison.groups) and not _is_over_seeds(comparison)
    interval = "95 %, lines only" if of_lines else "95 % interval"
    rows: list[tuple[str, ...]] = [("score", "95 % interval", "s.d.", "diff.", interval, "p", "people agree")]
    for result in comparison.results:
        rows += [_row(result.metric, *pair) for pair in zip(result.scores, result.differences, strict=True)]
    return [*zip(*(column for column in zip(*rows, strict=True) if any(column[1:])), strict=True)]


def _row(metric: Metric, score: GroupScore, difference: Difference | None) -> tuple[str, ...]:
    deviation = "" if score.seed_deviation is None else number(metric, score.seed_deviation)
    row = number(metric, score.value), spanned(metric, score.interval), deviation
    if difference is None:
        return *row, "", "", "", ""
    p = "" if difference.p_holm is None else f"{difference.p_holm:.4f}" if difference.p_holm >= 0.00005 else "<0.0001"
    change = number(metric, difference.value, signed=True), spanned(metric, difference.interval, signed=True)
    return *row, *change, p, agreement(metric, difference.value) or ""


def _counted(group: Group) -> str:
    return group.name if len(group.systems) == 1 else f"{group.name} ({len(group.systems)})"


def errors(comparison: Comparison, result: Result) -> Iterator[str]:
    """Yield sentences with the standard errors over lines and over seeds, for differences between groups of runs."""
    for group, difference in zip(comparison.groups, result.differences, strict=True):
        if difference is not None and difference.seed_error is not None:
            over_lines, over_seeds = (
                number(result.metric, error) for error in (difference.line_error, difference.seed_error)
            )
            advice = "" if difference.advice is None else f"; {difference.advice}"
            yield (
                f"{group.name}: standard error of the difference {over_lines} over lines, {over_seeds} over "
                f"seeds{advice}"
            )


def verdicts(comparison: Comparison) -> Iterator[str]:
    """Yield for each system a sentence with the metrics by which it is better or worse than the baseline."""
    baseline, is_open = comparison.groups[comparison.baseline].name, False
    for position, group in enumerate(comparison.groups):
        metrics: dict[str, list[str]] = {"better than": [], "worse than": [], "not significantly different from": []}
        undecided = list[str]()
        for result in comparison.results:
            if (difference := result.differences[position]) is not None and difference.p_holm is not None:
                better = "better than" if (difference.value > 0) == result.metric.higher_is_better else "worse than"
                verdict = better if difference.p_holm < SIGNIFICANT else "not significantly different from"
                names = undecided if _is_undecided(difference) else metrics[verdict]
                names.append(metric_name(result.metric.name))
        if parts := [f"{verdict} {baseline} by {listed(names)}" for verdict, names in metrics.items() if names]:
            yield f"{group.name} is {', '.join(parts)}."
        if undecided:
            yield f"{group.name} has no verdict by {listed(undecided)}: {UNDECIDED}"
        is_open = is_open or bool(metrics["not significantly different from"])
    if is_open:
        yield "No significant difference does not mean equal: the interval shows how large the difference may be."


def _is_undecided(difference: Difference) -> bool:
    """Return whether the test and the interval disagree on whether there is a difference; False without a test."""
    return difference.p is not None and (difference.p < SIGNIFICANT) == (math.prod(difference.interval) <= 0)


def _differences(comparison: Comparison) -> list[Difference]:
    """Return the differences of all groups from the baseline by all metrics."""
    every = [difference for result in comparison.results for difference in result.differences]
    return [difference for difference in every if difference is not None]


def _is_over_seeds(comparison: Comparison) -> bool:
    differences = _differences(comparison)
    return any(each.degrees_of_freedom is not None for each in differences)


def explanations(comparison: Comparison) -> Iterator[str]:
    """Yield sentences that explain the columns of the tables and how they were computed."""
    differences = _differences(comparison)
    of = ": bootstrap over lines, paired for differences"
    if _is_over_seeds(comparison):
        of = " of scores: bootstrap over lines; those of differences: as p"
    yield f"95 % intervals{of}; {_trials(comparison)}."
    if any(each.p is not None for each in differences):
        yield (
            f"p: how often two equal systems would differ this much by chance; below {SIGNIFICANT} a difference counts "
            f"as significant ({_test(comparison)})."
        )
    if any(agreement(result.metric, 0.0) for result in comparison.results):
        yield (
            "people agree: the share of system pairs with such a difference in which people prefer the same system "
            "(Kocmi et al., 2024, arXiv:2401.06760)."
        )


def _trials(comparison: Comparison) -> str:
    return f"{comparison.trials:,} trials, seed {comparison.seed}"


def _test(comparison: Comparison) -> str:
    """Return the name of the test of significance, and of the correction of p."""
    over_lines = f"approximate randomization, two-sided; {_trials(comparison)}"
    n_compared = len(comparison.groups) - 1
    correction = f"; corrected for {n_compared} comparisons (Holm)" if n_compared > 1 else ""
    return f"{'t test over seeds and lines' if _is_over_seeds(comparison) else over_lines}{correction}"


def listed(names: Sequence[str]) -> str:
    """Join names as in `BLEU, chrF and TER`."""
    return " and ".join([", ".join(names[:-1]), names[-1]]) if names[1:] else names[0]


SYSTEM_FACTS = ("run", "step", "weights", "search", "precision")


def macro_averages(comparisons: Sequence[Comparison]) -> list[str]:
    """Return for each metric a line with the mean scores of each group over comparisons of several directions."""
    lines = []
    for own in zip(*(comparison.results for comparison in comparisons), strict=True):
        metric, n = own[0].metric, len(own)
        means = [sum(result.scores[i].value for result in own) / n for i in range(len(comparisons[0].groups))]
        named = (f"{group.name} {mean:.2f}" for group, mean in zip(comparisons[0].groups, means, strict=True))
        lines.append(f"macro-average over {n} directions, {title(metric)}: {', '.join(named)}")
    return lines


def as_json(comparison: Comparison) -> dict[str, object]:
    """Return the comparison, without the lines of text, as values that JSON can represent; missing values are None."""
    text = comparison.text
    return {
        "text": text.name,
        "lines": len(text.references),
        "languages": text.languages,
        "baseline": comparison.groups[comparison.baseline].name,
        "groups": [
            {
                "name": group.name,
                "systems": [
                    {name: _plain(getattr(system, name)) for name in ("name", *SYSTEM_FACTS)}
                    for system in group.systems
                ],
            }
            for group in comparison.groups
        ],
        "results": [_result(comparison.groups, result) for result in comparison.results],
        "trials": comparison.trials,
        "seed": comparison.seed,
        "notes": comparison.notes,
    }


def _result(groups: Sequence[Group], result: Result) -> dict[str, object]:
    metric = result.metric
    return {
        "metric": metric.name,
        "signature": metric.signature,
        "higher_is_better": metric.higher_is_better,
        "scores": [{"group": group.name, **vars(score)} for group, score in zip(groups, result.scores, strict=True)],
        "differences": [
            {
                "group": group.name,
                **{name: _plain(value) for name, value in vars(difference).items()},
                "people_agree": agreement(metric, difference.value),
            }
            for group, difference in zip(groups, result.differences, strict=True)
            if difference is not None
        ],
    }


def _plain(value: object) -> object:
    """Return a value for JSON: a path as text, infinity as None."""
    if isinstance(value, Path):
        return str(value)
    return None if value == math.inf else value
