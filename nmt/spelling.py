"""Suggestions for misspelt names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from nmt.console import listed


def plain(name: str) -> str:
    """Return a normalised name: `--Max-Steps` -> `max_steps`."""
    return name.lstrip("-").lower().replace("-", "_")


def misspelt(name: str, candidates: Iterable[str], cutoff: float = 0.75) -> list[str]:
    """Return the candidate with the most similar spelling, as a list of one or none.

    cutoff: minimum similarity as in difflib, where `baem` and `beam` have a similarity of 0.75.
    """
    known = {plain(candidate): candidate for candidate in candidates}
    return [known[match] for match in difflib.get_close_matches(plain(name), known, n=1, cutoff=cutoff)]


def matching_words(name: str, candidates: Iterable[str]) -> list[str]:
    """Return the candidates that share words with `name`.

    These are the candidates that contain all words of `name`, or else begin with it, or else have no other words.
    """
    known = {plain(candidate): candidate for candidate in candidates}
    plain_name = plain(name)
    words = {*plain_name.split("_")}
    with_all = list[str]()
    with_beginning = list[str]()
    with_no_others = list[str]()
    for key, candidate in known.items():
        its_words = {*key.split("_")}
        if words <= its_words:
            with_all.append(candidate)
        if len(plain_name) >= 4 and key.startswith(plain_name):
            with_beginning.append(candidate)
        if its_words <= words:
            with_no_others.append(candidate)
    return with_all or with_beginning or with_no_others


def did_you_mean(names: Sequence[str]) -> str:
    """Return `; did you mean a, b or c?`, or empty text if there are no names."""
    return f"; did you mean {listed(names, last='or')}?" if names else ""
