"""The stage `join`: the encoded parts become the files of the data directory."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel

from nmt.data.manifest import ShardRecord
from nmt.files.read import check_regular
from nmt.layout import DataDir
from nmt.prepare.pipeline.encode import PART, EncodeSummary, text_ends
from nmt.prepare.pipeline.files import Rows, part_folder
from nmt.prepare.pipeline.read import Part
from nmt.prepare.pipeline.work import Work
from nmt.tasks.task import Done, Json, Task

_BLOCK = 1 << 16  # rows

_Hashes = npt.NDArray[np.uint64]
_Ids = npt.NDArray[np.unsignedinteger]


class _Arguments(BaseModel):
    languages: Sequence[str]
    work: str
    name: str
    """Of the split or shard."""
    parts: list[int]
    shard: int = 0
    n_shards: int = 1


def join_in_order(work: Work, languages: tuple[str, str], parts: Sequence[Done]) -> list[Done]:
    """Write the training text as one file for each language."""
    tasks = []
    for side, language in enumerate(languages):
        arguments = _Arguments(languages=[language], work=str(work.folder), name="train", parts=list(range(len(parts))))
        tasks.append(Task(f"join/{side:05}", join, arguments.model_dump(mode="json"), work.version("encode")))
    return work.stage("join", "joining", tasks, _n_pairs)


def join_shards(
    work: Work, languages: tuple[str, str], parts: Sequence[Part], encoded: Sequence[Done]
) -> tuple[list[Done], list[ShardRecord]]:
    """Write the training text of each source as shards, in random order."""
    tasks: list[Task] = []
    sources = []
    for key in dict.fromkeys(part.key for part in parts):
        own = [number for number, part in enumerate(parts) if part.key == key]
        n = sum(EncodeSummary.model_validate(encoded[number].summary).n for number in own)
        n_shards = max(1, round(n / work.sizes.shard_pairs))
        for shard in range(n_shards if n else 0):
            arguments = _Arguments(
                languages=languages, work=str(work.folder), name=f"{key}-{shard:05}", parts=own, shard=shard,
                n_shards=n_shards,
            )  # fmt: skip
            dump = arguments.model_dump(mode="json")
            tasks.append(Task(f"join/{len(tasks):05}", join_shard, dump, work.version("encode")))
            sources.append((arguments.name, key))
    done = work.stage("join", "writing shards", tasks, _n_pairs)
    records = [
        ShardRecord(name=name, source=key, pairs=_n_pairs(each))
        for (name, key), each in zip(sources, done, strict=True)
        if _n_pairs(each)  # by chance, a shard of a tiny corpus may have no pair
    ]
    return done, records


def _n_pairs(done: Done) -> int:
    return int(str(done.summary["pairs"]))


def join(folder: Path, arguments: Json) -> Json:
    """Concatenate parts."""
    task = _Arguments.model_validate(arguments)
    parts = [DataDir(part_folder(task.work, "encode", part)) for part in task.parts]
    names, n = DataDir(folder), 0
    for language in task.languages:
        with names.text(task.name, language).open("wb") as file:
            for part in parts:
                with part.text(PART, language).open("rb") as text:
                    shutil.copyfileobj(text, file, 1 << 20)
        # one file at a time: there may be more than a process may open
        ends = [np.load(part.ends(PART, language)) for part in parts]
        n_ids = [int(own[-1]) if len(own) else 0 for own in ends]
        ids = (np.load(part.ids(PART, language)) for part in parts)
        dtype = np.load(parts[0].ids(PART, language), mmap_mode="r").dtype
        write_array(names.ids(task.name, language), dtype, sum(n_ids), ids)
        n, firsts = sum(map(len, ends)), np.cumsum([0, *n_ids])[:-1].astype(np.int64)
        write_array(names.ends(task.name, language), np.dtype(np.int64), n, map(np.add, ends, firsts))
    return {"pairs": n}


def join_shard(folder: Path, arguments: Json) -> Json:
    """Collect the pairs of a shard from all parts of its source, and put them in the order of their hashes."""
    task = _Arguments.model_validate(arguments)
    slices = list(_slices(task))
    order = np.argsort(np.concatenate([each.order for each in slices]), kind="stable")
    names = DataDir(folder)
    for language in task.languages:
        text, ends = _read(
            slices,
            [each.part.text(PART, language) for each in slices],
            [text_ends(each.part, language) for each in slices],
        )
        with names.text(task.name, language).open("wb") as file:
            file.writelines(block.tobytes() for block in _reordered(text, ends, order))
        ids, ends = _read(
            slices,
            [each.part.ids(PART, language) for each in slices],
            [each.part.ends(PART, language) for each in slices],
        )
        write_array(names.ids(task.name, language), ids.dtype, len(ids), _reordered(ids, ends, order))
        np.save(names.ends(task.name, language), np.cumsum(np.diff(ends, prepend=0)[order]).astype(np.uint32))
    return {"pairs": len(order)}


class _Slice(NamedTuple):
    """The rows of a part that belong to a shard."""

    part: DataDir
    start: int
    end: int
    order: _Hashes


def _slices(task: _Arguments) -> Iterator[_Slice]:
    bounds = [(shard << 64) // task.n_shards for shard in (task.shard, task.shard + 1)]
    for part in task.parts:
        folder = part_folder(task.work, "encode", part)
        order = np.load(folder / "order.npy", mmap_mode="r")
        start = int(np.searchsorted(order, np.uint64(bounds[0])))
        end = len(order) if bounds[1] == 1 << 64 else int(np.searchsorted(order, np.uint64(bounds[1])))
        yield _Slice(DataDir(folder), start, end, np.array(order[start:end]))


def _read(slices: Sequence[_Slice], contents: Sequence[Path], ends: Sequence[Path]) -> tuple[_Ids, Rows]:
    """Return the content of the rows of all slices, concatenated, and the end of each row, from their files."""
    pieces, lengths = [], [np.zeros(0, np.int64)]
    for (_, start, end, _), path, ends_path in zip(slices, contents, ends, strict=True):
        whole = np.load(path, mmap_mode="r") if path.suffix == ".npy" else _mapped_bytes(path)
        bounds = np.load(ends_path, mmap_mode="r")[max(0, start - 1) : end].astype(np.int64)
        bounds = bounds if start else np.insert(bounds, 0, 0)
        pieces.append(np.array(whole[bounds[0] : bounds[-1]]) if end > start else np.array(whole[:0]))
        lengths.append(np.diff(bounds))
    return np.concatenate(pieces), np.cumsum(np.concatenate(lengths))


def _reordered(content: _Ids, ends: Rows, order: Rows) -> Iterator[_Ids]:
    """Yield the content of the rows in this order, in blocks: indices take many times the memory of what they index."""
    starts = np.insert(ends[:-1], 0, 0) if len(ends) else ends
    for rows in np.array_split(order, max(1, len(order) // _BLOCK)):
        lengths = ends[rows] - starts[rows]
        before = np.cumsum(lengths) - lengths
        yield content[np.repeat(starts[rows] - before, lengths) + np.arange(int(lengths.sum()))]


def _mapped_bytes(path: Path) -> npt.NDArray[np.uint8]:
    return np.memmap(path, np.uint8, "r") if path.stat().st_size else np.zeros(0, np.uint8)


def write_array(path: Path, dtype: np.dtype[np.generic], n: int, blocks: Iterable[npt.NDArray[np.generic]]) -> None:
    """Write an array (n,) as `np.save` does, from blocks."""
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (n,)}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        file.writelines(block.tobytes() for block in blocks)


def link_files(done: Sequence[Done], target: Path) -> None:
    """Put the files of finished tasks into a folder, without a copy where the file system can."""
    for folder in (each.folder for each in done):
        for path in folder.iterdir():
            if path.name != "record.json":
                link(path, target / path.name)


def link(path: Path, target: Path) -> None:
    """Give a file a second name, or copy it where the file system cannot. Raises UnsafeFileError and OSError."""
    check_regular(path)
    try:
        target.hardlink_to(path)
    except OSError:
        shutil.copyfile(path, target)
