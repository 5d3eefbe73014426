"""Data directories with only a training text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nmt.data.manifest import DATA_FORMAT, SHARDED_FORMAT, Manifest, ShardRecord, SplitRecord, TokenizerRecord
from nmt.files.document import document_text
from nmt.layout import DataDir


def training_text(path: Path, *shards: Sequence[tuple[str, str]], languages: tuple[str, str]) -> DataDir:
    """Write a data directory with these pairs, in shards if there are several."""
    path.mkdir(parents=True)
    directory = DataDir(path)
    names = ["train"] if len(shards) == 1 else [f"train.0-{number:05}" for number, _ in enumerate(shards)]
    for name, pairs in zip(names, shards, strict=True):
        for side, language in enumerate(languages):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            directory.text(name, language).write_text(text, encoding="utf-8")
    records = [ShardRecord(name=n, source="train.0", pairs=len(s)) for n, s in zip(names, shards, strict=True)]
    train = SplitRecord(pairs=sum(map(len, shards)), shards=records if len(shards) > 1 else None)
    manifest = Manifest(
        format=DATA_FORMAT if len(shards) == 1 else SHARDED_FORMAT, languages=tuple(sorted(languages)), fingerprint="0",
        tokenizer=TokenizerRecord(fingerprint="0"), splits={"train": train}, files={},
    )  # fmt: skip
    directory.manifest.write_text(document_text(manifest), encoding="utf-8")
    return directory
