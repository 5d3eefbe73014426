"""Groups of alike pairs, of which a few are kept: duplicates. They are found across all corpora."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from nmt.config import DataConfig
from nmt.prepare.cleaning.normal_form import normal_form


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
    clean, label_side = config.clean, config.label_side
    rules = [Grouping("duplicate", pair_hash)]
    if clean.near_duplicates:
        rules.append(Grouping("near_duplicate", normal_hash if label_side is None else _labelled_hash(label_side)))
    if clean.max_targets:
        text_side = 1 if label_side == 0 else 0
        rules.append(Grouping("targets", lambda *pair: _hash(pair[text_side]), clean.max_targets))
    if clean.max_sources:
        rules.append(Grouping("sources", lambda _, tgt: _hash(tgt), clean.max_sources))
    return rules


def pair_hash(src: str, tgt: str) -> bytes:
    """Return a hash of 16 bytes of a pair of lines."""
    return _hash(f"{src}\n{tgt}")  # a line cannot contain a line feed, so it separates the two sides unambiguously


def normal_hash(src: str, tgt: str) -> bytes:
    """Return a hash of 16 bytes of a pair of lines in their normal form."""
    return _hash(f"{normal_form(src)}\n{normal_form(tgt)}")


def _labelled_hash(label_side: int) -> Callable[[str, str], bytes]:
    """Return a hash of a text in its normal form and its label as it is: 1 and 2 are the same in normal form."""
    return lambda *pair: pair_hash(normal_form(pair[1 - label_side]), pair[label_side])


def _hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()
