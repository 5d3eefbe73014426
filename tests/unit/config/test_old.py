"""Tests of settings of earlier versions that have been removed."""

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
    with pytest.raises(ConfigError, match=r"config\.yaml: training\.optimizer: schedule_free .*; write adamw"):
        load_config(path)
    assert load_saved_config(path) == check_config(TREE, "x")
    with pytest.raises(ConfigError, match=r"^--set training\.optimizer: schedule_free .*; write adamw"):
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


_FILES = {"files": {"aa": "a", "bb": "b"}}
_HUB = {"hub": "x/y", "paths": ["z.jsonl"]}


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({"clean": {"near_duplicates": True}}, {"clean": {"drop": ["near_duplicates"]}}),
        (
            {"clean": {"near_duplicates": True, "drop": ["links"], "same_tags": None}},
            {"clean": {"drop": ["links", "near_duplicates"]}},
        ),
        ({"clean": {"overlap_sides": "either"}}, {"clean": {"overlap": "either"}}),
        (
            {"train": [{**_FILES, "clean": {"overlap_sides": "either"}}]},
            {"train": [{**_FILES, "clean": {"overlap": "either"}}]},
        ),
        (
            {"valid": {**_HUB, "column": "t"}, "mono": {"aa": [{**_HUB, "column": "t"}]}},
            {
                "valid": {**_HUB, "columns": {"aa": "t.aa", "bb": "t.bb"}},
                "mono": {"aa": [{**_HUB, "columns": {"aa": "t.aa"}}]},
            },
        ),
        ({"test": {"x": {**_HUB, "column": None}}}, {"test": {"x": _HUB}}),
    ],
)
def test_old_data_setting_of_run_keeps_its_effect(before: dict[str, object], now: dict[str, object]) -> None:
    base = {"direction": "aa-bb", "train": [_FILES]}
    old_tree, new_tree = {"data": {**base, **before}}, {"data": {**base, **now}}
    expected = check_config(new_tree, "x")
    assert check_config(old_tree, "run", is_saved=True) == expected
    if "column" in str(before) and "None" in str(before):
        assert check_config(old_tree, "x") == expected  # it had no effect
    else:
        with pytest.raises(ConfigError):
            check_config(old_tree, "x")


@pytest.mark.parametrize(
    ("before", "kinds"),
    [
        ({"pair_task": True}, ["shuffled"]),
        ({"pair_task": True, "pair_negatives": ["cut", "copied"]}, ["cut", "copied"]),
        ({"pair_task": False, "pair_negatives": ["cut"]}, []),
    ],
)
def test_old_pair_task_of_run_keeps_its_kinds(before: dict[str, object], kinds: list[str]) -> None:
    tree = {**tree_with(objective="masked", masked=before), "model": {"kind": "encoder"}}
    assert check_config(tree, "run", is_saved=True).training.masked.pair_task == kinds


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
def test_removed_search_setting_of_run_keeps_its_effect(
    removed: dict[str, object], effective: dict[str, object]
) -> None:
    read = check_config({**TREE, "search": removed}, "run", is_saved=True)
    assert read == check_config({**TREE, "search": effective}, "run")
    with pytest.raises(ConfigError, match=f"search.{next(iter(removed))}: this setting has been removed"):
        check_config({**TREE, "search": removed}, "x")


@pytest.mark.parametrize(
    ("section", "old", "key"),
    [
        ("model", {"head": "sigmoid"}, "model.head"),
        ("model", {"head_dropout": 0.2}, "model.head_dropout"),
        ("training", {"beta2": 0.999}, "training.beta2"),
        ("training", {"consistency_start": 100}, "training.consistency_start"),
        ("training", {"lm_weight": 0.5}, "training.lm_weight"),
        ("training", {"classification": {"lm_weight": 0.5}}, "training.classification"),
        ("training", {"denoising": {"noise": "span"}}, "training.denoising.noise"),
        ("training", {"masked": {"mask_words": True}}, "training.masked.mask_words"),
        ("training", {"modifiers": {"terms": 0.1, "glossary": "g.tsv"}}, "training.modifiers.glossary"),
    ],
)
def test_removed_setting_is_rejected_unless_config_is_saved(section: str, old: dict[str, object], key: str) -> None:
    tree = {**TREE, section: old}
    with pytest.raises(ConfigError, match=key):
        check_config(tree, "x")
    training = check_config(tree, "x", is_saved=True).training
    assert training.glossary == ("g.tsv" if "modifiers" in old else None)


def test_removed_values_without_effect_are_dropped() -> None:
    modifiers = {"upper_case": 0.0, "typos": 0.2, "tags": 0.1, "glossary": None}
    old = tree_with(denoising={"noise": "infilling", "mask_share": None}, modifiers=modifiers, beta1=0.9)
    training = check_config(old, "x", is_saved=True).training
    assert (training.denoising.mask_share, training.betas) == (0.35, [0.9, 0.98])
    assert list(training.modifiers.items()) == [("typos", 0.2), ("tags", 0.1)]
