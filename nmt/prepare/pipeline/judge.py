"""The stages `learn` and `judge`: filters learn from a sample of the pairs that are left, and judge all of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from pydantic import BaseModel

from nmt.config import DataConfig
from nmt.prepare.cleaning.counts import REASONS
from nmt.prepare.cleaning.filters import SAMPLE_PAIRS, CorpusFilter, corpus_filters
from nmt.prepare.pipeline.clean import cleaning_settings
from nmt.prepare.pipeline.read import Part
from nmt.prepare.pipeline.work import SIDES, Drops, Work, part_folder, read_side
from nmt.tasks.perform import Done, Json, Task


class _Learning(BaseModel):
    config: DataConfig
    key: str
    """A corpus that has the filter."""
    number: int
    """Of the filter in the list of that corpus."""
    parts: list[tuple[int, int]]
    """Number and number of rows of each part that it learns from."""
    drops: Drops


class _Judging(BaseModel):
    config: DataConfig
    key: str
    part: int
    learned: list[int]
    """The number of the task of the stage `learn`, for each filter of the corpus."""
    drops: Drops


def judge_parts(
    work: Work, config: DataConfig, parts: Sequence[Part], cleaned: Sequence[Done], drops: Drops
) -> tuple[Drops, list[str]]:
    """Apply the filters that learn. Returns where the rows to drop are named, and warnings."""
    filters = {key: corpus_filters(config, key) for key in dict.fromkeys(part.key for part in parts)}
    if not any(filters.values()):
        return drops, []
    n_rows = [int(str(part.summary["kept"])) for part in cleaned]
    version, settings = work.version(*work.versions), cleaning_settings(config)
    places: dict[tuple[str, str], int] = {}
    tasks: list[Task] = []
    for key, own in filters.items():
        for number, one in enumerate(own):
            scope = _scope(one, key)
            if (one.reason, scope) not in places:
                places[one.reason, scope] = len(tasks)
                sampled = [(i, n_rows[i]) for i, part in enumerate(parts) if scope in (part.key, ALL)]
                arguments = _Learning(config=config, key=key, number=number, parts=sampled, drops=drops)
                name = f"learn/{len(tasks):05}"
                tasks.append(Task(name, learn, arguments.model_dump(mode="json") | {"config": settings}, version))
    learned = work.stage("learn", "learning", tasks, lambda done: int(str(done.summary["pairs"])))
    judging = []
    for i, part in enumerate(parts):
        numbers = [places[one.reason, _scope(one, part.key)] for one in filters[part.key]]
        arguments_ = _Judging(config=config, key=part.key, part=i, learned=numbers, drops=drops)
        dump = arguments_.model_dump(mode="json") | {"config": settings}
        judging.append(Task(f"judge/{i:05}", judge, dump, work.version(*work.versions)))
    work.stage("judge", "judging", judging, lambda done: int(str(done.summary["pairs"])), sum(n_rows))
    reasons = list(dict.fromkeys(one.reason for own in filters.values() for one in own))
    warnings = [str(done.summary["warning"]) for done in learned if done.summary["warning"]]
    return drops.model_copy(update={"judged": reasons}), warnings


ALL = "all"


def _scope(one: CorpusFilter, key: str) -> str:
    """Return the scope from which a filter of a corpus learns: that corpus, or all."""
    return key if one.per_corpus else ALL


def learn(folder: Path, arguments: Json) -> Json:
    """Let a filter learn from pairs spread evenly over its corpora."""
    task = _Learning.model_validate(arguments)
    left = {part: task.drops.left(part, n_rows) for part, n_rows in task.parts}
    stride = max(1, -(-sum(map(len, left.values())) // SAMPLE_PAIRS))
    sample: list[tuple[str, str]] = []
    first = 0
    for part, rows in left.items():
        chosen = rows[-first % stride :: stride]
        first += len(rows)
        text = part_folder(task.drops.work, "clean", part)
        src, tgt = (read_side(text, side) for side in SIDES)
        sample += [(src[row], tgt[row]) for row in chosen.tolist()]
    one = corpus_filters(task.config, task.key)[task.number]
    learned = one.learn(sample)
    (folder / "learned").write_bytes(learned)
    warning = one.warning(learned)
    where = f"data.{task.key}" if one.per_corpus else "data.train"
    return {
        "pairs": len(sample),
        "warning": warning and f"{where}: no pair is dropped as {REASONS[one.reason]}: {warning}",
    }


def judge(folder: Path, arguments: Json) -> Json:
    """Write which rows of a part the filters of its corpus drop, by reason."""
    task = _Judging.model_validate(arguments)
    text = part_folder(task.drops.work, "clean", task.part)
    pairs = list(zip(*(read_side(text, side) for side in SIDES), strict=True))
    rows = task.drops.left(task.part, len(pairs))
    for one, number in zip(corpus_filters(task.config, task.key), task.learned, strict=True):
        learned = (part_folder(task.drops.work, "learn", number) / "learned").read_bytes()
        is_dropped = one.dropped(learned, [pairs[row] for row in rows.tolist()])
        np.save(folder / f"{one.reason}.npy", rows[is_dropped])
        rows = rows[~is_dropped]
    return {"pairs": len(pairs)}
