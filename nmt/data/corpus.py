"""A prepared corpus on disk: text and memory-mapped ids by language, with a manifest. It serves both directions.

`nmt prepare` writes more into it, which is documentation (see `nmt.prepare.records`): it is neither read nor checked.

A `Side` is the token ids of one language; two are concatenated where both directions are trained. P lines of a side,
B lines of a batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from nmt.errors import DataError
from nmt.files.document import read_document
from nmt.files.read import check_regular, checksum, read_regular
from nmt.layout import MONO, DataDir
from nmt.text.tokenizer import PAD, Tokenizers

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


Rows = npt.NDArray[np.int64]
Integers = npt.NDArray[np.integer[Any]]
"""Integers of any type: those that hold much data are as small as they can be."""


ADVICE = "; remove the directory and run nmt prepare again"
"""What to do about a damaged data directory."""


def lengths_between(ends: Integers) -> npt.NDArray[np.int32]:
    """Return the lengths (P,) of consecutive lines that end at `ends` (P,)."""
    lengths = np.empty(len(ends), np.int32)
    lengths[:1] = ends[:1]
    np.subtract(ends[1:], ends[:-1], out=lengths[1:])  # without the int64 arrays of np.diff
    return lengths


class Side(Protocol):
    """The token ids of lines, without special tokens."""

    def __len__(self) -> int:
        """Return P, the number of lines."""

    def n_ids(self) -> npt.NDArray[np.int32]:
        """Return the number of ids of each line, (P,)."""

    def gather(self, rows: Rows, last: int) -> npt.NDArray[np.int64]:
        """Return lines `rows` (B,), each followed by the id `last`, as (B, longest), padded on the right."""


class Lines:
    """One language of a split: the concatenated ids of all lines, and where each line ends."""

    def __init__(self, ids: Integers, ends: Integers) -> None:
        """`ids`: of any integer type; `ends` (P,): line i is ids[ends[i-1]:ends[i]], line 0 starts at 0."""
        self.ids, self.ends = ids, ends

    @classmethod
    def of(cls, lines: Sequence[npt.NDArray[np.int64]]) -> Lines:
        """Join the ids of lines, at least one."""
        return cls(np.concatenate(lines), np.cumsum([len(line) for line in lines]))

    def __len__(self) -> int:
        return len(self.ends)

    def n_ids(self) -> npt.NDArray[np.int32]:
        """Return the number of ids of each line, (P,)."""
        return lengths_between(self.ends)

    def gather(self, rows: Rows, last: int) -> npt.NDArray[np.int64]:
        """Return lines `rows` (B,), each followed by the id `last`, as (B, longest), padded on the right."""
        starts, lengths = self.spans(rows)
        column = np.arange(int(lengths.max(initial=0)) + 1)
        inside = column < lengths[:, None]
        gathered = np.where(column == lengths[:, None], last, PAD)
        gathered[inside] = self.ids[(starts[:, None] + column)[inside]]
        return gathered.astype(np.int64)

    def spans(self, rows: Rows) -> tuple[Rows, Rows]:
        """Return where lines `rows` (B,) begin in the ids, and their numbers of ids."""
        starts = np.where(rows > 0, self.ends[np.maximum(rows - 1, 0)], 0).astype(np.int64)
        return starts, self.ends[rows] - starts

    def between(self, firsts: Rows, stops: Rows) -> Integers:
        """Return the concatenated ids of runs of lines: run i is lines `firsts[i]` to `stops[i]` - 1."""
        last_begins, last_lengths = self.spans(stops - 1)
        begins, ends, ids = self.spans(firsts)[0], last_begins + last_lengths, np.asarray(self.ids)
        return np.concatenate([ids[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)])


def lines_of(split: Split, language: str) -> Lines:
    """Return one language of a split, memory-mapped."""
    return Lines(split.ids(language), split.ends(language))


class Joined:
    """The concatenation of sides, without a copy."""

    def __init__(self, *sides: Side) -> None:
        self._sides, self._ends = sides, np.cumsum([len(side) for side in sides])

    def __len__(self) -> int:
        return int(self._ends[-1])

    def n_ids(self) -> npt.NDArray[np.int32]:
        """Return the number of ids of each line, (P,)."""
        return np.concatenate([side.n_ids() for side in self._sides])

    def gather(self, rows: Rows, last: int) -> npt.NDArray[np.int64]:
        """Return lines `rows` (B,), each followed by the id `last`, as (B, longest), padded on the right."""
        numbers = np.searchsorted(self._ends, rows, side="right")
        parts = []
        for i, side in enumerate(self._sides):
            places = numbers == i
            if places.any():
                parts.append((places, side.gather(rows[places] - (self._ends[i] - len(side)), last)))
        gathered = np.full((len(rows), max((lines.shape[1] for _, lines in parts), default=1)), PAD, np.int64)
        for places, lines in parts:
            gathered[places, : lines.shape[1]] = lines
        return gathered


@dataclass(frozen=True)
class Split:
    """The training set or one of its shards, the development set or a test set, of `n` pairs; or the monolingual text
    of one language, of `n` lines."""

    directory: DataDir
    name: str
    n: int

    def ids(self, language: str) -> npt.NDArray[Any]:
        """Return the concatenated ids of all lines, memory-mapped: uint16, or uint32 for a large vocabulary."""
        return _mapped(self.directory.ids(self.name, language))

    def ends(self, language: str) -> Integers:
        """Return the end offsets (n,), memory-mapped: line i is ids[ends[i-1]:ends[i]], and line 0 starts at 0.

        They are int64, in a shard uint32.
        """
        return _mapped(self.directory.ends(self.name, language))

    def lengths(self, language: str) -> npt.NDArray[np.int32]:
        """Return the number of ids per line (n,), without special ids."""
        return lengths_between(self.ends(language))

    def documents(self, language: str) -> Integers:
        """Return the first line of each document of monolingual text, from 0, in increasing order, memory-mapped."""
        return _mapped(self.directory.documents(self.name, language))

    def text(self, language: str) -> list[str]:
        """Return the n lines."""
        return read_regular(self.directory.text(self.name, language)).decode("utf-8").split("\n")[:-1]


@dataclass(frozen=True)
class Corpus:
    """A data directory, opened for reading."""

    directory: DataDir
    manifest: Manifest
    tokenizers: Tokenizers

    @classmethod
    def open(cls, directory: DataDir) -> Corpus:
        """Open a data directory.

        Raises DataError if there is none, if it has another format, or if a file is missing or truncated.
        """
        manifest = read_manifest(directory)
        for name, file in manifest.files.items():
            path = directory.path / name
            if not path.is_file() or path.stat().st_size != file.bytes:
                size = f"{path.stat().st_size} bytes" if path.is_file() else "no such file"
                raise DataError(f"{path}: {size}, its manifest says {file.bytes} bytes; run nmt prepare again")
        tokenizers = Tokenizers.load(directory.tokenizer, manifest.languages)
        if tokenizers.fingerprint != manifest.tokenizer.fingerprint:
            raise DataError(f"{directory.tokenizer.path}: not the tokenizer of the manifest; run nmt prepare again")
        return cls(directory, manifest, tokenizers)

    @property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits that change if and only if a text, an id or the tokenizer changes."""
        return self.manifest.fingerprint

    @property
    def languages(self) -> tuple[str, str]:
        """Both languages in alphabetical order."""
        return self.manifest.languages

    @property
    def splits(self) -> tuple[str, ...]:
        """`train`, `valid`, and the names of the test sets."""
        return tuple(self.manifest.splits)

    def split(self, name: str) -> Split:
        """Return one split, or one shard of the training set. Raises DataError if there is none of that name."""
        shards = self.manifest.splits["train"].shards or [] if "train" in self.splits else []
        pairs = {shard.name: shard.pairs for shard in shards}
        pairs |= {split: record.pairs for split, record in self.manifest.splits.items()}
        if name not in pairs:
            raise DataError(f"{self.directory.path}: no split {name}; there are {', '.join(self.splits)}")
        return Split(self.directory, name, pairs[name])

    @property
    def mono_languages(self) -> tuple[str, ...]:
        """The languages of the monolingual text."""
        return tuple(self.manifest.mono)

    def mono(self, language: str) -> Split:
        """Return the monolingual text of a language as a split. Raises DataError if there is none."""
        if language not in self.manifest.mono:
            raise DataError(f"{self.directory.path}: no monolingual text in {language}; data.mono names it")
        return Split(self.directory, MONO, self.manifest.mono[language].lines)

    def in_one_file(self, name: str) -> Split:
        """Return a split whose text is to be read as a whole. Raises DataError for a training set in shards."""
        if name in self.splits and self.manifest.splits[name].shards is not None:
            raise DataError(
                f"{self.directory.path}: the text of {name} is divided into shards, which this command does not read; "
                "take another split, or a data directory of fewer pairs"
            )
        return self.split(name)

    def verify(self, name: str, kinds: Iterable[Literal["text", "ids", "ends"]] = ("text", "ids", "ends")) -> None:
        """Raise DataError unless the checksums of these files of a split are those that prepare recorded."""
        for language in self.languages:
            self._verify(self.split(name), language, kinds)

    def verify_mono(self, language: str) -> None:
        """Raise DataError unless the checksums of the monolingual text are those that prepare recorded."""
        self._verify(self.mono(language), language, ("text", "ids", "ends", "documents"))

    def _verify(self, split: Split, language: str, kinds: Iterable[str]) -> None:
        for kind in kinds:
            path: Path = getattr(self.directory, kind)(split.name, language)
            recorded = self.manifest.files.get(path.name)
            if recorded is None or checksum(path) != recorded.sha256:
                raise DataError(f"{path}: damaged, its checksum is not what was written; run nmt prepare again")
            if kind == "ends" and len(split.ends(language)) != split.n:
                raise DataError(f"{self.directory.manifest}: damaged: {split.name} has a different number of lines")


def _mapped(path: Path) -> npt.NDArray[Any]:
    """Map a one-dimensional array of integers. Raises DataError."""
    check_regular(path)
    try:
        array: npt.NDArray[Any] = np.lib.format.open_memmap(path, mode="r")
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, TypeError, SyntaxError, OverflowError) as error:  # raised by numpy's parser of headers
        raise DataError(f"{path}: damaged{ADVICE}") from error
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise DataError(f"{path}: damaged{ADVICE}")
    return array


def read_manifest(directory: DataDir) -> Manifest:
    """Read the manifest of a data directory. Raises DataError if there is none, or one of another format."""
    if not directory.path.is_dir():
        raise DataError(f"{directory.path}: no such data directory; nmt prepare with the same --config makes it")
    missing = f"{directory.path}: no data directory: manifest.json is missing; run nmt prepare"
    return read_document(directory.manifest, Manifest, DataError, ADVICE, (FORMAT, SHARDED_FORMAT), missing)
