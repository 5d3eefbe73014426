"""The stages `encode` and `join`: the text becomes ids, part by part, and then the files of the data directory."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel

from nmt.config import DataConfig
from nmt.config.data import LABEL
from nmt.data.corpus import ShardRecord
from nmt.files.write import link
from nmt.layout import DataDir, TokenizerDir
from nmt.prepare.cleaning.counts import CleanReport
from nmt.prepare.pipeline.read import Part
from nmt.prepare.pipeline.work import SIDES, Rows, Work, part_folder, read_side
from nmt.prepare.records import TextRecord
from nmt.tasks.perform import Done, Json, Task
from nmt.text.block_encoder import BlockEncoder, Encoded
from nmt.text.tokenizer import N_SPECIAL, Tokenizers

PART = "part"
"""In place of a split in the names of the files of a part."""

_SHUFFLE_SEED = 0x6A09E667F3BCC908


class _Arguments(BaseModel):
    languages: tuple[str, str]
    work: str
    part: int
    tokenizer: str
    """Its folder."""
    tokenizer_version: str
    max_pieces: int
    repeat: int
    """How often each pair is written."""
    is_shuffled: bool
    """Whether the pairs are written in the order of their hashes, for shards."""


class EncodeSummary(BaseModel):
    """The summary of a task of this stage."""

    n: int
    """Pairs that are written."""
    report: CleanReport
    """Counts only the pairs with too many pieces, and describes those that are kept."""
    text: dict[str, TextRecord]
    """By language."""
    classes: dict[str, int] = {}
    """Number of pairs that are written by label, if there are labels."""


def encode_parts(
    work: Work, config: DataConfig, parts: Sequence[Part], tokenizer: TokenizerDir, is_shuffled: bool, n_pairs: int
) -> list[Done]:
    """Encode all parts, of `n_pairs` in all."""
    repeats = {f"train.{i}": 1 if is_shuffled else source.repeat for i, source in enumerate(config.train)}
    tasks = [
        Task(
            f"encode/{number:05}",
            encode_part,
            _Arguments(
                languages=config.languages, work=str(work.folder), part=number, tokenizer=str(tokenizer.path),
                tokenizer_version=work.versions["tokenizer"],
                max_pieces=config.max_pieces, repeat=repeats[part.key], is_shuffled=is_shuffled,
            ).model_dump(mode="json"),
            version=work.version("settle", "tokenizer"),
        )
        for number, part in enumerate(parts)
    ]  # fmt: skip
    return work.stage("encode", "encoding", tasks, lambda done: EncodeSummary.model_validate(done.summary).n, n_pairs)


def encode_part(folder: Path, arguments: Json) -> Json:
    """Encode a part: write text and ids of the pairs that are not too long. Returns an `EncodeSummary`."""
    task = _Arguments.model_validate(arguments)
    settled = part_folder(task.work, "settle", task.part)
    sides = [read_side(settled, side) for side in SIDES]
    encoders = _encoders(Path(task.tokenizer), task.tokenizer_version, task.languages)
    encoded = [encoder.encode(lines) for encoder, lines in zip(encoders, sides, strict=True)]
    is_long = np.maximum(encoded[0].lengths, encoded[1].lengths) > task.max_pieces
    report = CleanReport()
    numbers = np.load(settled / "lines.npy")
    for row in np.flatnonzero(is_long).tolist():
        report.kept -= 1
        report.drop("pieces", int(numbers[row]), sides[0][row], sides[1][row])
    kept = np.flatnonzero(~is_long)
    texts = [[lines[row] for row in kept.tolist()] for lines in sides] if is_long.any() else sides
    report.keep(numbers[kept], texts[0], texts[1])
    rows = np.repeat(kept, task.repeat)
    if task.is_shuffled:
        order = shuffled(np.load(settled / "hashes.npy")[rows])
        by_order = np.argsort(order, kind="stable")
        rows = rows[by_order]
        np.save(folder / "order.npy", order[by_order])
    text, classes = {}, Counter[str]()
    is_whole = np.array_equal(rows, np.arange(len(sides[0])))
    for side, language in enumerate(task.languages):
        raw = [line + b"\n" for line in (settled / f"text.{side}").read_bytes().split(b"\n")[:-1]]
        if not is_whole:
            raw = [raw[row] for row in rows.tolist()]
        text[language] = write_side(
            DataDir(folder), PART, language, raw, encoded[side] if is_whole else encoded[side].take(rows)
        )
        if task.is_shuffled:
            np.save(text_ends(DataDir(folder), language), np.cumsum([len(line) for line in raw], dtype=np.int64))
        if language == LABEL:
            del text[LABEL]
            classes.update(line.decode().strip() for line in raw)
    return EncodeSummary(n=len(rows), report=report, text=text, classes=classes).model_dump(mode="json")


def text_ends(part: DataDir, language: str) -> Path:
    """Return the file with the end of each line in the text of a part, in bytes."""
    return part.path / f"{PART}.{language}.text-ends.npy"


def write_side(directory: DataDir, split: str, language: str, raw: Sequence[bytes], encoded: Encoded) -> TextRecord:
    """Write the lines of one side, given as bytes and as ids. Returns their counts."""
    directory.text(split, language).write_bytes(b"".join(raw))
    np.save(directory.ids(split, language), encoded.ids)
    np.save(directory.ends(split, language), encoded.ends.astype(np.int64))
    return text_record(encoded)


def text_record(encoded: Encoded) -> TextRecord:
    """Return the counts of encoded lines."""
    return TextRecord(
        words=int(encoded.words.sum()),
        characters=int(encoded.characters.sum()),
        pieces=len(encoded.ids),
        bytes=int(((encoded.ids >= N_SPECIAL) & (encoded.ids < N_SPECIAL + 256)).sum()),
        unknown=int((encoded.ids < N_SPECIAL).sum()),
    )


def shuffled(hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return numbers (N,) that put pairs with these hashes in random order, which depends on nothing else.

    They are those of SplitMix64 (Steele et al., 2014): the hashes themselves decide what is split off.
    """
    x: npt.NDArray[np.uint64] = hashes ^ np.uint64(_SHUFFLE_SEED)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@lru_cache(maxsize=1)
def _encoders(folder: Path, version: str, languages: tuple[str, str]) -> tuple[BlockEncoder, BlockEncoder]:
    """Load the encoders, which remember words from one part to the next; `version` identifies the content."""
    del version
    tokenizers = Tokenizers.load(TokenizerDir(folder), languages)
    first = BlockEncoder(tokenizers.side(languages[0]))
    is_shared = tokenizers.joint and tokenizers.labels is None
    return first, first if is_shared else BlockEncoder(tokenizers.side(languages[1]))


_BLOCK = 1 << 16  # rows

_Hashes = npt.NDArray[np.uint64]
_Ids = npt.NDArray[np.unsignedinteger]


class _Joining(BaseModel):
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
        arguments = _Joining(languages=[language], work=str(work.folder), name="train", parts=list(range(len(parts))))
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
            arguments = _Joining(
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
    task = _Joining.model_validate(arguments)
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
    task = _Joining.model_validate(arguments)
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


def _slices(task: _Joining) -> Iterator[_Slice]:
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
