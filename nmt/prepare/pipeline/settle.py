"""The stage `settle`: the pairs of each part that remain after all drops and without the development set."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, StrictInt

from nmt.config import DataConfig
from nmt.console import printable
from nmt.data.corpus import ShardRecord
from nmt.errors import DataError
from nmt.layout import DataDir
from nmt.prepare.cleaning.counts import CleanReport
from nmt.prepare.held_out import Draw
from nmt.prepare.pairs import SentencePair
from nmt.prepare.pipeline.clean import cleaning_settings, write_hashes
from nmt.prepare.pipeline.work import SIDES, Drops, Work, part_folder, read_side, write_side
from nmt.prepare.suspicions import N_PAIRS, Place, Sample
from nmt.tasks.perform import Done, Json, Task
from nmt.text.labels import Labels
from nmt.text.words import count_characters

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
    """Return a warning if a text has more than one label; identical pairs have been dropped before."""
    values, counts = np.unique(np.concatenate(hashes), return_counts=True)
    if not (counts > 1).any():
        return []
    first = values[counts > 1][0]
    part, row = next((part, int(np.flatnonzero(own == first)[0])) for part, own in enumerate(hashes) if first in own)
    text = printable(read_side(part_folder(work, "settle", part), side)[row][:_SHOWN])
    n = int(np.count_nonzero(counts > 1))
    return [f"data.train: {n:,} {'texts have' if n > 1 else 'text has'} more than one label, such as {text!r}"]


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


@dataclass(frozen=True)
class Earlier:
    """The data directory that new corpora are added to."""

    directory: DataDir
    shards: Sequence[ShardRecord]
    valid: Sequence[SentencePair]
    version: str
    """The fingerprint of the directory."""


class _Recalling(BaseModel):
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
    task = _Recalling.model_validate(arguments)
    src, tgt = (Path(side).read_bytes().decode().split("\n")[:-1] for side in task.sides)
    write_hashes(folder, task.config, (src, tgt), np.full(len(src), np.inf, np.float32))
    return CleanReport(read=len(src), kept=len(src)).to_json()


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
    label_side: int | None
    """Which side has labels, if one has."""


class _Choice(BaseModel):
    amount: StrictInt | float
    drops: Drops
    n_rows: list[int]


def settle_parts(
    work: Work, cleaned: Sequence[Done], drops: Drops, is_split_off: bool, label_side: int | None
) -> list[Done]:
    """Write the remaining pairs of all parts, without the development set if it `is_split_off`.

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
                "split_off": chosen, "version": version, "label_side": label_side,
            },
            version,
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
