"""Self-contained HTML pages, which load neither other files nor anything from the network, and charts for them in SVG.

The style sheet of a page gives each CSS class of its charts a colour.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from itertools import chain

from nmt.console import printable, printable_sentence


def document(title: str, style: str, body: Iterable[str], script: str | None = None) -> str:
    """Return an HTML page with a policy that forbids loading anything and running any script except `script`.

    `style` is CSS that is added to the style sheet of all pages.
    """
    allowed = "'none'"
    scripts = []
    if script:
        allowed = f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'"
        scripts.append(f"<script>{script}</script>")
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src {allowed}; base-uri 'none'; form-action 'none'"
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}"/>',
            '<meta name="viewport" content="width=device-width, initial-scale=1"/>',
            f"<title>{escaped(title)}</title>",
            f"<style>{asset('nmt', 'pages.css')}{style}</style>\n</head>\n<body>",
            f"<h1>{escaped(title)}</h1>",
            *body,
            *scripts,
            "</body>\n</html>\n",
        ]
    )


def asset(package: str, name: str) -> str:
    """Return the text of a data file of a package."""
    return files(package).joinpath(name).read_text(encoding="utf-8")


def escaped(text: str, keep_lines: bool = False) -> str:
    """Escape a text for HTML, including invisible characters and characters that change the text direction."""
    lines = text.split("\n") if keep_lines else [text]
    return "\n".join(escape(printable(line)) for line in lines)


def escaped_sentence(text: str) -> str:
    """Escape a line of a corpus for HTML; an empty line becomes `(no text)`."""
    return escape(printable_sentence(text)) or '<span class="soft">(no text)</span>'


def language_attributes(language: str | None) -> str:
    """Return the HTML attributes `lang` and `dir` of an element with text in a language."""
    direction = ' dir="auto"'
    if not language:
        return direction
    return f' lang="{escape(language.replace("_", "-"))}"{direction}'


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], n_text: int = 1) -> str:
    """Return an HTML table, which scrolls sideways where it is too wide for the page.

    Cells are HTML; one that is an element already, `<td>`, stays as it is. The first `n_text` columns have text, the
    others numbers.
    """
    lines = [_row("th", heads, n_text), *(_row("td", row, n_text) for row in rows)]
    return "\n".join(['<div class="wide"><table>', *lines, "</table></div>"])


def _row(tag: str, cells: Sequence[str], n_text: int) -> str:
    row = ""
    for column, cell in enumerate(cells):
        if not cell.startswith("<td"):
            kind = "" if column < n_text else ' class="n"'
            cell = f"<{tag}{kind}>{cell}</{tag}>"
        row += cell
    return f"<tr>{row}</tr>"


# --- Charts ---

_WIDTH, _HEIGHT, _TOP, _BOTTOM = 340, 150, 18, 20  # pixels: the drawing area, and the margins for text
_LEFT = 36  # margin of charts whose vertical axis has numbers

Point = tuple[float, float]


def histogram(title: str, layers: Mapping[str, Sequence[int]], ticks: Mapping[int, str], unit: str) -> str:
    """Return a chart of overlaid histograms.

    Args:
        title: the name of the measured quantity.
        layers: the number of items in each bin, by CSS class.
        ticks: labels for the left ends of bins, by the number of the bin.
        unit: the name of the counted items.
    """
    highest = [max(counts) for counts in zip(*layers.values(), strict=True)]  # of each bin
    used = [number for number, n in enumerate(highest) if n] or [0]
    first = max(0, used[0] - 1)
    last = min(len(highest), used[-1] + 2)
    most = max(1, *highest)
    step = _WIDTH / (last - first)
    bottom = _TOP + _HEIGHT
    parts = [f'<text x="{_WIDTH}" y="11" text-anchor="end">highest bar: {most:,} {escaped(unit)}</text>']
    for name, counts in layers.items():
        outline = ""
        for n in counts[first:last]:
            high = max(_HEIGHT * n / most, 1.0) if n else 0.0
            outline += f"V{bottom - high:.1f}h{step:.2f}"
        parts.append(f'<path class="{name}" d="M0 {bottom}{outline}V{bottom}Z"/>')
    parts.append(f'<path class="axis" d="M0 {bottom}H{_WIDTH}"/>')
    inside = [number for number in ticks if first <= number <= last]
    shown = inside[:: -(-len(inside) // 9) or 1]  # at most nine, at equal distances
    return _chart(title, -8, parts, {(number - first) * step: ticks[number] for number in shown})


def line_chart(title: str, lines: Iterable[tuple[str, Sequence[Point]]]) -> str:
    """Return a line chart. Each line is given by its CSS class and its points."""
    lines = [(name, points) for name, points in lines if points]
    xs, ys = zip(*chain.from_iterable(points for _, points in lines), strict=True)
    ticks = round_numbers(min(xs), max(xs))
    marks = round_numbers(min(ys), max(ys))
    x_low = min(*xs, *ticks)
    y_low = min(*ys, *marks)
    x_reach = (max(*xs, *ticks) - x_low) or 1
    y_reach = (max(*ys, *marks) - y_low) or 1

    def place(x: float, y: float) -> Point:
        across = (x - x_low) / x_reach
        up = (y - y_low) / y_reach
        return _LEFT + across * (_WIDTH - _LEFT), _TOP + _HEIGHT * (1 - up)

    parts = []
    for mark in marks:
        y = place(x_low, mark)[1]
        parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{_WIDTH}"/>')
        parts.append(f'<text x="{_LEFT - 4}" y="{y + 3:.1f}" text-anchor="end">{mark:,.10g}</text>')
    parts.append(f'<path class="axis" d="M{_LEFT} {_TOP + _HEIGHT}H{_WIDTH}"/>')
    for name, points in lines:
        placed = [place(*point) for point in points]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in placed)
        dots = ""
        if len(placed) <= 60:
            dots = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in placed)
        parts.append(f'<path class="{name} line" d="M{path}"/><path class="{name} dots" d="{dots}"/>')
    return _chart(title, 0, parts, {place(at, y_low)[0]: f"{at:,.10g}" for at in ticks})


def interval_bar(value: float, low: float, high: float, reach: float) -> str:
    """Return a small chart of a value and its interval, on a scale from -reach to reach with a line at 0."""
    left, middle, right = (60 + 58 * number / (reach or 1) for number in (low, value, high))
    return (
        '<svg class="interval" viewBox="0 0 120 16" role="img" aria-hidden="true"><path class="axis" d="M60 0v16"/>'
        f'<path class="span" d="M{left:.1f} 8H{right:.1f}"/><path class="dots" d="M{middle:.1f} 8h0"/></svg>'
    )


def round_numbers(low: float, high: float) -> list[float]:
    """Return at most six evenly spaced round numbers for an axis from `low` to `high`.

    The first number is at most `low`, the last at most `high`.
    """
    if not high > low:
        return [low]
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(size * power for size in (1, 2, 5, 10) if size * power >= rough * 0.999)
    first, last = (math.floor(end / step + 1e-9) for end in (low, high))  # 0.3 / 0.1 is below 3
    return [round(number * step, 12) for number in range(first, last + 1)]


def _chart(title: str, left: int, parts: Iterable[str], ticks: Mapping[float, str]) -> str:
    """Return an SVG image of a title, parts and a labelled horizontal axis. `left` is its left edge in pixels."""
    bottom = _TOP + _HEIGHT
    lines = []
    for x, label in ticks.items():
        lines.append(f'<path class="axis" d="M{x:.1f} {bottom}v4"/>')
        lines.append(f'<text x="{x:.1f}" y="{bottom + _BOTTOM - 3}" text-anchor="middle">{escaped(label)}</text>')
    head = f'<svg viewBox="{left} 0 {_WIDTH + 16} {bottom + _BOTTOM}" role="img" aria-label="{escaped(title)}">'
    return "".join([head, f'<text x="0" y="11" class="title">{escaped(title)}</text>', *parts, *lines, "</svg>"])
