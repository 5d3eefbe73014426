"""The sections of the page on where the systems differ: lines, parts of the test set, words, n-grams."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from nmt.compare.page.ngrams import MOST, NGram, won_and_lost
from nmt.compare.page.numbers import color, digits, legend, signed, spanned, system_name, table
from nmt.compare.page.parts import SAMPLES, Part, by_length, part_scores
from nmt.compare.page.training_text import TrainingText, by_frequency
from nmt.compare.page.view import View
from nmt.compare.page.words import find_words
from nmt.compare.screen import metric_name
from nmt.html.charts import histogram, line_chart, scatter
from nmt.html.document import escaped, language_attributes

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
        "the number of parts: among twenty equal ones about one seems to differ. Where no spaces are written, "
        "characters are counted as words.</p>"
    )


def by_training_text(view: View, texts: dict[str, TrainingText]) -> Iterator[str]:
    """Yield which lines of the test set the training texts hold, and how many rare words are translated.

    texts: by the names of the groups that were trained on them; that of the baseline comes first if it is there.
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
            f"set, the reference of {len(targets):,}, both of {len(sources & targets):,}, letter by letter.</p>"
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
                row += [f"<b>{signed(difference[0], n)}</b>", spanned(difference[1], n, sign=True)]
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
