"""The check of a GPU runs on a CPU, where it checks itself."""

from __future__ import annotations

import argparse
import ctypes
import inspect
import json
import math
import re
import shutil
import sys
import warnings
import zipfile
from contextlib import nullcontext
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
import torch

from nmt import process
from nmt.model.transformer import Transformer
from nmt.prepare.prepare import prepare
from nmt.training.report.log import Board
from nmt.training.setup import resume as restore
from places import ROOT, SCRIPTS
from scripts.gpu import agreement, machine, setting, speed, training
from scripts.gpu import check as gpu_check
from scripts.gpu.setting import PLAIN, RDROP, SIMCUT, Check, flop_per_token, peak


@pytest.fixture(autouse=True)
def _as_small_as_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the compiler does is tested elsewhere, and takes long."""
    monkeypatch.setattr(setting, "compiled", lambda model, *_: model)
    monkeypatch.setattr(setting.compiling, "BACKEND", "aot_eager")  # to have it put back
    small = replace(setting.SMALL, seconds=0.0, update_tokens=(128,), n_pairs=300, n_shapes=2)
    monkeypatch.setattr(setting, "SMALL", small)
    monkeypatch.setattr(speed, "EAGER", speed.EAGER[1:3])
    monkeypatch.setattr(speed, "COMPILED", speed.COMPILED[:1])
    monkeypatch.setattr(speed, "WARM_UP", 1)
    monkeypatch.setattr(machine, "WAYS", machine.WAYS[:1])
    monkeypatch.setattr(machine, "SEARCHES", {name: machine.SEARCHES[name] for name in ("greedy", "beam 5")})
    monkeypatch.setattr(Board, "attention", lambda *_: None)  # takes longer to draw than these runs to train
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
    """What a part tells, done in this process."""
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
        ("graphs", {"left_out"}),
    ],
)
def test_every_part_passes(part, keys):
    told = lines_of(part)
    assert told[-1] == {"status": "ok"}, told
    assert keys <= set().union(*told)
    if part == "agreement":
        ways = {
            f"{name}, {layout}, float32" for name in ("plain", "SimCut", "R-Drop") for layout in ("padded", "packed")
        }
        assert ways == {line["way"] for line in told[:-1]}
    if part == "resume":
        assert told[2]["equal_bits"] and told[1]["stopped"] == "stopped at step 3 by SIGTERM"


@pytest.mark.usefixtures("_small_sample")
def test_a_training_that_does_not_stop_is_seen(monkeypatch):
    monkeypatch.setattr(training, "asked_to_stop", lambda **_: nullcontext())
    told = lines_of("resume")
    assert "did not" in told[1]["error"] and told[2:] == [{"status": "failed"}]


@pytest.mark.usefixtures("_small_sample")
def test_a_training_that_is_not_resumed_as_it_was_is_seen(monkeypatch):
    monkeypatch.setattr(restore, "restore_optimizer", lambda *_: None)
    *_, found, status = lines_of("resume")
    assert found["loss_apart_before"] == 0 < found["weights_apart"] and not found["equal_bits"]
    assert status == {"status": "failed"}


def warn(*_: object) -> None:
    """As PyTorch, of an operation that waits."""
    warnings.warn("called a synchronizing CUDA operation", stacklevel=1)


def test_a_wait_is_noted_where_nmt_waits(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", warn)
    with machine.noted(torch.device("cpu")) as places:
        warn()  # not of nmt
        for _ in range(2):
            process.keep_freed_memory()
        machine.in_nmt("warn()", warn=warn)
    lines, first = inspect.getsourcelines(process.keep_freed_memory)
    line = first + next(i for i, line in enumerate(lines) if "CDLL" in line)
    assert places == {("process.py", "keep_freed_memory", line): 2, ("on_purpose.py", "<module>", 1): 1}


def wait_in_nmt(plain):
    """A function that waits in nmt before it does what it does."""

    def done(*args, **kwargs):
        machine.in_nmt("def leaving(): list(warn() for _ in [0])\nleaving()", warn=warn)
        return plain(*args, **kwargs)

    return done


@pytest.mark.filterwarnings("ignore:called a synchronizing")  # of the updates before those that are looked at
def test_a_wait_is_wrong_but_where_a_search_must_wait(monkeypatch):
    monkeypatch.setattr(machine, "train_step", wait_in_nmt(machine.train_step))
    monkeypatch.setattr(machine, "decode", wait_in_nmt(machine.decode))
    found = [(line["waits"], line["ok"]) for line in lines_of("waits")[:-1]]
    assert found == [({"on_purpose.py:1 leaving": 1}, False)] * 3
    monkeypatch.setattr(machine, "INHERENT", {("on_purpose.py", "leaving")})
    assert [line["ok"] for line in lines_of("waits")[:-1]] == [False, True, True]


def test_the_places_where_a_search_must_wait_are_there():
    files = {path.name: path for path in (ROOT / "nmt" / "search").glob("*.py")}
    for name, function in machine.INHERENT:
        assert f"def {function}(" in files[name].read_text(encoding="utf-8")


def test_on_a_gpu_a_resumed_run_may_be_as_far_as_another():
    names = ("loss_apart_before", "loss_apart", "weights_apart")
    spread = dict(zip(names, (1e-3, 3e-3, 4e-2), strict=True))
    assert training.near({name: 4 * value for name, value in spread.items()}, spread)
    assert training.near(dict.fromkeys(names, 1e-3), dict.fromkeys(names, 0.0))
    for name in names:
        assert not training.near({**spread, name: 6 * spread[name]}, spread)
        assert not training.near({**dict.fromkeys(names, 0.0), name: 1e-9}, None)
        assert not training.near({**spread, name: math.inf}, spread)
        assert not training.near({**spread, name: math.nan}, spread)


def test_a_gradient_that_is_wrong_is_seen():
    check = Check("cpu", small=True)
    config = check.config(*(f"model.{name}={n}" for name, n in check.sizes.small_model.items()), *PLAIN)
    model = Transformer(config.model, check.sizes.vocabulary, check.sizes.vocabulary).eval()
    batch = check.pairs.batch(np.arange(4))
    right = agreement.learned(model, batch, config.training, "float32", torch.device("cpu"))
    wrong = right[0], {name: grad * (1.1 if "decoder" in name else 1.0) for name, grad in right[1].items()}
    scaled = agreement.learned(model, batch, config.training, "fp16", torch.device("cpu"))
    assert agreement.apart(scaled, right, (5e-3, 5e-2))["ok"]
    found = agreement.apart(wrong, right, (1e-4, 1e-3))
    assert not found["ok"] and 0.01 < found["gradient"] <= 0.1 and "decoder" in next(iter(found["worst"]))


def test_a_part_that_raises_tells_what_and_where(monkeypatch):
    monkeypatch.setattr(speed, "train_step", lambda *_: 1 / 0)
    told = lines_of("eager")
    assert len(told) == 1 + len(speed.EAGER) and told[-1] == {"status": "failed"}
    assert all(line["error"] == "ZeroDivisionError: division by zero" for line in told[:-1])
    monkeypatch.setattr(speed, "_modes", lambda *_: 1 / 0)
    error, status = lines_of("eager")
    assert error["error"] == "ZeroDivisionError: division by zero" and "speed.py" in str(error["at"])
    assert status == {"status": "failed"}


PROGRAMS = {
    "versions": """print('{"found": 1}'); print('{"status": "ok"}')""",
    "attention": """import os, sys; print('{"found": 2}', flush=True); sys.stderr.write("no library"); os._exit(7)""",
    "waits": """import time; print('{"found": 3}', flush=True); time.sleep(60)""",
    "agreement": """print('{"found": 4, "ok": false}'); print('{"status": "failed"}')""",
    "eager": """import os; print('{"found": 5}\\n{"fou', end="", flush=True); os.kill(os.getpid(), 9)""",
}


@pytest.fixture
def _programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_check, "command", lambda part, *_: [sys.executable, "-c", PROGRAMS[part]])
    monkeypatch.setitem(gpu_check.PARTS, "waits", ("", 0.5))


@pytest.mark.usefixtures("_programs")
def test_a_part_that_crashes_or_hangs_costs_itself_alone(tmp_path, capsys):
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


@pytest.mark.usefixtures("_programs")
def test_what_there_is_no_time_for_is_left_out(capsys):
    assert gpu_check.main(["--seconds", "1", "--parts", "versions", "waits"]) == 1
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line.get("status") for line in told] == ["left out", "left out", None]


def test_without_a_gpu_no_part_is_begun(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    told: list[dict[str, object]] = []
    for part in gpu_check.PARTS:
        gpu_check.do_part(part, argparse.Namespace(device="cuda", small=True, data=None), told.append)
    assert [(line["status"], line["ok"]) for line in told] == [("no GPU", False)] * len(gpu_check.PARTS)
    assert "--device cpu --small" in str(told[0]["error"])
    program = f"print({json.dumps(told[0])!r})"
    monkeypatch.setattr(gpu_check, "command", lambda *_: [sys.executable, "-c", program])
    assert gpu_check.main([]) == 2
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_two_passes_are_counted_twice():
    check = Check("cpu", small=True)
    model = check.session(setting.Mode("plain")).model
    once = flop_per_token(model, check.config(*PLAIN))
    assert once == pytest.approx(6 * sum(p.numel() for p in model.parameters()))  # all of it is tied
    assert [flop_per_token(model, check.config(*two)) for two in (SIMCUT, RDROP)] == [2 * once, 2 * once]


@pytest.mark.parametrize(
    ("name", "tflops"),
    [("NVIDIA H200", 989.4), ("NVIDIA H100 80GB HBM3", 989.4), ("NVIDIA H100 PCIe", 756), ("NVIDIA H100 NVL", 835),
     ("NVIDIA A100-SXM4-80GB", 312), ("NVIDIA A10G", None), ("NVIDIA L4", 121), ("Radeon", None)],
)  # fmt: skip
def test_the_peaks_of_gpus(name, tflops):
    found = peak(name)
    assert found is None if tflops is None else found == pytest.approx(tflops * 1e12)


def test_wheels_serve_as_they_are(tmp_path):
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    with zipfile.ZipFile(wheels / "one-1-py3-none-any.whl", "w") as archive:
        archive.writestr("one/__init__.py", "")
    folder = gpu_check.unpacked(wheels, tmp_path / "packages")
    assert (folder / "one" / "__init__.py").exists()
    command = gpu_check.command("bleu", argparse.Namespace(device="cuda", small=False, data=None), folder)
    assert command[1:3] == ["-m", "scripts.gpu.check"]
    assert command[3:] == ["--part", "bleu", "--device", "cuda", "--packages", str(folder)]


def test_the_wheels_are_all_that_is_needed():
    listed = set(re.findall(r"^[a-z][\w-]+$", (SCRIPTS / "gpu" / "wheels.txt").read_text(), re.MULTILINE))
    # PyTorch is there, and these are of parts of packages that the check does not use
    others = {"torch", "datasets", "typer", "grpcio", "markdown", "setuptools", "tensorboard-data-server", "werkzeug"}
    for package in ("nmt", *sorted(listed)):
        for requirement in metadata.requires(package) or ():
            name, _, marker = requirement.partition(";")
            needed = re.match(r"[\w.-]+", name)[0].lower().replace("_", "-")
            if "extra" not in marker and "sys_platform" not in marker and "platform_system" not in marker:
                assert needed in listed | others, f"{package} needs {needed}"
