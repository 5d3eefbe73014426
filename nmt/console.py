"""What people read on the screen. Text of files cannot steer the terminal: every line that `nmt` prints for people goes
through here, and whatever is not printable is shown as an escape, `\\x1b` for the character that begins a control
sequence.

Translations and JSON are for programs, and are written as they are.
"""

from __future__ import annotations

import re
import sys
from contextlib import suppress

# Controls (C0, C1, DEL), line and paragraph separators, Unicode's Bidi_Control, and bytes that were not UTF-8.
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
