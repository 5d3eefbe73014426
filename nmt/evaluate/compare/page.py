"""The page of a comparison: one HTML file, readable without its script, which adds search and sorting."""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import numpy as np

from nmt.console import printable
from nmt.errors import NmtError
from nmt.evaluate.compare.screen import agreement, explanations, metric_name, p_value, threshold_of, verdicts
from nmt.evaluate.compare.systems import Comparison, Result
from nmt.evaluate.compare.view import (
    FEW,
    MOST,
    MOST_CELLS,
    SAMPLES,
    SCRIPT_PATTERN,
    NGram,
    Part,
    Trainings,
    TrainingText,
    View,
    by_frequency,
    by_length,
    find_words,
    make_view,
    part_scores,
    read_training_text,
    read_trainings,
    won_and_lost,
)
from nmt.evaluate.significance import Interval
from nmt.figures.charts import histogram, interval_bar, line_chart, scatter
from nmt.figures.page import asset, document, escaped, language_attributes
from nmt.layout import DataDir, RunDir
from nmt.runs.info import read_info


def digits(result: Result) -> int:
    """Return how many digits after the point are shown: scores of neural metrics are mostly below 1."""
    return 4 if result.metric.formula == "mean" else 2


def signed(value: float, n_digits: int) -> str:
    """Format a difference."""
    shown = f"{value:+.{n_digits}f}".replace("-", "−")
    return shown if float(shown.replace("−", "-")) else shown[1:]


def spanned(interval: Interval, n_digits: int, sign: bool = False) -> str:
    """Format an interval."""
    low, high = (signed(end, n_digits) if sign else f"{end:.{n_digits}f}" for end in interval)
    return f"{low} to {high}"


def system_name(view: View, number: int) -> str:
    """Return the name of a group with its colour."""
    return f'<span class="key {color(number)}"></span> {escaped(view.names[number])}'


def color(number: int) -> str:
    """Return the class of a group."""
    return f"g{number % 8}"


def legend(view: View) -> str:
    """Return the legend of charts."""
    return f'<p class="legend">{"   ".join(system_name(view, number) for number in range(len(view.names)))}</p>'


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], n_text: int = 1) -> str:
    """Return a table of HTML cells. The first `n_text` columns hold text, the others numbers."""
    kinds = ["" if number < n_text else ' class="n"' for number in range(len(heads))]
    lines = ['<div class="wide"><table>', _row("th", heads, kinds)]
    lines += [_row("td", row, kinds) for row in rows]
    return "\n".join([*lines, "</table></div>"])


