"""The stage `settle`: what is left of each part after all drops, and after the development set has been split off."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from pydantic import BaseModel

from nmt.prepare.cleaning.counts import CleanReport
from nmt.prepare.languages import Sample
from nmt.prepare.pairs import SentencePair
from nmt.prepare.pipeline.files import SIDES, Drops, part_folder, read_side, write_side
from nmt.prepare.pipeline.work import Work
from nmt.prepare.split_off import Draw
from nmt.tasks.task import Done, Json, Task
from nmt.text.alphabet import count_characters


class _Arguments(BaseModel):
    part: int
    report: CleanReport
    """That of cleaning."""
    drops: Drops
    split_off: str | None
    """The folder with the development set that was split off."""


def settle_parts(
    work: Work, cleaned: Sequence[Done], drops: Drops, split_off: Sequence[SentencePair] | None
) -> list[Done]:
    """Write what is left of all parts."""
    before = work.version(*work.versions)
    folder = work.folder / "split-off" if split_off is not None else None
    if folder is not None and split_off is not None:
        folder.mkdir(exist_ok=True)
        for side in SIDES:
            write_side(folder, side, [pair[side] for pair in split_off])
    tasks = [
        Task(
            f"settle/{number:05}",
            settle_part,
            {
                "part": number, "report": done.summary, "drops": drops.model_dump(mode="json"),
                "split_off": None if folder is None else str(folder),
            },
            version=before,
        )
        for number, done in enumerate(cleaned)
    ]  # fmt: skip
    return work.stage("settle", "settling", tasks, lambda done: int(str(done.summary["kept"])))


def split_off(work: Work, cleaned: Sequence[Done], drops: Drops, amount: int | float) -> tuple[list[SentencePair], int]:
    """Choose the development set among the pairs that are left. Returns it, and the number of those pairs."""
    draw = Draw(amount)
    for part in range(len(cleaned)):
        hashes = np.load(part_folder(work.folder, "clean", part) / "hashes.npy")
        left = drops.left(part, len(hashes))
        draw.offer(part, left, hashes[left])
    chosen = draw.chosen()
    pairs = []
    for part, rows in chosen.items():
        src, tgt = (read_side(part_folder(work.folder, "clean", part), side) for side in SIDES)
        pairs += [SentencePair(src[row], tgt[row], "") for row in rows]
    return pairs, draw.n_offered


def settle_part(folder: Path, arguments: Json) -> Json:
    """Write the text that is left of a part, its line numbers and hashes, its characters and a sample.

    Returns the report, now with all drops.
    """
    task = _Arguments.model_validate(arguments)
    text = part_folder(task.drops.work, "clean", task.part)
    sides = [read_side(text, side) for side in SIDES]
    lines, hashes = np.load(text / "lines.npy"), np.load(text / "hashes.npy")
    reason_of = dict[int, str]()
    for reason, rows in task.drops.by_reason(task.part).items():
        reason_of |= dict.fromkeys(rows.tolist(), reason)
    sample = Sample()
    for row, pair in enumerate(zip(*sides, strict=True)):
        if row not in reason_of:
            sample.add(*pair)
    if task.split_off is not None:
        reason_of |= _shared(sides, reason_of, *_chosen(Path(task.split_off)))
    report = task.report
    for row in sorted(reason_of):
        report.kept -= 1
        report.drop(reason_of[row], int(lines[row]), sides[0][row], sides[1][row])
    left = [row for row in range(len(lines)) if row not in reason_of]
    for side in SIDES:
        kept = [sides[side][row] for row in left]
        write_side(folder, side, kept)
        (folder / f"characters.{side}.json").write_text(json.dumps(count_characters(kept)), encoding="utf-8")
    np.save(folder / "lines.npy", lines[left])
    np.save(folder / "hashes.npy", hashes[left])
    (folder / "sample.json").write_text(json.dumps(sample.pairs), encoding="utf-8")
    return report.to_json()


def _shared(
    sides: Sequence[Sequence[str]], gone: dict[int, str], chosen: set[tuple[str, str]], src: set[str], tgt: set[str]
) -> dict[int, str]:
    """Return the reason of each row that is in the development set, or shares a side with it."""
    rows = (row for row, pair in enumerate(zip(*sides, strict=True)) if pair[0] in src or pair[1] in tgt)
    return {row: "valid" if (sides[0][row], sides[1][row]) in chosen else "shared" for row in rows if row not in gone}


@lru_cache(maxsize=1)
def _chosen(folder: Path) -> tuple[set[tuple[str, str]], set[str], set[str]]:
    src, tgt = (read_side(folder, side) for side in SIDES)
    return set(zip(src, tgt, strict=True)), set(src), set(tgt)
