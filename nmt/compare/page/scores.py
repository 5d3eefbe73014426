"""The sections of the page on the test set as a whole: systems, scores, how they were trained."""

from __future__ import annotations

from collections.abc import Iterator

from nmt.compare.page.numbers import color, digits, legend, p_value, signed, spanned, system_name, table
from nmt.compare.page.settings import Trainings
from nmt.compare.page.view import View, metric_name
from nmt.compare.thresholds import SOURCE, agreement, threshold_of
from nmt.compare.types import Result
from nmt.html.charts import interval_bar, line_chart
from nmt.html.document import escaped


def summary(view: View) -> Iterator[str]:
    """Yield what the comparison found, in a few sentences."""
    text, first = view.comparison.text, view.comparison.results[0]
    languages = f", {escaped(text.languages[0])} to {escaped(text.languages[1])}" if text.languages else ""
    yield f'<p class="lead">{escaped(text.name)}{languages}, {len(text.references):,} lines. '
    for number in view.others:
        difference = first.differences[number]
        assert difference is not None, "of a group that is not the baseline"
        n_digits = digits(first)
        p = f", p {p_value(difference.p_holm)}" if difference.p_holm is not None else ""
        yield (
            f"{escaped(view.names[number])} has {signed(difference.value, n_digits)} {escaped(metric_name(first))} "
            f"(95 % interval {spanned(difference.interval, n_digits, sign=True)}{p})."
        )
    yield "</p>"
    if view.comparison.notes:
        yield f'<section class="warnings"><ul>{"".join(f"<li>{escaped(note)}</li>" for note in view.comparison.notes)}'
        yield "</ul></section>"


def systems(view: View) -> Iterator[str]:
    """Yield a table of the systems."""
    yield '<h2 id="systems">Systems</h2>'
    facts = ("run", "step", "weights", "search", "precision")
    known = [
        fact
        for fact in facts
        if any(getattr(system, fact) is not None for group in view.comparison.groups for system in group.systems)
    ]
    rows = []
    for number, group in enumerate(view.comparison.groups):
        for position, system in enumerate(group.systems):
            marks = ["baseline"] if number == view.baseline else []
            marks += ["shown line by line"] if len(group.systems) > 1 and position == view.shown[number] else []
            values = [getattr(system, fact) for fact in known]
            named = system_name(view, number)
            named += f' <span class="soft">{escaped(system.name)}</span>' if len(group.systems) > 1 else ""
            cells = ["–" if value is None else escaped(str(value)) for value in values]
            rows.append([named, ", ".join(marks), *cells])
    yield table(["system", "", *known], rows, n_text=2 + len(known))
    if any(len(group.systems) > 1 for group in view.comparison.groups):
        metric = escaped(metric_name(view.comparison.results[0]))
        yield (
            '<p class="soft">Scores and differences are of all runs of a group. All that is shown line by line, or of '
            f"parts of the test set, is of one run of each group: the one whose {metric} is the median.</p>"
        )


def scores(view: View) -> Iterator[str]:
    """Yield a table of scores and differences for each metric."""
    yield '<h2 id="scores">Scores</h2>'
    for result in view.comparison.results:
        direction = "" if result.metric.higher_is_better else ' <span class="soft">(lower is better)</span>'
        yield f"<h3>{escaped(metric_name(result))}{direction}</h3>"
        yield _score_table(view, result)
        for number in view.others:
            difference = result.differences[number]
            if difference is not None and difference.advice:
                yield f"<p>{escaped(view.names[number])}: {escaped(difference.advice)}</p>"
        yield f'<p class="soft signature">{escaped(result.metric.signature)}</p>'
    baseline = escaped(view.names[view.baseline])
    yield (
        f'<p class="soft">Differences are from {baseline}. Intervals: 95 %. {view.comparison.trials:,} trials or '
        f"samples, seed {view.comparison.seed}. Holm: corrected for the number of systems that are compared with the "
        f"baseline. People agree: in how many of a hundred pairs of systems with such a difference ({SOURCE}).</p>"
    )


def _score_table(view: View, result: Result) -> str:
    n, differences = digits(result), [each for each in result.differences if each is not None]
    reach = max([abs(end) for each in differences for end in each.interval] or [1.0])
    with_seeds = any(each.seed_error is not None for each in differences)
    heads = ["system", "", "score", "interval", "difference", "interval", "p", "p (Holm)"]
    heads += ["seeds (s.d.)", "error by lines", "error by seeds"] if with_seeds else []
    noticed = threshold_of(result.metric) is not None
    heads += ["people agree"] if noticed else []
    rows = []
    for number, (score, difference) in enumerate(zip(result.scores, result.differences, strict=True)):
        cells = [f"<b>{score.value:.{n}f}</b>", spanned(score.interval, n)]
        if difference is None:
            row = [system_name(view, number), "", *cells, "", "", "", ""]
        else:
            bar = interval_bar(difference.value, *difference.interval, reach)
            tests = [p_value(difference.p), p_value(difference.p_holm)]
            found = [f"<b>{signed(difference.value, n)}</b>", spanned(difference.interval, n, sign=True)]
            row = [system_name(view, number), bar, *cells, *found, *tests]
        if with_seeds:
            seed_error = None if difference is None else difference.seed_error
            line_error = None if difference is None else difference.line_error
            values = (score.seed_deviation, line_error, seed_error)
            row += ["" if value is None else f"{value:.{n}f}" for value in values]
        if noticed:
            row.append("" if difference is None else escaped(agreement(result.metric, difference.value) or ""))
        rows.append(row)
    return table(heads, rows, n_text=2)


def training(view: View, trainings: Trainings) -> Iterator[str]:
    """Yield how the runs were trained: settings that differ, and learning curves."""
    if not trainings.n_runs:
        return
    yield '<h2 id="training">Training</h2>'
    if trainings.problems:
        yield f"<ul>{''.join(f'<li>{escaped(problem)}</li>' for problem in trainings.problems)}</ul>"
    if trainings.differences:
        yield "<h3>Settings that differ</h3>"
        heads = ["setting", *(system_name(view, number) for number in range(len(view.names)))]
        rows = ([escaped(key), *map(escaped, values)] for key, values in trainings.differences)
        yield table(heads, rows, n_text=len(heads))
    else:
        yield "<p>No setting differs.</p>"
    if any(len(curve) > 1 for _, curve in trainings.curves):
        yield f'<h3>Learning curves</h3>{legend(view)}<div class="charts">'
        lines = [(color(number), curve) for number, curve in trainings.curves]
        yield f"{line_chart('BLEU on the development set, by step', lines)}</div>"
