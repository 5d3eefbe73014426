"""Text that steers a terminal, and how a command shows it."""

from __future__ import annotations

import re

from command import Result

EVIL = "\x1b]0;owned\x07\x1b[31mred\x9b2J\x7f\u202eback\u2066\r"
STEERING = re.compile("[\0-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
SHOWN = r"\x1b]0;owned\x07\x1b[31mred\x9b2J\x7f\u202eback\u2066\r"


def check(result: Result, status: int = 2, n_lines: int = 1) -> None:
    """It ended so, with so many lines on standard error, what was planted can be seen, and nothing steers."""
    assert (result.status, result.err.count("\n")) == (status, n_lines), result
    assert STEERING.search(result.out + result.err) is None, result
    assert SHOWN in result.out + result.err
