"""Lines of development and test sets for cleaners."""

from collections.abc import Iterable, Sequence
from typing import Any

from nmt.prepare.cleaning.cleaner import HeldOut


def held_out_of(pairs: Iterable[Sequence[Any]]) -> HeldOut:
    """Collect the stripped lines of pairs; the first two items of each pair are its sides."""
    pairs = list(pairs)
    return HeldOut(frozenset(pair[0].strip() for pair in pairs), frozenset(pair[1].strip() for pair in pairs))
