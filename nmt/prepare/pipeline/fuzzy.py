"""The stage `fuzzy`, which finds the most similar line of the training text for each line of a data directory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from pydantic import BaseModel

from nmt.console import say
from nmt.data.settings import DataConfig
from nmt.errors import DataError
from nmt.files.read import checksum, read_regular
from nmt.layout import DataDir
from nmt.prepare.pipeline.work import Work
from nmt.tasks.perform import Done, Json
from nmt.text.similarity import SimilarTexts


class _Matching(BaseModel):
    directory: Path
    language: str
    splits: list[str]
    threshold: float
    content: list[str]
    """The checksum of the text of each split."""


def match_lines(work: Work, directory: DataDir, data: DataConfig, splits: Sequence[str], n_pairs: int) -> list[Done]:
    """Find the matches of the lines of all splits, which are written, in each language.

    n_pairs: the number of pairs of all splits. Raises DataError if the training text is divided into shards.
    """
    if data.fuzzy_threshold is None:
        return []
    if not directory.text("train", data.src).is_file():
        raise DataError(
            f"data.fuzzy_threshold: needs training text of at most {work.sizes.shard_pairs:,} pairs, which is not "
            "divided into shards; remove the setting or use less text"
        )
    arguments = []
    for language in data.pair:
        content = [checksum(directory.text(split, language)) for split in splits]
        arguments.append(
            _Matching(
                directory=directory.path, language=language, splits=list(splits), threshold=data.fuzzy_threshold,
                content=content,
            )
        )  # fmt: skip
    done = work.run_stage("fuzzy", "finding similar lines", match, arguments, total=2 * n_pairs)
    for task, matched in zip(arguments, done, strict=True):
        say(f"{task.language}: {matched.summary['share']:.1%} of the training lines have a similar line")
    return done


def match(folder: Path, task: _Matching) -> Json:
    """Write for each split the row of the most similar training line with other words, or -1, int32 (n,)."""
    directory = DataDir(task.directory)
    n = 0
    shares = {}
    texts = {}
    for split in task.splits:
        content = read_regular(directory.text(split, task.language))
        texts[split] = content.decode().split("\n")[:-1]
    first_rows: dict[str, int] = {}  # repeated lines would be in the way of others
    for row, line in enumerate(texts["train"]):
        first_rows.setdefault(line, row)
    index = SimilarTexts(first_rows, task.threshold)
    row_of = [*first_rows.values()]
    for split, lines in texts.items():
        rows = np.full(len(lines), -1, np.int32)
        for number, line in enumerate(lines):
            most_similar = index.find(line, or_equal=False)
            if most_similar is not None:
                rows[number] = row_of[most_similar]
        np.save(DataDir(folder).matches(split, task.language), rows)
        n += len(lines)
        shares[split] = float((rows >= 0).mean())
    return {"pairs": n, "share": shares["train"]}
