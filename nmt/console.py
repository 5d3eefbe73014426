"""What people see on the terminal: messages, results, and progress bars.

Text of files cannot steer the terminal: every line that `nmt` prints for people goes through here, and whatever is not
printable is shown as an escape, `\\x1b` for the character that begins a control sequence. Translations and JSON are
for programs, and are written as they are.
"""

from __future__ import annotations

# Controls (C0, C1, DEL), line and paragraph separators, Unicode's Bidi_Control, and bytes that were not UTF-8.
import contextlib
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

_STEERING = re.compile("[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """`text` in one line, with an escape for every character that is not printable: line ends, controls, all spaces but
    the usual one, characters of no width, bytes that are not UTF-8."""
    return "".join(character if character.isprintable() else _escaped(character) for character in text)


def printable_sentence(text: str) -> str:
    """The same for text in a human language: the spaces and joiners that scripts are written with stay."""
    return _STEERING.sub(lambda match: _escaped(match[0]), text)


def say(text: str) -> None:
    """Tell people something on standard error, in one line. A screen that is gone, or a file on a full disk that takes
    no more, is no error."""
    with suppress(OSError):
        print(f"nmt: {printable(text)}", file=sys.stderr, flush=True)


def show(*lines: str) -> None:
    """Print lines of a result for people on standard output. Raises OSError."""
    for line in lines:
        print(printable(line), flush=True)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


if TYPE_CHECKING:
    from tqdm import tqdm

Item = TypeVar("Item")

DELAY = 2.0
"""Seconds before anything is shown: what is done by then needs no progress."""
INTERVAL = 0.5
"""Seconds between two looks."""


class Progress:
    """The line of one task, which is gone when the task is done.

    The time left comes first, so that it can be read on the narrowest terminal; where nobody knows it, it is the time
    that has passed. A terminal that takes no output ends no task.
    """

    def __init__(self, task: str, total: int | None = None, unit: str = "lines", shown: bool = True) -> None:
        """`total`: how many units there are, if that is known. Nothing is ever shown unless `shown`."""
        self._bar: tqdm[Any] | None = None
        if not (shown and sys.stderr.isatty()):
            return
        from tqdm import tqdm

        known = "{remaining} left, {percentage:.0f}% {desc}: {n:,.0f} of {total:,}{unit}"
        unknown = "{elapsed} {desc}: {n:,.0f}{unit}, {rate_noinv_fmt}"
        with contextlib.suppress(OSError):
            self._bar = tqdm(
                desc=task, total=total, unit=f" {unit}", bar_format=unknown if total is None else known, delay=DELAY,
                mininterval=INTERVAL, smoothing=0.05, dynamic_ncols=True, leave=False,
            )  # fmt: skip

    def add(self, n: float = 1) -> None:
        """So many units more are done."""
        if self._bar is not None:
            with contextlib.suppress(OSError):
                self._bar.update(n)

    def track(self, items: Iterable[Item]) -> Iterator[Item]:
        """The items, each of them a unit that is done when the next is asked for."""
        for item in items:
            yield item
            self.add()

    def say(self, text: str) -> None:
        """Show `text` at once and until the end, in place of numbers: what comes next has none."""
        if self._bar is not None:
            with contextlib.suppress(OSError):
                self._bar.bar_format = text.replace("{", "{{").replace("}", "}}")
                self._bar.delay = 0.0  # close takes away what was shown
                self._bar.refresh()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            with contextlib.suppress(OSError):
                self._bar.close()


def n_lines(path: Path) -> int | None:
    """How many lines a text file has, where someone sees the progress and that is quickly found out, else None."""
    if not sys.stderr.isatty() or path.suffix == ".gz" or not path.is_file():
        return None
    n, last = 0, b"\n"
    with contextlib.suppress(OSError), path.open("rb") as file:
        while block := file.read(1 << 20):
            n, last = n + block.count(b"\n"), block[-1:]
    return n + (last != b"\n")
