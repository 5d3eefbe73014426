"""The small files of a run directory, run.json and selected.json: what they may say. Nothing here imports torch."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError

from nmt.errors import CheckpointError
from nmt.files.read import read_document
from nmt.files.write import replace_file
from nmt.layout import FORMAT, OLD_FORMAT, RunDir


def read_info(run: RunDir) -> dict[str, Any]:
    """run.json of a run directory. Raises CheckpointError if it is missing, damaged or of another format."""
    try:
        info = json.loads(read_document(run.info))
        if not isinstance(info, dict):
            raise ValueError("no JSON object")
    except FileNotFoundError:
        raise CheckpointError(f"{run.path}: not a run directory, run.json is missing") from None
    except OSError as error:
        raise CheckpointError(f"{run.info}: cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, RecursionError) as error:
        raise CheckpointError(f"{run.info}: damaged: {error}") from error
    if info.get("format", FORMAT) not in (OLD_FORMAT, FORMAT):
        raise CheckpointError(f"{run.path}: written in format {info['format']}, this version of nmt reads {FORMAT}")
    lacking = {"format", "data_dir", "corpus", "tokenizer", "precision"} - info.keys()
    if lacking:
        raise CheckpointError(f"{run.info}: damaged: it lacks {', '.join(sorted(lacking))}")
    try:
        _Info.model_validate(info)
    except ValidationError as error:
        key = ".".join(map(str, error.errors()[0]["loc"]))
        raise CheckpointError(f"{run.info}: damaged: {key} is not what it must be") from None
    return info


Weights = Literal["raw", "ema", "average"]
"""Weights as they learn at a step, their exponential moving average then, or the mean of the last checkpoints."""


class _Initial(BaseModel, strict=True):
    """The weights that a run began with."""

    run: str
    step: int
    weights: Weights
    tensors: str


class _Info(BaseModel, strict=True):
    """What run.json may say."""

    data_dir: str
    corpus: str
    tokenizer: str
    precision: Literal["float32", "bf16", "fp16"]
    device: str | None = None
    device_name: str | None = None
    torch: str | None = None
    threads: int | None = None
    processes: int | None = None
    max_tokens: int | None = None
    auto_max_tokens: Annotated[int, Field(ge=2)] | None = None
    launch: str | None = None
    initial: _Initial | None = None


def launch() -> str | None:
    """What tells this call of `torchrun` from all others, however often it restarts its processes."""
    file = os.environ.get("TORCHELASTIC_ERROR_FILE")  # LOGS/LAUNCH/attempt_N/RANK/error.json
    return Path(file).parents[2].name if file else None


def write_selected(run: RunDir, selected: Mapping[str, Any]) -> None:
    """Write selected.json: `best_step`, `weights` and the `reason`, for people; of a run that has ended also the step
    and the setting of `training` that has ended it."""
    replace_file(run.selected, json.dumps(selected, indent=1) + "\n")


class _Selected(BaseModel, strict=True):
    """What selected.json may say."""

    best_step: int | None = None
    weights: Weights = "raw"
    reason: str = ""
    average_steps: list[int] = []
    finished_step: int | None = None
    finished_by: str | None = None


def read_selected(run: RunDir) -> dict[str, Any]:
    """What `write_selected` wrote, or nothing if there was no validation yet."""
    if not run.selected.exists():
        return {}
    try:
        selected = dict(json.loads(read_document(run.selected)))
        _Selected.model_validate(selected)
    except (OSError, ValueError, TypeError, RecursionError) as error:
        what = error.strerror if isinstance(error, OSError) else "not what nmt train writes"
        raise CheckpointError(
            f"{run.selected}: damaged: {what}; remove it to translate with the last checkpoint"
        ) from error
    return selected
