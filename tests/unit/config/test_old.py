"""Settings of earlier versions that have been removed."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import pytest

from nmt.config import old
from nmt.config.load import check_config, dump_config, load_config, load_saved_config
from nmt.errors import ConfigError

TREE: dict[str, object] = {
    "data": {"direction": "aa-bb", "train": [{"files": {"aa": "a", "bb": "b"}}, {"hub": "x/y", "paths": ["z.jsonl"]}]},
    "training": {"seed": 2},
}


def tree_with(**training: object) -> dict[str, object]:
    return {**TREE, "training": {"seed": 2, **training}}


def test_removed_value_is_rejected_in_config_and_replaced_in_saved_run(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    text = dump_config(check_config(TREE, "x"))
    path.write_text(text.replace("optimizer: adamw", "optimizer: schedule_free"), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"config\.yaml: training\.optimizer: schedule_free .*; take adamw"):
        load_config(path)
    assert load_saved_config(path) == check_config(TREE, "x")
    with pytest.raises(ConfigError, match=r"^--set training\.optimizer: schedule_free .*; take adamw"):
        load_config("sample.yaml", ["training.optimizer=schedule_free"])


@pytest.mark.parametrize(("value", "n_problems"), [(None, 0), (3, 1)])
def test_removed_key_is_rejected_unless_it_had_no_effect(
    monkeypatch: pytest.MonkeyPatch, value: object, n_problems: int
) -> None:
    monkeypatch.setitem(old.GONE, "training.former", (None, "write latter"))
    monkeypatch.setitem(old.GONE, "data.train.*.former", (None, "write latter"))
    tree = deepcopy(tree_with(former=value))
    tree["data"]["train"][1]["former"] = value  # type: ignore[index]
    kept, lines = old.without_old(tree)
    assert kept == TREE | {"data": kept["data"]} and "former" not in str(kept)
    assert [line.partition(":")[0] for line in lines] == ["training.former", "data.train.1.former"][: 2 * n_problems]
    assert all("write latter" in line for line in lines)
    assert "former" in str(tree)  # it is left as it was
    assert check_config(tree, "run", is_saved=True).training.seed == 2


@pytest.mark.parametrize(
    ("removed", "effective"),
    [
        ({"max_length": 60}, {"max_length_ratio": 0.0, "max_length_offset": 61}),
        ({"protect_patterns": ["a"]}, {"protect": ["a"]}),
        ({"protect_patterns": ["a"], "protect": True}, {"protect": ["placeholders", "numbers", "a"]}),
        ({"mbr_candidates": 7, "mbr": "chrf", "sample": True}, {"beam": 7, "mbr": "chrf", "sample": True}),
        ({"batch_sentences": 7}, {}),
    ],
)
def test_removed_search_setting_of_a_run_keeps_its_effect(
    removed: dict[str, object], effective: dict[str, object]
) -> None:
    read = check_config({**TREE, "search": removed}, "run", is_saved=True)
    assert read == check_config({**TREE, "search": effective}, "run")
    with pytest.raises(ConfigError, match=f"search.{next(iter(removed))}: this setting has been removed"):
        check_config({**TREE, "search": removed}, "x")
