"""The manifest of a data directory: its files, and the numbers of its pairs.

The directory of one pair of languages has manifest.json and all files. With several pairs, it has a folder like this
for each, and pairs.json, which lists them. Only this module knows the difference.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias, TypeVar

from pydantic import BaseModel, Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from nmt.errors import DataError
from nmt.files.document import Document, document_text, read_document
from nmt.files.read import checksums_in, fingerprint_of, read_text
from nmt.files.write import write_file
from nmt.languages.directions import LanguagePair
from nmt.layout import DataDir
from nmt.text.profiles import Letters

DATA_FORMAT = 1
"""Format number of a data directory whose training set is one file; incremented by incompatible changes."""
SHARDED_FORMAT = 2
"""Format number of a data directory whose training set is divided into shards."""
_INDEX_FORMAT = 1
"""Format number of pairs.json."""

ADVICE = "; remove the directory and run nmt prepare again"
"""Advice for a damaged data directory, which ends a message."""
PREPARE_AGAIN = "; run nmt prepare again"
"""Advice for a data directory that lacks something, which ends a message."""

Recipe: TypeAlias = dict[str, object]
"""Settings of a preparation as plain values; see `nmt.prepare.recipe`."""

_T = TypeVar("_T")


def _or_none(value: object, validate: ValidatorFunctionWrapHandler) -> object:
    try:
        return validate(value)
    except ValidationError:
        return None


_Lenient = Annotated[_T | None, WrapValidator(_or_none)]
"""A value, or None if it is damaged: readers of the text do not need it."""


class FileRecord(Document):
    """One file of the data directory."""

    bytes: int
    sha256: str


class TokenizerRecord(Document):
    """The joint vocabulary, or the vocabularies of both languages."""

    fingerprint: str
    joint: _Lenient[bool] = None
    pieces: _Lenient[dict[str, int]] = None
    """Vocabulary size by language."""


class CleanRecord(Document):
    """Counts of pairs of a split, or of lines of monolingual text: read, kept, and dropped by reason."""

    read: int
    kept: int
    dropped: dict[str, int]


class TextRecord(Document):
    """Counts of one side of a split, or of monolingual text."""

    words: int
    characters: int
    """Number of characters without white space."""
    pieces: int
    bytes: int
    """Number of pieces that are single bytes."""
    unknown: int


def added(counts: Iterable[TextRecord]) -> TextRecord:
    """Return the sum of the counts of several texts."""
    totals = dict.fromkeys(TextRecord.model_fields, 0)
    for text in counts:
        for name in totals:
            totals[name] += getattr(text, name)
    return TextRecord(**totals)


class RoundTripRecord(Document):
    """Counts of the lines of a development or test set, and of those that the tokenizer decodes exactly."""

    lines: int
    exact: int
    control: int
    """Number of lines with control characters, which are not compared."""


class SplitOffRecord(Document):
    """A record of a development or test set that was split off from the training text."""

    asked: int | float
    """The number of pairs (int) or share (float) that the config asks for."""
    of: int
    """Number of training pairs from which it was chosen."""
    left_out: int
    """Number of training pairs that were dropped because they share a side with a set that was split off; counted once,
    for the first set."""


class ShardRecord(Document):
    """A shard of a training set that is too large for one file: pairs of one source, in random order."""

    name: str
    """The name that replaces the name of the split in the names of its files: `train.0-00007`."""
    source: str
    """The key of its source: `train.0`."""
    pairs: Annotated[int, Field(ge=1)]


class SplitRecord(Document):
    """The training set, the development set or a test set."""

    pairs: Annotated[int, Field(ge=1)]
    """The number of pairs, with repetitions."""
    shards: Annotated[list[ShardRecord], Field(min_length=1)] | None = None
    """The shards of a large training set, in the order of the sources; they contain each pair once, even if repeated.
    None: the split is one file for each language, with pairs in the order of the sources and repeated in place."""
    clean: _Lenient[CleanRecord] = None
    text: _Lenient[dict[str, TextRecord]] = None
    """By language."""
    round_trip: _Lenient[RoundTripRecord] = None
    split_off: _Lenient[SplitOffRecord] = None
    classes: _Lenient[dict[str, int]] = None
    """Number of pairs by label; None if the target is a language."""


class MonoRecord(Document):
    """The monolingual text of one language."""

    lines: Annotated[int, Field(ge=1)]
    documents: Annotated[int, Field(ge=1)]
    clean: _Lenient[CleanRecord] = None
    text: _Lenient[TextRecord] = None


class SourceFile(Document):
    """One file of a source."""

    name: str | None = None
    """Its name under `data.root`; None for a file of a Hub dataset, whose path is the key."""
    sha256: str


class SourceRecord(Document):
    """A source: its files, and the numbers of its pairs (or lines of monolingual text) read, kept and dropped."""

    corpus: str
    hub: str | None = None
    revision: str | None = None
    commit: str | None = None
    opus: str | None = None
    """The name of a corpus of OPUS."""
    version: str | None = None
    """The version of a corpus of OPUS."""
    files: dict[str, SourceFile]
    """By language and `score`, by path within a Hub dataset, by path, or by URL."""
    skipped: dict[str, int] | None = None
    """The number of skipped units of the files, by reason; None if there are none."""
    read: int | None = None
    """None if the source has not been read yet."""
    kept: int | None = None
    """None, like `dropped`, for development and test sets."""
    dropped: dict[str, int] | None = None
    """The number of dropped pairs by reason, see `nmt.prepare.cleaning.counts`."""
    repaired: dict[str, int] | None = None
    """The number of repaired pairs by kind of repair; None if there are none."""


RecordedPair: TypeAlias = Annotated[LanguagePair, Field(strict=False)]


class Manifest(Document):
    """The manifest of a pair of languages. Fields are in the order in which they are written."""

    format: int
    languages: RecordedPair
    """In alphabetical order."""
    fingerprint: str
    """Sixteen hexadecimal digits that identify the texts, the ids and the tokenizer."""
    config: _Lenient[Recipe] = None
    """The preparation settings, see `nmt.prepare.recipe`."""
    tokenizer: TokenizerRecord
    sources: _Lenient[dict[str, SourceRecord]] = None
    """By their keys in `data`: train.0, valid, test.NAME, mono.LANG.0."""
    several: float = 1.0
    """The estimated share of training pairs whose first side has several sentences; 1.0 if it is not known."""
    splits: dict[str, SplitRecord]
    mono: dict[str, MonoRecord] = Field({})
    """By language; empty without `data.mono`."""
    warnings: list[str] = Field([])
    files: dict[str, FileRecord]
    """By their paths within the data directory."""


class _Index(Document):
    """The content of pairs.json."""

    format: int
    languages: list[str]
    pairs: Annotated[dict[str, str], Field(min_length=1)]
    """The fingerprint of the folder of each pair, such as de-en."""
    fingerprint: str
    config: _Lenient[Recipe] = None
    files: dict[str, FileRecord]


class _Owned(BaseModel, strict=True):
    """The names of the files of a data directory, in a manifest of any format."""

    format: int
    files: dict[str, object]


@dataclass(frozen=True)
class Contents:
    """The contents of a data directory."""

    directory: DataDir
    languages: tuple[str, ...]
    """In alphabetical order."""
    fingerprint: str
    """Sixteen hexadecimal digits that identify the text of all pairs of languages."""
    config: Recipe | None
    """The preparation settings, if they are recorded; see `nmt.prepare.recipe`."""
    manifests: dict[str, Manifest]
    """By pair of languages, such as de-en."""
    folders: dict[str, DataDir]
    """The directory with the files of each pair."""

    def only_pair(self) -> str:
        """Return the pair of languages. Raises DataError if there are several."""
        if len(self.folders) > 1:
            folders = ", ".join(str(folder.path) for folder in self.folders.values())
            raise DataError(f"{self.directory.path}: contains several pairs of languages; choose one of {folders}")
        return next(iter(self.folders))


def read_contents(directory: DataDir) -> Contents:
    """Read the manifest of each pair of languages. Raises DataError if one is missing, damaged or of another format."""
    if not directory.path.is_dir():
        raise DataError(f"{directory.path}: no such data directory; nmt prepare with the same --config creates it")
    if not directory.pairs.is_file():
        manifest = _read_manifest(directory)
        pair = "-".join(manifest.languages)
        return Contents(
            directory,
            manifest.languages,
            manifest.fingerprint,
            manifest.config,
            manifests={pair: manifest},
            folders={pair: directory},
        )
    index = _read_index(directory)
    folders = {pair: DataDir(directory.path / pair) for pair in index.pairs}
    manifests = {pair: _read_manifest(folder) for pair, folder in folders.items()}
    for pair, manifest in manifests.items():
        if manifest.fingerprint != index.pairs[pair]:
            raise DataError(f"{folders[pair].path}: not the data of {directory.pairs}", advice=PREPARE_AGAIN)
    return Contents(directory, tuple(index.languages), index.fingerprint, index.config, manifests, folders)


def read_manifest(directory: DataDir) -> Manifest:
    """Read the manifest of the only pair of languages. Raises DataError as `read_contents` does, or if there are
    several."""
    contents = read_contents(directory)
    return contents.manifests[contents.only_pair()]


def _read_manifest(directory: DataDir) -> Manifest:
    missing = f"{directory.path}: no data directory: manifest.json is missing; run nmt prepare"
    return read_document(directory.manifest, Manifest, DataError, ADVICE, (DATA_FORMAT, SHARDED_FORMAT), missing)


def _read_index(directory: DataDir) -> _Index:
    return read_document(directory.pairs, _Index, DataError, ADVICE, (_INDEX_FORMAT,))


def folder_of(directory: DataDir, pair: str) -> DataDir:
    """Return the directory with the files of a pair of languages, which need not exist."""
    return DataDir(directory.path / pair) if directory.pairs.is_file() else directory


def fingerprint_of_all(directory: DataDir, manifest: Manifest) -> str:
    """Return the fingerprint of all pairs of languages that were prepared with that in `directory`."""
    parent = DataDir(directory.path.resolve().parent)
    if parent.pairs.is_file():
        index = _read_index(parent)
        if index.pairs.get("-".join(manifest.languages)) == manifest.fingerprint:
            return index.fingerprint
    return manifest.fingerprint


def owned_files(directory: DataDir) -> set[str]:
    """Return the paths of all files that were written with a data directory, even of another format; none if it has no
    manifest. Raises DataError if that is damaged."""
    path = directory.pairs if directory.pairs.is_file() else directory.manifest
    if not path.is_file():
        return set()
    try:
        files = _Owned.model_validate_json(read_text(path)).files
    except (OSError, UnicodeDecodeError, ValidationError) as error:
        raise DataError(
            f"{path}: damaged or not written by nmt, so nothing here is replaced; remove the directory or choose "
            "another with --data"
        ) from error
    return {*files, path.name, directory.report.name, directory.report_page.name}


def write_manifest(directory: DataDir, manifest: Manifest) -> None:
    """Write the manifest of a pair of languages. Raises OSError."""
    tree = manifest.model_dump(mode="json", exclude_unset=True)
    text = json.dumps(tree, ensure_ascii=False, indent=1)
    directory.manifest.write_bytes(f"{text}\n".encode())


def write_index(directory: DataDir, manifests: Mapping[str, Manifest], config: Recipe) -> None:
    """Write the list of the pairs of languages, after all other files. Raises OSError."""
    pairs = {pair: manifest.fingerprint for pair, manifest in manifests.items()}
    languages = set[str]().union(*(manifest.languages for manifest in manifests.values()))
    index = _Index(
        format=_INDEX_FORMAT,
        languages=sorted(languages),
        pairs=pairs,
        fingerprint=fingerprint_of(json.dumps(pairs, sort_keys=True).encode()),
        config=config,
        files=file_facts(directory.path),
    )
    write_file(directory.pairs, f"{document_text(index)}\n".encode())


def file_facts(directory: Path) -> dict[str, FileRecord]:
    """Return the size and SHA-256 of each file below a directory, sorted by name."""
    facts = {}
    for name, digest in checksums_in(directory).items():
        facts[name] = FileRecord(bytes=(directory / name).stat().st_size, sha256=digest)
    return facts


def content_fingerprint(files: Mapping[str, FileRecord], letters: Letters | None = None) -> str:
    """Return a hash, of sixteen hexadecimal digits, of the names and checksums of all files, and of the `letters` in
    the profiles of the languages.

    The rest of the profiles is left out: no training depends on it, and older directories lack it.
    """
    content = sorted(files.keys() - {DataDir(Path()).tokenizer.profiles.as_posix()})
    text = "".join(f"{name} {files[name].sha256}\n" for name in content)
    if letters:
        text += json.dumps(letters)
    return fingerprint_of(text.encode())
