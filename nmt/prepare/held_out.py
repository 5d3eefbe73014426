"""The development and test sets as they are read, before they are encoded."""

from __future__ import annotations

from collections.abc import Mapping

from nmt.errors import DataError
from nmt.prepare.cleaning.reasons import HINTS
from nmt.prepare.pairs import OpenSource, SentencePair
from nmt.text.lines import bounded_list


def read_held_out(sources: Mapping[str, OpenSource], warnings: list[str]) -> dict[str, list[SentencePair]]:
    """Read the development and test sets among the sources, by their keys; what is odd is added to the warnings.

    Raises DataError if one is empty.
    """
    held_out = {}
    for key, source in sources.items():
        if key.startswith("train."):
            continue
        pairs = held_out[key] = bounded_list(source.pairs(), f"data.{key}")
        corpus = source.record.corpus
        if not pairs:
            raise DataError(f"data.{key}: {corpus} is empty: 0 pairs were read")
        if not any(pair.src.strip() and pair.tgt.strip() for pair in pairs):
            raise DataError(f"data.{key}: {corpus} has no pair with text on both sides, only blank lines")
        if all(pair.src == pair.tgt for pair in pairs):
            warnings.append(f"data.{key} ({corpus}): {HINTS['copied']}")
    return held_out
