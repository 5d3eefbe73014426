"""Charts of the report's page, as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

_WIDTH, _HEIGHT, _TOP, _BOTTOM = 340, 150, 18, 20  # pixels: those of the bars, and the margins for text


def histogram(title: str, read: Sequence[int], kept: Sequence[int], ticks: Mapping[int, str]) -> str:
    """Draw two histograms over each other.

    Args:
        title: what is measured.
        read, kept: number of pairs in each bin.
        ticks: labels by the bin at whose left end they stand.
    """
    used = [number for number, n in enumerate(read) if n] or [0]
    first, last = max(0, used[0] - 1), min(len(read), used[-1] + 2)
    most = max(*read, 1)
    step = _WIDTH / (last - first)
    height = _TOP + _HEIGHT + _BOTTOM
    parts = [
        f'<svg viewBox="-8 0 {_WIDTH + 16} {height}" role="img" aria-label="{escape(title)}">',
        f'<text x="0" y="11" class="title">{escape(title)}</text>',
        f'<text x="{_WIDTH}" y="11" text-anchor="end">highest bar: {most:,} pairs</text>',
    ]
    for name, counts in (("read", read), ("kept", kept)):
        heights = [max(_HEIGHT * n / most, 1.0 if n else 0.0) for n in counts[first:last]]
        outline = "".join(f"V{_TOP + _HEIGHT - high:.1f}h{step:.2f}" for high in heights)
        parts.append(f'<path class="{name}" d="M0 {_TOP + _HEIGHT}{outline}V{_TOP + _HEIGHT}Z"/>')
    parts.append(f'<path class="axis" d="M0 {_TOP + _HEIGHT}H{_WIDTH}"/>')
    for number, label in _readable(ticks, first, last).items():
        x = (number - first) * step
        parts.append(f'<path class="axis" d="M{x:.1f} {_TOP + _HEIGHT}v4"/>')
        parts.append(f'<text x="{x:.1f}" y="{height - 3}" text-anchor="middle">{escape(label)}</text>')
    return "".join([*parts, "</svg>"])


def _readable(ticks: Mapping[int, str], first: int, last: int) -> dict[int, str]:
    """Return the ticks between two bins, at most nine, at equal distances."""
    inside = [number for number in ticks if first <= number <= last]
    return {number: ticks[number] for number in inside[:: -(-len(inside) // 9) or 1]}
