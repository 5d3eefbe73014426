"""The reasons for which training pairs are dropped."""

from __future__ import annotations

from collections.abc import Mapping

REASONS = {
    "empty": "empty side",
    "overlap": "in a dev or test set",
    "control": "control character",
    "long": "too long (characters)",
    "ratio": "length ratio",
    "copied": "copied source",
    "duplicate": "duplicate",
    "valid": "split off for development",
    "shared": "shares a side with the development set",
    "pieces": "too long (pieces)",
}
"""Description of each reason in reports, in the order in which reasons are tried."""

REPAIRS = {
    "encoding": "wrong encoding",
    "entities": "HTML entities",
    "control": "control characters",
    "unicode": "Unicode form",
    "spaces": "white space",
}
"""Description of each repair in reports, in the order in which repairs are made."""

HINTS = {
    "control": "is it text, with a line feed at the end of each line?",
    "long": "data.max_chars is the limit; is there a sentence on each line?",
    "ratio": "do the two files hold the same sentences?",
    "copied": "both sides are identical: is this one file with both languages?",
    "overlap": "is data.train the development or test set?",
    "pieces": "data.max_pieces is the limit",
}
"""Likely mistakes if most pairs are dropped for a reason."""


def counted(dropped: Mapping[str, int]) -> str:
    """Format the counts by reason, `duplicate 3, length ratio 1`; empty if nothing was dropped."""
    return ", ".join(f"{name} {dropped[reason]:,}" for reason, name in REASONS.items() if reason in dropped)
