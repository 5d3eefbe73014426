"""The training text of a data directory, when more corpora are added to it: it is compared with, and stays as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import BaseModel

from nmt.config import DataConfig
from nmt.data.manifest import ShardRecord
from nmt.layout import DataDir
from nmt.prepare.cleaning.counts import CleanReport
from nmt.prepare.pairs import SentencePair
from nmt.prepare.pipeline.clean import cleaning_settings, write_hashes
from nmt.prepare.pipeline.work import Work
from nmt.tasks.task import Done, Json, Task


@dataclass(frozen=True)
class Earlier:
    """What new corpora are added to."""

    directory: DataDir
    shards: Sequence[ShardRecord]
    valid: Sequence[SentencePair]
    version: str
    """The fingerprint of the directory."""


class _Arguments(BaseModel):
    config: DataConfig
    sides: tuple[str, str]
    """The files with the text."""


def recall_parts(work: Work, config: DataConfig, earlier: Earlier, first: int) -> list[Done]:
    """Hash the pairs of all shards; their tasks follow the `first` ones of the stage `clean`."""
    tasks = []
    for number, shard in enumerate(earlier.shards, start=first):
        sides = [str(earlier.directory.text(shard.name, language)) for language in config.languages]
        arguments = {"config": cleaning_settings(config), "sides": sides}
        tasks.append(Task(f"clean/{number:05}", recall_shard, arguments, earlier.version))
    return work.stage("recall", "comparing with earlier text", tasks, lambda done: int(str(done.summary["kept"])))


def recall_shard(folder: Path, arguments: Json) -> Json:
    """Write the hashes of the pairs of a shard, with scores above all others: none of them is dropped."""
    task = _Arguments.model_validate(arguments)
    src, tgt = (Path(side).read_bytes().decode().split("\n")[:-1] for side in task.sides)
    write_hashes(folder, task.config, (src, tgt), np.full(len(src), np.inf, np.float32))
    return CleanReport(read=len(src), kept=len(src)).to_json()
