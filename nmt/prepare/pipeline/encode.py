"""The stage `encode`: the text of each part becomes ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel

from nmt.config import DataConfig
from nmt.config.data import LABEL
from nmt.layout import DataDir, TokenizerDir
from nmt.prepare.cleaning.counts import CleanReport
from nmt.prepare.pipeline.files import SIDES, part_folder, read_side
from nmt.prepare.pipeline.read import Part
from nmt.prepare.pipeline.work import Work
from nmt.prepare.records import TextRecord
from nmt.tasks.task import Done, Json, Task
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
    """What a task of this stage has done."""

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
