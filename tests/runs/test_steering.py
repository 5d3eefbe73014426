"""Nothing that a run, a data directory or a lock holds steers the terminal."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from command import Command
from nmt.config.load import dump_config
from nmt.files.write import Lock
from nmt.layout import RunDir
from nmt.runs.checkpoint import save_checkpoint
from steering import EVIL, SHOWN, STEERING, check
from tiny_corpus import tiny_settings


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> RunDir:
    """A copy of a run with names that steer."""
    return RunDir(shutil.copytree(whole, tmp_path / "run"))


def planted_in_weights(run: RunDir) -> None:
    for step in run.checkpoints.glob("step-*"):
        save_checkpoint(run.step(int(step.name[5:])), {EVIL: torch.zeros(2)}, None, {})
    run.selected.unlink()


def planted_in_state(run: RunDir) -> None:
    for state in run.checkpoints.glob("*/state.json"):
        state.write_text(json.dumps({"format": EVIL, "seal": ""}))


def planted_in_info(run: RunDir) -> None:
    run.info.write_text(json.dumps(json.loads(run.info.read_text()) | {"format": EVIL}))


def planted_in_config(run: RunDir) -> None:
    run.config.write_text(json.dumps({EVIL: 1, "data": tiny_settings(Path()).model_dump(mode="json")["data"]}))


def planted_in_tokenizer(run: RunDir) -> None:
    shutil.rmtree(run.tokenizer.path)
    run.tokenizer.path.mkdir()
    (run.tokenizer.path / f"{EVIL}.model").touch()


@pytest.mark.parametrize(
    "plant", [planted_in_weights, planted_in_state, planted_in_info, planted_in_config, planted_in_tokenizer]
)
def test_control_characters_in_run_info_are_not_printed(
    plant: Callable[[RunDir], None], run: RunDir, nmt: Command
) -> None:
    plant(run)
    is_noted = plant is planted_in_weights  # that no validation has selected a checkpoint
    check(nmt("translate", "--run", run.path, "--input", os.devnull), n_lines=1 + is_noted)
    listed = nmt("runs", run.path.parent)
    assert listed.status == 0 and STEERING.search(listed.out) is None


def test_control_characters_in_lock_holder_are_not_printed(run: RunDir, nmt: Command) -> None:
    lock = Lock(run.lock, "trains")
    try:
        run.lock.write_text(json.dumps({"host": EVIL, "pid": EVIL, "since": EVIL}))
        check(nmt("train", "--resume", "--run", run.path))
        check(nmt("runs", run.path.parent), 0, 0)
    finally:
        lock.release()


def test_control_characters_in_directory_name_and_text_are_not_printed(
    tiny_data: Path, tmp_path: Path, nmt: Command
) -> None:
    """In the report of prepare, while training, and in that of evaluate with its samples."""
    text = tmp_path / "text"
    shutil.copytree(tiny_data.parent / "text", text)
    for language in ("aa", "bb"):
        (text / f"test.{language}").write_text(f"mali {EVIL[:-1]} ta\n", encoding="utf-8")
    config = tmp_path / "c.yaml"
    config.write_text(dump_config(tiny_settings(text, training={"max_steps": 2})), encoding="utf-8")
    data, run = tmp_path / f"data{EVIL}", tmp_path / f"run{EVIL}"
    check(nmt("prepare", "--config", config, "--data", data), 0, 0)
    check(nmt("prepare", "--config", config, "--data", data), 0, 0)
    trained = nmt("train", "--config", config, "--data", data, "--run", run)
    assert trained.status == 0 and STEERING.search(trained.err) is None
    result = nmt("evaluate", "--run", run, "--samples", "1")
    assert result.status == 0 and STEERING.search(result.out + result.err) is None
    assert SHOWN.removesuffix(r"\r") in result.out.split("\n")[1]  # the source
    assert f"run{SHOWN}" in result.out
