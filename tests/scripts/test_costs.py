"""The scripts that measure a start and a step: what they make of the numbers, and that they know nmt as it is."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kept_run import settings
from nmt.config.load import dump_config
from nmt.data.batching import Pairs
from scripts.measure import start_probe, start_time, step_cost
from scripts.measure.start_probe import GROUPS, OTHERS, PHASES, Clock, group


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("torch", "import torch"),
        ("torch.nn.functional", "import torch"),
        ("torch._dynamo.utils", "import torch._dynamo"),
        ("torch.utils.tensorboard", "import tensorboard"),
        ("nmt.cli", GROUPS["nmt"]),
        ("numpy", OTHERS),
    ],
)
def test_imports_go_by_library(module: str, name: str) -> None:
    assert group(module) == name


def test_a_clock_charges_what_is_innermost(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(range(1, 100))
    monkeypatch.setattr(start_probe.time, "monotonic", lambda: float(next(times)))
    clock = Clock(-10.0)
    clock.begin()  # at 1
    clock.enter("corpus")
    clock.enter("tokenizer")
    clock.leave()
    clock.leave()
    assert not clock.in_library
    clock.enter(GROUPS["torch"])
    assert clock.in_library
    clock.leave()
    seconds = {"interpreter": 11.0, "the rest": 2.0, "corpus": 2.0, "tokenizer": 1.0, GROUPS["torch"]: 1.0}
    assert clock.seconds == seconds


def test_the_first_update_needs_no_compiler_and_no_pictures(data: Path, tmp_path: Path) -> None:
    config, out = tmp_path / "config.yaml", tmp_path / "seconds.json"
    config.write_text(dump_config(settings(data, max_tokens="auto", precision="auto")))
    run = tmp_path / "run"
    train = ["train", "--config", str(config), "--data", str(data), "--run", str(run)]
    program = [sys.executable, start_probe.__file__, str(time.monotonic()), str(out), *train]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    seconds = json.loads(out.read_text(encoding="utf-8"))
    assert {what for _, _, what in PHASES} <= seconds.keys()
    assert "import torch" in seconds
    assert not {"import torch._dynamo", "import matplotlib"} & seconds.keys()
    assert not (run / "dev").exists() or not list((run / "dev").iterdir())  # it ended before the first validation


def test_the_table_of_starts() -> None:
    *_, corpus, total = start_time.table([{"torch": 1.0, "corpus": 0.5}, {"torch": 3.0}, {"torch": 2.0, "corpus": 0.1}])
    assert corpus.split() == ["corpus", "0.00", "0.10"]
    assert total.split()[-2:] == ["1.50", "2.10"]


def test_a_step_is_measured_and_drawn(tmp_path: Path) -> None:
    pairs = Pairs(step_cost.Lines(), "de", "en")
    assert len(pairs) == step_cost.PAIRS
    assert 14 < int(pairs.lengths.tgt.sum()) / len(pairs) < 16.5
    points = [step_cost.measure(pairs, "float32", width, 256, repeat=2, seconds=0) for width in (8, 16)]
    small, large = points
    assert len(small.seconds) == 2 and min(small.seconds) > 0
    assert 180 < small.target_tokens <= 256 + 60 and small.target_tokens == large.target_tokens
    # the output layer alone makes six operations of each of its weights for a token; nothing grows faster than squared
    assert small.operations > 6 * step_cost.VOCABULARY * 8 * small.target_tokens
    assert 2 < large.operations / small.operations < 4
    lines = step_cost.table(points).splitlines()
    assert [line.split()[:3] for line in lines[1:]] == [["float32", "8", "256"], ["float32", "16", "256"]]
    step_cost.draw(points, points[:1], tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
