"""Groups of alike pairs, of which a few are kept: duplicates. They are found across all corpora."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from nmt.config import DataConfig


@dataclass(frozen=True)
class Grouping:
    """A rule by which alike pairs are dropped. Of each group the pairs with the best score are kept; of equal ones, or
    without scores, the first of the training text."""

    reason: str
    """One of `nmt.prepare.cleaning.reasons.REASONS`."""
    key: Callable[[str, str], bytes]
    """Sixteen bytes that alike pairs have in common."""
    most: int = 1
    """Maximum number of pairs that are kept of a group."""


def groupings(config: DataConfig) -> list[Grouping]:
    """Return the rules of a config, in the order in which they are applied."""
    del config
    return [Grouping("duplicate", pair_hash)]


def pair_hash(src: str, tgt: str) -> bytes:
    """Return a hash of 16 bytes of a pair of lines."""
    # a line cannot contain a line feed, so it separates the two sides unambiguously
    return hashlib.blake2b(f"{src}\n{tgt}".encode(), digest_size=16).digest()
