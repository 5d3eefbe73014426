"""What a training text says about a test set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from nmt.errors import DataError
from nmt.evaluate.compare import view as module
from nmt.evaluate.compare.view import TrainingText, WordClass, by_frequency, read_training_text
from nmt.layout import DataDir
from trained_texts import training_text

TRAIN = [("ein Hund", "a dog"), ("eine Katze", "a cat, a cat"), ("", "a dog")]
TEST = (["ein Hund", "eine Katze", "ein Pferd", ""], ["a dog", "one cat", "a dog", "x"])
WORDS = {"a", "dog", "cat", "one", "horse"}


def read(directory: DataDir) -> TrainingText:
    return read_training_text(directory, ("de", "aa"), TEST, WORDS)


@pytest.mark.parametrize("shards", [[TRAIN], [TRAIN[:1], TRAIN[1:]]])
def test_training_text_shards(tmp_path: Path, shards: list[Sequence[tuple[str, str]]]) -> None:
    text = read(training_text(tmp_path / "data", *shards, languages=("de", "aa")))
    assert text.seen == (frozenset({0, 1}), frozenset({0, 2})), "blank lines are in no text"
    assert text.frequencies == {"a": 4, "dog": 2, "cat": 2}
    assert text.n_lines == text.all_lines == text.n_counted == 3


def test_long_training_text_is_sampled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_COUNTED", 2)
    directory = training_text(tmp_path / "data", TRAIN, languages=("de", "aa"))
    text = read(directory)
    assert text.frequencies == {"a": 2, "dog": 2} and text.n_counted == 2 and text.n_lines == 3
    monkeypatch.setattr(module, "MOST_LINES", 2)
    text = read(directory)
    assert text.frequencies == {"a": 3, "dog": 1, "cat": 2} and text.n_lines == text.n_counted == 2
    assert text.all_lines == 3


def test_unreadable_training_text_is_noted(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such data directory"):
        read(DataDir(tmp_path / "none"))
    with pytest.raises(DataError, match="no training text in de and aa"):
        read(training_text(tmp_path / "other", TRAIN, languages=("de", "en")))
    directory = training_text(tmp_path / "data", TRAIN, languages=("de", "aa"))
    directory.text("train", "aa").unlink()
    with pytest.raises(DataError, match=r"train\.aa: No such file"):
        read(directory)


def test_recall_of_rare_words(tmp_path: Path) -> None:
    text = read(training_text(tmp_path / "data", TRAIN, languages=("de", "aa")))
    references = [("a", "dog", "a"), ("one", "horse")]
    systems = [[("a", "a", "a"), ("horse",)], [("dog",), ("a",)]]
    assert by_frequency(text, references, systems) == [
        WordClass("0", 2, [1, 0]), WordClass("2–4", 3, [2, 1]),
    ]  # fmt: skip
