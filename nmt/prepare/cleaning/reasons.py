"""The reasons for which training pairs, and lines of monolingual text, are dropped."""

from __future__ import annotations

from collections.abc import Mapping

REASONS = {
    "empty": "empty side",
    "blank": "blank line",
    "overlap": "in a dev or test set",
    "control": "control character",
    "long": "too long (characters)",
    "ratio": "length ratio",
    "copied": "copied source",
    "score": "low score",
    "broken": "broken text",
    "words": "too many words",
    "word": "too long a word",
    "shouted": "all in capitals",
    "script": "another script",
    "blocked": "on a block list",
    "links": "links differ",
    "tags": "tags differ",
    "numbers": "numbers differ",
    "sentences": "sentences differ in number",
    "truncated": "truncated",
    "language": "another language",
    "duplicate": "duplicate",
    "near_duplicate": "near-duplicate",
    "targets": "too many targets of a source",
    "sources": "too many sources of a target",
    "spread": "unusual length ratio",
    "misaligned": "misaligned",
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
    "score": "clean.min_score is the limit; are greater scores better?",
    "script": "are the languages of the two sides swapped?",
    "language": "are the languages of the two sides swapped?",
    "truncated": "does one side have no final marks? clean.truncated is not for such text",
    "blocked": "do the block lists have a common word?",
    "overlap": "is data.train the development or test set?",
    "pieces": "data.max_pieces is the limit",
}
"""Likely mistakes if most pairs are dropped for a reason."""


def counted(dropped: Mapping[str, int]) -> str:
    """Format the counts by reason, `duplicate 3, length ratio 1`; empty if nothing was dropped."""
    return ", ".join(f"{name} {dropped[reason]:,}" for reason, name in REASONS.items() if reason in dropped)
