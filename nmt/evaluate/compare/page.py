"""The page of a comparison: one HTML file, readable without its script, which adds search and sorting."""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from nmt.config.load import load_saved_config
from nmt.config.messages import differences
from nmt.console import printable, printable_sentence
from nmt.errors import NmtError
from nmt.evaluate.compare import Comparison, MetricResult
from nmt.evaluate.compare.screen import (
    SYSTEM_FACTS,
    errors,
    explanations,
    number,
    score_cells,
    spanned,
    title,
    verdicts,
)
from nmt.evaluate.compare.systems import Group, System, all_systems
from nmt.evaluate.contrasts import n_words
from nmt.evaluate.metrics import Floats, LineCounts, Metric, Texts, as_tuple, metric_name
from nmt.evaluate.significance import bootstrap_scores, interval
from nmt.layout import RunDir
from nmt.pages import asset, document, escaped, histogram, interval_bar, line_chart, table
from nmt.runs.info import read_info
from nmt.runs.log import learning_curve

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class View:
    """A comparison, and what the page shows of its lines: the translations of one system of each group."""

    comparison: Comparison
    shown: Sequence[int]
    """The position of the shown system in each group."""
    names: Sequence[str]
    """The names of the groups."""
    others: Sequence[int]
    """The positions of the groups that are compared with the baseline."""
    references: Texts
    """The first reference of each line, with control characters escaped, as in all text of the page."""
    translations: Sequence[Texts]
    """The translation of each line, by group."""
    results: Sequence[MetricResult]
    """The results with meaningful line scores: chrF, if it was computed, and metrics that average line scores."""

    @property
    def metric(self) -> Metric:
        """The metric whose line scores are drawn."""
        return self.results[0].metric

    def counts(self, result: MetricResult) -> list[LineCounts]:
        """Return the counts of the systems that are shown, by group."""
        return [entry.counts[n] for entry, n in zip(result.entries, self.shown, strict=True)]

    def line_scores(self, result: MetricResult) -> Floats:
        """Return the score of each line by each group, (groups, L)."""
        return np.stack([counts.line_scores() for counts in self.counts(result)])


