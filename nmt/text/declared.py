"""Encodings that a file declares itself, in ASCII."""

from __future__ import annotations

_ASCII = b"xn--a-+AGE- \\x41"
"""Text that reads differently in encodings that do not extend ASCII, or that escape characters."""


def extends_ascii(encoding: str) -> bool:
    """Whether Python knows an encoding, and text in ASCII is the same in it."""
    try:
        return _ASCII.decode(encoding) == _ASCII.decode("ascii")
    except (LookupError, UnicodeError):
        return False
