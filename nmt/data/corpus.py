"""A prepared corpus on disk: text and ids by language, memory-mapped, with a manifest. It has no direction."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nmt.errors import DataError
from nmt.layout import DataDir
from nmt.tokenizer import Tokenizers

FORMAT = 1
"""Number of the layout of a data directory; raised when an older one can no longer be read."""


@dataclass(frozen=True)
class Split:
    """The training set, the development set or a test set: `n` pairs."""

    directory: DataDir
    name: str
    n: int

    def ids(self, language: str) -> npt.NDArray[Any]:
        """The ids of all lines one after the other, memory-mapped: uint16, or uint32 for a large vocabulary."""
        array: npt.NDArray[Any] = np.load(self.directory.ids(self.name, language), mmap_mode="r", allow_pickle=False)
        return array

    def ends(self, language: str) -> npt.NDArray[np.int64]:
        """(n,) where each line's ids end, memory-mapped: line i is ids[ends[i-1]:ends[i]], line 0 starts at 0."""
        array: npt.NDArray[np.int64] = np.load(
            self.directory.ends(self.name, language), mmap_mode="r", allow_pickle=False
        )
        return array

    def lengths(self, language: str) -> npt.NDArray[np.int32]:
        """(n,) number of ids of each line, without special ids."""
        ends = self.ends(language)
        lengths = np.empty(len(ends), np.int32)
        lengths[:1] = ends[:1]
        np.subtract(ends[1:], ends[:-1], out=lengths[1:])  # np.diff and astype would hold arrays of eight bytes a line
        return lengths

    def text(self, language: str) -> list[str]:
        """The n lines."""
        return self.directory.text(self.name, language).read_bytes().decode("utf-8").split("\n")[:-1]


@dataclass(frozen=True)
class Corpus:
    """A data directory opened for reading."""

    directory: DataDir
    manifest: dict[str, Any]
    tokenizers: Tokenizers

    @classmethod
    def open(cls, directory: DataDir) -> Corpus:
        """Open a data directory.

        Raises DataError if there is none, if it was written by another version, or if a file is missing or cut.
        """
        manifest = read_manifest(directory)
        for name, facts in manifest["files"].items():
            path = directory.path / name
            if not path.is_file() or path.stat().st_size != facts["bytes"]:
                found = f"{path.stat().st_size} bytes" if path.is_file() else "no such file"
                raise DataError(f"{path}: {found}, its manifest says {facts['bytes']} bytes; run nmt prepare again")
        tokenizers = Tokenizers.load(directory.tokenizer, manifest["languages"])
        if tokenizers.fingerprint != manifest["tokenizer"]["fingerprint"]:
            raise DataError(f"{directory.tokenizer.path}: not the tokenizer of the manifest; run nmt prepare again")
        return cls(directory, manifest, tokenizers)

    @property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits that change if and only if a text, an id or the tokenizer changes."""
        return str(self.manifest["fingerprint"])

    @property
    def languages(self) -> tuple[str, str]:
        """Both languages in alphabetical order."""
        first, second = self.manifest["languages"]
        return first, second

    @property
    def splits(self) -> tuple[str, ...]:
        """`train`, `valid`, and the names of the test sets."""
        return tuple(self.manifest["splits"])

    def split(self, name: str) -> Split:
        """One split. Raises DataError if there is none of that name."""
        if name not in self.splits:
            raise DataError(f"{self.directory.path}: no split {name}; there are {', '.join(self.splits)}")
        return Split(self.directory, name, int(self.manifest["splits"][name]["pairs"]))


def read_manifest(directory: DataDir) -> dict[str, Any]:
    """The manifest of a data directory. Raises DataError if there is none, or one of another format."""
    if not directory.path.is_dir():
        raise DataError(f"{directory.path}: no such data directory; nmt prepare makes it")
    try:
        manifest = json.loads(directory.manifest.read_bytes())
        number = manifest["format"]
    except FileNotFoundError:
        raise DataError(f"{directory.path}: no data directory: manifest.json is missing; run nmt prepare") from None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise DataError(f"{directory.manifest}: not readable: {error}") from error
    if number != FORMAT:
        raise DataError(f"{directory.manifest}: format {number}, this version reads {FORMAT}; run nmt prepare again")
    lacking = {"languages", "fingerprint", "tokenizer", "splits", "files"} - set(manifest)
    if lacking:
        raise DataError(f"{directory.manifest}: not a manifest of nmt: it lacks {', '.join(sorted(lacking))}")
    return dict(manifest)
