"""The section of the page with the lines: some of them as HTML, and all of them for the script."""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64encode
from collections.abc import Collection, Iterator, Sequence
from html import escape
from itertools import groupby
from operator import itemgetter

import numpy as np

from nmt.compare.page.numbers import digits, legend, signed, system_name
from nmt.compare.page.view import View
from nmt.compare.page.words import MOST_CELLS, PATTERN, SCRIPT_PATTERN, common_words
from nmt.compare.screen import metric_name
from nmt.compare.types import Result
from nmt.console import printable
from nmt.html.document import escaped, language_attributes
from nmt.significance.lines import Floats

STATIC = 50
"""Lines that are on the page without the script."""


def lines(view: View, seen: Collection[int]) -> Iterator[str]:
    """Yield the section. `seen`: the numbers of lines of which a side is in a training text."""
    chosen = _most_different(view)
    yield f'<h2 id="lines">Lines</h2>{legend(view)}'
    yield (
        '<p class="soft"><mark>Marked</mark>: words that are not in the reference; in the reference, those that no '
        f"translation has. <u>Underlined</u>: not in the translation of {escaped(view.names[view.baseline])}. Numbers: "
        "the score of the line, and the difference from it.</p>"
    )
    yield from _controls(view, bool(seen))
    yield (
        f'<p id="status" role="status">The {len(chosen):,} of {len(view.references):,} lines in which the systems '
        "differ most. With JavaScript all of them can be searched and sorted here.</p>"
    )
    yield '<ol id="list">'
    scores = view.line_scores(view.by_line).round(digits(view.by_line))
    for number in chosen:
        yield _line(view, number, scores[:, number], number in seen)
    yield "</ol>"
    yield f'<script type="application/gzip" id="data">{_data(view, seen)}</script>'


def _most_different(view: View) -> list[int]:
    """Return the numbers of lines with the largest gains and losses of each group, by number."""
    a_side = max(1, STATIC // (2 * max(1, len(view.others))))
    chosen: set[int] = set()
    for number in view.others:
        order = np.argsort(view.gains[number], kind="stable")
        gains = view.gains[number]
        chosen |= {int(row) for row in order[:a_side] if gains[row] < 0}
        chosen |= {int(row) for row in order[::-1][:a_side] if gains[row] > 0}
    return sorted(chosen)


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
    """Return the results whose scores of lines mean something: chrF and those that consist of scores of lines."""
    return [view.by_line] + [
        result for result in view.comparison.results if result.metric.formula == "mean" and result is not view.by_line
    ]


def _line(view: View, number: int, scores: Floats, is_seen: bool) -> str:
    """Return a line as the script makes it. `scores`: (groups,), rounded."""
    n = digits(view.by_line)
    reference, all_words = view.reference_words[number], [words[number] for words in view.translation_words]
    common = [common_words(reference, words) for words in all_words]
    parts = [f'<li class="line" id="line-{number + 1}"><a href="#line-{number + 1}">{number + 1}</a>']
    parts += ['<span class="seen">in a training text</span>'] if is_seen else []
    parts.append("<dl>")
    if view.sources is not None:
        parts.append(_entry("source", escape(view.sources[number]), view.languages[0]))
    missed = [not any(flags) for flags in zip(*(in_reference for in_reference, _ in common), strict=True)]
    shown = _marked(view.references[number], missed, [False] * len(missed))
    parts.append(_entry("reference", shown, view.languages[1]))
    for group, words in enumerate(all_words):
        gain = "" if group == view.baseline else signed(scores[group] - scores[view.baseline], n)
        head = f"<span>{system_name(view, group)}</span> <span>{scores[group]:.{n}f} <b>{gain}</b></span>"
        in_baseline = common_words(all_words[view.baseline], words)[1]
        wrong, changed = [not there for there in common[group][1]], [not there for there in in_baseline]
        shown = _marked(view.translations[group][number], wrong, changed)
        parts.append(_entry(head, shown, view.languages[1]))
    return "".join([*parts, "</dl></li>"])


def _entry(head: str, shown: str, language: str | None) -> str:
    return f"<dt>{head}</dt><dd{language_attributes(language)}>{shown}</dd>"


def _marked(text: str, wrong: Sequence[bool], changed: Sequence[bool]) -> str:
    """Return a text as HTML whose words are marked or underlined, by word."""
    parts, end = [], 0
    words = zip(re.finditer(PATTERN, text), wrong, changed, strict=True)
    for (is_wrong, is_changed), run in groupby(words, key=itemgetter(1, 2)):
        spans = [word.span() for word, _, _ in run]
        start, stop = spans[0][0], spans[-1][1]
        piece = escape(text[start:stop])
        piece = f"<u>{piece}</u>" if is_changed else piece
        parts += [escape(text[end:start]), f"<mark>{piece}</mark>" if is_wrong else piece]
        end = stop
    return "".join([*parts, escape(text[end:])])


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
