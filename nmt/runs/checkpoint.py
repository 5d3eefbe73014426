"""Checkpoints, which are written atomically and verified before use.

Weights and optimizer state are safetensors and the rest is JSON, so loading never executes code. state.json has the
checksums of the other files and is written last; see `nmt.runs.state`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from nmt.errors import CheckpointError
from nmt.files.read import read_regular
from nmt.files.write import refuse_links, staged, write_file
from nmt.layout import CheckpointDir, RunDir
from nmt.runs.info import Weights, check_selected, read_selected
from nmt.runs.state import load_state, read_seal, saved_steps, state_text

NAMES_BYTES = 1 << 17  # upper bound of the safetensors headers and state.json of a checkpoint
Tensors = dict[str, Tensor]


def save_checkpoint(
    target: CheckpointDir,
    weights: Mapping[str, Tensor],
    optimizer: Tensors | None,
    state: Mapping[str, object],
    ema: Tensors | None = None,
) -> None:
    """Write a checkpoint, or replace an older one, atomically.

    If it fails, the older one is kept. Raises OSError, and UnsafeFileError if the parent directory is a symbolic link.
    """
    refuse_links([target.path.parent])
    with staged(target.path, is_directory=True) as path:
        part = CheckpointDir(path)
        checksums = {}
        for file, tensors in ((part.weights, weights), (part.ema, ema), (part.optimizer, optimizer)):
            if tensors is not None:
                checksums[file.name] = save_tensors(file, tensors)
        write_file(part.state, state_text(checksums, state).encode())


_NAMES = {torch.float32: "F32", torch.float64: "F64", torch.int64: "I64"}


def save_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> str:
    """Write a safetensors file, and return its SHA-256. Raises OSError.

    Unlike the library, this needs no copy of the tensors in memory, and its writes can be interrupted and tested.
    """
    by_name = {name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}
    names = sorted(by_name, key=lambda name: (-by_name[name].itemsize, name))  # so that all are aligned
    header = dict[str, object]()
    end = 0
    if metadata is not None:
        header["__metadata__"] = metadata
    for name in names:
        start = end
        end += by_name[name].nbytes
        dtype = _NAMES[by_name[name].dtype]
        header[name] = {"dtype": dtype, "shape": list(by_name[name].shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    parts: list[bytes | memoryview] = [len(text).to_bytes(8, "little") + text]
    parts += [by_name[name].reshape(-1).numpy().view("u1").data for name in names]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    write_file(path, *parts)
    return digest.hexdigest()


def load_weights(source: CheckpointDir) -> Tensors:
    """Load the verified weights of a checkpoint. Raises CheckpointError."""
    return _load(source, source.weights.name)


def load_ema(source: CheckpointDir) -> Tensors:
    """Load the verified moving average of a checkpoint. Raises CheckpointError if it is damaged or there is none."""
    if not source.ema.is_file() and source.ema.name not in read_seal(source).checksums:
        raise CheckpointError(f"{source.path}: trained without a moving average (training.ema)")
    return _load(source, source.ema.name)


def load_optimizer(source: CheckpointDir) -> Tensors:
    """Load the verified optimizer state of a checkpoint. Raises CheckpointError."""
    return _load(source, source.optimizer.name)


def recent_steps(run: RunDir, step: int) -> list[int]:
    """Return the steps of regular checkpoints up to `step`, and `step` itself, in ascending order."""
    return [saved for saved in saved_steps(run) if saved == step or (saved < step and not _is_extra(run.step(saved)))]


def _is_extra(source: CheckpointDir) -> bool:
    try:
        return load_state(source).is_extra
    except CheckpointError:
        return False


def most_bytes(n_parameters: int, keep_last: int, has_ema: bool) -> int:
    """Return an upper bound on the disk space that the checkpoints of a run occupy at any time, in bytes.

    Float32 weights are stored for the `keep_last` newest checkpoints, the best, the average, and the one being written;
    all except the average also have the moving average, if there is one. The optimizer state is twice as large and
    stored for the newest two and the one being written.
    """
    n_ema = keep_last + 2 if has_ema else 0
    return 4 * n_parameters * (keep_last + 3 + n_ema + 2 * 3) + NAMES_BYTES * (keep_last + 3 + n_ema)


def check_fit(model: torch.nn.Module, tensors: Mapping[str, Tensor], where: str) -> None:
    """Raise CheckpointError unless `tensors` have the names and shapes of the model's parameters."""
    parameters = dict(model.named_parameters())
    if parameters.keys() != tensors.keys():
        names = ", ".join(sorted(parameters.keys() ^ tensors.keys())[:3])
        raise CheckpointError(f"{where}: the weights do not match the model in config.yaml ({names}, …)")
    for name, parameter in parameters.items():
        if parameter.shape != tensors[name].shape:
            shape = tuple(tensors[name].shape)
            expected = tuple(parameter.shape)
            raise CheckpointError(f"{where}: {name} has shape {shape}, the model of config.yaml needs {expected}")


