"""The file state.json of a checkpoint: the training state except tensors, and the checksums of the other files.

It is sealed and written last, so that it verifies the checkpoint. Nothing here imports torch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

from pydantic import Field, RootModel, TypeAdapter, ValidationError

from nmt.errors import CheckpointError
from nmt.files.document import Sealed, read_document, sealed_text
from nmt.files.write import replace_file
from nmt.layout import OLD_RUN_FORMAT, RUN_FORMAT, CheckpointDir, RunDir
from nmt.runs.info import Weights

Count = Annotated[int, Field(ge=0, lt=1 << 53)]
Seconds = Annotated[float, Field(ge=0, lt=1e12)]


class CheckpointDocument(Sealed):
    """The content of state.json. `state` is not validated yet, since an average has other keys than `TrainState`."""

    checksums: dict[str, str]
    """SHA-256 of the other files, by name."""
    state: dict[str, Any]


@dataclass
class TrainState:
    """The state that a resumed run needs in addition to the weights and the optimizer state."""

    step: Count = 0
    """The number of updates so far, including skipped ones."""
    epoch: Count = 0
    window: Count = 0
    """The current window of the epoch; see `nmt.data.windows`."""
    update_in_epoch: Count = 0
    """The number of updates of this window so far."""
    mixed_lengths: bool = False
    """Whether the pairs of an update have mixed lengths; in earlier versions, they had similar lengths."""
    stage: Count = 0
    """The current stage of `training.stages`."""
    stage_step: Count = 0
    """The step at which the stage began."""
    stage_pairs: Count = 0
    """The number of pairs drawn before the stage."""
    drawn: list[Count] = field(default_factory=list)
    """The number of pairs drawn before the stage from each corpus; empty in the first stage."""
    n_tokens: Count = 0
    """The number of target tokens so far, before training.modifiers."""
    seconds: Seconds = 0.0
    """The time of the command, summed over resumes."""
    update_seconds: Seconds = 0.0
    paused_seconds: Seconds = 0.0
    """The parts of `seconds` for updates, and for validations and checkpoints."""
    check_seconds: Seconds = 0.0
    last_check_seconds: Seconds = 0.0
    """How long all validations, and the last one, took, each with its checkpoint."""
    cpu_seconds: Seconds = 0.0
    """The CPU time of updates, without validations and checkpoints, of all threads and processes, summed over
    resumes."""
    n_skipped: Count = 0
    """The number of updates skipped because their loss or gradient was not finite."""
    skipped_in_a_row: Count = 0
    n_out_of_memory: Count = 0
    """The number of times that an update ran out of memory."""
    best_score: float | None = None
    best_step: Count | None = None
    best_weights: Weights = "raw"
    """The weights of the best validation: raw or ema."""
    checks_since_best: Count = 0
    last_check: Count = 0
    """The step of the last validation."""
    cooldown_start: Count | None = None
    cooldown_end: Count | None = None
    """The learning rate falls to 0 between these steps, once they are fixed."""
    cooldown_by: str | None = None
    """The setting of `training` that determined these steps; None in runs of earlier versions."""
    cooldown_limits: list[float | None] = field(default_factory=list)
    """The limits of the run when these steps were fixed."""
    start_score: float | None = None
    """The score of the weights that the run started with, if they were validated."""
    watched_start: dict[str, float] = field(default_factory=dict)
    """The BLEU of each test set of `training.watch` at step 0."""
    recent_loss: float | None = None
    lowest_loss: float | None = None
    loss_is_high: bool = False
    """The reference values for the warning of a rising loss, and whether the loss was high at the last record."""
    tally: dict[str, float] = field(default_factory=dict)
    """The running sums of the next log record."""
    log_bytes: Count = 0
    """The length of log.jsonl at this step, in bytes."""
    log_waiting: list[str] = field(default_factory=list)
    """Lines not yet written to log.jsonl because the disk was full."""
    scaler: dict[str, Any] = field(default_factory=dict)
    """The state of the gradient scaler, with fp16."""
    is_extra: bool = False
    """Whether this checkpoint is outside the regular schedule: written by a stop, or kept only as the best one."""

    @property
    def cooldown(self) -> tuple[int, int] | None:
        """The first and the last step of the cool-down, once they are fixed."""
        if self.cooldown_start is None or self.cooldown_end is None:
            return None
        return self.cooldown_start, self.cooldown_end


_STATE = TypeAdapter(TrainState)
_CHECKSUMS = RootModel[dict[str, str]]


def read_seal(source: CheckpointDir) -> CheckpointDocument:
    """Read state.json. Raises CheckpointError if it is missing, damaged or has another format."""
    with suppress(FileNotFoundError):
        checksums = read_document(source.old_checksums, _CHECKSUMS, CheckpointError).root
        return CheckpointDocument(format=OLD_RUN_FORMAT, seal="", checksums=checksums, state={})
    return read_document(
        source.state, CheckpointDocument, CheckpointError, "", (RUN_FORMAT,), f"{source.state}: missing"
    )


def saved_steps(run: RunDir) -> list[int]:
    """Return the steps that have a checkpoint, in ascending order. Only the newest two have the optimizer state."""
    matches = (re.fullmatch(r"step-(\d+)", path.name) for path in run.checkpoints.glob("step-*"))
    return sorted(int(match[1]) for match in matches if match)


def load_state(source: CheckpointDir) -> TrainState:
    """Load the verified state of a checkpoint.

    Raises CheckpointError if it is damaged, has invalid values, or is from another version.
    """
    document = read_seal(source)
    if document.format != RUN_FORMAT:
        raise CheckpointError(
            f"{source.path}: written in format {document.format}; it can be used to translate, but not to resume"
        )
    unknown = sorted(document.state.keys() - TrainState.__dataclass_fields__.keys())
    if unknown:
        raise CheckpointError(f"{source.path}: written by another version of nmt: unknown {', '.join(unknown)}")
    try:
        _STATE.validate_json(json.dumps(document.state), strict=True)
    except ValidationError as error:
        key = ".".join(map(str, error.errors()[0]["loc"]))
        raise CheckpointError(f"{source.state}: damaged: state.{key} has an invalid value") from None
    return TrainState(**document.state)  # not the validated copy, in which integers may have become floats


def update_state(target: CheckpointDir, state: TrainState) -> None:
    """Replace the state of a checkpoint, but not its tensors. Raises OSError or CheckpointError."""
    replace_file(target.state, state_text(read_seal(target).checksums, asdict(state)), may_follow=False)


def state_text(checksums: Mapping[str, str], state: Mapping[str, object]) -> str:
    """Return the content of state.json."""
    return sealed_text({"format": RUN_FORMAT, "checksums": dict(checksums), "state": dict(state)})
