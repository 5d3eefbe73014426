"""Checkpoints: written whole or not at all, verified before use.

Weights and optimizer are safetensors and the rest is JSON, so that loading never executes code. state.json is the seal:
it holds the checksums of the other files and its own, and is written last.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import AfterValidator, Field, TypeAdapter, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from nmt.errors import CheckpointError
from nmt.files.read import read_document, read_tensors, refuse_links, remove_tree
from nmt.files.write import replace_file, sync, write_file
from nmt.layout import FORMAT, OLD_FORMAT, CheckpointDir, RunDir
from nmt.runs.info import Weights

NAMES_BYTES = 1 << 17  # more than the names and shapes of a checkpoint's tensors and its state take
Tensors = dict[str, Tensor]
Count = Annotated[int, Field(ge=0, lt=1 << 53)]
Seconds = Annotated[float, Field(ge=0, lt=1e12)]
COUNTED = (torch.float64, torch.int64, torch.bool)  # single numbers, of schedule-free AdamW


def _whole(tally: dict[str, float]) -> dict[str, float]:
    """What the next record divides by is there, and all of its sums are, or none."""
    sums, divisors = ("loss", "nll", "n_correct", "norm", "n_real"), ("n_updates", "n_tokens", "n_slots")
    if not tally.keys() <= {"seconds"} and not (
        tally.keys() >= {*sums, *divisors, "seconds"} and all(1 <= tally[name] < 1e15 for name in divisors)
    ):
        raise ValueError(tally)
    return tally


@dataclass
class TrainState:
    """What a resumed run needs besides weights and optimizer; everything else is a function of it."""

    step: Count = 0
    """Updates that are done, those that changed nothing included."""
    epoch: Count = 0
    update_in_epoch: Count = 0
    """Updates of this epoch that are done."""
    n_tokens: Count = 0
    """Target tokens that were learned from."""
    seconds: Seconds = 0.0
    """Time that was spent over all resumes."""
    n_skipped: Count = 0
    """Updates that changed nothing, because their loss or gradient was not finite."""
    skipped_in_a_row: Count = 0
    n_out_of_memory: Count = 0
    """How often memory did not suffice."""
    best_score: float | None = None
    best_step: Count | None = None
    best_weights: Weights = "raw"
    """Of the best validation: those that learn (raw) or their moving average (ema)."""
    checks_since_best: Count = 0
    last_check: Count = 0
    """The step of the last validation."""
    cooldown_start: Count | None = None
    cooldown_end: Count | None = None
    """Between these steps the learning rate falls to 0, once they are fixed."""
    cooldown_by: str | None = None
    """The setting of `training` that has fixed them; runs of earlier versions do not say."""
    cooldown_limits: list[float | None] = field(default_factory=list)
    """All limits of the run when they were fixed."""
    recent_loss: float | None = None
    lowest_loss: float | None = None
    loss_is_high: bool = False
    """What a rising loss is held against, and whether it was told."""
    tally: Annotated[dict[str, float], AfterValidator(_whole)] = field(default_factory=dict)
    """What the next record of the log adds up."""
    log_bytes: Count = 0
    """The length of log.jsonl."""
    log_waiting: list[str] = field(default_factory=list)
    """Lines that it should have, but that a full disk has not taken."""
    scaler: dict[str, Any] = field(default_factory=dict)
    """The loss scaler's state, with fp16."""
    is_extra: bool = False
    """Whether this checkpoint is none of the row that is made in any case: that of a stop, or a best that is older than
    the row and is kept alone."""

    @property
    def cooldown(self) -> tuple[int, int] | None:
        """The first and the last step of the cool-down, once they are fixed."""
        if self.cooldown_start is None or self.cooldown_end is None:
            return None
        return self.cooldown_start, self.cooldown_end

    @classmethod
    def of(cls, values: Mapping[str, Any], where: str) -> TrainState:
        """The state that `values` hold. Raises CheckpointError if they are those of another version, or such as no
        training has."""
        try:
            state = cls(**values)
            _STATE.validate_json(json.dumps(values), strict=True)
        except TypeError as error:
            raise CheckpointError(f"{where}: written by another version of nmt: {error}") from error
        except ValidationError as error:
            key = ".".join(map(str, error.errors()[0]["loc"]))
            raise CheckpointError(f"{where}: damaged: {key} of its state is not what it must be") from None
        return state


_STATE = TypeAdapter(TrainState)


