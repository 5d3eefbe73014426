"""Tests of settings without effect: refused where they are given, noted where they are inherited, left out of saved
configs."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from nmt.config import Config
from nmt.config.load import changed_config, dump_config, load_config, load_saved_config
from nmt.config.messages import field_paths
from nmt.errors import ConfigError
from nmt.files.yaml12 import dump_yaml, parse_yaml
from places import ROOT

DATA = """\
data:
  direction: en-label
  train: [{path: a.tsv, clean: {}}]
  valid: {path: b.tsv}
  test: {x: {path: c.tsv}}
"""
PAIRS = DATA.replace("en-label", "de-en")
TABLE = [row.split("\t") for row in (ROOT / "nmt/config/modes.tsv").read_text(encoding="utf-8").splitlines()[1:]]
ROWS = [(key, json.loads(modes)) for keys, modes, _ in TABLE for key in keys.split()]
VALUES = ("true", "false", "0.5", "1", "2", "400", "x", "[x]", "[x=y]", "{typos: 0.1}", "gnmt", "chrf", "char", "rdrop",
          "[cut]", "[de]")  # fmt: skip
"""Values of which each setting accepts one that is not its default."""


def load(text: str, *layers: list[str]) -> Config:
    Path("c.yaml").write_text(text, encoding="utf-8")
    return load_config("c.yaml", *layers)


def refused(text: str, *layers: list[str]) -> list[str]:
    """Return the settings that are refused for having no effect."""
    try:
        load(text, *layers)
    except ConfigError as error:
        problems = [problem.removeprefix("--set ").removeprefix("c.yaml: ") for problem in error.problems]
        return [problem.partition(":")[0] for problem in problems if ": no effect " in problem]
    return []


def concrete(key: str) -> str:
    """Return a key of modes.tsv with names in place of `*`."""
    key = key.replace("train.*", "train.0").replace("test.*", "test.x")
    return key.removesuffix(".*")


def cases() -> list[tuple[str, list[str]]]:
    """Return each setting of the table with overrides for each combination of modes that do not read it."""
    known = [*field_paths()]
    listed = []
    for key, modes in ROWS:
        keys = [path for path in known if path.startswith(key.removesuffix("*"))] if key.endswith(".*") else [key]
        overrides = []
        for mode, values in modes.items():
            changes = []
            for value in values:
                text = {"*-label": "en-label", "*": "[cut]" if mode.endswith(".*") else "x"}.get(str(value))
                if mode != "data.train.*.tags" and (value is not None or mode == "data.directions"):
                    changes.append(f"{concrete(mode)}={text or json.dumps(value)}")
            overrides.append(changes or [""])
        for combination in itertools.product(*overrides):
            listed += [(concrete(setting), [*filter(None, combination)]) for setting in keys]
    return listed


def test_setting_is_refused_in_every_mode_that_does_not_read_it() -> None:
    found = cases()
    assert len(found) > 100
    values = dict[str, str]()
    for key, modes in found:
        text = DATA if any("label" in mode for mode in modes) else PAIRS
        for value in VALUES[VALUES.index(values.get(key, VALUES[0])) :]:
            if key in refused(text, [*modes, f"{key}={value}"]):
                values[key] = value
                break
        else:
            pytest.fail(f"{key} is not refused with {', '.join(modes)}")


@pytest.mark.parametrize(
    ("file", "layers", "found"),
    [
        ("training: {schedule: noam, peak_lr: 1}", [], ["training.peak_lr"]),
        ("training: {peak_lr: 1}", [], ["training.peak_lr"]),  # the mode is the default
        ("training: {peak_lr: 1}", [["training.schedule=noam"]], ["training.peak_lr"]),
        ("training: {peak_lr: 1}", [["training.schedule=linear", "training.warmup_steps=9"]], []),
        ("training: {schedule: constant}", [["training.peak_lr=1", "training.schedule=noam"]], ["training.peak_lr"]),
        ("training: {schedule: constant}", [["training.peak_lr=1"], ["training.schedule=noam"]], []),  # of a sweep
        ("training: {schedule: constant}", [["training.schedule=noam"], ["training.peak_lr=1"]], ["training.peak_lr"]),
        # with its default: complete files have it, but who writes it on the command line wants it to be read
        ("training: {peak_lr: 7e-4}\nsearch: {top_p: 1.0}", [], []),
        ("", [["training.peak_lr=7e-4", "search.top_p=1.0"]], ["training.peak_lr", "search.top_p"]),
        ("", [["search.top_k=0", "training.consistency_weight=0"]], ["training.consistency_weight"]),
        ("", [["training.schedule=cosine", "training.cooldown=0"]], []),
        ("", [["training.denoising={mask_span: 2}"]], ["training.denoising.mask_span"]),
        ("", [["training.denoising.mask_span=2"]], ["training.denoising.mask_span"]),
    ],
)
def test_setting_without_effect_is_refused_where_it_is_given(
    file: str, layers: list[list[str]], found: list[str]
) -> None:
    assert refused(f"{PAIRS}{file}\n", *layers) == found


def test_inherited_setting_whose_mode_is_changed_is_left_out_with_a_note(capsys: pytest.CaptureFixture[str]) -> None:
    plain = load_config("multi30k.yaml", ["training.consistency=none", "training.schedule=noam"])
    assert (plain.training.consistency_weight, plain.training.peak_lr) == (3.0, 7e-4)  # the defaults
    note = capsys.readouterr().err
    assert note.count("\n") == 1 and note.startswith("nmt: note: ") and "multi30k.yaml" in note
    assert "training.consistency_weight" in note and "training.peak_lr" in note
    # without one setting, another has no effect
    text = PAIRS + "training: {consistency: simcut, cut_rate: 0.2}\n"
    changes = ["data.direction=en-label", "training.objective=classification", "model.kind=encoder"]
    config = load(text, changes)
    assert (config.training.consistency, config.training.cut_rate) == ("none", 0.05)
    assert "training.cut_rate" in capsys.readouterr().err
    for written in (plain, config):  # complete files, without a word
        assert load(dump_config(written)) == written and not capsys.readouterr().err


def test_settings_of_saved_config_without_effect_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    config = load(PAIRS + "training: {schedule: constant, peak_lr: 1}\n")
    tree: Any = parse_yaml(dump_config(config), "dump")
    tree["training"]["schedule"] = "noam"  # as an earlier version wrote it
    path = Path("run", "config.yaml")
    path.parent.mkdir()
    assert refused(dump_yaml(tree)) == ["training.peak_lr"]
    path.write_text(dump_yaml(tree), encoding="utf-8")
    (path.parent / "run.json").touch()
    assert load_saved_config(path).training.peak_lr == 7e-4
    assert load_config(path, ["training.max_steps=9"]) == changed_config(
        load_saved_config(path), ["training.max_steps=9"]
    )
    assert not capsys.readouterr().err
    with pytest.raises(ConfigError, match=r"^--set training\.peak_lr: no effect "):
        load_config(path, ["training.peak_lr=0.1"])
