"""What the manifest records of the preparation, beyond what is needed to read the data directory."""

from __future__ import annotations

from nmt.data.manifest import Record, SplitRecord, TokenizerRecord


class CleanRecord(Record):
    """How many pairs of a split were read, kept, and dropped for each reason."""

    read: int
    kept: int
    dropped: dict[str, int]
    samples: dict[str, list[dict[str, str | int]]]
    """A few of the dropped pairs by reason: source, corpus, line, and the text by language."""


class TextRecord(Record):
    """One side of a split, counted."""

    words: int
    characters: int
    """Those of words: without white space."""
    pieces: int
    bytes: int
    """Pieces that are single bytes."""
    unknown: int


class RoundTripRecord(Record):
    """How many lines of a development or test set the tokenizer decodes exactly."""

    lines: int
    exact: int
    control: int
    """Lines with control characters, which are not expected to."""


class SplitOffRecord(Record):
    """How the development set was split off the training text."""

    asked: int | float
    of: int
    """Training pairs before."""
    left_out: int
    """Training pairs that share a side with it."""


class PreparedSplit(SplitRecord):
    """One split as it was written."""

    clean: CleanRecord
    text: dict[str, TextRecord]
    """By language."""
    round_trip: RoundTripRecord | None = None
    split_off: SplitOffRecord | None = None


class PreparedTokenizers(TokenizerRecord):
    """The tokenizers as they were written."""

    joint: bool
    pieces: dict[str, int]
    """Vocabulary size by language."""
