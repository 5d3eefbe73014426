"""Numbers, tables and legends as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nmt.compare.page.view import View
from nmt.compare.types import Result
from nmt.html.document import escaped
from nmt.significance.paired import Interval


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
