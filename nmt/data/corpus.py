"""A prepared corpus on disk: text and ids by language, memory-mapped, with a manifest. It has no direction."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, Field, ValidationError

from nmt.data.sides import lengths_between
from nmt.errors import DataError
from nmt.files.read import check_regular, checksum, read_regular, read_text
from nmt.layout import DataDir
from nmt.text.tokenizer import Tokenizers

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
        return _mapped(self.directory.ids(self.name, language))

    def ends(self, language: str) -> npt.NDArray[np.int64]:
        """(n,) where each line's ids end, memory-mapped: line i is ids[ends[i-1]:ends[i]], line 0 starts at 0."""
        return _mapped(self.directory.ends(self.name, language))

    def lengths(self, language: str) -> npt.NDArray[np.int32]:
        """(n,) number of ids of each line, without special ids."""
        return lengths_between(self.ends(language))

    def text(self, language: str) -> list[str]:
        """The n lines."""
        return read_regular(self.directory.text(self.name, language)).decode("utf-8").split("\n")[:-1]


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

    def verify(self, name: str, kinds: Iterable[Literal["text", "ids", "ends"]] = ("text", "ids", "ends")) -> None:
        """Raise DataError unless these files of a split are, byte for byte, what prepare wrote."""
        for language in self.languages:
            for kind in kinds:
                path: Path = getattr(self.directory, kind)(name, language)
                facts = self.manifest["files"].get(path.name)
                if facts is None or checksum(path) != facts["sha256"]:
                    raise DataError(f"{path}: damaged, its checksum is not what was written; run nmt prepare again")
                if kind == "ends" and len(self.split(name).ends(language)) != self.split(name).n:
                    raise DataError(f"{self.directory.manifest}: damaged: {name} has another number of pairs")


def _mapped(path: Path) -> npt.NDArray[Any]:
    """A memory-mapped row of whole numbers, as long as its file says. Raises DataError."""
    check_regular(path)
    try:
        array: npt.NDArray[Any] = np.lib.format.open_memmap(path, mode="r")
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, TypeError, SyntaxError, OverflowError) as error:  # as numpy's reader of headers has them
        raise DataError(f"{path}: {_DAMAGED}") from error
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise DataError(f"{path}: {_DAMAGED}")
    return array


class _Manifest(BaseModel, strict=True):
    """What a manifest must hold to be read; there is more in it for people and for `prepare`."""

    class File(BaseModel, strict=True):
        bytes: int
        sha256: str

    class Tokenizer(BaseModel, strict=True):
        fingerprint: str

    class Split(BaseModel, strict=True):
        pairs: Annotated[int, Field(ge=1)]

    languages: Annotated[list[str], Field(min_length=2, max_length=2)]
    fingerprint: str
    tokenizer: Tokenizer
    splits: dict[str, Split]
    files: dict[str, File]
    warnings: list[str] = []  # not in manifests of earlier versions


def read_manifest(directory: DataDir) -> dict[str, Any]:
    """The manifest of a data directory. Raises DataError if there is none, or one of another format."""
    if not directory.path.is_dir():
        raise DataError(f"{directory.path}: no such data directory; nmt prepare with the same --config makes it")
    try:
        manifest = json.loads(read_text(directory.manifest))
        number = manifest["format"]
    except FileNotFoundError:
        raise DataError(f"{directory.path}: no data directory: manifest.json is missing; run nmt prepare") from None
    except OSError as error:
        raise DataError(f"{directory.manifest}: cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, RecursionError):
        raise DataError(f"{directory.manifest}: {_DAMAGED}") from None
    if number != FORMAT:
        raise DataError(f"{directory.manifest}: format {number}, this version reads {FORMAT}; run nmt prepare again")
    lacking = {"languages", "fingerprint", "tokenizer", "splits", "files"} - set(manifest)
    if lacking:
        raise DataError(f"{directory.manifest}: not a manifest of nmt: it lacks {', '.join(sorted(lacking))}")
    try:
        _Manifest.model_validate(manifest)
    except ValidationError as error:
        key = ".".join(map(str, error.errors()[0]["loc"]))
        raise DataError(f"{directory.manifest}: {_DAMAGED} ({key} is not what it must be)") from None
    return dict(manifest)


_DAMAGED = "damaged; remove the directory and run nmt prepare again"
