"""A prepared corpus on disk: text and memory-mapped ids by language, with a manifest. It serves both directions.

`Corpora` is the corpus of each direction of a run.

`nmt prepare` also writes documentation into it (see `nmt.data.manifest`), which is neither read nor checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from nmt.data.lines import Indices, Integers, Lines
from nmt.data.manifest import ADVICE, PREPARE_AGAIN, Contents, FileRecord, Manifest, fingerprint_of_all, read_contents
from nmt.data.settings import DataConfig
from nmt.errors import DataError
from nmt.files.read import check_regular, checksum, read_regular
from nmt.languages.directions import LanguagePair, pair_of
from nmt.layout import MONO, DataDir
from nmt.text.vocabularies import Tokenizers

SHARD_PAIRS = 1 << 20
"""Approximate number of pairs of a shard; a training set of at most this many pairs is one file."""


@dataclass(frozen=True)
class Split:
    """A training set, shard, development set or test set of `n` pairs, or monolingual text of `n` lines."""

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

    def documents(self, language: str) -> Integers:
        """Return the index of the first line of each document of monolingual text, memory-mapped."""
        return _mapped(self.directory.documents(self.name, language))

    def matches(self, language: str) -> Integers:
        """Return the row (n,) of the training line that is most similar to each line, or -1, memory-mapped."""
        return _mapped(self.directory.matches(self.name, language))

    def text(self, language: str) -> list[str]:
        """Return the text of the n lines."""
        return read_regular(self.directory.text(self.name, language)).decode("utf-8").split("\n")[:-1]


def lines_of(split: Split, language: str, n: int | None = None) -> Lines:
    """Return one language of a split, memory-mapped; `n`: its first `n` lines."""
    return Lines(split.ids(language), split.ends(language)[:n])


@dataclass(frozen=True)
class Corpus:
    """A data directory, opened for reading."""

    directory: DataDir
    manifest: Manifest
    tokenizers: Tokenizers

    @classmethod
    def open(cls, directory: DataDir) -> Corpus:
        """Open a data directory with a single pair of languages.

        Raises DataError if it does not exist or has an unknown format, or if a file is missing or truncated.
        """
        contents = read_contents(directory)
        return cls.of(contents, contents.only_pair())

    @classmethod
    def of(cls, contents: Contents, pair: str) -> Corpus:
        """Open the files of a pair of languages. Raises DataError if a file is missing or truncated."""
        directory = contents.folders[pair]
        manifest = contents.manifests[pair]
        for name, file in manifest.files.items():
            path = directory.path / name
            if not path.is_file() or path.stat().st_size != file.bytes:
                size = f"{path.stat().st_size} bytes" if path.is_file() else "no such file"
                raise DataError(f"{path}: {size}, but the manifest says {file.bytes} bytes", advice=PREPARE_AGAIN)
            if name.startswith("tokenizer/"):
                _verify(path, file)
        tokenizers = Tokenizers.load(directory.tokenizer, manifest.languages)
        if tokenizers.fingerprint != manifest.tokenizer.fingerprint:
            raise DataError(f"{directory.tokenizer.path}: not the tokenizer of the manifest", advice=PREPARE_AGAIN)
        return cls(directory, manifest, tokenizers)

    @property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits that identify the texts, the ids and the tokenizer."""
        return self.manifest.fingerprint

    @property
    def whole(self) -> str:
        """The fingerprint of all pairs of languages that were prepared together."""
        return fingerprint_of_all(self.directory, self.manifest)

    @property
    def languages(self) -> LanguagePair:
        """Both languages in alphabetical order."""
        return self.manifest.languages

    @property
    def splits(self) -> tuple[str, ...]:
        """`train`, `valid`, and the names of the test sets."""
        return tuple(self.manifest.splits)

    @property
    def tests(self) -> list[str]:
        """The names of the test sets."""
        return [split for split in self.splits if split not in ("train", "valid")]

    def split(self, name: str) -> Split:
        """Return a split, or a shard of the training set, by its name. Raises DataError for an unknown name."""
        pairs = {}
        if "train" in self.splits:
            pairs = {shard.name: shard.pairs for shard in self.manifest.splits["train"].shards or ()}
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
            raise DataError(f"{self.directory.path}: no monolingual text in {language}; add it to data.mono")
        return Split(self.directory, MONO, self.manifest.mono[language].lines)

    @property
    def is_sharded(self) -> bool:
        """Whether the training set is divided into shards."""
        return self.manifest.splits["train"].shards is not None

    @property
    def train_splits(self) -> list[Split]:
        """The training set: one split, or its shards."""
        shards = self.manifest.splits["train"].shards
        if shards is None:
            return [self.split("train")]
        return [self.split(shard.name) for shard in shards]

    def in_one_file(self, name: str) -> Split:
        """Return a split that consists of one file for each language. Raises DataError for a training set in shards."""
        if name in self.splits and self.manifest.splits[name].shards is not None:
            raise DataError(
                f"{self.directory.path}: the text of {name} is divided into shards, which this command does not read; "
                "use another split, or a data directory with fewer pairs"
            )
        return self.split(name)

    def verify(
        self, name: str, kinds: Iterable[Literal["text", "ids", "ends", "matches"]] = ("text", "ids", "ends")
    ) -> None:
        """Check the files of a split against their recorded checksums. Raises DataError if one differs."""
        for language in self.languages:
            self._verify(self.split(name), language, kinds)

    def follows(self, split: Split) -> Integers:
        """Return 1 for each pair (n,) of a split that follows the one before it in its document, else 0, memory-mapped.

        Raises DataError if that was not recorded, or is damaged.
        """
        path = self.directory.follows(split.name)
        recorded = self.manifest.files.get(path.name)
        if recorded is None:
            raise DataError(
                f"{self.directory.path}: has no order of documents for training.modifiers.join; set data.documents: "
                "true and run nmt prepare again"
            )
        _verify(path, recorded)
        return _mapped(path)

    def verify_mono(self, language: str) -> None:
        """Check the monolingual text of a language against its recorded checksums. Raises DataError if one differs."""
        self._verify(self.mono(language), language, ("text", "ids", "ends", "documents"))

    def _verify(self, split: Split, language: str, kinds: Iterable[str]) -> None:
        for kind in kinds:
            path: Path = getattr(self.directory, kind)(split.name, language)
            _verify(path, self.manifest.files.get(path.name))
            if kind == "ends" and len(split.ends(language)) != split.n:
                raise DataError(f"{self.directory.manifest}: damaged: {split.name} has a different number of lines")


