"""A data directory with its training set in shards, made from one with it in one file."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from nmt.data.corpus import Corpus, Lines
from nmt.data.manifest import SHARDED_FORMAT, ShardRecord, SplitRecord
from nmt.data.mixing import train_corpora
from nmt.layout import DataDir
from nmt.prepare.files import content_fingerprint, file_facts


def divide(one_file: Path, folder: Path, shard_pairs: int) -> Path:
    """Divide the training set into shards of so many pairs, each of one corpus and in random order."""
    source, target = Corpus.open(DataDir(one_file)), DataDir(folder)
    shutil.copytree(one_file, folder, ignore=shutil.ignore_patterns("train.*", "manifest.json"))
    split, shards = source.split("train"), []
    for key, corpus in train_corpora(source.manifest).items():
        repeat = source.manifest.config["data"]["train"][int(key.split(".")[1])].get("repeat", 1)  # type: ignore
        ((first, n),) = corpus.runs
        rows = np.random.default_rng([7, len(shards)]).permutation(np.arange(first, first + n, repeat))
        for number, start in enumerate(range(0, len(rows), shard_pairs)):
            shards.append(_write(source, target, f"{key}-{number:05}", rows[start : start + shard_pairs]))
    files = file_facts(folder)
    manifest = source.manifest.model_copy(update={
        "format": SHARDED_FORMAT, "files": files, "fingerprint": content_fingerprint(files),
        "splits": {**source.manifest.splits, "train": SplitRecord(pairs=split.n, shards=shards)},
    })  # fmt: skip
    target.manifest.write_text(manifest.model_dump_json(exclude_unset=True), encoding="utf-8")
    return folder


def _write(source: Corpus, target: DataDir, name: str, rows: np.ndarray) -> ShardRecord:
    split = source.split("train")
    for language in source.languages:
        text = split.text(language)
        target.text(name, language).write_text("".join(f"{text[i]}\n" for i in rows), encoding="utf-8")
        lines = Lines(split.ids(language), split.ends(language))
        np.save(target.ids(name, language), lines.flat(rows))
        np.save(target.ends(name, language), np.cumsum(lines.spans(rows)[1]).astype(np.uint32))
    return ShardRecord(name=name, source=name.split("-")[0], pairs=len(rows))