def save_checkpoint(
    target: CheckpointDir,
    weights: Mapping[str, Tensor],
    optimizer: Tensors | None,
    state: Mapping[str, Any],
    ema: Tensors | None = None,
) -> None:
    """Write a checkpoint under a temporary name, sync it, and rename it into place, replacing one of that name.

    Raises OSError if it cannot be written, UnsafeFileError if the directory above is a link; what was there is then
    still there.
    """
    part = CheckpointDir(target.path.with_name(target.path.name + ".part"))
    refuse_links([target.path.parent])
    try:
        remove_tree(part.path)
        part.path.mkdir(parents=True)
        checksums = {}
        for path, tensors in ((part.weights, weights), (part.ema, ema), (part.optimizer, optimizer)):
            if tensors is not None:
                data = save({name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()})
                checksums[path.name] = hashlib.sha256(data).hexdigest()
                write_file(path, data)
        write_file(part.state, _sealed(checksums, state).encode())
        sync(part.path)
        remove_tree(target.path)
        part.path.rename(target.path)
        sync(target.path.parent)
    except OSError:
        shutil.rmtree(part.path, ignore_errors=True)
        raise


def update_state(target: CheckpointDir, state: Mapping[str, Any]) -> None:
    """Replace the state of a checkpoint whose tensors stay. Raises OSError or CheckpointError."""
    replace_file(target.state, _sealed(_read_seal(target)["checksums"], state), may_follow=False)


def load_weights(source: CheckpointDir) -> Tensors:
    """The verified weights of a checkpoint. Raises CheckpointError."""
    return _load(source, source.weights.name)


def load_ema(source: CheckpointDir) -> Tensors:
    """The verified moving average of the weights of a checkpoint. Raises CheckpointError, also if it has none."""
    if not source.ema.is_file() and source.ema.name not in _read_seal(source)["checksums"]:
        raise CheckpointError(f"{source.path}: trained without a moving average (training.ema)")
    return _load(source, source.ema.name)


def load_optimizer(source: CheckpointDir) -> Tensors:
    """The verified optimizer state of a checkpoint. Raises CheckpointError."""
    return _load(source, source.optimizer.name)


def load_state(source: CheckpointDir) -> dict[str, Any]:
    """The verified state of a checkpoint. Raises CheckpointError."""
    seal = _read_seal(source)
    if seal["format"] != FORMAT:
        raise CheckpointError(f"{source.path}: written in format {seal['format']}, which translates but cannot go on")
    return dict(seal["state"])


def saved_steps(run: RunDir) -> list[int]:
    """The steps that have a checkpoint, ascending; the newest two have the optimizer's state, too."""
    steps = []
    for path in run.checkpoints.glob("step-*"):
        match = re.fullmatch(r"step-(\d+)", path.name)
        if match:
            steps.append(int(match[1]))
    return sorted(steps)


def recent_steps(run: RunDir, step: int) -> list[int]:
    """The checkpoints up to `step`, ascending, without those of stops and a best that is kept although it is old."""
    return [each for each in saved_steps(run) if each == step or (each < step and not _is_extra(run.step(each)))]


def _is_extra(source: CheckpointDir) -> bool:
    try:
        return bool(load_state(source).get("is_extra"))
    except CheckpointError:
        return False


def most_bytes(n_parameters: int, keep_last: int, has_ema: bool, n_moments: int = 2) -> int:
    """The most that the checkpoints of a run take at any time.

    Weights are float32: `keep_last` newest, the best, the average and one being written, all but the average with a
    moving average as large if there is one; the optimizer has `n_moments` times as much (Adam two) for two of them
    and for the one being written.
    """
    n_ema = keep_last + 2 if has_ema else 0
    return 4 * n_parameters * (keep_last + 3 + n_ema + n_moments * 3) + NAMES_BYTES * (keep_last + 3 + n_ema)


def check_fit(model: torch.nn.Module, tensors: Mapping[str, Tensor], where: str) -> None:
    """Raise CheckpointError unless `tensors` have the names and shapes of the model's parameters."""
    parameters = dict(model.named_parameters())
    if parameters.keys() != tensors.keys():
        odd = ", ".join(sorted(parameters.keys() ^ tensors.keys())[:3])
        raise CheckpointError(f"{where}: the weights are of another model than config.yaml describes ({odd}, …)")
    for name, parameter in parameters.items():
        if parameter.shape != tensors[name].shape:
            found, wanted = tuple(tensors[name].shape), tuple(parameter.shape)
            raise CheckpointError(f"{where}: {name} has shape {found}, the model of config.yaml needs {wanted}")


