"""The check of a GPU runs on a CPU, where it checks itself."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from nmt.prepare.prepare import prepare
from scripts.gpu import agreement, machine, setting, speed, training
from scripts.gpu import check as gpu_check
from scripts.gpu.setting import Check


@pytest.fixture(autouse=True)
def _as_small_as_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip compilation, which is slow and is tested elsewhere."""
    monkeypatch.setattr(setting, "compiled", lambda model, *_: model)
    monkeypatch.setattr(setting.compiling, "BACKEND", "aot_eager")  # to have it put back
    small = replace(setting.SMALL, seconds=0.0, update_tokens=(128,), n_pairs=300, n_shapes=2)
    monkeypatch.setattr(setting, "SMALL", small)
    monkeypatch.setattr(speed, "EAGER", speed.EAGER[1:3])
    monkeypatch.setattr(speed, "COMPILED", speed.COMPILED[:1])
    monkeypatch.setattr(speed, "WARM_UP", 1)
    monkeypatch.setattr(machine, "WAYS", machine.WAYS[:1])
    monkeypatch.setattr(machine, "SEARCHES", {name: machine.SEARCHES[name] for name in ("greedy", "beam 5")})
    monkeypatch.setattr(agreement, "LIMITS", {"float32": agreement.LIMITS["float32"]})  # others are slow


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a few lines of the sample corpus where the script looks for it, prepared once for all trainings."""
    folder = tmp_path_factory.mktemp("root")
    sample = folder / "data" / "sample"
    sample.mkdir(parents=True)
    for path in (training.ROOT / "data" / "sample").glob("*.??"):
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)[: 300 if "train" in path.name else 10]
        (sample / path.name).write_text("".join(lines), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "ROOT", folder)
        prepare(training._config(Check("cpu", small=True))[0], folder / "prepared", echo=lambda _: None)
    return folder


@pytest.fixture
def _small_sample(prepared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "ROOT", prepared)
    copied = prepared / "prepared"
    monkeypatch.setattr(training, "prepare", lambda _, data, **__: shutil.copytree(copied, data))


def lines_of(part: str) -> list[dict[str, object]]:
    """Run a part in this process, and return its output lines."""
    told: list[dict[str, object]] = []
    gpu_check.do_part(part, argparse.Namespace(device="cpu", small=True, data=None), told.append)
    json.dumps(told)
    return told


@pytest.mark.usefixtures("_small_sample")
@pytest.mark.parametrize(
    ("part", "keys"),
    [
        ("versions", {"torch", "packages", "precision", "packed", "product", "tflops"}),
        ("attention", {"kind", "cudnn", "chosen", "new_shape_ms", "known_shape_ms"}),
        ("waits", {"update", "search", "waits"}),
        ("agreement", {"way", "loss", "gradient", "worst"}),
        ("eager", {"way", "tokens_per_s", "share_of_peak", "host_ms", "update_ms"}),
        ("compiled", {"way", "first_update_s", "tokens_per_s", "graphs_compiled_so_far"}),
        ("translation", {"beam", "batch_sentences", "sentences_per_s"}),
        ("resume", {"stopped", "loss_apart_before", "loss_apart", "weights_apart", "equal_bits"}),
        ("bleu", {"bleu", "translations_equal_to_a_cpu"}),
        ("peer", {"way", "tokens_per_s", "sentences_per_s"}),
        ("ranks", {"way", "loss_apart", "weights_apart"}),
        ("profile", {"left_out"}),
        ("graphs", {"left_out"}),
    ],
)
def test_gpu_check_parts_pass(part, keys):
    told = lines_of(part)
    assert told[-1] == {"status": "ok"}, told
    assert keys <= set().union(*told)
    if part == "agreement":
        ways = {f"{name}, {layout}, float32" for name in ("plain", "SimCut", "R-Drop") for layout in ("rows", "packed")}
        assert ways == {line["way"] for line in told[:-1]}
    if part == "resume":
        assert told[2]["equal_bits"] and told[1]["stopped"] == "stopped at step 3 by SIGTERM"


PROGRAMS = {
    "versions": """print('{"found": 1}'); print('{"status": "ok"}')""",
    "attention": """import os; print('{"found": 2}', flush=True); os.write(2, b"no library"); os._exit(7)""",
    "waits": """import time; print('{"found": 3}', flush=True); time.sleep(60)""",
    "agreement": """print('{"found": 4, "ok": false}'); print('{"status": "failed"}')""",
    "eager": """import os; print('{"found": 5}\\n{"fou', end="", flush=True); os.kill(os.getpid(), 9)""",
}


@pytest.fixture
def _programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_check, "command", lambda part, *_: [sys.executable, "-c", PROGRAMS[part]])
    monkeypatch.setitem(gpu_check.PARTS, "waits", ("", 0.5))


@pytest.mark.usefixtures("_programs")
def test_gpu_check_continues_after_part_crashes_or_hangs(tmp_path, capsys):
    output = tmp_path / "found.jsonl"
    assert gpu_check.main(["--output", str(output), "--parts", *PROGRAMS]) == 1
    out = capsys.readouterr().out
    assert output.read_text() == out
    told = [json.loads(line) for line in out.splitlines()]
    assert [line["found"] for line in told if "found" in line] == [1, 2, 3, 4, 5]
    by_part = {line["part"]: line for line in told if "status" in line}
    assert {part: line["status"] for part, line in by_part.items()} == {
        "versions": "ok", "attention": "failed", "waits": "out of time", "agreement": "failed", "eager": "failed",
    }  # fmt: skip
    assert by_part["attention"]["exit"] == 7 and by_part["attention"]["stderr"] == "no library"
    assert [line["cut_off"] for line in told if "cut_off" in line] == ['{"fou'] and by_part["eager"]["exit"] == -9
    assert told[-1]["not_ok"] == ["attention", "waits", "agreement", "eager"]
