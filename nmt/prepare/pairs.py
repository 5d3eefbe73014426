"""Sentence pairs, and an open source of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple


class SentencePair(NamedTuple):
    """A text and its translation, `src` in the alphabetically first language: pairs have no direction here."""

    src: str
    tgt: str
    corpus: str


@dataclass(frozen=True)
class OpenSource:
    """A source whose files are there: what the manifest records of it, and its pairs, which can be read again."""

    record: dict[str, Any]
    pairs: Callable[[], Iterator[SentencePair]]
