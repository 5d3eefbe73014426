"""The stages `learn` and `judge`: what aligned pairs of a corpus look like is learned from a sample of those that are
left, and all of them are judged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from pydantic import BaseModel

from nmt.config import DataConfig
from nmt.prepare.cleaning.misaligned import MIN_PAIRS, SAMPLE_PAIRS, is_misaligned, learn_filter
from nmt.prepare.pipeline.read import Part
from nmt.prepare.pipeline.work import SIDES, Drops, Work, part_folder, read_side
from nmt.tasks.perform import Done, Json, Task


class _Learning(BaseModel):
    max_loss: float
    parts: list[tuple[int, int]]
    """Number and number of rows of each part of the corpus."""
    drops: Drops


class _Judging(BaseModel):
    part: int
    learned: int
    """The number of the task of the stage `learn`."""
    drops: Drops


def judge_parts(
    work: Work, config: DataConfig, parts: Sequence[Part], cleaned: Sequence[Done], drops: Drops
) -> tuple[Drops, list[str]]:
    """Find the misaligned pairs of corpora with `clean.misaligned`. Returns where the rows to drop are named, and
    warnings."""
    losses = {key: config.clean_of(key).misaligned for key in dict.fromkeys(part.key for part in parts)}
    limits = {key: loss for key, loss in losses.items() if loss}
    if not limits:
        return drops, []
    n_rows = [int(str(part.summary["kept"])) for part in cleaned]
    version = work.version(*work.versions)
    learning, judging = [], []
    for number, (key, loss) in enumerate(limits.items()):
        own = [(i, n_rows[i]) for i, part in enumerate(parts) if part.key == key]
        arguments = _Learning(max_loss=loss, parts=own, drops=drops).model_dump(mode="json")
        learning.append(Task(f"learn/{number:05}", learn, arguments, version))
    learned = work.stage("learn", "learning", learning, lambda done: int(str(done.summary["pairs"])))
    version = work.version(*work.versions)
    for i, part in enumerate(parts):
        if part.key in limits:
            arguments = _Judging(part=i, learned=list(limits).index(part.key), drops=drops).model_dump(mode="json")
            judging.append(Task(f"judge/{i:05}", judge, arguments, version))
    n_judged = sum(n for part, n in zip(parts, n_rows, strict=True) if part.key in limits)
    work.stage("judge", "judging", judging, lambda done: int(str(done.summary["pairs"])), n_judged)
    warnings = [
        f"data.{key}: no pair is dropped as misaligned: fewer than {MIN_PAIRS:,} pairs to learn from, or too few good "
        "ones"
        for key, done in zip(limits, learned, strict=True)
        if not done.summary["has_learned"]
    ]
    return drops.model_copy(update={"is_judged": True}), warnings


def learn(folder: Path, arguments: Json) -> Json:
    """Learn from pairs spread evenly over the parts of a corpus."""
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
    learned = learn_filter(sample, task.max_loss)
    (folder / "learned").write_bytes(learned)
    return {"pairs": len(sample), "has_learned": bool(learned)}


def judge(folder: Path, arguments: Json) -> Json:
    """Write which rows of a part are misaligned."""
    task = _Judging.model_validate(arguments)
    text = part_folder(task.drops.work, "clean", task.part)
    pairs = list(zip(*(read_side(text, side) for side in SIDES), strict=True))
    rows = task.drops.left(task.part, len(pairs))
    learned = (part_folder(task.drops.work, "learn", task.learned) / "learned").read_bytes()
    np.save(folder / "misaligned.npy", rows[is_misaligned([pairs[row] for row in rows.tolist()], learned)])
    return {"pairs": len(pairs)}
