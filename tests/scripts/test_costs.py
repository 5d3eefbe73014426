"""The scripts that measure a start and a step: what they make of the numbers, and that they know nmt as it is."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kept_run import settings
from nmt.data.batching import Pairs
from nmt.data.corpus import lines_of
from nmt.layout import RunDir
from nmt.training.loop import fit
from scripts.measure import start_probe, step_cost, train_speed
from scripts.measure.start_probe import PHASES


@pytest.mark.usefixtures("quick")
def test_first_update_imports_neither_compiler_nor_matplotlib(data: Path, tmp_path: Path) -> None:
    """That of a run which is resumed on another device: it loads a checkpoint, and probes as a new one does."""
    run, out = RunDir(tmp_path / "run"), tmp_path / "seconds.json"
    fit(settings(data, max_tokens="auto", precision="auto", max_steps=1), data, run.path)
    run.info.write_text(json.dumps(json.loads(run.info.read_text()) | {"device_name": "another"}))
    command = ["train", "--resume", "--run", str(run.path), "--set", "training.max_steps=2"]
    program = [sys.executable, start_probe.__file__, str(time.monotonic()), str(out), *command]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    seconds = json.loads(out.read_text(encoding="utf-8"))
    assert {"import torch", *(what for _, _, what in PHASES)} <= seconds.keys()
    assert not {"import torch._dynamo", "import matplotlib"} & seconds.keys()


def test_step_cost_is_measured_and_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_cost, "PAIRS", 1000)
    # a probe may choose another library for one of the points, with which rows are padded
    monkeypatch.setattr(step_cost, "pick_float32_library", lambda *_: "mkl")
    pairs = Pairs(lines_of(step_cost.Lines(), "de"), lines_of(step_cost.Lines(), "en"))
    points = [step_cost.measure(pairs, "float32", width, 256, repeat=2, seconds=0) for width in (8, 16)]
    small, large = points
    assert len(small.seconds) == 2 and min(small.seconds) > 0
    assert small.target_tokens == large.target_tokens
    # the output layer alone makes six operations of each of its weights for a token; nothing grows faster than squared
    assert small.operations > 6 * step_cost.VOCABULARY * 8 * small.target_tokens
    assert 2 < large.operations / small.operations < 4
    lines = step_cost.table(points).splitlines()
    assert [line.split()[:3] for line in lines[1:]] == [["float32", "8", "256"], ["float32", "16", "256"]]
    step_cost.draw(points, points[:1], tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_checkouts_learn_in_the_one_precision_that_is_picked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    precisions = list[str]()

    def start(_: Path, options: argparse.Namespace) -> list[float]:
        precisions.append(options.precision)
        return [1.0, 1.0, 1.0]

    picked = {"auto": iter(["fp16"]), "bf16": iter(["bf16"])}
    monkeypatch.setattr("nmt.model.precision.pick_precision", lambda name, _: next(picked[name]))
    monkeypatch.setattr(train_speed, "start", start)
    monkeypatch.setattr(train_speed, "learn", lambda process: process)
    for given in ([], ["--precision", "bf16"]):
        monkeypatch.setattr("sys.argv", ["train_speed", str(tmp_path), "--seconds", "0", "--warm", "0", *given])
        train_speed.main()
    assert precisions == ["fp16", "fp16", "bf16", "bf16"]
