"""The stages `group`: of alike pairs, all but the best are dropped. A task compares a range of hashes in all parts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel

from nmt.config import DataConfig
from nmt.prepare.cleaning.grouping import groupings
from nmt.prepare.pipeline.files import Drops, part_folder, write_drops
from nmt.prepare.pipeline.keys import duplicates
from nmt.prepare.pipeline.work import Work
from nmt.tasks.task import Done, Json, Task


class _Arguments(BaseModel):
    drops: Drops
    """What was dropped before."""
    keys: str
    """The name of the hashes in the folder of each part."""
    n_rows: list[int]
    """Of each part."""
    bucket: int
    n_buckets: int
    most: int


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
                    drops=drops, keys=f"keys-{number}", n_rows=n_rows, bucket=bucket, n_buckets=n_buckets,
                    most=grouping.most,
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
    found, n_compared = duplicates(folders, task.bucket, task.n_buckets, task.most, task.drops.rows())
    write_drops(folder / "drops.npy", found)
    return {"compared": n_compared}
