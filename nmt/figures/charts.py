"""Charts as SVG. The style of the page gives each class its colour."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from nmt.figures.page import escaped

_WIDTH, _HEIGHT, _TOP, _BOTTOM = 340, 150, 18, 20  # pixels: those of the bars, and the margins for text
_LEFT = 36  # margin of charts whose vertical axis has numbers
_SIDE = 240  # of a square chart
_CELL = 2  # pixels: points of a scatter plot closer than this are one
_SHADES = 4

Point = tuple[float, float]


def histogram(title: str, layers: Mapping[str, Sequence[int]], ticks: Mapping[int, str], unit: str) -> str:
    """Draw histograms over each other.

    Args:
        title: what is measured.
        layers: numbers in each bin, by class.
        ticks: labels by the bin at whose left end they stand.
        unit: what is counted.
    """
    counts_of = list(layers.values())
    used = [number for number in range(len(counts_of[0])) if any(counts[number] for counts in counts_of)] or [0]
    first, last = max(0, used[0] - 1), min(len(counts_of[0]), used[-1] + 2)
    most = max(1, *(max(counts) for counts in counts_of))
    step, bottom = _WIDTH / (last - first), _TOP + _HEIGHT
    parts = [f'<text x="{_WIDTH}" y="11" text-anchor="end">highest bar: {most:,} {escaped(unit)}</text>']
    for name, counts in layers.items():
        heights = [max(_HEIGHT * n / most, 1.0 if n else 0.0) for n in counts[first:last]]
        outline = "".join(f"V{bottom - high:.1f}h{step:.2f}" for high in heights)
        parts.append(f'<path class="{name}" d="M0 {bottom}{outline}V{bottom}Z"/>')
    parts.append(f'<path class="axis" d="M0 {bottom}H{_WIDTH}"/>')
    inside = [number for number in ticks if first <= number <= last]
    shown = inside[:: -(-len(inside) // 9) or 1]  # at most nine, at equal distances
    return _chart(title, -8, _HEIGHT, parts, {(number - first) * step: ticks[number] for number in shown})


def line_chart(
    title: str, lines: Iterable[tuple[str, Sequence[Point]]], ticks: Mapping[float, str] | None = None
) -> str:
    """Draw lines, each a class and its points. `ticks`: labels of the horizontal axis, by default numbers."""
    lines = [(name, points) for name, points in lines if points]
    xs, ys = ([point[axis] for _, points in lines for point in points] for axis in (0, 1))
    if ticks is None:
        ticks = {x: f"{x:,.10g}" for x in round_numbers(min(xs), max(xs))}
    marks = round_numbers(min(ys), max(ys))
    x_low, x_high = min(*xs, *ticks), max(*xs, *ticks)
    y_low, y_high = min(*ys, *marks), max(*ys, *marks)

    def place(x: float, y: float) -> Point:
        across, up = (x - x_low) / ((x_high - x_low) or 1), (y - y_low) / ((y_high - y_low) or 1)
        return _LEFT + across * (_WIDTH - _LEFT), _TOP + _HEIGHT * (1 - up)

    parts = [_mark(place(x_low, mark)[1], mark, _WIDTH) for mark in marks]
    parts.append(f'<path class="axis" d="M{_LEFT} {_TOP + _HEIGHT}H{_WIDTH}"/>')
    for name, points in lines:
        placed = [place(*point) for point in points]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in placed)
        dots = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in placed) if len(placed) <= 60 else ""
        parts.append(f'<path class="{name} line" d="M{path}"/><path class="{name} dots" d="{dots}"/>')
    return _chart(title, 0, _HEIGHT, parts, {place(at, y_low)[0]: label for at, label in ticks.items()})


def scatter(title: str, labels: tuple[str, str], name: str, points: Sequence[Point]) -> str:
    """Draw points over equal axes, with the diagonal; the more of them are in one place, the darker it is.

    `labels`: those of the horizontal and the vertical axis; `name`: the class of the points.
    """
    values = [value for point in points for value in point]
    marks = round_numbers(min(values), max(values))
    low, high = min(*values, *marks), max(*values, *marks)
    scale, bottom = _SIDE / ((high - low) or 1), _TOP + _SIDE
    ticks = {_LEFT + (mark - low) * scale: f"{mark:,.10g}" for mark in marks}
    parts = [_mark(bottom - (mark - low) * scale, mark, _LEFT + _SIDE) for mark in marks]
    parts += [f'<path class="grid" d="M{at:.1f} {bottom}v-{_SIDE}"/>' for at in ticks]
    parts.append(f'<path class="axis" d="M{_LEFT} {bottom}l{_SIDE} -{_SIDE}"/>')
    cells = Counter((round((x - low) * scale / _CELL), round((y - low) * scale / _CELL)) for x, y in points)
    for shade in range(1, _SHADES + 1):
        inside = (cell for cell, n in cells.items() if min(n.bit_length(), _SHADES) == shade)
        dots = "".join(f"M{_LEFT + _CELL * x} {bottom - _CELL * y}h0" for x, y in inside)
        parts.append(f'<path class="{name} dots shade{shade}" d="{dots}"/>')
    parts.append(f'<text x="{_LEFT + _SIDE}" y="{bottom + 30}" text-anchor="end">{escaped(labels[0])} →</text>')
    parts.append(f'<text x="{_LEFT + _SIDE + 6}" y="{_TOP + 8}">↑ {escaped(labels[1])}</text>')
    return _chart(title, 0, _SIDE + 12, parts, ticks, bottom)


def interval_bar(value: float, low: float, high: float, reach: float) -> str:
    """Draw a value with its interval beside the line of 0, on a scale from -reach to reach."""
    left, middle, right = (60 + 58 * number / (reach or 1) for number in (low, value, high))
    return (
        '<svg class="interval" viewBox="0 0 120 16" role="img" aria-hidden="true"><path class="axis" d="M60 0v16"/>'
        f'<path class="span" d="M{left:.1f} 8H{right:.1f}"/><path class="dots" d="M{middle:.1f} 8h0"/></svg>'
    )


def round_numbers(low: float, high: float, most: int = 6) -> list[float]:
    """Return at most `most` round numbers from at most `low` to at least `low` and at most `high`."""
    if not high > low:
        return [low]
    rough = (high - low) / (most - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(size * power for size in (1, 2, 5, 10) if size * power >= rough * 0.999)
    first, last = (math.floor(end / step + 1e-9) for end in (low, high))  # 0.3 / 0.1 is below 3
    return [round(number * step, 12) for number in range(first, last + 1)]


def _mark(y: float, value: float, right: float) -> str:
    """Return a line of the grid and its number."""
    return (
        f'<path class="grid" d="M{_LEFT} {y:.1f}H{right}"/>'
        f'<text x="{_LEFT - 4}" y="{y + 3:.1f}" text-anchor="end">{value:,.10g}</text>'
    )


def _chart(
    title: str, left: int, height: int, parts: Iterable[str], ticks: Mapping[float, str], bottom: int = _TOP + _HEIGHT
) -> str:
    """Return the image: title, parts, and the ticks of the horizontal axis, which is at `bottom` (pixels)."""
    lines = [
        f'<path class="axis" d="M{x:.1f} {bottom}v4"/>'
        f'<text x="{x:.1f}" y="{bottom + _BOTTOM - 3}" text-anchor="middle">{escaped(label)}</text>'
        for x, label in ticks.items()
    ]
    box = f"{left} 0 {_WIDTH + 16} {_TOP + height + _BOTTOM}"
    head = f'<svg viewBox="{box}" role="img" aria-label="{escaped(title)}">'
    return "".join([head, f'<text x="0" y="11" class="title">{escaped(title)}</text>', *parts, *lines, "</svg>"])