def _row(tag: str, cells: Sequence[str], kinds: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{tag}{kind}>{cell}</{tag}>' for cell, kind in zip(cells, kinds, strict=True))}</tr>"


def lines(view: View, seen: Collection[int]) -> Iterator[str]:
    """Yield the section that the script fills. `seen`: the numbers of lines of which a side is in a training text."""
    yield f'<h2 id="lines">Lines</h2>{legend(view)}'
    yield (
        '<p class="soft"><mark>Marked</mark>: words that are not in the reference; in the reference, those that no '
        f"translation has. <u>Underlined</u>: not in the translation of {escaped(view.names[view.baseline])}. Numbers: "
        "the score of the line, and the difference from it.</p>"
    )
    yield from _controls(view, bool(seen))
    yield f'<p id="status" role="status">JavaScript lists the {len(view.references):,} lines here.</p>'
    yield '<ol id="list"></ol>'
    yield f'<script type="application/gzip" id="data">{_data(view, seen)}</script>'


def _controls(view: View, any_seen: bool) -> Iterator[str]:
    """Yield the form that the script shows."""
    baseline = escaped(view.names[view.baseline])
    systems = "".join(f'<option value="{number}">{escaped(view.names[number])}</option>' for number in view.others)
    metrics = "".join(
        f'<option value="{number}">{escaped(metric_name(result.metric))}</option>'
        for number, result in enumerate(_metrics(view))
    )
    orders = {
        "difference": "largest difference", "gain": f"better than {baseline}", "loss": f"worse than {baseline}",
        "baseline": f"lowest score of {baseline}", "score": "lowest score", "source": "longest source",
        "reference": "longest reference", "line": "number of the line",
    }  # fmt: skip
    if view.comparison.text.sources is None:
        del orders["source"]
    options = "".join(f'<option value="{key}">{label}</option>' for key, label in orders.items())
    hidden = "" if len(view.others) > 1 else ' hidden="hidden"'
    yield '<form id="controls" hidden="hidden">'
    yield '<label class="search">Search <input type="search" id="search" autocomplete="off"/></label>'
    yield f'<label{hidden}>System <select id="system">{systems}</select></label>'
    yield f'<label>Order <select id="order">{options}</select></label>'
    only = "" if len(_metrics(view)) > 1 else ' hidden="hidden"'
    yield f'<label{only}>by <select id="metric">{metrics}</select></label>'
    yield '<label><input type="checkbox" id="differ"/> only lines that differ</label>'
    if any_seen:
        yield '<label><input type="checkbox" id="seen"/> only those in a training text</label>'
    yield '<span class="pages"><button type="button" id="previous">← Previous</button> <span id="page"></span>'
    yield '<button type="button" id="next">Next →</button></span></form>'


def _metrics(view: View) -> list[Result]:
    """Return the results with meaningful line scores: chrF, and metrics that average line scores."""
    return [view.by_line] + [
        result for result in view.comparison.results if result.metric.formula == "mean" and result is not view.by_line
    ]


def _data(view: View, seen: Collection[int]) -> str:
    """Return all lines for the script: JSON, compressed to a quarter; no text can end the element that it is in."""
    metrics = []
    for result in _metrics(view):
        scores = view.line_scores(result).round(digits(result)).tolist()
        metrics.append({"digits": digits(result), "higher": result.metric.higher_is_better, "scores": scores})
    data = {
        "names": [*map(printable, view.names)],
        "baseline": view.baseline,
        "languages": [language and language.replace("_", "-") for language in view.languages],
        "metrics": metrics,
        "sources": view.sources,
        "references": view.references,
        "translations": view.translations,
        "seen": sorted(seen),
        "pattern": SCRIPT_PATTERN,
        "mostCells": MOST_CELLS,
    }
    packed = gzip.compress(json.dumps(data, ensure_ascii=False).encode(), compresslevel=6, mtime=0)
    return b64encode(packed).decode()


_BINS = 25


def line_by_line(view: View) -> Iterator[str]:
    """Yield the distribution of the scores of lines, and each system's against those of the baseline."""
    metric = metric_name(view.by_line.metric)
    scores, baseline = view.line_scores(view.by_line), view.names[view.baseline]
    yield f'<h2 id="distribution">{escaped(metric)} of each line</h2>'
    rows = []
    for number in view.others:
        gains = view.gains[number]
        better, worse = int((gains > 1e-9).sum()), int((gains < -1e-9).sum())
        pairs = zip(view.translations[view.baseline], view.translations[number], strict=True)
        equal = sum(first == second for first, second in pairs)
        counts = (better, worse, len(gains) - better - worse, equal)
        rows.append([system_name(view, number), *(f"{n:,}" for n in counts)])
    heads = ["", f"better than {escaped(baseline)}", "worse", "same score", "same translation"]
    yield table(heads, rows)
    low, high = min(0.0, float(scores.min())), max(100.0 if view.by_line.metric.name == "chrf" else 1.0, scores.max())
    edges = np.linspace(low, high, _BINS + 1)
    layers = {f"{color(n)} outline": np.histogram(row, edges)[0].tolist() for n, row in enumerate(scores)}
    ticks = {number: f"{edges[number]:.4g}" for number in range(0, _BINS + 1, 5)}
    yield f'{legend(view)}<div class="charts">{histogram(f"{metric} of a line", layers, ticks, "lines")}'
    for number in view.others:
        points = list(zip(scores[view.baseline].tolist(), scores[number].tolist(), strict=True))
        yield scatter(f"{metric} of a line, by both", (baseline, view.names[number]), color(number), points)
    yield "</div>"


def by_lengths(view: View) -> Iterator[str]:
    """Yield scores by the length of the source, if it is known, and of the reference."""
    yield '<h2 id="lengths">By length</h2>'
    if view.sources is not None:
        lengths = [len(find_words(line)) for line in view.sources]
        yield from _parts(view, "Words of the source", by_length(lengths), chart=True)
    lengths = [len(words) for words in view.reference_words]
    yield from _parts(view, "Words of the reference", by_length(lengths), chart=True)
    yield (
        f'<p class="soft">Intervals of differences: 95 %, paired bootstrap with {SAMPLES:,} samples, not corrected for '
        "the number of parts: among twenty equal ones about one seems to differ. Parts of fewer than "
        f"{FEW} lines have none. Where no spaces are written, characters are counted as words.</p>"
    )


def by_training_text(view: View, texts: dict[str, TrainingText]) -> Iterator[str]:
    """Yield a section on test lines that are in the training texts, and on the translation of rare words.

    texts: by the names of the groups that were trained on them, the baseline's first if it is there.
    """
    if not texts:
        return
    yield '<h2 id="overlap">The training text</h2>'
    n = len(view.references)
    for names, training in texts.items():
        sources, targets = training.seen
        part = "" if training.n_lines == training.all_lines else f"Of it, the first {training.n_lines:,} were read. "
        yield (
            f"<p>{escaped(names)}: the training text in {escaped(str(training.directory.path))} has "
            f"{training.all_lines:,} lines. {part}It holds the source of {len(sources):,} of {n:,} lines of the test "
            f"set, the reference of {len(targets):,}, both of {len(sources & targets):,} (exact matches).</p>"
        )
    seen = sorted(set().union(*(side for training in texts.values() for side in training.seen)))
    if 0 < len(seen) < n:
        rest = np.setdiff1d(np.arange(n), seen)
        parts = [Part("source or reference in a training text", np.asarray(seen)), Part("neither", rest)]
        yield from _parts(view, "Lines of the test set", parts)
    names, training = next(iter(texts.items()))
    yield "<h3>Rare words</h3>"
    rows = []
    for each in by_frequency(training, view.reference_words, view.translation_words):
        rows.append([each.name, f"{each.n:,}", *(f"{count / each.n:.1%}" for count in each.n_found)])
    heads = ["times in the training text", "words of references"]
    yield table([*heads, *(system_name(view, number) for number in range(len(view.names)))], rows)
    sample = ""
    if training.n_counted < training.all_lines:
        sample = f" in a sample of {training.n_counted:,} of its {training.all_lines:,} lines"
    yield (
        '<p class="soft">The share of the words of the references that the translations of their lines have, by how '
        f"often these words occur in the training text of {escaped(names)}{sample}.</p>"
    )


def n_grams(view: View) -> Iterator[str]:
    """Yield the n-grams that each system has more often than the baseline, and less often."""
    yield f'<h2 id="ngrams">N-grams won and lost</h2><p class="soft">N-grams of the references, up to {MOST} a side, '
    yield "and how many of them the translations of their lines have.</p>"
    for number in view.others:
        words = view.translation_words
        sides = won_and_lost(view.reference_words, words[view.baseline], words[number])
        yield '<div class="beside">'
        for more, side in zip(("more", "less"), sides, strict=True):
            yield f"<div><h3>{system_name(view, number)} has {more} often</h3>{_n_gram_table(view, number, side)}</div>"
        yield "</div>"


def _n_gram_table(view: View, number: int, n_grams: Sequence[NGram]) -> str:
    attributes = language_attributes(view.languages[1])
    rows = []
    for each in n_grams:
        counts = (f"{n:,}" for n in (each.n_reference, each.n_baseline, each.n_other))
        rows.append([f"<bdi{attributes}>{escaped(each.shown)}</bdi>", *counts, signed(each.gain, 0)])
    heads = ["", "references", system_name(view, view.baseline), system_name(view, number), ""]
    return table(heads, rows) if rows else "<p>None.</p>"


def _parts(view: View, title: str, parts: Sequence[Part], chart: bool = False) -> Iterator[str]:
    """Yield the scores of parts of the test set."""
    result = view.by_line
    n, found = digits(result), list(part_scores(view, result, parts))
    yield f'<h3>{escaped(title)}</h3><div class="parts">'
    heads = ["", "lines"]
    for number in range(len(view.names)):
        heads += [f"{system_name(view, number)}, {escaped(metric_name(result.metric))}"]
        heads += [] if number == view.baseline else ["difference", "interval"]
    rows = []
    for part in found:
        row = [escaped(part.name), f"{part.n_lines:,}"]
        for value, difference in zip(part.values, part.differences, strict=True):
            row.append(f"{value:.{n}f}")
            if difference is not None:
                gain, interval = difference
                row += [f"<b>{signed(gain, n)}</b>", spanned(interval, n, sign=True) if interval else "–"]
        rows.append(row)
    yield table(heads, rows)
    if chart and len(found) > 1:
        lines = [
            (color(number), [(float(at), part.values[number]) for at, part in enumerate(found)])
            for number in range(len(view.names))
        ]
        ticks = {float(at): part.name for at, part in enumerate(found)}
        yield f'<div class="charts">{line_chart(f"{metric_name(result.metric)}: {title.lower()}", lines, ticks)}</div>'
    yield "</div>"


def summary(view: View) -> Iterator[str]:
    """Yield a summary of the comparison in a few sentences."""
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


def page(comparison: Comparison) -> str:
    """Return the page. What it reads beside the comparison (settings, logs and training text of the runs) may be
    missing; the page says so."""
    view = make_view(comparison)
    trainings = read_trainings(comparison)
    texts = _training_texts(view, trainings.problems)
    seen = {number for text in texts.values() for side in text.seen for number in side}
    names = [view.names[number] for number in view.others]
    title = f"{', '.join(names)} against {view.names[view.baseline]}"
    package = "nmt.evaluate.compare"
    body = [
        *summary(view),
        *scores(view),
        *systems(view),
        *training(view, trainings),
        *line_by_line(view),
        *by_lengths(view),
        *by_training_text(view, texts),
        *n_grams(view),
        *lines(view, seen),
    ]
    return document(title, asset(package, "page.css"), body, asset(package, "page.js"))


def _training_texts(view: View, problems: list[str]) -> dict[str, TrainingText]:
    """Read each training text of the systems shown once; keys are the names of the systems trained on it."""
    comparison = view.comparison
    languages, sources = comparison.text.languages, comparison.text.sources
    if languages is None or sources is None:
        return {}
    names_of: dict[DataDir, list[str]] = {}
    for number in [view.baseline, *view.others]:
        if (run := view.systems[number].run) is not None:
            try:
                names_of.setdefault(DataDir(Path(read_info(RunDir(run)).data_dir)), []).append(view.names[number])
            except NmtError:
                continue  # read_trainings says so
    sides, words = (sources, view.unescaped_references), {*chain.from_iterable(view.reference_words)}
    texts = {}
    for directory, names in names_of.items():
        try:
            texts[", ".join(names)] = read_training_text(directory, languages, sides, words)
        except NmtError as error:
            problems.append(f"{', '.join(names)}: the training text cannot be read: {error}")
    return texts
