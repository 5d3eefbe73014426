"""The scripts that measure a start and a step: what they make of the numbers, and that they know nmt as it is."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from kept_run import settings
from nmt.config.load import dump_config
from nmt.data.batching import Pairs
from nmt.data.corpus import lines_of
from nmt.training.loop import fit
from scripts.measure import start_probe, step_cost
from scripts.measure.start_probe import PHASES


def test_first_update_imports_neither_compiler_nor_matplotlib(data: Path, tmp_path: Path) -> None:
    config, out, finished = tmp_path / "config.yaml", tmp_path / "seconds.json", tmp_path / "finished"
    config.write_text(dump_config(settings(data, max_tokens="auto", precision="auto")))
    fit(settings(data), data, finished)
    new = ["train", "--config", str(config), "--data", str(data), "--run", str(tmp_path / "run")]
    resumed = ["train", "--resume", "--run", str(finished), "--set", "training.max_steps=7"]
    for command, skipped in ((new, set()), (resumed, {"probes"})):
        program = [sys.executable, start_probe.__file__, str(time.monotonic()), str(out), *command]
        done = subprocess.run(program, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        seconds = json.loads(out.read_text(encoding="utf-8"))
        assert {"import torch", *(what for _, _, what in PHASES)} - skipped <= seconds.keys()
        assert not {"import torch._dynamo", "import matplotlib"} & seconds.keys()


def test_step_cost_is_measured_and_drawn(tmp_path: Path) -> None:
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
