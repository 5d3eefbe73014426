"""Writing a data directory: the text and ids of each split, then the checksums of all files."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from nmt.data.manifest import FileRecord
from nmt.files.read import checksum
from nmt.layout import DataDir
from nmt.prepare.records import TextRecord
from nmt.text.tokenizer import N_SPECIAL, Tokenizers


class SplitWriter:
    """Writes the text of one split as it comes, and its ids, held in two or four bytes each, at the end."""

    def __init__(self, directory: DataDir, split: str, tokenizers: Tokenizers) -> None:
        self.pairs = 0
        self._counts = {name: dict.fromkeys(TextRecord.model_fields, 0) for name in tokenizers.languages}
        self._directory, self._split = directory, split
        self._languages = tokenizers.languages
        self._dtype = {name: id_dtype(len(tokenizers[name])) for name in tokenizers.languages}
        self._ids: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in tokenizers.languages}
        self._lengths: dict[str, list[npt.NDArray[np.int64]]] = {name: [] for name in tokenizers.languages}

    def __enter__(self) -> SplitWriter:
        self._files = [self._directory.text(self._split, language).open("wb") for language in self._languages]
        return self

    def add(self, lines: Sequence[Sequence[str]], ids: Sequence[Sequence[Sequence[int]]]) -> None:
        """Append pairs: `lines[side][i]` and `ids[side][i]`, sides in the alphabetical order of their languages."""
        self.pairs += len(lines[0])
        for side, language in enumerate(self._languages):
            self._files[side].writelines(f"{line}\n".encode() for line in lines[side])
            lengths = np.fromiter((len(line) for line in ids[side]), np.int64, len(ids[side]))
            every_id = itertools.chain.from_iterable(ids[side])
            flat: npt.NDArray[Any] = np.fromiter(every_id, self._dtype[language], int(lengths.sum()))
            self._ids[language].append(flat)
            self._lengths[language].append(lengths)
            counts = self._counts[language]
            words = [line.split() for line in lines[side]]
            counts["words"] += sum(map(len, words))
            counts["characters"] += sum(len(word) for line in words for word in line)
            counts["pieces"] += len(flat)
            counts["bytes"] += int(((flat >= N_SPECIAL) & (flat < N_SPECIAL + 256)).sum())
            counts["unknown"] += int((flat < N_SPECIAL).sum())

    def record(self) -> dict[str, TextRecord]:
        """The counts so far, by language."""
        return {language: TextRecord(**counts) for language, counts in self._counts.items()}

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for file in self._files:
            file.close()
        if kind is None:
            for language in self._languages:
                ids = np.concatenate([np.zeros(0, self._dtype[language]), *self._ids[language]])
                lengths = np.concatenate([np.zeros(0, np.int64), *self._lengths[language]])
                np.save(self._directory.ids(self._split, language), ids)
                np.save(self._directory.ends(self._split, language), np.cumsum(lengths, dtype=np.int64))


def id_dtype(n_pieces: int) -> type[np.uint16] | type[np.uint32]:
    """Return the smallest type that holds every id of a vocabulary of `n_pieces`."""
    return np.uint16 if n_pieces <= 2**16 else np.uint32


def file_facts(directory: Path) -> dict[str, FileRecord]:
    """Size and SHA-256 of every file below a directory, sorted by name."""
    paths = sorted(path for path in directory.rglob("*") if path.is_file())
    return {
        path.relative_to(directory).as_posix(): FileRecord(bytes=path.stat().st_size, sha256=checksum(path))
        for path in paths
    }


def content_fingerprint(files: Mapping[str, FileRecord]) -> str:
    """Sixteen hexadecimal digits over the names and checksums of all files."""
    text = "".join(f"{name} {files[name].sha256}\n" for name in sorted(files))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