def make_view(comparison: Comparison) -> View:
    """Choose the system to show for each group: the one with the (lower) median score by the first metric."""
    results = comparison.results
    shown = []
    compared = []
    translations = []
    for position, entry in enumerate(results[0].entries):
        scores = entry.score.by_system
        median = sorted(range(len(scores)), key=scores.__getitem__)[(len(scores) - 1) // 2]
        shown.append(median)
        translations.append([*map(printable_sentence, entry.group.systems[median].translations)])
        if position != comparison.baseline:
            compared.append(position)
    by_line = next((result for result in results if result.metric.formula == "chrf"), results[0])
    averaged = [result for result in results if result.metric.formula == "mean" and result is not by_line]
    return View(
        comparison,
        shown,
        names=[group.name for group in comparison.groups],
        others=compared,
        references=[printable_sentence(as_tuple(reference)[0]) for reference in comparison.text.references],
        translations=translations,
        results=[by_line, *averaged],
    )


def page(comparison: Comparison) -> str:
    """Return the HTML page of a comparison; settings and logs that cannot be read are listed on the page."""
    view = make_view(comparison)
    heading = f"{', '.join(view.names[other] for other in view.others)} against {view.names[comparison.baseline]}"
    sections = (_summary, _scores, _systems, _training, _distribution, _parts, _lines)
    body = chain.from_iterable(section(view) for section in sections)
    package = "nmt.evaluate.compare"
    return document(heading, asset(package, "page.css"), body, asset(package, "page.js"))


# --- Elements ---


def _color(position: int) -> str:
    """Return the CSS class of a group."""
    return f"g{position % 8}"


def _key(view: View, position: int) -> str:
    """Return the name of a group in HTML, marked with its colour."""
    return f'<span class="key {_color(position)}"></span> {escaped(view.names[position])}'


def _legend(view: View) -> str:
    return f'<p class="legend">{"   ".join(_key(view, position) for position in range(len(view.names)))}</p>'


def _paragraphs(sentences: Iterable[str], kind: str = "") -> Iterator[str]:
    return (f"<p{kind}>{escaped(sentence)}</p>" for sentence in sentences)


def _items(texts: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{escaped(text)}</li>' for text in texts)}</ul>"


# --- Sections ---


def _summary(view: View) -> Iterator[str]:
    text = view.comparison.text
    languages = f", {escaped(text.languages[0])} to {escaped(text.languages[1])}" if text.languages else ""
    yield f'<p class="lead">{escaped(text.name)}{languages}, {len(text.references):,} lines.</p>'
    yield from _paragraphs(verdicts(view.comparison))
    if view.comparison.notes:
        yield f'<section class="warnings">{_items(view.comparison.notes)}</section>'


def _scores(view: View) -> Iterator[str]:
    """Yield a table of scores and differences for each metric."""
    yield '<h2 id="scores">Scores</h2>'
    header, *rows = score_cells(view.comparison)
    rest = iter(rows)
    for result in view.comparison.results:
        intervals = [entry.difference.interval for entry in result.entries if entry.difference is not None]
        reach = max(map(abs, chain.from_iterable(intervals)))
        cells = []
        for position, entry in enumerate(result.entries):
            bar = ""
            if entry.difference is not None:
                bar = interval_bar(entry.difference.value, *entry.difference.interval, reach)
            cells.append([_key(view, position), bar, *map(escaped, next(rest))])
        yield f"<h3>{escaped(title(result.metric))}</h3>"
        yield table(["system", "", *header], cells, n_text=2)
        yield from _paragraphs(errors(result))
        yield f'<p class="soft signature">{escaped(result.metric.signature)}</p>'
    yield from _paragraphs(explanations(view.comparison), ' class="soft"')


def _systems(view: View) -> Iterator[str]:
    """Yield a table of the systems, with their weights and search settings."""
    yield '<h2 id="systems">Systems</h2>'
    groups = view.comparison.groups
    metric = view.comparison.results[0].metric
    systems = all_systems(groups)
    known = [fact for fact in SYSTEM_FACTS if any(getattr(system, fact) is not None for system in systems)]
    rows = []
    for position, group in enumerate(groups):
        for n, system in enumerate(group.systems):
            marks = []
            name = _key(view, position)
            if position == view.comparison.baseline:
                marks.append("baseline")
            if len(group.systems) > 1:
                name += f' <span class="soft">{escaped(system.name)}</span>'
                if n == view.shown[position]:
                    marks.append("shown line by line")
            rows.append([name, ", ".join(marks), *(_fact(system, fact) for fact in known)])
    yield table(["system", "", *known], rows, n_text=2 + len(known))
    if len(systems) > len(groups):
        yield (
            '<p class="soft">Scores and differences are of all runs of a group. Scores of lines and of parts of the '
            f"test set are of one run of each group: the one whose {escaped(metric_name(metric.name))} is the median."
            "</p>"
        )


def _fact(system: System, name: str) -> str:
    value = getattr(system, name)
    return "–" if value is None else escaped(str(value))


def _training(view: View) -> Iterator[str]:
    """Yield the training section: settings that differ between the runs, and learning curves."""
    groups = view.comparison.groups
    if all(system.run is None for system in all_systems(groups)):
        return
    problems: list[str] = []
    settings = differing_settings(groups, problems)
    curves = learning_curves(groups, problems)
    yield '<h2 id="training">Training</h2>'
    if problems:
        yield _items(problems)
    if settings:
        heads = ["setting", *(_key(view, position) for position in range(len(groups)))]
        yield "<h3>Settings that differ</h3>"
        yield table(heads, [[*map(escaped, row)] for row in settings], n_text=len(heads))
    else:
        yield "<p>No setting differs.</p>"
    if any(len(curve) > 1 for _, curve in curves):
        lines = [(_color(position), curve) for position, curve in curves]
        chart = line_chart("BLEU on the development set, by step", lines)
        yield f'<h3>Learning curves</h3>{_legend(view)}<div class="charts">{chart}</div>'


def _distribution(view: View) -> Iterator[str]:
    """Yield the distribution of line scores."""
    metric = view.metric
    baseline = view.comparison.baseline
    name = metric_name(metric.name)
    scores = view.line_scores(view.results[0])
    yield f'<h2 id="distribution">{escaped(name)} of each line</h2>'
    rows = []
    for other in view.others:
        gains = scores[other] - scores[baseline]
        if not metric.higher_is_better:
            gains = -gains
        better = int((gains > 1e-9).sum())
        worse = int((gains < -1e-9).sum())
        equal = sum(map(str.__eq__, view.translations[baseline], view.translations[other]))
        counts = (better, worse, len(gains) - better - worse, equal)
        rows.append([_key(view, other), *(f"{n:,}" for n in counts)])
    heads = ["", f"better than {escaped(view.names[baseline])}", "worse", "same score", "same translation"]
    yield table(heads, rows)
    highest = 1.0 if metric.formula == "mean" else 100.0
    edges = np.linspace(min(0.0, float(scores.min())), max(highest, scores.max()), 26)
    layers = {f"{_color(n)} outline": np.histogram(row, edges)[0].tolist() for n, row in enumerate(scores)}
    ticks = {edge: f"{edges[edge]:.4g}" for edge in range(0, len(edges), 5)}
    chart = histogram(f"{name} of a line", layers, ticks, "lines")
    yield f'{_legend(view)}<div class="charts">{chart}</div>'


SAMPLES = 1000
FEW = 10
_MOST_PARTS = 6


def _parts(view: View) -> Iterator[str]:
    """Yield scores of parts of the test set: by length of the reference, and by presence in a training text."""
    lengths = by_length([*map(n_words, view.references)])
    parts = {f"{name} words in the reference": rows for name, rows in lengths.items()}
    seen = np.asarray(sorted(view.comparison.text.seen), np.int64)
    if 0 < len(seen) < len(view.references):
        parts["source or reference in a training text"] = seen
        parts["neither in a training text"] = np.setdiff1d(np.arange(len(view.references)), seen)
    heads = ["", "lines"]
    for position in range(len(view.names)):
        heads.append(f"{_key(view, position)}, {escaped(metric_name(view.metric.name))}")
        if position != view.comparison.baseline:
            heads += ["difference", "95 % interval"]
    yield '<h2 id="parts">Parts of the test set</h2>'
    yield table(heads, [[name, f"{len(rows):,}", *part_cells(view, rows)] for name, rows in parts.items()])
    yield (
        f'<p class="soft">Intervals of differences: 95 %, paired bootstrap with {SAMPLES:,} samples, not corrected for '
        "the number of parts: about one in twenty equal parts seems to differ. Parts of fewer than "
        f"{FEW} lines have no interval. Where no spaces are written, characters are counted as words.</p>"
    )


def by_length(lengths: Sequence[int]) -> dict[str, Rows]:
    """Divide lines by length into at most six parts of about equal size; return the line numbers (n,) of each part."""
    values = np.asarray(lengths)
    edges = np.unique(np.quantile(values, np.arange(1, _MOST_PARTS) / _MOST_PARTS, method="inverted_cdf"))
    part_of = np.searchsorted(edges, values)
    parts = {}
    for part in np.unique(part_of):
        rows = np.flatnonzero(part_of == part)
        low = int(values[rows].min())
        high = int(values[rows].max())
        name = f"{low:,}"
        if low < high:
            name += f"–{high:,}"
        parts[name] = rows
    return parts


def part_cells(view: View, rows: Rows) -> Iterator[str]:
    """Yield the cells of a part with the lines `rows` (n,): scores, differences from the baseline, and intervals."""
    metric = view.metric
    baseline = view.comparison.baseline
    systems = [LineCounts(metric, counts.counts[rows]) for counts in view.counts(view.results[0])]
    scores = [system.score() for system in systems]
    drawn = bootstrap_scores(systems, SAMPLES) if len(rows) >= FEW else None
    for position, score in enumerate(scores):
        yield number(metric, score)
        if position == baseline:
            continue
        yield f"<b>{number(metric, score - scores[baseline], signed=True)}</b>"
        if drawn is None:
            yield "–"
        else:
            yield spanned(metric, interval(drawn[position] - drawn[baseline]), signed=True)


def _lines(view: View) -> Iterator[str]:
    """Yield the section of all lines; the script fills in its controls and its list."""
    baseline = view.names[view.comparison.baseline]
    systems = {str(position): view.names[position] for position in view.others}
    metrics = {str(n): metric_name(result.metric.name) for n, result in enumerate(view.results)}
    orders = {
        "difference": "largest difference", "gain": f"better than {baseline}", "loss": f"worse than {baseline}",
        "baseline": f"lowest score of {baseline}", "score": "lowest score", "reference": "longest reference",
        "line": "number of the line",
    }  # fmt: skip
    yield f'<h2 id="lines">Lines</h2>{_legend(view)}'
    yield (
        '<p class="soft"><mark>Marked</mark>: words that are not in the reference; in the reference, words that no '
        f"translation has. <u>Underlined</u>: words that are not in the translation of {escaped(baseline)}. Numbers: "
        f"the score of the line, and its difference from {escaped(baseline)}.</p>"
    )
    yield '<form id="controls" hidden="hidden">'
    yield '<label class="search">Search <input type="search" id="search" autocomplete="off"/></label>'
    yield _choice("System", "system", systems) + _choice("Order", "order", orders) + _choice("by", "metric", metrics)
    yield '<label><input type="checkbox" id="differ"/> only lines that differ</label>'
    if view.comparison.text.seen:
        yield '<label><input type="checkbox" id="seen"/> only lines in a training text</label>'
    yield '<span class="pages"><button type="button" id="previous">← Previous</button> <span id="page"></span>'
    yield '<button type="button" id="next">Next →</button></span></form>'
    yield f'<p id="status" role="status">JavaScript lists the {len(view.references):,} lines here.</p>'
    yield f'<ol id="list"></ol><script type="application/gzip" id="data">{_data(view)}</script>'


def _choice(label: str, name: str, options: dict[str, str]) -> str:
    """Return a drop-down list, hidden if there is only one option."""
    inside = "".join(f'<option value="{value}">{escaped(text)}</option>' for value, text in options.items())
    hidden = ' hidden="hidden"' if len(options) < 2 else ""
    return f'<label{hidden}>{label} <select id="{name}">{inside}</select></label>'


def _data(view: View) -> str:
    """Return all lines for the script as compressed JSON in base64, so that corpus text cannot end the element."""
    metrics = []
    text = view.comparison.text
    for result in view.results:
        digits = 4 if result.metric.formula == "mean" else 2
        scores = view.line_scores(result).round(digits).tolist()
        metrics.append({"digits": digits, "higher": result.metric.higher_is_better, "scores": scores})
    sources = None if text.sources is None else [*map(printable_sentence, text.sources)]
    data = {
        "names": [*map(printable, view.names)],
        "baseline": view.comparison.baseline,
        "languages": [language.replace("_", "-") for language in text.languages or ("", "")],
        "metrics": metrics,
        "sources": sources,
        "references": view.references,
        "translations": view.translations,
        "seen": sorted(text.seen),
    }
    packed = gzip.compress(json.dumps(data, ensure_ascii=False).encode(), compresslevel=6, mtime=0)
    return b64encode(packed).decode()


# --- What the runs of a comparison record ---

_INFO = ("data_dir", "corpus", "tokenizer", "precision", "device_name", "torch", "initial")


def differing_settings(groups: Sequence[Group], problems: list[str]) -> list[tuple[str, ...]]:
    """Return the settings in which runs differ, each with its values by group.

    Several values of a group are separated by semicolons; `?` stands for a group without readable settings. Errors of
    reading are appended to `problems`.
    """
    trees = []
    for group in groups:
        readable = filter(None, (_settings(system, problems) for system in group.systems))
        trees.append([*readable])
    first = next(chain.from_iterable(trees), {})
    changes = []
    old_values = dict[str, str | None]()
    for of_group in trees:
        runs = [{change.key: change for change in differences(first, tree)} for tree in of_group]
        changes.append(runs)
        for run in runs:
            old_values |= {key: change.old for key, change in run.items()}
    rows = []
    for key, old in old_values.items():
        row = [key]
        for runs in changes:
            values = dict[str, None]()
            for run in runs:
                value = run[key].new if key in run else old
                values[value or "–"] = None
            row.append("; ".join(values) or "?")
        rows.append(tuple(row))
    return sorted(rows)


def _settings(system: System, problems: list[str]) -> dict[str, object]:
    """Return the settings of a run and facts from its run.json; nothing if there is no run or it cannot be read."""
    if system.run is None:
        return {}
    run = RunDir(system.run)
    try:
        config = load_saved_config(run.config).model_dump(mode="json")
        info = read_info(run).model_dump(mode="json")
    except (NmtError, OSError) as error:
        problems.append(f"{system.name}: its settings cannot be read: {error}")
        return {}
    del config["training"]["run_dir"]  # differs between any two runs
    return {**config, "run.json": {key: info[key] for key in _INFO if info[key]}}


def learning_curves(groups: Sequence[Group], problems: list[str]) -> list[tuple[int, list[tuple[float, float]]]]:
    """Return the learning curve of each run, with the position of its group.

    A curve has the step and the development BLEU of each validation, by the best weights. Errors of reading are
    appended to `problems`.
    """
    curves = []
    for position, group in enumerate(groups):
        for system in group.systems:
            if system.run is None:
                continue
            try:
                points = learning_curve(RunDir(system.run))
            except (NmtError, OSError) as error:
                problems.append(f"{system.name}: no learning curve: {error}")
                continue
            curve = [(float(point.step), max(point.bleu.values())) for point in points if point.bleu]
            curves.append((position, curve))
    return curves