def assign(model: torch.nn.Module, tensors: Mapping[str, Tensor], where: str) -> None:
    """Copy `tensors` into the model's parameters of the same names. Raises CheckpointError if they do not fit."""
    check_fit(model, tensors, where)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(tensors[name])


def optimizer_tensors(optimizer: torch.optim.Optimizer, names: Sequence[str]) -> Tensors:
    """The optimizer's state under the names of its parameters (in the order of its groups)."""
    tensors = {}
    for index, values in optimizer.state_dict()["state"].items():
        for key, value in values.items():
            tensors[f"{names[index]}/{key}"] = torch.as_tensor(value)
    return tensors


def check_optimizer(
    optimizer: torch.optim.Optimizer, names: Sequence[str], tensors: Mapping[str, Tensor], where: str
) -> None:
    """Raise CheckpointError unless `tensors` are the whole state of such an optimizer, see `optimizer_tensors`."""
    shapes = {name: parameter.shape for name, parameter in zip(names, _parameters(optimizer), strict=True)}
    for name, tensor in tensors.items():
        parameter = name.rpartition("/")[0]
        if (tensor.dim() and tensor.shape != shapes.get(parameter)) or parameter not in shapes:
            raise CheckpointError(f"{where}: {name} {tuple(tensor.shape)} belongs to the optimizer of another model")
    lacking = len(shapes.keys() - {name.rpartition("/")[0] for name in tensors})
    if lacking:
        raise CheckpointError(f"{where}: the optimizer's state lacks {lacking} parameters")


def restore_optimizer(
    optimizer: torch.optim.Optimizer, names: Sequence[str], tensors: Mapping[str, Tensor], where: str
) -> None:
    """The reverse of `optimizer_tensors`. Raises CheckpointError, with nothing changed, if they do not fit."""
    check_optimizer(optimizer, names, tensors, where)
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        parameter, _, key = name.rpartition("/")
        state.setdefault(names.index(parameter), {})[key] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _parameters(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _sealed(checksums: Mapping[str, str], state: Mapping[str, Any]) -> str:
    """The text of state.json."""
    content = {"format": FORMAT, "checksums": dict(checksums), "state": dict(state)}
    return json.dumps({**content, "seal": _digest(content)}, indent=1) + "\n"


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _read_seal(source: CheckpointDir) -> dict[str, Any]:
    """`format`, `checksums` and `state` of a checkpoint. Raises CheckpointError unless they are what was written."""
    try:
        if source.old_checksums.exists():
            checksums = dict(json.loads(read_document(source.old_checksums)))
            return {"format": OLD_FORMAT, "checksums": checksums, "state": {}}
        content = json.loads(read_document(source.state))
        seal, number = content.pop("seal"), content["format"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{source.state}: missing or damaged") from error
    if number != FORMAT:
        raise CheckpointError(f"{source.path}: written in format {number}, this version of nmt reads {FORMAT}")
    if seal != _digest(content):
        raise CheckpointError(f"{source.state}: damaged, its checksum is not what was written")
    for key in ("checksums", "state"):
        if not isinstance(content.get(key), dict):
            raise CheckpointError(f"{source.state}: damaged: {key} is not what it must be")
    return dict(content)


def _load(source: CheckpointDir, name: str) -> Tensors:
    """The tensors of one file, from the very bytes whose checksum was verified."""
    path = source.path / name
    checksums = _read_seal(source)["checksums"]
    try:
        expected, data = checksums[name], read_tensors(path)
    except (OSError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path}: missing or damaged") from error
    if hashlib.sha256(data).hexdigest() != expected:
        raise CheckpointError(f"{path}: damaged, its checksum is not what was written")
    return parse_tensors(data, path)


def parse_tensors(data: bytes, path: Path) -> Tensors:
    """The tensors that the bytes of a safetensors file hold, by name. Raises CheckpointError, which names the file,
    unless they have the number types that `nmt` writes: float32, and for what an optimizer counts also others."""
    try:
        tensors = load(data)
    except KeyError as error:  # a number type that PyTorch has not, or the reader does not know yet
        raise CheckpointError(f"{path}: damaged: it holds numbers of type {error.args[0]}, not F32") from error
    except (SafetensorError, AssertionError, RuntimeError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: damaged: {error}") from error
    for name, tensor in tensors.items():
        if tensor.dtype != torch.float32 and not (tensor.dim() == 0 and tensor.dtype in COUNTED):
            found = str(tensor.dtype).removeprefix("torch.")
            raise CheckpointError(f"{path}: damaged: {name} holds numbers of type {found}, not float32")
    return tensors
