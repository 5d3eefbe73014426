"""Hashes of the pairs of a part, sorted, and the search for equal ones in all parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nmt.prepare.pipeline.files import Rows

_Keys = npt.NDArray[np.uint64]


def write_keys(folder: Path, keys: npt.NDArray[np.unsignedinteger], scores: npt.NDArray[np.float32] | None) -> None:
    """Write the keys (N, 2) of a part, sorted, with their rows and the scores (N,) of the pairs, if they have any."""
    folder.mkdir()
    order = np.lexsort((keys[:, 1], keys[:, 0]))
    np.save(folder / "keys.npy", keys[order].astype(np.uint64))
    np.save(folder / "rows.npy", order.astype(np.uint32))
    if scores is not None:
        np.save(folder / "scores.npy", scores[order])


def duplicates(
    folders: Sequence[Path], bucket: int, n_buckets: int, most: int, gone: Mapping[int, npt.NDArray[np.bool_]]
) -> tuple[dict[int, Rows], int]:
    """Find the rows to drop among the keys of one range of all parts, and count those keys.

    Of each group of equal keys, the `most` with the best scores are kept; of equal scores, the first.

    Args:
        folders: with the keys of each part, in order.
        bucket: number of the range; there are `n_buckets` of them.
        gone: for some of the parts, whether a row has been dropped before; such rows are no part of a group.
    """
    keys, places, scores = [np.zeros((0, 2), np.uint64)], [np.zeros((0, 2), np.int64)], [np.zeros(0, np.float32)]
    bounds = [(number << 64) // n_buckets for number in (bucket, bucket + 1)]
    for part, folder in enumerate(folders):
        own = np.load(folder / "keys.npy", mmap_mode="r")
        start = int(np.searchsorted(own[:, 0], np.uint64(bounds[0])))
        end = len(own) if bounds[1] == 1 << 64 else int(np.searchsorted(own[:, 0], np.uint64(bounds[1])))
        rows = np.load(folder / "rows.npy", mmap_mode="r")[start:end].astype(np.int64)
        is_left = ~gone[part][rows] if part in gone else np.ones(len(rows), np.bool_)
        keys.append(own[start:end][is_left])
        places.append(np.stack([np.full(int(is_left.sum()), part, np.int64), rows[is_left]], axis=1))
        path = folder / "scores.npy"
        has_scores = path.exists()
        own_scores = np.load(path, mmap_mode="r")[start:end] if has_scores else np.full(end - start, np.nan, np.float32)
        scores.append(own_scores[is_left])
    key, place = np.concatenate(keys), np.concatenate(places)
    worse = -np.nan_to_num(np.concatenate(scores), nan=-np.inf)
    order = np.lexsort((place[:, 1], place[:, 0], worse, key[:, 1], key[:, 0]))
    key, place = key[order], place[order]
    is_first = np.ones(len(key), np.bool_)
    is_first[1:] = (key[1:] != key[:-1]).any(axis=1)
    firsts = np.flatnonzero(is_first)
    rank = np.arange(len(key)) - np.repeat(firsts, np.diff(np.append(firsts, len(key))))
    found = place[rank >= most]
    drops = {int(part): np.sort(found[found[:, 0] == part, 1]) for part in np.unique(found[:, 0])}
    return drops, len(key)
