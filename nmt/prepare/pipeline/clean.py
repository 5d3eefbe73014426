"""The stages `clean`, `group`, `learn` and `judge`, which decide which pairs of the training corpora are kept.

Parts are cleaned independently. If pairs are similar, as hashes in all parts show, all but the best are dropped. A
filter of misaligned pairs is learned from a sample of the pairs that are left in a corpus, and judges all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel

from nmt.data.random_numbers import Hashes
from nmt.data.settings import DataConfig
from nmt.files.read import fingerprint_of
from nmt.prepare.cleaning.cleaner import Cleaner, HeldOut
from nmt.prepare.cleaning.grouping import groupings, pair_hash
from nmt.prepare.cleaning.misaligned import MIN_PAIRS, SAMPLE_PAIRS, is_misaligned, learn_filter
from nmt.prepare.pairs import SentencePair
from nmt.prepare.pipeline.read import Part, read_pairs, read_sides, scores_of, write_sides
from nmt.prepare.pipeline.work import (
    SIDES,
    Drops,
    Follows,
    Rows,
    Work,
    block_starts,
    follows,
    part_folder,
    rows_in_range,
    write_drops,
)
from nmt.prepare.sources import text_folder
from nmt.tasks.perform import Done, Json
from nmt.text.letters import comparable

HELD_OUT = "held-out"
_Scores: TypeAlias = npt.NDArray[np.float32]


class _Cleaning(BaseModel):
    config: DataConfig
    part: Part
    held_out: Path
    """The folder with the text of all development and test sets."""
    held_out_version: str


def clean_parts(work: Work, config: DataConfig, parts: Sequence[Part], held_out: Path) -> list[Done]:
    """Clean all parts of the training corpora."""
    settings = cleaning_settings(config)
    arguments = (
        _Cleaning(config=settings, part=part, held_out=held_out, held_out_version=work.versions[HELD_OUT])
        for part in parts
    )
    total = sum(part.n for part in parts)
    return work.run_stage("clean", "cleaning", clean_part, arguments, work.versions["block lists"], total)


_NOT_OF_CLEANING = {
    "directions", "languages", "direction_temperature", "dir", "temperature", "valid", "test", "mono", "max_pieces",
}  # fmt: skip


def cleaning_settings(config: DataConfig) -> DataConfig:
    """Return a config with only the settings that affect cleaning: changing others does not repeat the stage."""
    settings = config.model_dump(mode="json", exclude=_NOT_OF_CLEANING)
    for source in settings["train"]:
        del source["repeat"], source["weight"], source["to"], source["license"], source["valid"], source["test"]
    direction = config.direction if config.has_labels else "-".join(config.pair)
    root = str(text_folder(config.root).absolute())
    return DataConfig.model_validate(settings | {"direction": direction, "root": root})


Others: TypeAlias = tuple[Sequence[str], Sequence[str]]
"""Held-out lines of other pairs of languages, by side."""
NO_OTHERS: Others = ((), ())


def write_pairs(work: Work, name: str, pairs: Sequence[SentencePair], elsewhere: Others = NO_OTHERS) -> Path:
    """Write the text of pairs, then the text of `elsewhere`, for the tasks of later stages. Return its folder."""
    folder = part_folder(work.folder, name, 0)
    folder.mkdir(parents=True, exist_ok=True)
    write_sides(folder, ([pair[side] for pair in pairs] + [*elsewhere[side]] for side in SIDES))
    text = b"".join((folder / f"text.{side}").read_bytes() for side in SIDES)
    work.versions[name] = fingerprint_of(text)
    return folder


def clean_part(folder: Path, task: _Cleaning) -> Json:
    """Clean a part: write the text, line numbers and hashes of the kept pairs, and return the report."""
    cleaner = Cleaner(task.config, task.part.key, _held_out(task.held_out, task.held_out_version))
    kept = []
    lines = []
    for pair in task.part.pairs():
        cleaned = cleaner.clean(pair)
        if cleaned is not None:
            kept.append(cleaned)
            lines.append(cleaner.report.read)
    sides = [pair.src for pair in kept], [pair.tgt for pair in kept]
    write_sides(folder, sides)
    numbers = np.array(lines, np.int64)
    documents = np.array([pair.document for pair in kept], np.int64)
    np.save(folder / "lines.npy", numbers + task.part.first)
    np.save(folder / "documents.npy", documents)
    scores = scores_of(kept)
    if scores is not None:
        scores = scores.astype(np.float32)
    write_hashes(folder, task.config, sides, scores, follows(numbers, documents))
    report = cleaner.finish()
    report.renumber(lambda line: line + task.part.first)
    return {**report.to_json(), "pairs": report.read}


def write_hashes(
    folder: Path,
    config: DataConfig,
    sides: tuple[list[str], list[str]],
    scores: _Scores | None,
    follows: Follows,
) -> None:
    """Write the hashes of N pairs, which identify similar pairs, with their scores (N,). `sides`: the text.

    follows (N,): see the function. With `data.documents`, a pair is similar only to one that follows a similar pair, or
    begins a document or block of one, too: else short answers would tear documents apart.
    """
    order = None
    if config.documents:  # shards have the blocks of long documents in another order
        order = follows & (block_starts(follows) != np.arange(len(follows)))
    compared = [*map(comparable_lines, sides, config.pair)]
    hashes = _keys(pair_hash, compared, order)
    np.save(folder / "hashes.npy", hashes[:, 0])
    for number, grouping in enumerate(groupings(config.clean, config.pair)):
        keys = hashes if grouping.key is pair_hash else _keys(grouping.key, compared, order)
        write_keys(folder / f"keys-{number}", keys, scores)


def comparable_lines(lines: Sequence[str], language: str) -> list[str]:
    """Return `comparable` forms of lines, which are found faster in all lines at once."""
    return comparable("\n".join(lines), language).split("\n") if lines else []


_ODD = np.uint64(0x9E3779B97F4A7C15)


def _keys(key: Callable[[str, str], bytes], sides: Sequence[Sequence[str]], follows: Follows | None) -> Hashes:
    """Return the keys (N, 2) of pairs; the key of a pair that follows another depends on that one, too."""
    keys = np.frombuffer(b"".join(map(key, *sides)), ">u8").reshape(-1, 2).astype(np.uint64)
    if follows is not None:
        keys[1:] += np.where(follows[1:, None], keys[:-1] * _ODD, np.uint64(0))
    return keys


@lru_cache(maxsize=1)
def _held_out(folder: Path, version: str) -> HeldOut:
    """Read the development and test sets; `version` identifies the content of the folder."""
    del version
    src, tgt = (frozenset(map(str.strip, lines)) for lines in read_sides(folder))
    return HeldOut(src, tgt)


def write_keys(folder: Path, keys: Hashes, scores: _Scores | None) -> None:
    """Write the keys (N, 2) of the pairs of a part in sorted order, with their rows and scores (N,), if any."""
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
    """Return the rows of duplicates among the keys of one range in all parts, and the number of keys in the range.

    In each group of equal keys, the one with the best score is kept; of equal scores, the first.

    Args:
        folders: the folder with the keys of each part, in order.
        bucket: number of the range; there are `n_buckets` of them.
        gone: the rows of each part that have been dropped before; they belong to no group.
    """
    slices = [_read_keys(folder, bucket, n_buckets, gone.get(part)) for part, folder in enumerate(folders)]
    sizes = [len(part.rows) for part in slices]
    if not sum(sizes):
        return {}, 0
    high, low, rows, scores = (np.concatenate(column) for column in zip(*slices, strict=True))
    order = _sorted(high, low)  # equal keys in the order of parts and rows
    high = high[order]
    low = low[order]
    is_first = np.concatenate([[True], (high[1:] != high[:-1]) | (low[1:] != low[:-1])])
    if not np.isnan(scores).all():
        order = order[np.lexsort((-scores[order], np.cumsum(is_first)))]  # pairs without a score are last
    dropped = np.sort(order[~is_first])
    starts = np.cumsum([0, *sizes])
    ends = np.searchsorted(dropped, starts)
    dropped_by_part = {}
    for part in range(len(folders)):
        if ends[part] < ends[part + 1]:
            dropped_by_part[part] = np.sort(rows[dropped[ends[part] : ends[part + 1]]])
    return dropped_by_part, len(order)


class _Slice(NamedTuple):
    """The keys of a range in one part."""

    high: Hashes
    low: Hashes
    rows: Rows
    scores: _Scores


def _read_keys(folder: Path, bucket: int, n_buckets: int, gone: Rows | None) -> _Slice:
    """Read the keys whose first half is in a range."""
    keys = np.load(folder / "keys.npy", mmap_mode="r")
    chosen = rows_in_range(keys[0], bucket, n_buckets)
    rows = np.load(folder / "rows.npy", mmap_mode="r")[chosen].astype(np.int64)
    path = folder / "scores.npy"
    scores = np.load(path, mmap_mode="r")[chosen] if path.exists() else np.full(len(rows), np.nan, np.float32)
    is_left = np.ones(keys.shape[1], np.bool_)
    if gone is not None:
        is_left[gone] = False
    is_chosen = is_left[rows]
    return _Slice(keys[0, chosen][is_chosen], keys[1, chosen][is_chosen], rows[is_chosen], scores[is_chosen])


def _sorted(high: Hashes, low: Hashes) -> Rows:
    """Return the order of keys by `high`, `low` and index."""
    order = np.argsort(high, kind="stable")
    after = order[1:]
    before = order[:-1]
    if ((high[after] == high[before]) & (low[after] < low[before])).any():  # unlikely, and takes much longer
        order = np.lexsort((low, high))
    return order


class _Grouping(BaseModel):
    drops: Drops
    """The rows that were dropped before."""
    keys: str
    """The name of the keys in the folder of each part."""
    n_parts: int
    bucket: int
    n_buckets: int


def group_parts(work: Work, config: DataConfig, cleaned: Sequence[Done]) -> Drops:
    """Find duplicates and near-duplicates. Return a reference to the rows to drop."""
    n_pairs = sum(part.summary["kept"] for part in cleaned)
    n_buckets = max(1, -(-n_pairs // work.sizes.bucket_pairs))
    drops = Drops(work=work.folder)
    before = "clean"
    for number, grouping in enumerate(groupings(config.clean, config.pair)):
        stage = f"group-{number}"
        arguments = [
            _Grouping(drops=drops, keys=f"keys-{number}", n_parts=len(cleaned), bucket=bucket, n_buckets=n_buckets)
            for bucket in range(n_buckets)
        ]
        work.run_stage(stage, f"comparing ({grouping.reason})", group_bucket, arguments, work.version(before), n_pairs)
        drops = Drops(work=drops.work, groups=[*drops.groups, (grouping.reason, stage, n_buckets)])
        before = stage
    return drops


def group_bucket(folder: Path, task: _Grouping) -> Json:
    """Write the rows of duplicates among the pairs whose keys are in one range."""
    folders = [part_folder(task.drops.work, "clean", part) / task.keys for part in range(task.n_parts)]
    dropped, n_compared = duplicates(folders, task.bucket, task.n_buckets, task.drops.rows())
    write_drops(folder / "drops.npy", dropped)
    return {"pairs": n_compared}


class _Learning(BaseModel):
    max_loss: float
    parts: list[tuple[int, int]]
    """Number and number of rows of each part of the corpus."""
    drops: Drops


class _Judging(BaseModel):
    part: int
    learned: str
    """The file with the filter of the corpus, or an empty text if this corpus is not filtered."""
    drops: Drops


def judge_parts(
    work: Work, config: DataConfig, parts: Sequence[Part], cleaned: Sequence[Done], drops: Drops
) -> tuple[Drops, list[str]]:
    """Find the misaligned pairs of corpora with `clean.misaligned`. Return a reference to the rows to drop, and
    warnings."""
    limits = {}
    sizes: dict[str, list[tuple[int, int]]] = {}  # by corpus, see `_Learning.parts`
    for number, (part, done) in enumerate(zip(parts, cleaned, strict=True)):
        max_loss = config.clean_of(part.key).misaligned
        if max_loss:
            limits[part.key] = max_loss
            sizes.setdefault(part.key, []).append((number, done.summary["kept"]))
    if not sizes:
        return drops, []
    learning = [_Learning(max_loss=limits[key], parts=of_corpus, drops=drops) for key, of_corpus in sizes.items()]
    learned = work.run_stage("learn", "learning", learn, learning, work.version(*work.versions))
    filters = {key: str(done.folder / "learned") for key, done in zip(sizes, learned, strict=True)}
    judging = [_Judging(part=i, learned=filters.get(part.key, ""), drops=drops) for i, part in enumerate(parts)]
    n_judged = sum(n for _, n in chain.from_iterable(sizes.values()))
    work.run_stage("judge", "judging", judge, judging, work.version(*work.versions), n_judged)
    warnings = []
    for key, done in zip(sizes, learned, strict=True):
        if not done.summary["has_learned"]:
            few = f"there are fewer than {MIN_PAIRS:,} pairs to learn from, or too few good ones"
            warnings.append(f"data.{key}: no pair is dropped as misaligned: {few}")
    return drops.model_copy(update={"is_judged": True}), warnings


def learn(folder: Path, task: _Learning) -> Json:
    """Learn a filter for misaligned pairs from a sample spread evenly over the parts of a corpus."""
    left = {part: task.drops.left(part, n_rows) for part, n_rows in task.parts}
    stride = max(1, -(-sum(map(len, left.values())) // SAMPLE_PAIRS))
    sample = []
    first = 0
    for part, rows in left.items():
        pairs = list(read_pairs(part_folder(task.drops.work, "clean", part)))
        sample += [pairs[row] for row in rows[-first % stride :: stride].tolist()]
        first += len(rows)
    learned = learn_filter(sample, task.max_loss)
    (folder / "learned").write_bytes(learned)
    return {"pairs": len(sample), "has_learned": bool(learned)}


def judge(folder: Path, task: _Judging) -> Json:
    """Write the rows of the misaligned pairs of a part."""
    if not task.learned:
        np.save(folder / "misaligned.npy", np.zeros(0, np.int64))
        return {"pairs": 0}
    pairs = list(read_pairs(part_folder(task.drops.work, "clean", task.part)))
    rows = task.drops.left(task.part, len(pairs))
    learned = Path(task.learned).read_bytes()
    np.save(folder / "misaligned.npy", rows[is_misaligned([pairs[row] for row in rows.tolist()], learned)])
    return {"pairs": len(pairs)}
