"""The sections of the page on the test set as a whole: systems, scores, how they were trained."""

from __future__ import annotations

from collections.abc import Iterator

from nmt.compare.page.numbers import color, digits, legend, signed, spanned, system_name, table
from nmt.compare.page.settings import Trainings
from nmt.compare.page.view import View
from nmt.compare.screen import explanations, metric_name, p_value, verdicts
from nmt.compare.thresholds import agreement, threshold_of
from nmt.compare.types import Result
from nmt.html.charts import interval_bar, line_chart
from nmt.html.document import escaped


def summary(view: View) -> Iterator[str]:
    """Yield what was compared and what came out, in a few sentences."""
    text = view.comparison.text
    languages = f", {escaped(text.languages[0])} to {escaped(text.languages[1])}" if text.languages else ""
    yield f'<p class="lead">{escaped(text.name)}{languages}, {len(text.references):,} lines.</p>'
    yield from (f"<p>{escaped(sentence)}</p>" for sentence in verdicts(view.comparison))
    if view.comparison.notes:
        notes = "".join(f"<li>{escaped(note)}</li>" for note in view.comparison.notes)
        yield f'<section class="warnings"><ul>{notes}</ul></section>'


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
        metric = escaped(metric_name(view.comparison.results[0].metric))
        yield (
            '<p class="soft">Scores and differences are of all runs of a group. All that is shown line by line, or of '
            f"parts of the test set, is of one run of each group: the one whose {metric} is the median.</p>"
        )


def scores(view: View) -> Iterator[str]:
    """Yield a table of scores and differences for each metric."""
    yield '<h2 id="scores">Scores</h2>'
    for result in view.comparison.results:
        direction = "" if result.metric.higher_is_better else ' <span class="soft">(lower is better)</span>'
        yield f"<h3>{escaped(metric_name(result.metric))}{direction}</h3>"
        yield _score_table(view, result)
        for number in view.others:
            difference = result.differences[number]
            if difference is not None and difference.advice:
                yield f"<p>{escaped(view.names[number])}: {escaped(difference.advice)}</p>"
        yield f'<p class="soft signature">{escaped(result.metric.signature)}</p>'
    yield from (f'<p class="soft">{escaped(sentence)}</p>' for sentence in explanations(view.comparison))


def _score_table(view: View, result: Result) -> str:
    n, differences = digits(result), [each for each in result.differences if each is not None]
    reach = max([abs(end) for each in differences for end in each.interval] or [1.0])
    with_seeds = any(each.seed_error is not None for each in differences)
    corrected = len(view.others) > 1
    heads = ["system", "", "score", "95 % interval", "difference", "95 % interval", "p"]
    heads += ["p (Holm)"] if corrected else []
    heads += ["seeds (s.d.)", "error by lines", "error by seeds"] if with_seeds else []
    noticed = threshold_of(result.metric) is not None
    heads += ["people agree"] if noticed else []
    rows = []
    for number, (score, difference) in enumerate(zip(result.scores, result.differences, strict=True)):
        cells = [f"<b>{score.value:.{n}f}</b>", spanned(score.interval, n)]
        if difference is None:
            row = [system_name(view, number), "", *cells, *[""] * (4 if corrected else 3)]
        else:
            bar = interval_bar(difference.value, *difference.interval, reach)
            found = [f"<b>{signed(difference.value, n)}</b>", spanned(difference.interval, n, sign=True)]
            found += [_p_value(p) for p in (difference.p, difference.p_holm)[: 2 if corrected else 1]]
            row = [system_name(view, number), bar, *cells, *found]
        if with_seeds:
            seed_error = None if difference is None else difference.seed_error
            line_error = None if difference is None else difference.line_error
            values = (score.seed_deviation, line_error, seed_error)
            row += ["" if value is None else f"{value:.{n}f}" for value in values]
        if noticed:
            row.append("" if difference is None else escaped(agreement(result.metric, difference.value) or ""))
        rows.append(row)
    return table(heads, rows, n_text=2)


def _p_value(p: float | None) -> str:
    return "–" if p is None else escaped(p_value(p))


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
