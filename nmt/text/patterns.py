"""Regular expressions of `search.protect`, which name text to be copied."""

from __future__ import annotations

import math
import re
import warnings
from typing import Any

PATTERN_SECONDS = 2
"""Time limit of a pattern of `protect` on a line."""


def compiled(pattern: str) -> Any:
    """Compile a pattern of `protect` for the regex module, which has a time limit, unlike re."""
    import regex  # not needed without patterns

    return regex.compile(re.sub(r"(?<!\\)(?<!\\N)\{(?![0-9,])", r"\{", pattern))  # `{s}` is text in re


def pattern_problem(pattern: str) -> str | None:
    """Return the error message for an invalid regular expression, None if it is valid."""
    counts = re.findall(r"\{(?:[0-9]*,)?0*([1-9][0-9]{0,9})", pattern)  # what is counted is copied
    if math.prod(map(int, counts)) > 10_000:
        return "repeats too much: the product of its counts, such as {20}, must be at most 10,000"
    try:
        with warnings.catch_warnings(action="error"):  # other versions of Python may interpret the pattern differently
            re.compile(pattern)
        matches_empty = compiled(pattern).search("", timeout=PATTERN_SECONDS) is not None
    except Exception as error:  # of two libraries
        return f"not a regular expression: {error}"
    return "matches the empty text" if matches_empty else None
