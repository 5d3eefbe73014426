"""Labels: their ids, their file, and what is no set of labels."""

from __future__ import annotations

from pathlib import Path

import pytest

from nmt.errors import DataError
from nmt.text.labels import Labels


def test_ids_are_those_of_the_sorted_labels(tmp_path: Path) -> None:
    labels = Labels(["pos", "neg", "so so", "neg"])
    assert labels.names == ["neg", "pos", "so so"] and len(labels) == 3
    assert labels.encode_all(["pos", " so so ", "neg"]) == [[1], [2], [0]]
    assert [labels.decode([i]) for i in range(3)] == labels.names
    assert " pos" in labels and "Pos" not in labels
    labels.save(tmp_path / "labels.json")
    loaded = Labels.load(tmp_path / "labels.json")
    assert loaded.names == labels.names
    assert loaded.fingerprint == labels.fingerprint != Labels(["neg", "pos"]).fingerprint


def test_what_is_no_set_of_labels() -> None:
    with pytest.raises(DataError, match="only the label 'pos', where at least two are needed"):
        Labels(["pos", "pos"])
    with pytest.raises(DataError, match=r"1,001 different labels, such as '0', '1', '10', .*: this looks like text"):
        Labels(map(str, range(1001)))
    assert len(Labels(map(str, range(1000)))) == 1000
    with pytest.raises(DataError, match="label 'meh' is none of those of the training text: neg, pos"):
        Labels(["neg", "pos"]).encode_all(["pos", "meh"])
    assert Labels(["a" * 100, "b"]).shown() == f"{'a' * 40}, b"


@pytest.mark.parametrize("text", ['{"labels": ["b", "a"]}', '{"labels": ["a"]}', '{"labels": ["a", ""]}', "{}", "["])
def test_a_damaged_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "labels.json"
    with pytest.raises(DataError, match="the labels are missing"):
        Labels.load(path)
    path.write_text(text)
    with pytest.raises(DataError, match=r"labels\.json"):
        Labels.load(path)
