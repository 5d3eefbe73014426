"""Made-up reviews with labels, for tests of classification."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from pathlib import Path

from nmt.config import Config
from nmt.config.load import check_config

_WORDS = {
    "neg": ("dull", "wooden", "endless", "a bore", "badly cut"),
    "pos": ("moving", "bright", "a delight", "superb", "finely drawn"),
}
_WHAT = ("The plot", "The cast", "Its music", "This film", "The ending", "Every scene", "The script", "The camera work")
_MORE = ("I saw it on a Tuesday.", "It runs for two hours.", "My neighbour came along.", "The hall was full.",
         "We sat in the first row.", "There was no break.")  # fmt: skip


def reviews(n: int, seed: int = 1) -> list[tuple[str, str]]:
    """Return `n` (at most 480) different texts with their labels, neg or pos."""
    all_of = [
        (f"{what} was {word}. {more}", label)
        for label, words in _WORDS.items()
        for what, word, more in itertools.product(_WHAT, words, _MORE)
    ]
    return random.Random(seed).sample(all_of, n)


REVIEWS = reviews(300)
TRAIN, VALID, TEST = REVIEWS[:240], REVIEWS[240:270], REVIEWS[270:]


def write_reviews(folder: Path, name: str, pairs: Sequence[tuple[str, str]]) -> None:
    """Write NAME.txt and NAME.label."""
    folder.mkdir(parents=True, exist_ok=True)
    for side, ending in enumerate(("txt", "label")):
        text = "".join(f"{pair[side]}\n" for pair in pairs)
        (folder / f"{name}.{ending}").write_bytes(text.encode())


def labelled_config(folder: Path, language: str = "en", **changes: dict[str, object]) -> Config:
    """Return the configuration for train, valid and test in `folder`, with `changes` by section."""

    def source(name: str) -> dict[str, object]:
        return {"files": {language: f"{name}.txt", "label": f"{name}.label"}}

    data = {
        "direction": f"{language}-label",
        "dir": str(folder / "data"),
        "root": str(folder),
        "train": [source("train")],
        "valid": source("valid"),
        "test": {"test": source("test")},
    }
    tree = {"tokenizer": {"vocab_size": 330}, **changes, "data": {**data, **changes.get("data", {})}}
    return check_config(tree, "made up")
