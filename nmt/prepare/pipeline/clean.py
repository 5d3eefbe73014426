"""The stage `clean`: parts of the training corpora are cleaned, each on its own."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel

from nmt.config import DataConfig
from nmt.prepare.cleaning.cleaner import Cleaner, HeldOut
from nmt.prepare.cleaning.grouping import groupings, pair_hash
from nmt.prepare.pairs import SentencePair
from nmt.prepare.pipeline.group import write_keys
from nmt.prepare.pipeline.read import Part
from nmt.prepare.pipeline.work import SIDES, Work, read_side, write_side
from nmt.prepare.sources import text_folder
from nmt.tasks.perform import Done, Json, Task

HELD_OUT = "held-out"


class _Arguments(BaseModel):
    config: DataConfig
    part: Part
    held_out: str
    """The folder with the text of all development and test sets."""
    held_out_version: str


def clean_parts(work: Work, config: DataConfig, parts: Sequence[Part], held_out: Path) -> list[Done]:
    """Clean all parts."""
    settings = cleaning_settings(config) | {"root": str(text_folder(config.root).absolute())}
    tasks = [
        Task(
            f"clean/{number:05}",
            clean_part,
            {
                "config": settings,
                "part": part.model_dump(mode="json"),
                "held_out": str(held_out),
                "held_out_version": work.versions[HELD_OUT],
            },
            version=f"{part.version} {work.versions['block lists']}",
        )
        for number, part in enumerate(parts)
    ]
    total = sum(part.n for part in parts)
    return work.stage("clean", "cleaning", tasks, lambda done: int(str(done.summary["read"])), total)


def cleaning_settings(config: DataConfig) -> Json:
    """Return a config for tasks without what cleaning does not read, so that a change of that does not repeat them."""
    settings = config.model_dump(mode="json", exclude={"dir", "temperature", "valid", "test", "mono", "max_pieces"})
    for source in settings["train"]:
        del source["repeat"], source["weight"], source["license"]
    return settings | {"direction": config.direction if config.has_labels else "-".join(config.languages)}


def write_held_out_lines(work: Work, pairs: Sequence[SentencePair], name: str = HELD_OUT) -> Path:
    """Write the text of all development and test sets for the tasks of this stage. Returns its folder, of that name."""
    folder = work.folder / name
    folder.mkdir(exist_ok=True)
    for side in SIDES:
        write_side(folder, side, [pair[side] for pair in pairs])
    text = b"".join((folder / f"text.{side}").read_bytes() for side in SIDES)
    work.versions[name] = hashlib.sha256(text).hexdigest()[:16]
    return folder


def clean_part(folder: Path, arguments: Json) -> Json:
    """Clean a part: write the text of the pairs that are kept, their line numbers and hashes. Returns the report."""
    task = _Arguments.model_validate(arguments)
    cleaner = Cleaner(task.config, task.part.key, _held_out(Path(task.held_out), task.held_out_version))
    kept: list[SentencePair] = []
    lines: list[int] = []
    for pair in task.part.pairs():
        cleaned = cleaner.clean(pair)
        if cleaned is not None:
            kept.append(cleaned)
            lines.append(cleaner.report.read)
    sides = [pair.src for pair in kept], [pair.tgt for pair in kept]
    for side, texts in zip(SIDES, sides, strict=True):
        write_side(folder, side, texts)
    np.save(folder / "lines.npy", np.array(lines, np.int64) + task.part.first)
    scores = None
    if any(pair.score is not None for pair in kept):
        scores = np.array([np.nan if pair.score is None else pair.score for pair in kept], np.float32)
    write_hashes(folder, task.config, sides, scores)
    cleaner.report.shift(task.part.first)
    return cleaner.report.to_json()


def write_hashes(
    folder: Path, config: DataConfig, sides: tuple[list[str], list[str]], scores: npt.NDArray[np.float32] | None
) -> None:
    """Write the hashes of pairs, given by side, that tell which are alike. `scores`: (N,) of the pairs."""
    hashes = _keys(pair_hash, sides)
    np.save(folder / "hashes.npy", hashes[:, 0])
    for number, grouping in enumerate(groupings(config)):
        keys = hashes if grouping.key is pair_hash else _keys(grouping.key, sides)
        write_keys(folder / f"keys-{number}", keys, scores)


def _keys(key: Callable[[str, str], bytes], sides: Sequence[Sequence[str]]) -> npt.NDArray[np.uint64]:
    """Return the keys (N, 2) of pairs."""
    return np.frombuffer(b"".join(map(key, *sides)), ">u8").reshape(-1, 2).astype(np.uint64)


@lru_cache(maxsize=1)
def _held_out(folder: Path, version: str) -> HeldOut:
    """Read the development and test sets; `version` identifies the content of the folder."""
    del version
    src, tgt = (read_side(folder, side) for side in SIDES)
    return HeldOut.of(SentencePair(*pair, "") for pair in zip(src, tgt, strict=True))
