"""Output of a comparison as text and as JSON; docs/comparing.md describes the JSON.

Kocmi, Zouhar, Federmann and Post: Navigating the Metrics Maze: Reconciling Score Magnitudes and Accuracies (ACL 2024,
arXiv:2401.06760), from the human judgements of pairs of systems of WMT and others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from nmt.console import aligned, listed, printable
from nmt.evaluate.compare import Comparison, Difference, Entry, MetricResult
from nmt.evaluate.compare.systems import Group
from nmt.evaluate.metrics import Metric, metric_name
from nmt.evaluate.significance import SEED, Interval
from nmt.tables import NOTE, Cell, Table, wrapped

SIGNIFICANT = 0.05
BETTER, WORSE, OPEN = VERDICTS = ("better than", "worse than", "not significantly different from")
UNDECIDED = (
    "the test and the interval disagree on whether there is a difference. With several systems, p is corrected for "
    "their number, but the interval is not. BLEU's brevity penalty skews the interval where translations are about as "
    "long as the references. Otherwise, p is close to the limit. A larger test set may decide."
)


def agreement(metric: Metric, difference: float) -> str | None:
    """Return how often people agree with a metric on a difference of this size; None if no figure was published."""
    if metric.formula == "bleu":
        for_65 = 1.06
        for_80 = 2.34
    elif metric.name == "chrf":
        for_65 = 0.76
        for_80 = 1.63
    elif "wmt22-comet-da" in metric.signature:
        for_65, for_80 = 0.0026, 0.0056  # published for scores times 100
    else:
        return None
    if abs(difference) >= for_80:
        return "over 80 %"
    return "65 to 80 %" if abs(difference) >= for_65 else "under 65 %"


def number(metric: Metric, value: float, *, signed: bool = False) -> str:
    """Format a score, or a difference if `signed`. Scores of metrics with values around 1 get more digits."""
    digits = 4 if metric.formula == "mean" else 2
    sign = "+" if signed else ""
    return f"{value:{sign}.{digits}f}"


def spanned(metric: Metric, interval: Interval, *, signed: bool = False) -> str:
    """Format an interval of scores, or of differences if `signed`."""
    return " to ".join(number(metric, end, signed=signed) for end in interval)


def title(metric: Metric) -> str:
    """Return the name of a metric, with a remark if lower scores are better."""
    name = metric_name(metric.name)
    return name if metric.higher_is_better else f"{name} (lower is better)"


def _text(comparison: Comparison, is_explained: bool) -> str:
    """Format the comparison as a table for each metric, followed by verdicts and notes, explanations and signatures."""
    lines = wrapped(_title(comparison))
    header, *cells = score_cells(comparison)
    n_groups = len(comparison.groups)
    table = []
    for n, result in enumerate(comparison.results):
        table.append([title(result.metric), *header])
        for group, row in zip(comparison.groups, cells[n * n_groups :], strict=False):
            table.append([printable(_counted(group)), *row])
    formatted = aligned(table, range(1, len(table[0])))
    for n, result in enumerate(comparison.results):
        first = n * (1 + n_groups)
        lines += ["", *formatted[first : first + 1 + n_groups]]
        lines += _wrapped_all(f"  {sentence}" for sentence in errors(result))
    sections = [verdicts(comparison)]
    if is_explained:
        sections.append(explanations(comparison))
    sections.append(f"{NOTE}{note}" for note in comparison.notes)
    for sentences in sections:
        if paragraph := _wrapped_all(sentences):
            lines += ["", *paragraph]
    if is_explained:
        lines += ["", *(result.metric.signature for result in comparison.results)]
    return "\n".join(map(printable, lines))


def _wrapped_all(sentences: Iterable[str]) -> list[str]:
    return [*chain.from_iterable(map(wrapped, sentences))]


def _title(comparison: Comparison) -> str:
    text = comparison.text
    baseline = comparison.groups[comparison.baseline].name
    direction = f"{'-'.join(text.languages)}, " if text.languages else ""
    return f"{text.name}: {direction}{len(text.references):,} lines, compared with {baseline}"


def _paper_cells(result: MetricResult) -> Iterator[Cell]:
    """Yield the score of each group by one metric, with its standard deviation over seeds."""
    metric = result.metric
    values = [entry.score.value for entry in result.entries]
    best = max(values) if metric.higher_is_better else min(values)
    for entry in result.entries:
        text = number(metric, entry.score.value)
        deviation = entry.score.seed_deviation
        if deviation is not None:
            text += f" ± {number(metric, deviation)}"
        yield Cell(text, entry.score.value == best, _verdict(result, entry.difference) in (BETTER, WORSE))


def score_cells(comparison: Comparison) -> list[tuple[str, ...]]:
    """Return the header of the score tables and a row for each metric and group, without empty columns."""
    interval = "95 % interval"
    if any(len(group.systems) > 1 for group in comparison.groups) and not _is_over_seeds(comparison):
        interval = "95 %, lines only"
    rows: list[tuple[str, ...]] = [("score", "95 % interval", "s.d.", "diff.", interval, "p", "people agree")]
    for result in comparison.results:
        rows += [_row(result.metric, entry) for entry in result.entries]
    columns = [column for column in zip(*rows, strict=True) if any(column[1:])]
    return [*zip(*columns, strict=True)]


def _row(metric: Metric, entry: Entry) -> tuple[str, ...]:
    score = entry.score
    difference = entry.difference
    deviation = "" if score.seed_deviation is None else number(metric, score.seed_deviation)
    row = number(metric, score.value), spanned(metric, score.interval), deviation
    if difference is None:
        return *row, "", "", "", ""
    p = ""
    if difference.p_holm is not None:
        p = f"{difference.p_holm:.4f}"
        if difference.p_holm < 0.00005:
            p = "<0.0001"
    change = number(metric, difference.value, signed=True), spanned(metric, difference.interval, signed=True)
    return *row, *change, p, agreement(metric, difference.value) or ""


def _counted(group: Group) -> str:
    return group.name if len(group.systems) == 1 else f"{group.name} ({len(group.systems)})"


def errors(result: MetricResult) -> Iterator[str]:
    """Yield sentences with the standard errors over lines and over seeds, for differences between groups of runs."""
    for entry in result.entries:
        difference = entry.difference
        if difference is not None and difference.seed_error is not None:
            over_lines = number(result.metric, difference.line_error)
            over_seeds = number(result.metric, difference.seed_error)
            advice = "" if difference.advice is None else f"; {difference.advice}"
            yield (
                f"{entry.group.name}: standard error of the difference {over_lines} over lines, {over_seeds} over "
                f"seeds{advice}"
            )


def verdicts(comparison: Comparison) -> Iterator[str]:
    """Yield for each system a sentence with the metrics by which it is better or worse than the baseline."""
    baseline = comparison.groups[comparison.baseline].name
    text = comparison.text
    where = ""
    if text.fair:
        share = f"{len(text.seen):,} of {len(text.references):,}"
        where = f", on lines of which {share} are in a training text, which says little about new text"
    is_open = False
    for position, group in enumerate(comparison.groups):
        metrics = {verdict: list[str]() for verdict in VERDICTS}
        for result in comparison.results:
            if verdict := _verdict(result, result.entries[position].difference):
                metrics.setdefault(verdict, []).append(metric_name(result.metric.name))
        is_open |= bool(metrics[OPEN])
        parts = []
        for verdict in VERDICTS:
            if names := metrics.pop(verdict):
                parts.append(f"{verdict} {baseline} by {listed(names, last='and')}")
        if parts:
            yield f"{group.name} is {', '.join(parts)}{where}."
        for why, names in metrics.items():
            yield f"{group.name} has no verdict by {listed(names, last='and')}: {why}"
    if text.fair:
        yield text.fair
    if is_open:
        yield "No significant difference does not mean equal: the interval shows how large the difference may be."


def _verdict(result: MetricResult, difference: Difference | None) -> str:
    """Return one of `VERDICTS`, or why there is none: the metric says little, or test and interval disagree; empty
    without a test."""
    if difference is None or difference.p_holm is None:
        return ""
    is_significant = difference.p_holm < SIGNIFICANT
    if is_significant == (math.prod(difference.interval) <= 0) or result.caution is not None:
        return result.caution or UNDECIDED
    if not is_significant:
        return OPEN
    return BETTER if (difference.value > 0) == result.metric.higher_is_better else WORSE


def _differences(comparison: Comparison) -> list[Difference]:
    """Return the differences of all groups from the baseline by all metrics."""
    entries = chain.from_iterable(result.entries for result in comparison.results)
    return [entry.difference for entry in entries if entry.difference is not None]


def _is_over_seeds(comparison: Comparison) -> bool:
    return any(difference.degrees_of_freedom is not None for difference in _differences(comparison))


def explanations(comparison: Comparison) -> Iterator[str]:
    """Yield sentences that explain the columns of the tables and how they were computed."""
    method = ": bootstrap over lines, paired for differences"
    if _is_over_seeds(comparison):
        method = " of scores: bootstrap over lines; those of differences: as p"
    yield f"95 % intervals{method}; {_trials(comparison)}; not corrected for several systems or metrics."
    if any(difference.p is not None for difference in _differences(comparison)):
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
    return f"{comparison.trials:,} trials, seed {SEED}"


def _test(comparison: Comparison) -> str:
    """Return the name of the test of significance, and of the correction of p."""
    test = f"approximate randomization, two-sided; {_trials(comparison)}"
    if _is_over_seeds(comparison):
        test = "t test over seeds and lines"
    n_compared = len(comparison.groups) - 1
    if n_compared > 1:
        test += f"; corrected for {n_compared} comparisons (Holm)"
    return f"{test}; not corrected for several metrics"


SYSTEM_FACTS = ("run", "step", "weights", "search", "precision")


@dataclass(frozen=True)
class ComparisonReport:
    """A comparison as the command shows it."""

    comparison: Comparison
    is_explained: bool = True
    """Whether the text ends with explanations and signatures, which are the same for all directions."""
    means: Sequence[str] = ()
    """Lines with means over several directions."""

    def as_table(self) -> Table:
        """Return a table with a row for each group and a column for each metric; its text shows all results.
        The best score of each metric is bold, and scores that differ significantly from the baseline's have a dagger.
        """
        comparison = self.comparison
        text = comparison.text
        baseline = comparison.groups[comparison.baseline].name
        groups = comparison.groups
        columns = [[title(result.metric), *_paper_cells(result)] for result in comparison.results]
        header, *rows = zip(["", *map(_counted, groups)], *columns, strict=True)
        notes = ["bold: the best score"]
        if any(difference.p_holm is not None for difference in _differences(comparison)):
            test = _test(comparison)
            notes.append(f"†: differs from {baseline} with p < {SIGNIFICANT} ({test}) and an interval without 0")
        if any(len(group.systems) > 1 for group in groups):
            notes.append("±: standard deviation over seeds")
        notes += [result.metric.signature for result in comparison.results]
        notes += [f"{NOTE}{note}" for note in comparison.notes] + [*self.means]
        about = {"text": text.name, "languages": "-".join(text.languages or ()), "lines": len(text.references)}
        records = []
        for result in comparison.results:
            for entry in result.entries:
                record = {"metric": result.metric.name, "group": entry.group.name, "systems": len(entry.group.systems)}
                difference = {}
                if entry.difference is not None:
                    difference = vars(entry.difference)
                records.append(
                    {
                        **about,
                        **record,
                        **vars(entry.score),
                        "difference": difference,
                        "signature": result.metric.signature,
                    }
                )
        shown = _text(comparison, self.is_explained)
        if self.means:
            shown = "\n".join([f"{shown}\n", *_wrapped_all(self.means)])
        return Table(header, rows, range(1, len(header)), _title(comparison), notes, records, shown)

    def as_json(self) -> dict[str, object]:
        """Return the comparison, without the lines of text, as values that JSON can represent."""
        comparison = self.comparison
        text = comparison.text
        groups = []
        for group in comparison.groups:
            systems = []
            for system in group.systems:
                facts = {fact: getattr(system, fact) for fact in ("name", *SYSTEM_FACTS)}
                if system.run is not None:
                    facts["run"] = str(system.run)
                systems.append(facts)
            groups.append({"name": group.name, "systems": systems})
        return {
            "text": text.name,
            "lines": len(text.references),
            "languages": text.languages,
            "baseline": comparison.groups[comparison.baseline].name,
            "groups": groups,
            "results": [_result_json(result) for result in comparison.results],
            "trials": comparison.trials,
            "seed": SEED,
            "notes": comparison.notes,
            "verdicts": [*verdicts(comparison)],
        }


def reports_of(comparisons: Sequence[Comparison]) -> list[ComparisonReport]:
    """Return a report for each direction; the last has explanations and, of several, means over directions."""
    *first, last = comparisons
    means = _macro_averages(comparisons) if first else []
    return [
        *(ComparisonReport(comparison, is_explained=False) for comparison in first),
        ComparisonReport(last, means=means),
    ]


def _macro_averages(comparisons: Sequence[Comparison]) -> list[str]:
    """Return for each metric a line with the mean scores of each group over comparisons of several directions."""
    lines = []
    n_directions = len(comparisons)
    for results in zip(*(comparison.results for comparison in comparisons), strict=True):
        means = []
        for entries in zip(*(result.entries for result in results), strict=True):
            mean = sum(entry.score.value for entry in entries) / n_directions
            means.append(f"{entries[0].group.name} {mean:.2f}")
        lines.append(f"macro-average over {n_directions} directions, {title(results[0].metric)}: {', '.join(means)}")
    return lines


def _result_json(result: MetricResult) -> dict[str, object]:
    metric = result.metric
    scores = []
    differences = []
    for entry in result.entries:
        name = {"group": entry.group.name}
        scores.append(name | vars(entry.score))
        if (difference := entry.difference) is not None:
            values = name | vars(difference) | {"people_agree": agreement(metric, difference.value)}
            if difference.degrees_of_freedom == math.inf:  # not in JSON
                values["degrees_of_freedom"] = None
            differences.append(values)
    return {
        "metric": metric.name,
        "signature": metric.signature,
        "higher_is_better": metric.higher_is_better,
        "scores": scores,
        "differences": differences,
    }
