"""Writing a data directory: one split after the other, then the checksums of everything."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from nmt.files.read import checksum
from nmt.layout import DataDir
from nmt.text.tokenizer import N_SPECIAL, Tokenizers


class SplitWriter:
    """Writes text and ids of one split as they come; the ids are held packed, two or four bytes each."""

    def __init__(self, directory: DataDir, split: str, tokenizers: Tokenizers) -> None:
        self.pairs = 0
        counted = ("words", "characters", "pieces", "bytes", "unknown")
        self.counts = {name: dict.fromkeys(counted, 0) for name in tokenizers.languages}
        """Words, characters of them, pieces, and how many of the pieces are single bytes or unknown, by language."""
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
            counts = self.counts[language]
            words = [line.split() for line in lines[side]]
            counts["words"] += sum(map(len, words))
            counts["characters"] += sum(len(word) for line in words for word in line)
            counts["pieces"] += len(flat)
            counts["bytes"] += int(((flat >= N_SPECIAL) & (flat < N_SPECIAL + 256)).sum())
            counts["unknown"] += int((flat < N_SPECIAL).sum())

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
    """The smallest type that holds every id of a vocabulary of `n_pieces`."""
    return np.uint16 if n_pieces <= 2**16 else np.uint32


def file_facts(directory: Path) -> dict[str, dict[str, Any]]:
    """Size and SHA-256 of every file below a directory, in the order of their names."""
    paths = sorted(path for path in directory.rglob("*") if path.is_file())
    return {
        path.relative_to(directory).as_posix(): {"bytes": path.stat().st_size, "sha256": checksum(path)}
        for path in paths
    }


def content_fingerprint(files: dict[str, dict[str, Any]]) -> str:
    """Sixteen hexadecimal digits over the checksums of all files, name by name."""
    text = "".join(f"{name} {files[name]['sha256']}\n" for name in sorted(files))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