def assign(model: torch.nn.Module, tensors: Mapping[str, Tensor], where: str) -> None:
    """Copy `tensors` into the model's parameters of the same names. Raises CheckpointError if they do not fit."""
    check_fit(model, tensors, where)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(tensors[name])


def optimizer_tensors(optimizer: torch.optim.Optimizer, names: Sequence[str]) -> Tensors:
    """Return the tensors of the state of an optimizer by name, `PARAMETER/KEY`. `names` are parameter names in the
    order of its groups."""
    tensors = {}
    for name, values in zip(names, _state(optimizer), strict=True):
        for key, value in values.items():
            tensors[f"{name}/{key}"] = torch.as_tensor(value)
    return tensors


def check_optimizer(
    optimizer: torch.optim.Optimizer, names: Sequence[str], tensors: Mapping[str, Tensor], where: str
) -> None:
    """Raise CheckpointError unless `tensors` are a complete state of this optimizer; see `optimizer_tensors`."""
    shapes = {name: parameter.shape for name, parameter in zip(names, _parameters(optimizer), strict=True)}
    for name, tensor in tensors.items():
        parameter = name.rpartition("/")[0]
        if (tensor.dim() and tensor.shape != shapes.get(parameter)) or parameter not in shapes:
            raise CheckpointError(f"{where}: {name} {tuple(tensor.shape)} is not from an optimizer of this model")
    lacking = len(shapes.keys() - {name.rpartition("/")[0] for name in tensors})
    if lacking:
        raise CheckpointError(f"{where}: the state of the optimizer lacks {lacking} parameters")


def restore_optimizer(
    optimizer: torch.optim.Optimizer, names: Sequence[str], tensors: Mapping[str, Tensor], where: str
) -> None:
    """Load tensors saved by `optimizer_tensors` into an optimizer. Raises CheckpointError, and changes nothing, if they
    do not fit."""
    check_optimizer(optimizer, names, tensors, where)
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        parameter, _, key = name.rpartition("/")
        state.setdefault(names.index(parameter), {})[key] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _state(optimizer: torch.optim.Optimizer) -> list[dict[str, Tensor]]:
    """Return the state of each parameter, in the order of the optimizer's groups."""
    # not by state_dict, whose first call takes more than a second to import PyTorch's compiler
    return [optimizer.state.get(parameter, {}) for parameter in _parameters(optimizer)]


