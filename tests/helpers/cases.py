"""Cases of a test of which only some run at each commit."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def cases(all_cases: Iterable[Any], always: Collection[Any]) -> list[Any]:
    """Cases for `parametrize`; a tuple has the values of several parameters. Those that are not in `always` run with
    `--exhaustive` only."""
    marked = []
    for case in all_cases:
        values = case if isinstance(case, tuple) else (case,)
        marked.append(pytest.param(*values, marks=[] if case in always else pytest.mark.exhaustive))
    return marked
