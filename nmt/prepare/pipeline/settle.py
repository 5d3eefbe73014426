"""The stage `settle`: what is left of each part after all drops, and after the development set has been split off."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from pydantic import BaseModel, StrictInt

from nmt.prepare.cleaning.counts import CleanReport
from nmt.prepare.languages import N_PAIRS, Place, Sample
from nmt.prepare.pairs import SentencePair
from nmt.prepare.pipeline.files import SIDES, Drops, part_folder, read_side, write_side
from nmt.prepare.pipeline.work import Work
from nmt.prepare.split_off import Draw
from nmt.tasks.task import Done, Json, Task
from nmt.text.alphabet import count_characters

SPLIT_OFF = "split-off"
"""The stage that chooses the development set."""


class _Arguments(BaseModel):
    part: int
    report: CleanReport
    """That of cleaning."""
    drops: Drops
    split_off: str | None
    """The folder with the development set that was split off."""
    version: str
    label_side: int | None = None
    """Which side has labels, if one has."""


class _Choice(BaseModel):
    amount: StrictInt | float
    drops: Drops
    n_rows: list[int]


def settle_parts(
    work: Work, cleaned: Sequence[Done], drops: Drops, is_split_off: bool, label_side: int | None = None
) -> list[Done]:
    """Write what is left of all parts, without the development set if that `is_split_off`.

    label_side: which side has labels, if one has.
    """
    version = work.version(*work.versions)
    chosen = str(part_folder(work.folder, SPLIT_OFF, 0)) if is_split_off else None
    tasks = [
        Task(
            f"settle/{number:05}",
            settle_part,
            {
                "part": number, "report": done.summary, "drops": drops.model_dump(mode="json"),
                "split_off": chosen, "version": version,
                **({} if label_side is None else {"label_side": label_side}),
            },
            f"{version} places",  # the files differ from those of older versions, which another run may have left
        )
        for number, done in enumerate(cleaned)
    ]  # fmt: skip
    return work.stage("settle", "settling", tasks, lambda done: int(str(done.summary["kept"])))


def split_off(work: Work, cleaned: Sequence[Done], drops: Drops, amount: int | float) -> tuple[list[SentencePair], int]:
    """Choose the development set among the pairs that are left. Returns it, and the number of those pairs."""
    n_rows = [int(str(done.summary["kept"])) for done in cleaned]
    arguments = _Choice(amount=amount, drops=drops, n_rows=n_rows).model_dump(mode="json")
    task = Task(f"{SPLIT_OFF}/00000", choose, arguments, work.version(*work.versions))
    [done] = work.stage(SPLIT_OFF, "splitting off", [task], lambda _: sum(n_rows), sum(n_rows))
    src, tgt = (read_side(done.folder, side) for side in SIDES)
    pairs = [SentencePair(one, other, "") for one, other in zip(src, tgt, strict=True)]
    return pairs, int(str(done.summary["offered"]))


def write_split_off(work: Work, pairs: Sequence[SentencePair]) -> list[SentencePair]:
    """Write a development set that was split off earlier, for the next stage. Returns it."""
    folder = part_folder(work.folder, SPLIT_OFF, 0)
    folder.mkdir(parents=True, exist_ok=True)
    for side in SIDES:
        write_side(folder, side, [(pair.src, pair.tgt)[side] for pair in pairs])
    text = b"".join((folder / f"text.{side}").read_bytes() for side in SIDES)
    work.versions[SPLIT_OFF] = hashlib.sha256(text).hexdigest()[:16]
    return list(pairs)


def choose(folder: Path, arguments: Json) -> Json:
    """Write the text of the development set. Returns the number of pairs that it was chosen from."""
    task = _Choice.model_validate(arguments)
    draw = Draw(task.amount)
    parts = [part_folder(task.drops.work, "clean", part) for part in range(len(task.n_rows))]
    for part, (text, n) in enumerate(zip(parts, task.n_rows, strict=True)):
        left = task.drops.left(part, n)
        draw.offer(part, left, np.load(text / "hashes.npy")[left])
    sides: tuple[list[str], list[str]] = ([], [])
    for part, rows in draw.chosen().items():
        for side in SIDES:
            lines = read_side(parts[part], side)
            sides[side].extend(lines[row] for row in rows)
    for side in SIDES:
        write_side(folder, side, sides[side])
    return {"offered": draw.n_offered}


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
    if task.split_off is not None:
        pairs, *own = _chosen(Path(task.split_off), task.version)
        if task.label_side is not None:
            own[task.label_side] = set()  # what has the same label has no text in common
        reason_of |= _shared(sides, reason_of, pairs, *own)
    report = task.report
    for row in sorted(reason_of):
        report.kept -= 1
        report.drop(reason_of[row], int(lines[row]), sides[0][row], sides[1][row])
    left = _left(len(lines), reason_of)
    sample = Sample()
    for row in left[:: 1 << (-(-len(left) // N_PAIRS) - 1).bit_length()]:  # those that the sample would take
        before, after = (
            sides[1][other] if 0 <= other < len(lines) and lines[other] - lines[row] == other - row else ""
            for other in (row - 1, row + 1)
        )
        sample.add(sides[0][row], sides[1][row], Place(int(lines[row]), before, after))
    kept = [[texts[row] for row in left] for texts in sides] if reason_of else sides
    for side in SIDES:
        write_side(folder, side, kept[side])
        (folder / f"characters.{side}.json").write_text(json.dumps(count_characters(kept[side])), encoding="utf-8")
    report.keep(lines[left], kept[0], kept[1])
    np.save(folder / "lines.npy", lines[left])
    np.save(folder / "hashes.npy", hashes[left])
    (folder / "samples.json").write_text(json.dumps([sample.pairs, sample.places]), encoding="utf-8")
    return report.to_json()


def _left(n: int, gone: Collection[int]) -> list[int]:
    """Return the rows, of `n`, that are left."""
    is_left = np.ones(n, np.bool_)
    is_left[np.fromiter(gone, np.int64, len(gone))] = False
    return np.flatnonzero(is_left).tolist()


def _shared(
    sides: Sequence[Sequence[str]], gone: dict[int, str], chosen: set[tuple[str, str]], src: set[str], tgt: set[str]
) -> dict[int, str]:
    """Return the reason of each row that is in the development set, or shares a side with it."""
    rows = (row for row, pair in enumerate(zip(*sides, strict=True)) if pair[0] in src or pair[1] in tgt)
    return {row: "valid" if (sides[0][row], sides[1][row]) in chosen else "shared" for row in rows if row not in gone}


@lru_cache(maxsize=1)
def _chosen(folder: Path, version: str) -> tuple[set[tuple[str, str]], set[str], set[str]]:
    """Read the development set; `version` identifies the content of the folder."""
    del version
    src, tgt = (read_side(folder, side) for side in SIDES)
    return set(zip(src, tgt, strict=True)), set(src), set(tgt)
