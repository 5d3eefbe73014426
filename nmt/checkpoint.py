"""Checkpoints: written whole or not at all, verified before use, rotated, averaged, selected.

Weights and optimizer are safetensors and the rest is JSON, so that loading never executes code.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from nmt.config import TrainingConfig
from nmt.data.staging import sync
from nmt.errors import CheckpointError
from nmt.layout import CheckpointDir, RunDir

FORMAT = 1
Tensors = dict[str, Tensor]


@dataclass
class TrainState:
    """What a resumed run needs besides weights and optimizer; everything else is a function of it.

    `update_in_epoch` updates of `epoch` are done; `last_check` is the step of the last validation; `n_tokens` target
    tokens and `seconds` were spent over all resumes; `n_skipped` updates had a gradient that was not finite,
    `skipped_in_a_row` of them just now. `scaler` is the loss scaler's state with fp16.
    """

    step: int = 0
    epoch: int = 0
    update_in_epoch: int = 0
    n_tokens: int = 0
    n_skipped: int = 0
    skipped_in_a_row: int = 0
    best_score: float | None = None
    best_step: int | None = None
    checks_since_best: int = 0
    last_check: int = 0
    seconds: float = 0.0
    scaler: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ChosenWeights:
    """Weights to translate with, and why these."""

    step: int
    kind: Literal["raw", "average"]
    reason: str
    tensors: Tensors


def save_checkpoint(
    target: CheckpointDir, weights: Mapping[str, Tensor], optimizer: Tensors | None, state: Mapping[str, Any]
) -> None:
    """Write a checkpoint under a temporary name, sync it, and rename it into place, replacing one of that name."""
    temporary = CheckpointDir(target.path.with_name(target.path.name + ".part"))
    shutil.rmtree(temporary.path, ignore_errors=True)
    temporary.path.mkdir(parents=True)
    try:
        _write_checkpoint(temporary, weights, optimizer, state)
    except BaseException as error:
        shutil.rmtree(temporary.path, ignore_errors=True)
        if isinstance(error, SafetensorError):  # which is how a full disk is told there
            raise CheckpointError(f"{target.path}: cannot be written: {error}") from error
        raise
    shutil.rmtree(target.path, ignore_errors=True)
    temporary.path.rename(target.path)
    sync(target.path.parent)


def _write_checkpoint(
    temporary: CheckpointDir, weights: Mapping[str, Tensor], optimizer: Tensors | None, state: Mapping[str, Any]
) -> None:
    save_file({name: tensor.detach().contiguous().cpu() for name, tensor in weights.items()}, temporary.weights)
    if optimizer is not None:
        save_file({name: tensor.detach().contiguous().cpu() for name, tensor in optimizer.items()}, temporary.optimizer)
    _write(temporary.state, json.dumps({"format": FORMAT, **state}, indent=1))
    files = sorted(path for path in temporary.path.iterdir())
    _write(temporary.checksums, json.dumps({path.name: _sha256(path) for path in files}, indent=1))
    for path in temporary.path.iterdir():
        sync(path)
    sync(temporary.path)


def load_weights(source: CheckpointDir) -> Tensors:
    """The verified weights of a checkpoint. Raises CheckpointError."""
    return _load(source, source.weights)


def load_optimizer(source: CheckpointDir) -> Tensors:
    """The verified optimizer state of a checkpoint. Raises CheckpointError."""
    return _load(source, source.optimizer)


def load_state(source: CheckpointDir) -> dict[str, Any]:
    """The verified state.json of a checkpoint. Raises CheckpointError."""
    _verify(source, source.state)
    state: dict[str, Any] = json.loads(source.state.read_text(encoding="utf-8"))
    if state.pop("format", None) != FORMAT:
        raise CheckpointError(f"{source.path}: written in another format than {FORMAT}, by another version of nmt")
    return state


def saved_steps(run: RunDir, resumable: bool = False) -> list[int]:
    """The steps that have a checkpoint, ascending; with `resumable`, only those with the optimizer's state."""
    steps = []
    for path in run.checkpoints.glob("step-*"):
        match = re.fullmatch(r"step-(\d+)", path.name)
        if match and (not resumable or CheckpointDir(path).optimizer.exists()):
            steps.append(int(match[1]))
    return sorted(steps)


def rotate(run: RunDir, keep_last: int, best_step: int | None) -> None:
    """Remove all but the newest `keep_last` checkpoints and the best; only the newest two stay resumable."""
    steps = saved_steps(run)
    for step in steps[:-keep_last]:
        if step != best_step:
            shutil.rmtree(run.step(step).path)
    for step in steps[:-2]:
        run.step(step).optimizer.unlink(missing_ok=True)
    for unfinished in run.checkpoints.glob("*.part"):  # of a save that died
        shutil.rmtree(unfinished)


def steps_to_average(run: RunDir, settings: TrainingConfig, last: int) -> list[int]:
    """The newest `average_last` checkpoints up to step `last`; an old best that was kept alone is none of them."""
    recent = [step for step in saved_steps(run)[-settings.keep_last :] if step <= last]
    return recent[-settings.average_last :] or [last]


def average(run: RunDir, steps: Sequence[int]) -> Tensors:
    """The mean of the weights of several checkpoints, summed in float64. Raises CheckpointError."""
    total: Tensors = {}
    for step in steps:
        for name, tensor in load_weights(run.step(step)).items():
            total[name] = total[name] + tensor.double() if name in total else tensor.double()
    return {name: (tensor / len(steps)).float() for name, tensor in total.items()}


