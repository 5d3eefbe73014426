"""Runs so small that a test can afford a hundred, and what of a run must be the same however often it was stopped."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch

from library import FLOAT32_LIBRARY
from nmt.config import Config
from nmt.layout import RunDir
from nmt.prepare.prepare import prepare
from nmt.runs.checkpoint import save_checkpoint
from nmt.runs.state import TrainState, saved_steps
from nmt.training import loop
from nmt.training.report import log as log_module
from nmt.training.setup import choices
from tiny_corpus import tiny_settings, tiny_text

TIMES = (
    "minutes", "seconds", "cpu_seconds", "update_seconds", "paused_seconds", "check_seconds", "last_check_seconds",
    "tokens_per_second",
)  # fmt: skip


class NoBoard:
    """Replaces TensorBoard, which takes most of the time of such a small run."""

    def __init__(self, *_: object) -> None:
        pass

    def __getattr__(self, _: str) -> object:
        return lambda *_: None


def quicken(patch: pytest.MonkeyPatch) -> None:
    """Train without TensorBoard, without waiting for the disk, and without probes that may choose another library."""
    patch.setattr(choices, "pick_float32_library", lambda *_: FLOAT32_LIBRARY)
    patch.setattr(log_module, "Board", NoBoard)
    patch.setattr(os, "fsync", lambda _: None)


class Died(BaseException):
    """An exception that no code of nmt catches."""


def die_before(step: int, patch: pytest.MonkeyPatch) -> None:
    """Make the run fail after `step` updates."""
    real = loop.train_step

    def train_step(session: loop.Session, update: loop.Update) -> loop.Outcome:
        if session.state.step == step:
            raise Died
        return real(session, update)

    patch.setattr(loop, "train_step", train_step)


def make_data(folder: Path) -> Path:
    """Return a data directory with three development lines; its text is in the same folder."""
    tiny_text(folder / "text")
    for language in ("aa", "bb"):
        dev = folder / "text" / f"dev.{language}"
        dev.write_text("".join(dev.read_text(encoding="utf-8").splitlines(keepends=True)[:3]), encoding="utf-8")
    prepare(tiny_settings(folder / "text"), folder / "data", echo=lambda _: None)
    return folder / "data"


def settings(data: Path, kind: str = "translation", **training: Any) -> Config:
    """Six short steps of a model of this kind, saves after 2, 3, 4 and 6, validations after 3 and 6 of which each finds
    a new best; that of step 3 is older than the two newest that are kept anyway."""
    changes = {"update_tokens": 60, "max_steps": 6, "save_every_steps": 2, "validate_every_steps": 3, "keep_last": 2}
    return tiny_settings(
        data.parent / "text",
        training={**changes, "select_by": "loss", **training},
        search={"beam": 1},
        model={"kind": kind},
    )


def kept(path: Path, but: tuple[str, ...] = ()) -> dict[str, Any]:
    """All that a run leaves but for times and TensorBoard, to be compared; without records of the kinds `but`."""
    run, found = RunDir(path), {}
    for file in sorted(path.rglob("*")):
        name = str(file.relative_to(path))
        if file.is_dir():
            found[name] = None
        elif file == run.log:
            records = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
            found[name] = [_timeless(record) for record in records if record["kind"] not in but]
        elif file.name == "state.json":
            found[name] = _timeless(json.loads(file.read_text(encoding="utf-8")))
        elif file != run.lock:
            found[name] = hashlib.sha256(file.read_bytes()).hexdigest()
    return {name: value for name, value in found.items() if not name.startswith("tensorboard")}


def _timeless(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _timeless(each) for key, each in value.items() if key not in (*TIMES, "seal", "log_bytes")}
    return value


def differences(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """Return the names of the results in which two runs differ."""
    return sorted(name for name in found.keys() | wanted.keys() if found.get(name, 0) != wanted.get(name, 0))


def resumable_steps(run: RunDir) -> list[int]:
    """Return the steps whose checkpoint contains the optimizer's state."""
    return [step for step in saved_steps(run) if run.step(step).optimizer.exists()]


def save(run: RunDir, step: int, value: float) -> None:
    """A checkpoint of a model that is three numbers, all `value`."""
    save_checkpoint(run.step(step), {"w": torch.full((3,), value)}, {"w/m": torch.zeros(3)}, asdict(TrainState(step)))


def three_checkpoints(path: Path) -> RunDir:
    """A run directory with such checkpoints at steps 10, 20 and 30."""
    run = RunDir(path)
    for step in (10, 20, 30):
        save(run, step, float(step))
    return run
