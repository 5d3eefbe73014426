"""The stages `group`: of similar pairs, found by hashes in all parts, all but the best are dropped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel

from nmt.config import DataConfig
from nmt.prepare.cleaning.grouping import groupings
from nmt.prepare.pipeline.work import Drops, Rows, Work, part_folder, write_drops
from nmt.tasks.perform import Done, Json, Task

_Keys: TypeAlias = npt.NDArray[np.uint64]
_Scores: TypeAlias = npt.NDArray[np.float32]


def write_keys(folder: Path, keys: npt.NDArray[np.uint64], scores: _Scores | None) -> None:
    """Write the keys (N, 2) of a part, sorted, with their rows and the scores (N,) of the pairs, if they have any."""
    folder.mkdir()
    high, low = keys.T.astype(np.uint64)
    order = _sorted(high, low)
    np.save(folder / "keys.npy", np.stack([high[order], low[order]]))
    np.save(folder / "rows.npy", order.astype(np.uint32))
    if scores is not None:
        np.save(folder / "scores.npy", scores[order])


def duplicates(
    folders: Sequence[Path], bucket: int, n_buckets: int, gone: Mapping[int, Rows]
) -> tuple[dict[int, Rows], int]:
    """Find the rows to drop among the keys of one range of all parts, and count those keys.

    Of each group of equal keys, the one with the best score is kept; of equal scores, the first.

    Args:
        folders: with the keys of each part, in order.
        bucket: number of the range; there are `n_buckets` of them.
        gone: the rows of each part that have been dropped before; they are no part of a group.
    """
    bounds = (bucket << 64) // n_buckets, ((bucket + 1) << 64) // n_buckets
    slices = [_read(folder, *bounds, gone.get(part)) for part, folder in enumerate(folders)]
    sizes = [len(each.rows) for each in slices]
    if not sum(sizes):
        return {}, 0
    high, low, rows, scores = (np.concatenate(column) for column in zip(*slices, strict=True))
    order = _sorted(high, low)  # equal keys in the order of parts and rows
    high, low = high[order], low[order]
    is_first = np.concatenate([[True], (high[1:] != high[:-1]) | (low[1:] != low[:-1])])
    if not np.isnan(scores).all():
        order = order[np.lexsort((-scores[order], np.cumsum(is_first)))]  # those without a score are last
    dropped = np.sort(order[~is_first])
    starts = np.cumsum([0, *sizes])
    ends = np.searchsorted(dropped, starts)
    found = {part: np.sort(rows[dropped[ends[part] : ends[part + 1]]]) for part in range(len(folders))}
    return {part: own for part, own in found.items() if len(own)}, len(order)


class _Slice(NamedTuple):
    """The keys of a range in one part."""

    high: _Keys
    low: _Keys
    rows: Rows
    scores: _Scores


def _read(folder: Path, start: int, stop: int, gone: Rows | None) -> _Slice:
    """Read the keys whose first half is at least `start` and below `stop`."""
    keys = np.load(folder / "keys.npy", mmap_mode="r")
    first = int(np.searchsorted(keys[0], np.uint64(start)))
    end = keys.shape[1] if stop == 1 << 64 else int(np.searchsorted(keys[0], np.uint64(stop)))
    rows = np.load(folder / "rows.npy", mmap_mode="r")[first:end].astype(np.int64)
    path = folder / "scores.npy"
    has_scores = path.exists()
    scores = np.load(path, mmap_mode="r")[first:end] if has_scores else np.full(len(rows), np.nan, np.float32)
    is_left = np.ones(len(rows), np.bool_)
    if gone is not None:
        is_gone = np.zeros(keys.shape[1], np.bool_)
        is_gone[gone] = True
        is_left = ~is_gone[rows]
    return _Slice(keys[0, first:end][is_left], keys[1, first:end][is_left], rows[is_left], scores[is_left])


def _sorted(high: _Keys, low: _Keys) -> Rows:
    """Return the order of keys by `high`, `low` and index."""
    order = np.argsort(high, kind="stable")
    after, before = order[1:], order[:-1]
    if ((high[after] == high[before]) & (low[after] < low[before])).any():  # unlikely, and takes much longer
        order = np.lexsort((low, high))
    return order


class _Arguments(BaseModel):
    drops: Drops
    """What was dropped before."""
    keys: str
    """The name of the hashes in the folder of each part."""
    n_rows: list[int]
    """Of each part."""
    bucket: int
    n_buckets: int


def group_parts(work: Work, config: DataConfig, cleaned: Sequence[Done]) -> Drops:
    """Apply all groupings. Returns where the rows to drop are named."""
    n_rows = [int(str(part.summary["kept"])) for part in cleaned]
    n_buckets = max(1, -(-sum(n_rows) // work.sizes.bucket_pairs))
    drops, before = Drops(work=str(work.folder)), "clean"
    for number, grouping in enumerate(groupings(config)):
        stage = f"group-{number}"
        tasks = [
            Task(
                f"{stage}/{bucket:05}",
                group_bucket,
                _Arguments(
                    drops=drops, keys=f"keys-{number}", n_rows=n_rows, bucket=bucket, n_buckets=n_buckets
                ).model_dump(mode="json"),
                version=work.version(before),
            )
            for bucket in range(n_buckets)
        ]  # fmt: skip
        title = f"comparing ({grouping.reason})"
        work.stage(stage, title, tasks, lambda done: int(str(done.summary["compared"])), sum(n_rows))
        drops = Drops(work=drops.work, groups=[*drops.groups, (grouping.reason, stage, n_buckets)])
        before = stage
    return drops


def group_bucket(folder: Path, arguments: Json) -> Json:
    """Find the rows to drop among those whose hashes are in one range."""
    task = _Arguments.model_validate(arguments)
    folders = [part_folder(task.drops.work, "clean", part) / task.keys for part in range(len(task.n_rows))]
    found, n_compared = duplicates(folders, task.bucket, task.n_buckets, task.drops.rows())
    write_drops(folder / "drops.npy", found)
    return {"compared": n_compared}