def _verify(path: Path, recorded: FileRecord | None) -> None:
    """Raise DataError if a file was not recorded, or differs from its record."""
    if recorded is None or checksum(path) != recorded.sha256:
        raise DataError(f"{path}: damaged: its checksum does not match", advice=PREPARE_AGAIN)


def _mapped(path: Path) -> npt.NDArray[Any]:
    """Memory-map a one-dimensional array of integers. Raises DataError if it cannot be read or is damaged."""
    check_regular(path)
    try:
        array: npt.NDArray[Any] = np.lib.format.open_memmap(path, mode="r")
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, TypeError, SyntaxError, OverflowError) as error:  # raised by numpy's parser of headers
        raise DataError(f"{path}: damaged", advice=ADVICE) from error
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise DataError(f"{path}: damaged", advice=ADVICE)
    return array


@dataclass(frozen=True)
class Corpora:
    """The data directory of a run, opened for reading: the corpus of each of its directions."""

    directory: DataDir
    fingerprint: str
    """Sixteen hexadecimal digits that identify the texts, the ids and the tokenizer."""
    tokenizers: Tokenizers
    """The tokenizers of all languages, with the tags of the target languages."""
    by_direction: dict[str, Corpus]
    """The directions of one pair of languages have the same corpus."""

    @classmethod
    def open(cls, directory: DataDir, data: DataConfig, tags: Sequence[str] = ()) -> Corpora:
        """Open the data directory of a config.

        tags: with `data.directions`, the tags that the tokenizers have before the target languages' tags.
        Raises DataError as `Corpus.open` does, or if a pair of languages is missing.
        """
        contents = read_contents(directory)
        if not data.pairs.keys() <= contents.manifests.keys():
            raise DataError(
                f"{directory.path}: contains {', '.join(contents.manifests)}, but the config needs "
                f"{', '.join(data.pairs)}"
            )
        by_pair = {pair: Corpus.of(contents, pair) for pair in data.pairs}
        tokenizers = next(iter(by_pair.values())).tokenizers
        if data.has_language_tags:
            tokenizers.check_directions(directory.path)
            tokenizers = tokenizers.of_languages(data.all_languages).with_tags([*tags, *data.language_tags])
            by_pair = {pair: replace(corpus, tokenizers=tokenizers) for pair, corpus in by_pair.items()}
        by_direction = {direction: by_pair[pair_of(direction)] for direction in data.all_directions}
        return cls(directory, contents.fingerprint, tokenizers, by_direction)

    @property
    def first(self) -> Corpus:
        """The corpus of the first direction."""
        return next(iter(self.by_direction.values()))

    @property
    def distinct(self) -> list[Corpus]:
        """The corpora, each once."""
        by_path = {corpus.directory.path: corpus for corpus in self.by_direction.values()}
        return [*by_path.values()]

    @property
    def starts(self) -> Indices:
        """The first row of each direction: training pairs are numbered across directions, then one row at the end."""
        n_pairs = (sum(split.n for split in corpus.train_splits) for corpus in self.by_direction.values())
        return np.cumsum([0, *n_pairs])