def write_selected(run: RunDir, selected: Mapping[str, Any]) -> None:
    """Write selected.json: `best_step`, `weights` (raw or average) and the `reason`, for people."""
    replace_file(run.selected, json.dumps(selected, indent=1) + "\n")


def read_selected(run: RunDir) -> dict[str, Any]:
    """What `write_selected` wrote, or nothing if there was no validation yet."""
    if not run.selected.exists():
        return {}
    try:
        selected = dict(json.loads(run.selected.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise CheckpointError(
            f"{run.selected}: damaged: {error}; remove it to translate with the last checkpoint"
        ) from error
    return selected


def choose_weights(
    run: RunDir, settings: TrainingConfig, checkpoint: str = "best", weights: str = "auto"
) -> ChosenWeights:
    """The weights that `translate` takes.

    `checkpoint` is best, last or a step; `weights` is raw (as they were at that step), average (of the newest
    `training.average_last` checkpoints up to it) or auto: for the best checkpoint what did better on the
    development set, else raw. Raises CheckpointError.
    """
    steps = saved_steps(run)
    if not steps:
        raise CheckpointError(f"{run.path}: no checkpoint yet; nmt train writes one every training.save_every_steps")
    selected = read_selected(run)
    kind = weights
    if checkpoint == "best":
        # before the first validation there is no best yet
        step, reason = selected.get("best_step", steps[-1]), selected.get("reason", "the last: none is validated yet")
        kind = selected.get("weights", "raw") if weights == "auto" else weights
        if kind == "average" and selected.get("average_steps"):
            newest = selected["average_steps"][-1]
            return ChosenWeights(newest, "average", reason, load_weights(run.average))
        if kind == "average":
            step = steps[-1]
    elif checkpoint == "last":
        step, reason = steps[-1], "the last"
    elif checkpoint.isdigit() and int(checkpoint) in steps:
        step, reason = int(checkpoint), "asked for"
    else:
        known = ", ".join(str(step) for step in steps)
        raise CheckpointError(f"{run.path}: no checkpoint {checkpoint}; there are {known}, best and last")
    if kind == "average":
        last_steps = steps_to_average(run, settings, step)
        reason = f"average of {', '.join(map(str, last_steps))}"
        return ChosenWeights(step, "average", reason, average(run, last_steps))
    return ChosenWeights(step, "raw", reason, load_weights(run.step(step)))


def assign(model: torch.nn.Module, tensors: Mapping[str, Tensor], where: str) -> None:
    """Copy `tensors` into the model's parameters of the same names. Raises CheckpointError if they do not fit."""
    parameters = dict(model.named_parameters())
    if parameters.keys() != tensors.keys():
        odd = ", ".join(sorted(parameters.keys() ^ tensors.keys())[:3])
        raise CheckpointError(f"{where}: the weights are of another model than config.yaml describes ({odd}, …)")
    with torch.no_grad():
        for name, parameter in parameters.items():
            if parameter.shape != tensors[name].shape:
                found, wanted = tuple(tensors[name].shape), tuple(parameter.shape)
                raise CheckpointError(f"{where}: {name} has shape {found}, the model of config.yaml needs {wanted}")
            parameter.copy_(tensors[name])


def optimizer_tensors(optimizer: torch.optim.Optimizer, names: Sequence[str]) -> Tensors:
    """The optimizer's state under the names of its parameters (in the order of its groups)."""
    tensors = {}
    for index, values in optimizer.state_dict()["state"].items():
        for key, value in values.items():
            tensors[f"{names[index]}/{key}"] = torch.as_tensor(value)
    return tensors


def restore_optimizer(optimizer: torch.optim.Optimizer, names: Sequence[str], tensors: Mapping[str, Tensor]) -> None:
    """The reverse of `optimizer_tensors`."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        parameter, _, key = name.rpartition("/")
        state.setdefault(names.index(parameter), {})[key] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def read_info(run: RunDir) -> dict[str, Any]:
    """run.json of a run directory. Raises CheckpointError if it is missing, damaged or of another format."""
    try:
        info = dict(json.loads(run.info.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise CheckpointError(f"{run.path}: not a run directory, run.json is missing") from None
    except (OSError, ValueError, TypeError) as error:
        raise CheckpointError(f"{run.info}: damaged: {error}") from error
    if info.get("format", FORMAT) != FORMAT:
        raise CheckpointError(f"{run.path}: written in format {info['format']}, this version of nmt reads {FORMAT}")
    lacking = {"format", "data_dir", "corpus", "tokenizer", "precision"} - info.keys()
    if lacking:
        raise CheckpointError(f"{run.info}: damaged: it lacks {', '.join(sorted(lacking))}")
    return info


def replace_file(path: Path, text: str) -> None:
    """Write a small text file whole or not at all."""
    temporary = path.with_name(path.name + ".part")
    try:
        _write(temporary, text)
        sync(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _load(source: CheckpointDir, path: Path) -> Tensors:
    _verify(source, path)
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path}: damaged: {error}") from error


def _verify(source: CheckpointDir, path: Path) -> None:
    """Raise CheckpointError unless `path` is there and has the checksum that was written with it."""
    try:
        expected = json.loads(source.checksums.read_text(encoding="utf-8"))[path.name]
        found = _sha256(path)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path}: missing or damaged") from error
    if found != expected:
        raise CheckpointError(f"{path}: damaged, its checksum is not what was written")


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
