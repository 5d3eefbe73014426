"""Lines of a test set that are in a training text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from nmt.errors import DataError
from nmt.evaluate.compare.systems import find_in_training_text
from nmt.layout import DataDir
from trained_texts import training_text

TRAIN = [("ein Hund", "a dog"), ("eine Katze", "a cat, a cat"), ("", "a dog")]
SIDES = {"de": ["ein Hund", "eine Katze", "ein Pferd", "", "x"], "aa": ["a dog", "one cat", "a dog", "x", ""]}


@pytest.mark.parametrize("shards", [[TRAIN], [TRAIN[:1], TRAIN[1:]]])
def test_lines_in_training_text_are_found_in_all_shards(
    tmp_path: Path, shards: list[Sequence[tuple[str, str]]]
) -> None:
    directory = training_text(tmp_path / "data", *shards, languages=("de", "aa"))
    assert find_in_training_text(directory, SIDES) == {0, 1, 2}, "blank lines are in no text"


def test_unreadable_training_text_raises(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such data directory"):
        find_in_training_text(DataDir(tmp_path / "none"), SIDES)
    directory = training_text(tmp_path / "data", TRAIN, languages=("de", "aa"))
    directory.text("train", "aa").unlink()
    with pytest.raises(DataError, match=r"train\.aa: no such file"):
        find_in_training_text(directory, SIDES)
