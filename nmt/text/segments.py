"""Segments of parallel text on one line, as in translation memories."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import NamedTuple

_BREAKS = re.compile(r"[\r\n]")


class Codes(IntEnum):
    """The codes of a segment, such as tags, which its text lacks.

    FORMATTING: only codes that do not change what the text says, such as bold, links and line breaks.
    """

    NONE = 0
    FORMATTING = 1
    OTHER = 2


class Segment(NamedTuple):
    """The text of a segment on one line, without its codes."""

    text: str
    codes: Codes = Codes.NONE


def one_line(text: str) -> str:
    """Return a text on one line: line breaks with white space around them become spaces, and the ends are stripped."""
    if "\n" not in text and "\r" not in text:
        return text.strip()
    return " ".join(filter(None, map(str.strip, _BREAKS.split(text))))
