"""Damaged checkpoints are reported, and the previous one is used."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save as to_bytes

from fitting import fit
from kept_run import Died, die_before, differences, kept, make_data, quicken, settings
from nmt.errors import CheckpointError
from nmt.files.document import sealed_text
from nmt.layout import CheckpointDir, RunDir
from nmt.runs import checkpoint
from nmt.runs.state import load_state
from nmt.training import resuming
from nmt.training.optim import Adam

pytestmark = pytest.mark.usefixtures("no_coverage")

WEIGHTS, OPTIMIZER, STATE = FILES = ("weights.safetensors", "optimizer.safetensors", "state.json")


@dataclass(frozen=True)
class Runs:
    """A finished run, and one that died after step 5: its checkpoints are those of steps 3 and 4."""

    data: Path
    whole: Path
    died: Path


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    folder = tmp_path_factory.mktemp("runs")
    data = make_data(folder)
    with pytest.MonkeyPatch.context() as patch:
        quicken(patch)
        fit(settings(data), data, folder / "whole")
        die_before(5, patch)
        with pytest.raises(Died):
            fit(settings(data), data, folder / "died")
    return Runs(data, folder / "whole", folder / "died")


@pytest.fixture
def run(runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunDir:
    """A copy of the run that died, to be damaged."""
    quicken(monkeypatch)
    return RunDir(shutil.copytree(runs.died, tmp_path / "run"))


def content(folder: Path) -> dict[str, bytes]:
    """Every file but the lock."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "lock"}


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def flip(path: Path) -> None:
    """Flip one bit of the last number or digit."""
    data = bytearray(path.read_bytes())
    place = max(data.rfind(digit) for digit in b"13579") if path.name == STATE else len(data) - 1
    data[place] ^= 1
    path.write_bytes(bytes(data))


def empty(path: Path) -> None:
    path.write_bytes(b"")


def seal(path: Path, **changes: Any) -> None:
    """Write state.json with these changes and with checksums that are right."""
    saved = CheckpointDir(path.parent)
    sums = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in (saved.weights, saved.optimizer)}
    content = json.loads(saved.state.read_text()) | {"checksums": sums} | changes
    content.pop("seal")
    saved.state.write_text(sealed_text(content))


def other_format(path: Path) -> None:
    seal(path, format=99)


def other_names(path: Path) -> None:
    tensors = checkpoint.load(path.read_bytes())
    name = sorted(tensors)[0]
    tensors[f"other.{name}"] = tensors.pop(name)
    path.write_bytes(to_bytes(tensors))
    seal(path)


def other_shapes(path: Path) -> None:
    tensors = checkpoint.load(path.read_bytes())
    tensors = {name: torch.cat((tensor, tensor)) if tensor.dim() else tensor for name, tensor in tensors.items()}
    path.write_bytes(to_bytes(tensors))
    seal(path)


def other_state(path: Path) -> None:
    seal(path, state={**asdict(load_state(CheckpointDir(path.parent))), "unheard_of": 1})


DAMAGE: list[tuple[Callable[[Path], None], str, str]] = [
    *[(cut, name, f"{name}: damaged: its checksum does not match") for name in (WEIGHTS, OPTIMIZER)],
    (cut, STATE, "state.json: damaged: "),
    *[(flip, name, f"{name}: damaged: its checksum does not match") for name in FILES],
    *[(empty, name, f"{name}: damaged: its checksum does not match") for name in (WEIGHTS, OPTIMIZER)],
    (empty, STATE, "state.json: damaged: "),
    *[(Path.unlink, name, f"{name}: missing") for name in FILES],
    (other_format, STATE, "step-00000004/state.json: written in format 99, but this version of nmt reads 2"),
    (other_names, WEIGHTS, "step-00000004: the weights do not match the model in config.yaml"),
    (other_shapes, WEIGHTS, "the model of config.yaml needs"),
    (other_names, OPTIMIZER, "is not from an optimizer of this model"),
    (other_shapes, OPTIMIZER, "is not from an optimizer of this model"),
    (other_state, STATE, "step-00000004: written by another version of nmt: "),
]  # fmt: skip


@pytest.mark.parametrize(("damage", "name", "reason"), DAMAGE)
def test_damaged_checkpoint_falls_back(runs, run, monkeypatch, capsys, damage, name, reason):
    damage(run.step(4).path / name)
    assigned, restored = [], []
    real = resuming.assign, Adam.load_state_dict
    monkeypatch.setattr(resuming, "assign", lambda *a: assigned.append(Path(a[2]).name) or real[0](*a))
    monkeypatch.setattr(Adam, "load_state_dict", lambda *a: restored.append(1) or real[1](*a))
    capsys.readouterr()
    fit(settings(runs.data), runs.data, run.path, resume=True)
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "trying the previous checkpoint" in line]
    assert line.startswith(f"nmt: {run.step(4).path}") and reason in line
    assert assigned[0] == "step-00000003" and len(restored) == 1  # nothing of the damaged one was used
    assert differences(kept(run.path), kept(runs.whole)) == []


def test_resume_without_intact_checkpoint_changes_nothing(runs, run):
    flip(run.step(3).weights)
    run.step(4).optimizer.unlink()
    before = content(run.path)
    with pytest.raises(CheckpointError) as caught:
        fit(settings(runs.data), runs.data, run.path, resume=True)
    assert str(caught.value) == f"{run.path}: no intact checkpoint of this version; start another run"
    assert content(run.path) == before


class Planted:
    """Makes a directory when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("name", [WEIGHTS, OPTIMIZER])
@pytest.mark.parametrize("how", ["pickle", "torch"])
def test_pickle_is_never_loaded(runs, run, nmt, tmp_path, capsys, name, how):
    path, trap = run.step(4).path / name, tmp_path / "trap"
    if how == "pickle":
        path.write_bytes(pickle.dumps(Planted(trap)))
    else:
        torch.save({"w": Planted(trap)}, path)
    seal(path)
    if name == WEIGHTS:
        result = nmt("translate", "--run", run.path, "--checkpoint", 4)
        assert (result.status, result.err.count("\n")) == (2, 1)
        assert f"{path}: damaged: " in result.err
    capsys.readouterr()
    fit(settings(runs.data), runs.data, run.path, resume=True)
    assert f"{path}: damaged: " in capsys.readouterr().err
    assert not trap.exists()
    pickle.loads(pickle.dumps(Planted(trap)))
    assert trap.exists()  # the trap was a good one
