"""The corpus in the pieces of one joint SentencePiece BPE model, written once for all toolkits.

raw.train.de, …      the lines, without blanks at their ends
pieces.train.de, …   the same in pieces with blanks between them
bpe.model            the SentencePiece model
vocabulary.txt       the pieces, a line each, without the special ones
vocabulary.tsv       the same with how often each occurs in the training text
"""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path

import sentencepiece

from nmt.errors import DataError
from scripts.bench.once import once
from scripts.bench.task import SRC, TGT, VOCABULARY

SPLITS = ("train", "val")


def find_text(data: Path) -> list[Path]:
    """The files of the corpus. Raises DataError if one is missing."""
    files = [data / f"{split}.{language}" for split in SPLITS for language in (SRC, TGT)]
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise DataError(f"{data}: no {', '.join(missing)}; data/README.md says how to get Multi30k; or give --data")
    return files


def prepare_text(data: Path, home: Path) -> Path:
    """The folder of the text, made if these files were not seen before."""
    files = find_text(data)
    digest = hashlib.sha256(b"".join(hashlib.sha256(file.read_bytes()).digest() for file in files)).hexdigest()
    folder = home / f"text-{digest[:8]}"
    once(folder, f"{VOCABULARY}", lambda: write_text(files, folder))
    return folder


def write_text(files: list[Path], folder: Path) -> None:
    """Learn the pieces and write everything."""
    sentencepiece.SentencePieceTrainer.train(
        input=",".join(str(file) for file in files if file.stem == "train"),
        model_prefix=str(folder / "bpe"),
        vocab_size=VOCABULARY,
        model_type="bpe",
        character_coverage=1.0,
        num_threads=1,
        minloglevel=1,
    )
    bpe = sentencepiece.SentencePieceProcessor(model_file=str(folder / "bpe.model"))
    counts: Counter[str] = Counter()
    for file in files:
        lines = [line.strip() for line in file.read_text(encoding="utf-8").split("\n")[:-1]]
        pieces: list[list[str]] = bpe.encode(lines, out_type=str)
        if file.stem == "train":
            counts.update(piece for line in pieces for piece in line)
        write_lines(folder / f"raw.{file.name}", lines)
        write_lines(folder / f"pieces.{file.name}", [" ".join(line) for line in pieces])
    ids = range(bpe.get_piece_size())
    vocabulary = [bpe.id_to_piece(i) for i in ids if not (bpe.is_control(i) or bpe.is_unknown(i))]
    write_lines(folder / "vocabulary.txt", vocabulary)
    write_lines(folder / "vocabulary.tsv", [f"{piece}\t{counts[piece] or 1}" for piece in vocabulary])


def write_lines(path: Path, lines: list[str]) -> None:
    """Write lines in UTF-8."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
