"""state.json of a checkpoint: the state of training besides weights and optimizer, and the checksums of their files.

It is sealed and written last, so a checkpoint is verified by it. Nothing here imports torch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

from pydantic import AfterValidator, Field, RootModel, TypeAdapter, ValidationError

from nmt.errors import CheckpointError
from nmt.files.document import Sealed, read_document, sealed_text
from nmt.files.write import replace_file
from nmt.layout import OLD_RUN_FORMAT, RUN_FORMAT, CheckpointDir
from nmt.runs.info import Weights

Count = Annotated[int, Field(ge=0, lt=1 << 53)]
Seconds = Annotated[float, Field(ge=0, lt=1e12)]


class CheckpointDocument(Sealed):
    """state.json of a checkpoint; its state is not validated yet, because that of an average is no `TrainState`."""

    checksums: dict[str, str]
    """SHA-256 of the other files, by name."""
    state: dict[str, Any]


def _whole(tally: dict[str, float]) -> dict[str, float]:
    """Check that a tally is empty, or has every sum of the next log record with a positive count to divide it
    by. Raises ValueError."""
    sums, divisors = ("loss", "nll", "n_correct", "norm", "n_real"), ("n_updates", "n_tokens", "n_slots")
    if not tally.keys() <= {"seconds"} and not (
        tally.keys() >= {*sums, *divisors, "seconds"} and all(1 <= tally[name] < 1e15 for name in divisors)
    ):
        raise ValueError(tally)
    return tally


@dataclass
class TrainState:
    """The state that a resumed run needs besides weights and optimizer state."""

    step: Count = 0
    """Updates so far, skipped ones included."""
    epoch: Count = 0
    window: Count = 0
    """The window of the epoch, see `nmt.data.windows`; a small training set has one."""
    update_in_epoch: Count = 0
    """Updates of this window so far."""
    stage: Count = 0
    """The stage of `training.stages`."""
    stage_step: Count = 0
    """The step at which it began."""
    stage_pairs: Count = 0
    """Pairs drawn before it."""
    drawn: list[Count] = field(default_factory=list)
    """The same by corpus; empty in the first stage."""
    n_tokens: Count = 0
    """Target tokens trained on so far, as they are before training.modifiers."""
    seconds: Seconds = 0.0
    """Training time, summed over resumes."""
    n_skipped: Count = 0
    """Updates skipped because their loss or gradient was not finite."""
    skipped_in_a_row: Count = 0
    n_out_of_memory: Count = 0
    """How often an update ran out of memory."""
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
    """The setting of `training` that fixed them; None in runs of earlier versions."""
    cooldown_limits: list[float | None] = field(default_factory=list)
    """The limits of the run when they were fixed."""
    recent_loss: float | None = None
    lowest_loss: float | None = None
    loss_is_high: bool = False
    """For the warning about a rising loss: the reference values, and whether it was given."""
    tally: Annotated[dict[str, float], AfterValidator(_whole)] = field(default_factory=dict)
    """Running sums of the next log record."""
    log_bytes: Count = 0
    """The length of log.jsonl at this step."""
    log_waiting: list[str] = field(default_factory=list)
    """Lines not written to it yet because the disk was full."""
    scaler: dict[str, Any] = field(default_factory=dict)
    """The state of the gradient scaler, with fp16."""
    is_extra: bool = False
    """Whether this checkpoint is outside the regular schedule: written by a stop, or an old best kept alone."""

    @property
    def cooldown(self) -> tuple[int, int] | None:
        """The first and the last step of the cool-down, once they are fixed."""
        if self.cooldown_start is None or self.cooldown_end is None:
            return None
        return self.cooldown_start, self.cooldown_end


_STATE = TypeAdapter(TrainState)
_CHECKSUMS = RootModel[dict[str, str]]


def read_seal(source: CheckpointDir) -> CheckpointDocument:
    """Read state.json. Raises CheckpointError if it is missing, damaged or of another format."""
    with suppress(FileNotFoundError):
        checksums = read_document(source.old_checksums, _CHECKSUMS, CheckpointError).root
        return CheckpointDocument(format=OLD_RUN_FORMAT, seal="", checksums=checksums, state={})
    missing = f"{source.state}: missing"
    return read_document(source.state, CheckpointDocument, CheckpointError, "", (RUN_FORMAT,), missing)


def load_state(source: CheckpointDir) -> TrainState:
    """Load the verified state of a checkpoint.

    Raises CheckpointError if it is damaged, of another version, or impossible.
    """
    document = read_seal(source)
    if document.format != RUN_FORMAT:
        raise CheckpointError(f"{source.path}: written in format {document.format}, which translates but cannot resume")
    unknown = sorted(document.state.keys() - TrainState.__dataclass_fields__.keys())
    if unknown:
        raise CheckpointError(f"{source.path}: written by another version of nmt: unknown {', '.join(unknown)}")
    try:
        _STATE.validate_json(json.dumps(document.state), strict=True)
    except ValidationError as error:
        key = ".".join(map(str, error.errors()[0]["loc"]))
        raise CheckpointError(f"{source.state}: damaged: state.{key} has an invalid value") from None
    return TrainState(**document.state)  # not the validated copy, whose whole numbers may have become floats


def update_state(target: CheckpointDir, state: TrainState) -> None:
    """Replace the state of a checkpoint, whose tensors stay. Raises OSError or CheckpointError."""
    replace_file(target.state, state_text(read_seal(target).checksums, asdict(state)), may_follow=False)


def state_text(checksums: Mapping[str, str], state: Mapping[str, object]) -> str:
    """Return the content of state.json."""
    return sealed_text({"format": RUN_FORMAT, "checksums": dict(checksums), "state": dict(state)})
