"""The classifiers side by side: what can be known without Keras."""

from __future__ import annotations

from pathlib import Path

import pytest

from nmt.config.load import check_config
from nmt.errors import DataError
from scripts.bench import classifier_text, classifiers
from scripts.bench.classifier_text import DOMAINS, TASKS, domains, pairs, write_task
from scripts.bench.keras_classifier.words import encode, numbers_of, padded, read


@pytest.fixture
def corpora(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of corpora with six lines of their own, and two that all have in other case."""
    monkeypatch.setattr(classifier_text, "SIZES", {"train": 3, "valid": 1, "test": 2})
    for number, name in enumerate(DOMAINS):
        shared = "One for all." if number % 2 else "ONE FOR ALL."
        (tmp_path / name).mkdir()
        own = "".join(f"{name} {i}\n" for i in range(6))
        (tmp_path / name / "train.en").write_text(f"{shared}\n\n{own}{shared.lower()}\n", encoding="utf-8")
    return tmp_path


def test_no_sentence_is_in_two_splits_or_corpora(corpora: Path, tmp_path: Path) -> None:
    found = domains(corpora)
    assert [len(found[split]) for split in ("train", "valid", "test")] == [18, 6, 12]
    texts = [text.lower() for examples in found.values() for text, _ in examples]
    assert len(set(texts)) == len(texts)
    assert all(label in text or "all" in text.lower() for examples in found.values() for text, label in examples)
    out = tmp_path / "out"
    out.mkdir()
    write_task("domains", corpora, out)
    texts, labels = read(out, "test")
    assert sorted(zip(texts, labels, strict=True)) == sorted(found["test"])


def test_half_of_the_pairs_are_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classifier_text, "SIZES", {"train": 2, "test": 1})
    folder = tmp_path / classifier_text.PAIRS_OF
    folder.mkdir()
    for language in ("de", "en"):
        (folder / f"train.{language}").write_text("".join(f"line {i}\n" for i in range(20)), encoding="utf-8")
    for split, n in (("train", 12), ("test", 6)):
        examples = pairs(tmp_path)[split]
        sides = [(text.split(f" {classifier_text.MARK} "), label) for text, label in examples]
        assert sum(label == "good" for _, label in sides) == n // 2
        assert all((german == english) == (label == "good") for (german, english), label in sides)
        assert len({english for (_, english), _ in sides}) == len(examples) == n


def test_a_corpus_that_is_missing_or_too_small_is_named(corpora: Path) -> None:
    file = corpora / "tatoeba" / "train.en"
    file.write_text("a\nb\n", encoding="utf-8")
    with pytest.raises(DataError, match="tatoeba: 6 different lines"):
        domains(corpora)
    file.unlink()
    with pytest.raises(DataError, match=r"train\.en is missing"):
        domains(corpora)


def test_words_are_those_of_keras() -> None:
    numbers = numbers_of(["To be, or not to be.", "To-day!"], size=5)
    assert numbers == {"to": 3, "be": 4}
    assert encode("Be to or", numbers, longest=80) == [1, 4, 3, 2]
    assert encode("Be to or", numbers, longest=2) == [3, 2]  # the last ones
    assert padded([[1, 4], [1]], 3) == [[0, 1, 4], [0, 0, 1]]


@pytest.mark.parametrize("task", TASKS)
def test_our_configuration_is_one(task: str, tmp_path: Path) -> None:
    config = check_config(classifiers.settings(tmp_path, task), "classifiers")
    assert (config.model.kind, config.training.objective) == ("encoder", "classification")


def test_scores_of_predicted_labels(tmp_path: Path) -> None:
    (tmp_path / "valid.txt").write_text("1\n2\n3\n4\n", encoding="utf-8")
    (tmp_path / "valid.label").write_text("a\na\nb\nb\n", encoding="utf-8")
    assert classifiers.scored(tmp_path, "valid", ["a", "a", "b", "a"]) == (0.75, pytest.approx((0.8 + 2 / 3) / 2))
    assert classifiers.best_epoch(tmp_path, [["a"] * 4, ["a", "a", "b", "a"], ["b"] * 4]) == 1
    assert classifiers.cells([(0.5, 0.25), (0.7, 0.25)]) == ["60.0 ± 14.1", "25.0 ± 0.0", "50.0, 70.0"]


def test_the_table_of_speeds() -> None:
    rounds = {
        "nmt": [{"per_cpu_second": rate, "per_second": rate / 2} for rate in (300.0, 330.0, 900.0)],
        "Keras": [{"per_cpu_second": 100.0, "per_second": 33.0}] * 3,
    }
    *_, ours, keras = classifiers.render_speed(rounds).split("\n")
    assert ours == "| nmt | 330 (300 to 900) | 3.30 | 165 (150 to 450) | 5.00 |"
    assert keras == "| Keras | 100 (100 to 100) | 1.00 | 33 (33 to 33) | 1.00 |"


def test_data_is_asked_for(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["classifiers", "quality"])
    with pytest.raises(SystemExit, match="2"):
        classifiers.parse()
    assert "quality needs --data" in capsys.readouterr().err
