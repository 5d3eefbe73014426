"""Output to the terminal: messages, results and progress bars.

Text from files must not control the terminal. Lines for users are therefore printed by this module, which escapes
unprintable characters, such as `\\x1b`, which starts a control sequence. Translations and JSON are written unchanged.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

if TYPE_CHECKING:
    from tqdm import tqdm

Item = TypeVar("Item")

DELAY = 2.0
"""Seconds before a progress bar appears, so that short tasks show none."""
INTERVAL = 0.5
"""Minimum seconds between two updates of a progress bar."""
COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
"""Suffixes of files whose lines are not counted for a progress bar, because that takes too long."""

# Control characters (C0, C1, DEL), line and paragraph separators, Bidi_Control, and bytes that are not UTF-8.
_CONTROLS = re.compile("[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """Escape all unprintable characters, so that the result is one line.

    Unprintable are line ends, control characters, zero-width characters, white space except the space character, and
    bytes that are not UTF-8.
    """
    return "".join(character if character.isprintable() else _escaped(character) for character in text)


def printable_sentence(text: str) -> str:
    """Escape unprintable characters except the white space and joiners that occur in natural language."""
    return _CONTROLS.sub(lambda match: _escaped(match[0]), text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


def width(text: str) -> int:
    """Return the width of printable text in terminal columns."""
    if text.isascii():
        return len(text)
    from wcwidth import wcswidth  # takes a while

    return wcswidth(text)


def columns(stream: TextIO, otherwise: int = 100) -> int:
    """Return the width of the terminal that `stream` writes to, or `otherwise` if it is none."""
    with suppress(OSError, AttributeError):  # a stream that is closed from the start is None
        return os.get_terminal_size(stream.fileno()).columns or otherwise  # some pseudo-terminals have 0
    return otherwise


ENDLESS = sys.maxsize  # the width of what is not a terminal, for lines that programs read
# Commands of nmt with their options, and words with the number that follows them, each with the spaces before it.
_UNBROKEN = re.compile(r" *(?:nmt [a-z-]+(?: --[\w-]+(?: (?:'[^']*'|[^\s-])\S*)?)+|[^ ]+(?: -?\d[^ ]*)?)")


def folded(text: str, most: int) -> list[str]:
    """Break a printable line into lines of at most `most` columns, all but the first indented by two more spaces.

    Words, numbers with their names and commands of nmt, which can be copied, are not broken, even if they are wider.
    """
    if most == ENDLESS or width(text) <= most:
        return [text]
    indent = " " * (len(text) - len(text.lstrip(" ")) + 2)
    line, *parts = _UNBROKEN.findall(text) or [""]  # a blank line
    lines = [line]
    for part in parts:
        if width(lines[-1] + part) > most:
            lines.append(indent + part.lstrip(" "))
        else:
            lines[-1] += part
    return lines


def aligned(rows: Sequence[Sequence[str]], right: Collection[int]) -> list[str]:
    """Return rows of printable cells as lines with aligned columns. `right`: the indices of right-aligned columns."""
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = []
        for i, (cell, widest) in enumerate(zip(row, widths, strict=True)):
            parts = [cell, " " * (widest - width(cell))]
            if i in right:
                parts.reverse()
            cells += ["".join(parts)]
        lines.append("  ".join(cells).rstrip())
    return lines


def say(text: str, by: str = "nmt: ") -> None:
    """Print a message to standard error, on one line unless a terminal is narrower. Write errors, such as a full disk,
    are ignored."""
    with suppress(OSError):
        _print(f"{by}{text}", sys.stderr)


@cache
def say_once(text: str) -> None:
    """Print a message as `say` does, unless it has been printed before."""
    say(text)


def show(*lines: str) -> None:
    """Print the lines of a result to standard output. Raises OSError."""
    for line in lines:
        _print(line, sys.stdout)


def _print(text: str, stream: TextIO) -> None:
    """Print a line above the progress bars, if there are any."""
    bars = sys.modules.get("tqdm")
    with bars.tqdm.external_write_mode(sys.stderr) if bars else nullcontext():
        print(*folded(printable(text), columns(stream, ENDLESS)), sep="\n", file=stream, flush=True)


def is_typed() -> bool:
    """Return whether standard input is a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


class Progress:
    """A progress bar on standard error, which is removed when the task is done. It is shown only on a terminal.

    The remaining time (or the elapsed time if the total is unknown) comes first, so that it is visible on narrow
    terminals. Write errors are ignored.
    """

    def __init__(self, task: str, total: int | None = None, unit: str = "lines", shown: bool = True) -> None:
        """Create a progress bar. `total`: the number of units, if known. `shown`: whether to show the bar at all."""
        self._bar: tqdm[Any] | None = None
        if not (shown and sys.stderr.isatty()):
            return
        from tqdm import tqdm

        known = "{remaining} left, {percentage:.0f}% {desc}: {n:,.0f} of {total:,}{unit}"
        unknown = "{elapsed} {desc}: {n:,.0f}{unit}, {rate_noinv_fmt}"
        with suppress(OSError):
            self._bar = tqdm(
                desc=task, total=total, unit=f" {unit}", bar_format=unknown if total is None else known, delay=DELAY,
                mininterval=INTERVAL, smoothing=0.05, dynamic_ncols=True, leave=False,
            )  # fmt: skip

    def add(self, n: float = 1) -> None:
        """Advance by `n` units."""
        if self._bar is not None:
            with suppress(OSError):
                self._bar.update(n)

    def track(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield the items, and advance by one unit after each."""
        for item in items:
            yield item
            self.add()

    def describe(self, task: str) -> None:
        """Change the description of the task."""
        if self._bar is not None:
            self._bar.set_description_str(task, refresh=False)

    def say(self, text: str) -> None:
        """Show `text` in place of the bar, for a task that reports no progress."""
        if self._bar is not None:
            with suppress(OSError):
                self._bar.bar_format = text.replace("{", "{{").replace("}", "}}")
                self._bar.refresh()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            with suppress(OSError):
                self._bar.delay = 0.0  # else close would not remove what was shown before the delay, with a message
                self._bar.close()


def listed(names: Iterable[str], most: int | None = None, last: str = "") -> str:
    """Join names with commas, and the last with a word, as in `a, b or c`; of more than `most` names, return only the
    first, and the number of the others."""
    names = [*names]
    if most is not None and len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most:,} more"
    if last and len(names) > 1:
        return f"{', '.join(names[:-1])} {last} {names[-1]}"
    return ", ".join(names)


def amount(n: int, noun: str) -> str:
    """Format a number of things: `1 line`, `1,000 lines`."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


@dataclass
class LineNumbers:
    """A count of lines, with the line numbers of the first ten."""

    n: int = 0
    first: str = ""

    def add(self, number: int) -> None:
        """Count the line with this line number."""
        self.n += 1
        if self.n == 1:
            self.first = str(number)
        elif self.n <= 10:
            self.first += f", {number}"
        elif self.n == 11:
            self.first += ", …"


def n_lines(path: Path) -> int | None:
    """Return the number of lines of a text file for a progress bar; None if no bar is shown or counting is slow."""
    if not sys.stderr.isatty() or path.suffix.lower() in COMPRESSED or not path.is_file():
        return None
    n = 0
    last = b"\n"
    with suppress(OSError), path.open("rb") as file:
        while block := file.read(1 << 20):
            n += block.count(b"\n")
            last = block[-1:]
    return n + (last != b"\n")
