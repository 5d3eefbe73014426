"""scores.jsonl: what `nmt evaluate` measured, a line for each test set. Nothing here imports torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field, ValidationError

from nmt.console import say
from nmt.errors import CheckpointError, UnsafeFileError
from nmt.files.document import Document
from nmt.files.read import DOCUMENT_BYTES, read_regular
from nmt.files.write import append_line
from nmt.layout import RunDir
from nmt.runs.info import Weights


class RecordedScore(Document):
    """A corpus-level score."""

    metric: str
    """bleu, chrf, ter, or the name of another metric."""
    value: Annotated[float, Field(ge=-1e6, le=1e6)]
    signature: str
    """Scores with different signatures are not comparable."""
    higher_is_better: bool


class EnsembleMember(Document):
    """The weights of one run of an ensemble."""

    run: str
    step: int
    weights: Weights


class ScoreRecord(Document):
    """One evaluation of one test set."""

    date: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$")]
    """UTC."""
    nmt: str
    """The version of nmt."""
    split: str
    """The test set, or train or valid."""
    lines: Annotated[int, Field(ge=1)]
    step: int | None = None
    """The step of the checkpoint; this and the kind of weights are None for an ensemble."""
    weights: Weights | None = None
    averaged: list[int] = Field(default_factory=list)
    """The steps of the checkpoints whose mean the weights are, if they are one."""
    ensemble: list[EnsembleMember] = Field(default_factory=list)
    """The members of an ensemble; its scores are recorded in the run of the first."""
    search: str
    """Beam, length penalty, and what differs from the defaults."""
    precision: str
    """Number format of the matrix products, and the engine if it is not PyTorch."""
    scores: Annotated[list[RecordedScore], Field(min_length=1)]
    notes: list[str] = Field(default_factory=list)
    """Reasons why these scores are not comparable with others, such as ignored case."""
    data: str
    """The data directory."""
    corpus: str
    """Its fingerprint."""
    text: str
    """The fingerprint of the text of this split, in both languages."""

    @property
    def is_test(self) -> bool:
        """Whether this run alone translated a test set."""
        return self.split not in ("train", "valid") and not self.ensemble

    def score(self, metric: str) -> RecordedScore | None:
        """Return the score by a metric, if there is one."""
        return next((score for score in self.scores if score.metric == metric), None)


def add_scores(run: RunDir, record: ScoreRecord) -> None:
    """Append a record to scores.jsonl; if that is not possible, print why."""
    try:
        append_line(run.scores, record.model_dump_json().encode())
    except OSError as error:
        say(f"{run.scores}: cannot be written: {error.strerror}; the scores of {record.split} are not recorded")
    except UnsafeFileError as error:
        say(f"{error}; the scores of {record.split} are not recorded")


def read_scores(run: RunDir) -> list[ScoreRecord]:
    """Read scores.jsonl, oldest first; nothing if it is missing. Lines that are not records are counted on the screen.

    Raises CheckpointError if it cannot be read.
    """
    try:
        lines = read_regular(run.scores, DOCUMENT_BYTES).split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CheckpointError(f"{run.scores}: cannot be read: {error.strerror}") from error
    records, damaged = [], []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                records.append(ScoreRecord.model_validate_json(line))
            except ValidationError:
                damaged.append(number)
    if damaged:
        say(f"{run.scores}: {_lines(damaged)} skipped: damaged, or of another program or version")
    return records


def _lines(numbers: Sequence[int]) -> str:
    return f"line {numbers[0]} is" if len(numbers) == 1 else f"{len(numbers)} lines, the first at {numbers[0]}, are"
