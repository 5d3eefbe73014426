"""Tests of settings of earlier versions that have been removed."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from nmt.config import old
from nmt.config.load import check_config, dump_config, load_config, load_saved_config
from nmt.errors import ConfigError
from nmt.files.yaml12 import dump_yaml, parse_yaml
from places import GOLDEN

FILES = {"files": {"aa": "a", "bb": "b"}}
HUB = {"hub": "x/y", "paths": ["z.jsonl"]}
TREE: dict[str, Any] = {"data": {"direction": "aa-bb", "train": [FILES, HUB]}, "training": {"seed": 2}}


def tree_with(key: str, value: object) -> dict[str, Any]:
    """Return settings with one more; numbers in the key are indices."""
    tree = deepcopy(TREE)
    node: Any = tree
    *parents, last = key.split(".")
    for parent in parents:
        node = node[int(parent)] if isinstance(node, list) else node.setdefault(parent, {})
    node[last] = value
    return tree


def saved(tree: dict[str, Any], folder: Path) -> Path:
    path = folder / "config.yaml"
    path.write_text(dump_yaml(tree), encoding="utf-8")
    return path


def leaves(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted key and the value of each setting."""
    if isinstance(value, dict | list):
        for name, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(item, f"{key}.{name}" if key else str(name))
    else:
        yield key, value


@pytest.mark.parametrize("is_bidirectional", [False, True])
def test_every_setting_of_saved_config_of_0_2_0_is_read_or_named(
    is_bidirectional: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree: Any = parse_yaml((GOLDEN / "config-0.2.0.yaml").read_text(encoding="utf-8"), "golden")
    tree["training"]["both_directions"] = is_bidirectional
    path = saved(tree, tmp_path)
    assert load_saved_config(path) == load_saved_config(path)  # with one note
    found = dict(leaves(load_saved_config(path).model_dump(mode="json")))
    unread = {key for key, value in leaves(tree) if key not in found or found[key] != value}
    without_effect = {"search.seed", "training.factor"}
    assert unread == {"training.both_directions", *without_effect} and len(found) > 150
    assert capsys.readouterr().err.count(f"{path}: training.both_directions: ") == is_bidirectional
    if is_bidirectional:  # a resumed run would train in one direction
        with pytest.raises(ConfigError, match=r"training\.both_directions: this setting has been removed; list both"):
            load_config(path)


REMOVED = {
    "data.clean.repair_spaces": True,
    "data.clean.unicode_form": "NFKC",
    "data.clean.near_duplicates": True,
    "data.clean.max_targets": 2,
    "data.train.0.clean": {"same_numbers": False},
    "data.train.1.clean": {"overlap_sides": "either"},
    "data.train.1.column": "translation",
    "data.valid": {**HUB, "stream": True},
    "data.mono.aa": [{**HUB, "column": "text"}],
    "training.stages": [{"share": 0.5, "weights": {"a": 1}}, {"weights": {"a": 2}}],
    "training.mask_share": 0.5,
    "training.masked": {"pair_task": True},
    "training.denoising": {"noise": "span"},
    "training.classification": {"lm_weight": 0.5},
    "training.modifiers": {"typos": 0.1, "glossary": "g.tsv"},
    "training.optimizer": "schedule_free",
    "training.beta2": 0.999,
    "model.head": "sigmoid",
    "model.segments": True,
    "search.max_length": 60,
    "search.protect_patterns": ["a"],
    "search.mbr": "bleu",
}


@pytest.mark.parametrize("key", REMOVED)
def test_setting_of_before_0_2_0_is_rejected_by_name_and_its_saved_file_in_one_line(key: str, tmp_path: Path) -> None:
    tree = tree_with(key, REMOVED[key])
    with pytest.raises(ConfigError) as error:
        check_config(tree, "mine.yaml")
    assert all(problem.startswith(f"mine.yaml: {key}") for problem in error.value.problems)
    assert "removed; " in error.value.problems[0] or "must be a list" in error.value.problems[0]
    path = saved(tree, tmp_path)
    with pytest.raises(ConfigError) as error:
        load_saved_config(path)
    [problem] = error.value.problems
    assert problem.startswith(f"{path}: written before 0.2.0, with {key}") and "\n" not in problem


def test_removed_value_is_rejected_in_file_and_option(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    text = dump_config(check_config(TREE, "x"))
    path.write_text(text.replace("optimizer: adamw", "optimizer: schedule_free"), encoding="utf-8")
    for start, config, overrides in (
        (f"{path}:", path, []), ("--set", "sample.yaml", ["training.optimizer=schedule_free"]),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=rf"^{start} training\.optimizer: schedule_free .*; write adamw"):
            load_config(config, overrides)


@pytest.mark.parametrize(("value", "n_problems"), [(None, 0), (3, 1)])
def test_removed_key_is_rejected_unless_it_had_no_effect(
    monkeypatch: pytest.MonkeyPatch, value: object, n_problems: int
) -> None:
    monkeypatch.setattr(old, "GONE", dict.fromkeys(["training.former", "data.train.*.former"], (None, "write latter")))
    tree = tree_with("training.former", value)
    tree["data"]["train"][1]["former"] = value
    kept, lines = old.without_old(tree)
    assert kept == TREE
    assert [line.partition(":")[0] for line in lines] == ["training.former", "data.train.1.former"][: 2 * n_problems]
    assert all("write latter" in line for line in lines)
    assert "former" in str(tree)  # it is left as it was


def test_saved_settings_of_before_0_2_0_without_effect_are_read(tmp_path: Path) -> None:
    modifiers = {"upper_case": 0.0, "typos": 0.2, "tags": 0.1, "glossary": None}
    training = {"denoising": {"noise": "infilling"}, "modifiers": modifiers, "beta1": 0.9, "pool_pairs": 30_000}
    search = {"sample": True, "mbr": "chrf", "mbr_candidates": 16}
    test = {"x": {**HUB, "column": None, "stream": False}}
    tree = {"data": {**TREE["data"], "test": test}, "training": training, "search": search}
    config = load_saved_config(saved(tree, tmp_path))
    assert config.training.betas == [0.9, 0.98]
    assert [*config.training.modifiers.items()] == [("typos", 0.2), ("tags", 0.1)]
    assert config.search.beam == 16  # as many candidates as before
