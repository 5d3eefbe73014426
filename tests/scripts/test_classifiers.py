"""The classifiers side by side: what can be known without Keras."""

from __future__ import annotations

from pathlib import Path

import pytest

from nmt.config.load import check_config
from scripts.bench import classifier_text, classifiers
from scripts.bench.classifier_text import DOMAINS, TASKS, domains, write_task
from scripts.bench.keras_classifier.words import read


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


def test_domains_contain_no_sentence_twice(corpora: Path, tmp_path: Path) -> None:
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


@pytest.mark.parametrize("task", TASKS)
def test_configuration_of_nmt_is_valid(task: str, tmp_path: Path) -> None:
    config = check_config(classifiers.settings(tmp_path, task), "classifiers")
    assert (config.model.kind, config.training.objective) == ("encoder", "classification")


def test_speed_table_has_medians_and_ranges() -> None:
    rounds = {
        "nmt": [{"per_cpu_second": rate, "per_second": rate / 2} for rate in (300.0, 330.0, 900.0)],
        "Keras": [{"per_cpu_second": 100.0, "per_second": 33.0}] * 3,
    }
    *_, ours, keras = classifiers.render_speed(rounds).split("\n")
    assert ours == "| nmt | 330 (300 to 900) | 3.30 | 165 (150 to 450) | 5.00 |"
    assert keras == "| Keras | 100 (100 to 100) | 1.00 | 33 (33 to 33) | 1.00 |"