def _parameters(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _load(source: CheckpointDir, name: str) -> Tensors:
    """Load the tensors of one file, after verifying its checksum."""
    return parse_tensors(read_verified(source.path, name, read_seal(source).checksums), source.path / name)


def read_verified(folder: Path, name: str, checksums: Mapping[str, str]) -> bytes:
    """Read a file and verify its checksum. Raises CheckpointError if it is missing, unsafe or damaged."""
    path = folder / name
    try:
        expected = checksums[name]
        data = read_regular(path)
    except (OSError, KeyError, ValueError) as error:  # ValueError: an invalid file name
        raise CheckpointError(f"{path}: missing or damaged") from error
    if hashlib.sha256(data).hexdigest() != expected:
        raise CheckpointError(f"{path}: damaged: its checksum does not match")
    return data


def parse_tensors(data: bytes, path: Path) -> Tensors:
    """Parse the bytes of a safetensors file. Raises CheckpointError, which names `path`, unless they are float32."""
    try:
        tensors = load(data)
    except KeyError as error:  # a number type that PyTorch or its safetensors reader does not know
        raise CheckpointError(f"{path}: damaged: it contains numbers of type {error.args[0]}, not F32") from error
    except (SafetensorError, AssertionError, RuntimeError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: damaged: {error}") from error
    for name, tensor in tensors.items():
        if tensor.dtype != torch.float32:
            dtype = str(tensor.dtype).removeprefix("torch.")
            raise CheckpointError(f"{path}: damaged: {name} contains numbers of type {dtype}, not float32")
    return tensors


@dataclass(frozen=True)
class ChosenWeights:
    """The chosen weights of a run, and the reason for the choice."""

    step: int
    kind: Weights
    reason: str
    tensors: Tensors
    averaged: tuple[int, ...] = ()
    """The steps of the averaged checkpoints, if the weights are an average; see `Selected`."""

    @property
    def identity(self) -> tuple[int, Weights, list[int]]:
        """The step, the kind and the averaged steps."""
        return self.step, self.kind, [*self.averaged]


def steps_to_average(run: RunDir, average_last: int, last: int) -> list[int]:
    """Return the steps of the newest `average_last` regular checkpoints up to step `last`."""
    return recent_steps(run, last)[-average_last:] or [last]


def average(run: RunDir, steps: Sequence[int]) -> Tensors:
    """Return the average weights of several checkpoints, accumulated in float64. Raises CheckpointError."""
    total: Tensors = {}
    for step in steps:
        for name, tensor in load_weights(run.step(step)).items():
            if name in total:
                total[name] = total[name] + tensor.double()
            else:
                total[name] = tensor.double()
    return {name: (tensor / len(steps)).float() for name, tensor in total.items()}


def choose_weights(run: RunDir, average_last: int, checkpoint: str = "best", weights: str = "auto") -> ChosenWeights:
    """Load the chosen weights of a run.

    Args:
        checkpoint: best, last, or a step.
        weights: raw (as trained), ema (moving average), average (of the newest `average_last` checkpoints up
            to that step), or auto: with checkpoint best the kind that scored best on the development set, else raw.

    Raises CheckpointError.
    """
    steps = saved_steps(run)
    if not steps:
        raise CheckpointError(f"{run.path}: no checkpoint yet; nmt train writes one every training.save_every_steps")
    selected = read_selected(run)
    kind = weights
    if checkpoint == "best":
        # before the first validation, or if a resumed run found the best one missing, none is selected
        step = selected.best_step or steps[-1]
        reason = selected.reason
        kind = selected.weights if weights == "auto" else weights
        check_selected(run, selected, kind)
        if kind != selected.weights:
            reason = f"{kind} weights requested"
        if kind == "average" and selected.average_steps:
            newest = selected.average_steps[-1]
            return ChosenWeights(newest, "average", reason, load_weights(run.average), tuple(selected.average_steps))
        if kind == "average":
            step = steps[-1]
    elif checkpoint == "last":
        step = steps[-1]
        reason = "last checkpoint"
    elif checkpoint.isdigit() and int(checkpoint) in steps:
        step = int(checkpoint)
        reason = "requested"
    else:
        known = ", ".join(str(step) for step in steps)
        raise CheckpointError(f"{run.path}: no checkpoint {checkpoint}; choose {known}, best or last")
    if kind == "average":
        last_steps = steps_to_average(run, average_last, step)
        reason = f"average of the checkpoints at steps {', '.join(map(str, last_steps))}"
        return ChosenWeights(step, "average", reason, average(run, last_steps), tuple(last_steps))
    if kind == "ema":
        return ChosenWeights(step, "ema", reason, load_ema(run.step(step)))
    return ChosenWeights(step, "raw", reason, load_weights(run.step(step)))
