"""The translation of a text, as the writers of documents need it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Alignment = Sequence[tuple[tuple[int, int], tuple[int, int]]]
"""Pairs of a word in a text and a word in its translation, each given by its start and end."""


@dataclass(frozen=True, slots=True)
class Translated:
    """The translation of one text. Offsets of the alignment count Unicode code points."""

    text: str
    alignment: Alignment | None = None
