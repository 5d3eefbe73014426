"""Sentence pairs, and a source of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from nmt.data.manifest import SourceRecord


class SentencePair(NamedTuple):
    """A text and its translation, `src` in the alphabetically first language: pairs have no direction here."""

    src: str
    tgt: str
    corpus: str


@dataclass(frozen=True)
class OpenSource:
    """A source whose files are available: its record for the manifest, and its pairs, which can be read repeatedly."""

    record: SourceRecord
    pairs: Callable[[], Iterator[SentencePair]]
