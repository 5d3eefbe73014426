"""The labels of the training text, where it has labels in place of translations."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nmt.config import DataConfig
from nmt.console import printable
from nmt.errors import DataError
from nmt.prepare.pipeline.files import part_folder, read_side
from nmt.text.labels import Labels

_SHOWN = 60  # characters of a text in a message


def read_labels(work: Path, config: DataConfig, n_parts: int) -> tuple[Labels, list[str]] | None:
    """Return the labels of the settled training text, and warnings; None if the target is a language.

    Raises DataError if there is only one label, or so many that they look like text.
    """
    side = config.label_side
    if side is None:
        return None
    names: set[str] = set()
    hashes = []
    for part in range(n_parts):
        folder = part_folder(work, "settle", part)
        names.update(read_side(folder, side))
        hashes.append(np.array([_hash(text) for text in read_side(folder, 1 - side)], np.uint64))
    try:
        labels = Labels(names)
    except DataError as error:
        raise DataError(f"data.train: {error}") from error
    return labels, _conflicts(work, 1 - side, hashes)


def _conflicts(work: Path, side: int, hashes: list[npt.NDArray[np.uint64]]) -> list[str]:
    """Return a warning if a text has more than one label: pairs that are the same have been dropped before."""
    values, counts = np.unique(np.concatenate(hashes), return_counts=True)
    if not (counts > 1).any():
        return []
    first = values[counts > 1][0]
    part, row = next((part, int(np.flatnonzero(own == first)[0])) for part, own in enumerate(hashes) if first in own)
    text = printable(read_side(part_folder(work, "settle", part), side)[row][:_SHOWN])
    n = int(np.count_nonzero(counts > 1))
    return [
        f"data.train: {n:,} {'texts have' if n > 1 else 'text has'} more than one label, such as {text!r}; "
        "data.clean.max_targets: 1 keeps the first"
    ]


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
