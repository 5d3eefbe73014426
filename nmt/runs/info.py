"""The small files of a run directory, run.json and selected.json. Nothing here imports torch."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from nmt.errors import CheckpointError
from nmt.files.document import Document, document_text, read_document
from nmt.files.write import replace_file
from nmt.layout import OLD_RUN_FORMAT, RUN_FORMAT, RunDir, hub_note

Weights = Literal["raw", "ema", "average"]
"""The weights as trained, their exponential moving average (EMA), or the mean of the last checkpoints."""
Precision = Literal["float32", "bf16", "fp16"]
"""Number format of the matrix products."""


class InitialWeights(Document):
    """The weights that `training.init_from` started a run with."""

    run: str
    """Its path; of several runs, each after the stack that it fills. Step and weights are those of the first."""
    step: int
    weights: Weights
    tensors: str
    """Their fingerprint."""


class RunInfo(Document):
    """run.json: the data and the tokenizer of a run, the machine, and what was chosen automatically on it.

    Runs of earlier versions lack some of the optional keys.
    """

    format: int
    data_dir: str
    corpus: str
    """The fingerprint of the data directory."""
    tokenizer: str
    """The fingerprint of the tokenizer."""
    precision: Precision
    device: str | None = None
    """cpu or cuda."""
    device_name: str | None = None
    nmt: str | None = None
    """The version and the commit of nmt."""
    torch: str | None = None
    """The version of PyTorch."""
    threads: int | None = None
    """CPU threads of each process, with which updates are computed."""
    processes: int | None = None
    float32_library: str | None = None
    """The library that computes float32 matrix products on the CPU."""
    layout: str | None = None
    """The layout of batches: padded or packed."""
    compiled: bool | None = None
    """Whether the model is compiled."""
    auto_max_tokens: Annotated[int, Field(ge=2)] | None = None
    """`max_tokens`, if `training.max_tokens` is auto."""
    max_tokens: int | None = None
    """Padded tokens of a micro-batch."""
    glossary: str | None = None
    """The fingerprint of `training.modifiers.glossary`."""
    initial: InitialWeights | None = None
    launch: str | None = None
    """Id of the torchrun launch, see `launch`."""


class Selected(Document):
    """selected.json: the weights that `nmt translate` uses by default."""

    best_step: int | None = None
    """The checkpoint with the best validation score."""
    weights: Weights = "raw"
    reason: str = "last checkpoint: none is validated yet"
    """Why these weights were selected, as text for the user."""
    average_steps: list[int] = Field(default_factory=list)
    """The checkpoints that were averaged at the end of the run."""
    finished_step: int | None = None
    """The last step of a finished run."""
    finished_by: str | None = None
    """The setting of `training` that ended the run."""


def check_is_run(path: Path) -> None:
    """Raise CheckpointError if there is no run directory."""
    if not RunDir(path).config.is_file():
        note = hub_note(path)
        raise CheckpointError(f"{path}: not a run directory, it has no config.yaml; make one with nmt train{note}")


def read_info(run: RunDir) -> RunInfo:
    """Read run.json. Raises CheckpointError if it is missing, damaged or of another format."""
    try:
        return read_document(run.info, RunInfo, CheckpointError, formats=(OLD_RUN_FORMAT, RUN_FORMAT))
    except FileNotFoundError:
        raise CheckpointError(f"{run.path}: not a run directory, run.json is missing") from None


def write_info(run: RunDir, info: RunInfo) -> None:
    """Write run.json. Raises OSError."""
    replace_file(run.info, document_text(info))


def read_selected(run: RunDir) -> Selected:
    """Read selected.json; the defaults if there was no validation yet. Raises CheckpointError if it is damaged."""
    advice = "; remove it to translate with the last checkpoint"
    try:
        return read_document(run.selected, Selected, CheckpointError, advice)
    except FileNotFoundError:
        return Selected()


def write_selected(run: RunDir, selected: Selected) -> None:
    """Write selected.json. Raises OSError."""
    replace_file(run.selected, document_text(selected))


def launch() -> str | None:
    """Return the id shared by all restarts of one `torchrun` launch; None without torchrun."""
    file = os.environ.get("TORCHELASTIC_ERROR_FILE")  # LOGS/LAUNCH/attempt_N/RANK/error.json
    return Path(file).parents[2].name if file else None
