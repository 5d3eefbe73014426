"""The text to translate, in the pieces of each toolkit, and the conversion back to plain text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import sentencepiece

from nmt.errors import DataError
from nmt.layout import DataDir
from nmt.text.tokenizer import LosslessTokenizer
from scripts.bench.peer import Decoding
from scripts.bench.task import SRC, TGT
from scripts.bench.text import write_lines

NAME = "test_2016_flickr"


def find_test(data: Path) -> list[Path]:
    """Source and reference. Raises DataError if one is missing."""
    files = [data / f"{NAME}.{language}" for language in (SRC, TGT)]
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise DataError(f"{data}: no {', '.join(missing)}; data/README.md says how to get Multi30k; or give --data")
    return files


def prepare_test(data: Path, text: Path) -> list[str]:
    """Write the source into the folder of the text, as it is and in pieces; returns the reference."""
    src, tgt = (
        [line.strip() for line in file.read_text(encoding="utf-8").split("\n")[:-1]] for file in find_test(data)
    )
    bpe = sentencepiece.SentencePieceProcessor(model_file=str(text / "bpe.model"))
    write_lines(text / f"raw.test.{SRC}", src)
    write_lines(text / f"pieces.test.{SRC}", [" ".join(words) for words in bpe.encode(src, out_type=str)])
    return tgt


def prepare_own(text: Path) -> None:
    """Write the source in nmt's own pieces, which are there when nmt's data are."""
    own = own_tokenizer(text)
    lines = (text / f"raw.test.{SRC}").read_text(encoding="utf-8").split("\n")[:-1]
    write_lines(text / "nmt" / f"pieces.test.{SRC}", [" ".join(own.pieces(ids)) for ids in own.encode_all(lines)])


def own_tokenizer(text: Path) -> LosslessTokenizer:
    """Load the tokenizer of nmt's data."""
    return LosslessTokenizer.load(DataDir(text / "nmt" / "data").tokenizer.joint)


def plain(decoding: Decoding, text: Path, outputs: Sequence[str]) -> list[str]:
    """The outputs of a toolkit as plain text."""
    if not decoding.pieces:
        return list(outputs)
    words = [output.split(" ") if output else [] for output in outputs]
    if decoding.pieces == "nmt":
        own = own_tokenizer(text)
        ids = {piece: i for i, piece in enumerate(own.pieces(range(len(own))))}
        return [own.decode([ids[word] for word in line]) for line in words]
    bpe = sentencepiece.SentencePieceProcessor(model_file=str(text / decoding.pieces))
    return [str(bpe.decode(line)) for line in words]
