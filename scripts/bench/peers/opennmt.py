"""Configuration shared by OpenNMT-py and its successor Eole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scripts.bench import task
from scripts.bench.peer import NOTHING, Counts


def count_batches(batches: Any, padding: int) -> Counts:
    """Their targets begin with a start of sentence, which is no label."""
    total = NOTHING
    for batch in batches:
        tgt, src = batch["tgt"], batch["src"]
        n = tgt.size(0)
        real = int((tgt != padding).sum()) - n
        total = total.plus(Counts(n, real, tgt.numel() - n, int(batch["srclen"].sum()), src.numel()))
    return total


def corpora(text: Path) -> dict[str, object]:
    """Training and development set, in pieces already."""
    return {
        name: {
            "path_src": str(text / f"pieces.{split}.{task.SRC}"),
            "path_tgt": str(text / f"pieces.{split}.{task.TGT}"),
            "transforms": [],
        }
        for name, split in (("corpus_1", "train"), ("valid", "val"))
    }
