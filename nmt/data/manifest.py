"""The manifest of a data directory: what it was made from, what it holds, and the checksums of its files.

`nmt prepare` writes more into it, which is documentation (see `nmt.prepare.records`): it is neither read nor checked.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

FORMAT = 1
"""Number of the layout of a data directory whose training set is one file; raised when an older one can no longer be
read."""
SHARDED_FORMAT = 2
"""The same, of one whose training set is divided into shards."""
SHARD_PAIRS = 1 << 20
"""Pairs of a shard, about; a training set of at most so many pairs is one file."""

_T = TypeVar("_T")


def _or_none(value: object, validate: ValidatorFunctionWrapHandler) -> object:
    try:
        return validate(value)
    except ValidationError:
        return None


_Lenient = Annotated[_T | None, WrapValidator(_or_none)]
"""None if damaged: not needed to train, only to tell whether the directory is up to date."""


class Record(BaseModel):
    """A part of the manifest."""

    model_config = ConfigDict(frozen=True, strict=True, use_attribute_docstrings=True)


class FileRecord(Record):
    """One file of the data directory."""

    bytes: int
    sha256: str


class TokenizerRecord(Record):
    """The vocabulary or vocabularies."""

    fingerprint: str


class ShardRecord(Record):
    """A part of a training set that is too large for one file: pairs of one source, in random order."""

    name: str
    """In place of the split in the names of its files: `train.0-00007`."""
    source: str
    """The key of its source: `train.0`."""
    pairs: Annotated[int, Field(ge=1)]


class SplitRecord(Record):
    """The training set, the development set or a test set."""

    pairs: Annotated[int, Field(ge=1)]
    """Those that are repeated are counted as often as they are repeated."""
    shards: Annotated[list[ShardRecord], Field(min_length=1)] | None = None
    """The parts of a large training set, in the order of the sources; each pair is in them once, even if repeated.
    None: the split is one file for each language, with pairs in the order of the sources and repeated in place."""


class MonoRecord(Record):
    """The monolingual text of one language."""

    lines: Annotated[int, Field(ge=1)]
    documents: Annotated[int, Field(ge=1)]


class SourceFile(Record):
    """One file of a source."""

    name: str | None = None
    """Its name under `data.root`; None for a file of a dataset on the hub, whose path is the key."""
    sha256: str


class SourceRecord(Record):
    """A source: its files, and how many of its pairs (lines of monolingual text) were read, kept and dropped."""

    corpus: str
    hub: str | None = None
    revision: str | None = None
    commit: str | None = None
    opus: str | None = None
    """The name of a corpus of OPUS."""
    version: str | None = None
    """The version of a corpus of OPUS."""
    files: dict[str, SourceFile]
    """By language and `score`, by path within a dataset on the hub, by path, or by URL."""
    skipped: dict[str, int] | None = None
    """Units of the files that are no pair, by reason; None if there are none."""
    read: int | None = None
    """None in a source that has not been read yet."""
    kept: int | None = None
    """This and the next are given for sources of training and monolingual text only."""
    dropped: dict[str, int] | None = None
    """Pairs by reason, see `nmt.prepare.cleaning.counts`."""
    repaired: dict[str, int] | None = None
    """Pairs by kind of repair; None if there are none."""


class Manifest(Record):
    """The manifest. Fields stand in the order in which they are written."""

    format: int
    languages: Annotated[tuple[str, str], Field(strict=False)]
    """In alphabetical order."""
    fingerprint: str
    """Sixteen hexadecimal digits that change if and only if a text, an id or the tokenizer changes."""
    config: _Lenient[dict[str, object]] = None
    """The recipe, see `nmt.prepare.recipe`."""
    tokenizer: TokenizerRecord
    sources: _Lenient[dict[str, SourceRecord]] = None
    """By their keys in `data`: train.0, valid, test.NAME, mono.LANG.0."""
    splits: dict[str, SplitRecord]
    mono: dict[str, MonoRecord] = {}
    """By language; empty without `data.mono`."""
    warnings: list[str] = []  # absent from manifests of earlier versions
    files: dict[str, FileRecord]
    """By their paths within the data directory."""
