"""The small files of a run directory: run.json, selected.json, scores.jsonl. Nothing here imports torch."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from nmt.console import say
from nmt.errors import CheckpointError, UnsafeFileError
from nmt.files.document import Document, document_text, read_document
from nmt.files.read import DOCUMENT_BYTES, read_regular
from nmt.files.write import append_line, replace_file
from nmt.layout import OLD_RUN_FORMAT, RUN_FORMAT, RunDir, not_usable
from nmt.training.facts import Metric

Weights = Literal["raw", "ema", "average"]
"""The weights as trained, their exponential moving average (EMA), or the mean of the last checkpoints."""
Precision = Literal["float32", "bf16", "fp16"]
"""Number format of the matrix products."""


class PublicModel(Document):
    """A public model that was imported."""

    name: str
    """The repository on the Hub, owner/name, or the name of the directory."""
    revision: str | None = None
    """The commit of the repository."""
    license: str | None = None
    """The licence that its card states; it also holds for models adapted from it."""
    parameters: int


class InitialWeights(Document):
    """The weights with which `training.init_from` started a run."""

    run: str
    """The path of the source run; for several runs, each path after its stack. The next fields are of the first run."""
    step: int
    weights: Weights
    tensors: str
    """The fingerprint of the weights."""
    public: PublicModel | None = None
    """The public model from which that run, or one before it, was imported."""
    new_rows: dict[str, list[int]] | None = None
    """By stack, the rows of new pieces and tags, which are learned although the embeddings are frozen."""


class RunInfo(Document):
    """The content of run.json: the data and the tokenizer of a run, the machine, and the automatic choices.

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
    """The type of the device: cpu or cuda."""
    device_name: str | None = None
    nmt: str | None = None
    """The version and the commit of nmt."""
    torch: str | None = None
    """The version of PyTorch."""
    threads: int | None = None
    """The number of CPU threads with which each process computes updates."""
    processes: int | None = None
    float32_library: str | None = None
    """The library that computes float32 matrix products on the CPU."""
    layout: str | None = None
    """The layout of batches: packed or rows, or padded in runs of earlier versions."""
    compiled: bool | None = None
    """Whether the model is compiled."""
    auto_max_tokens: Annotated[int, Field(ge=2)] | None = None
    """The chosen number of tokens if `training.max_tokens` is auto, which is the default on a GPU."""
    max_tokens: int | None = None
    """The maximum number of tokens of a micro-batch on its larger side."""
    glossary: str | None = None
    """The fingerprint of `training.glossary`."""
    initial: InitialWeights | None = None
    imported: PublicModel | None = None
    """The public model, if the run was imported."""
    launch: str | None = None
    """The id of the torchrun launch; see `launch`."""
    text_score: Metric = "bleu"
    """The score of text on the development set by which the run is listed and ranked, and by default selects
    checkpoints: chrf if its references have few four-grams."""

    @property
    def public(self) -> PublicModel | None:
        """The public model from which the run, or a run that it started with, was imported."""
        if self.imported is None and self.initial is not None:
            return self.initial.public
        return self.imported


class Selected(Document):
    """The content of selected.json: the weights that `nmt translate` uses by default."""

    best_step: int | None = None
    """The step with the best validation score."""
    weights: Weights = "raw"
    reason: str = "last checkpoint: none is validated yet"
    """The reason for the selection, as text for the user."""
    average_steps: list[int] = Field([])
    """The steps of the checkpoints that were averaged at the end of the run; the first is 0 if the weights that the run
    started with were mixed in."""
    finished_step: int | None = None
    """The last step of a finished run."""
    finished_by: str | None = None
    """The setting of `training` that ended the run."""

    @property
    def identity(self) -> tuple[int | None, Weights, list[int]]:
        """The step, the kind and the averaged steps of the weights."""
        if self.weights == "average" and self.average_steps:
            return self.average_steps[-1], self.weights, self.average_steps
        return self.best_step, self.weights, []


def check_is_run(path: Path) -> None:
    """Raise CheckpointError unless `path` is a run directory."""
    if not RunDir(path).config.is_file():
        raise CheckpointError(
            not_usable(path, "not a run directory: it has no config.yaml", "; make one with nmt train")
        )


def read_info(run: RunDir) -> RunInfo:
    """Read run.json. Raises CheckpointError if it is missing, damaged or has another format."""
    missing = f"{run.path}: not a run directory, run.json is missing"
    return read_document(run.info, RunInfo, CheckpointError, "", (OLD_RUN_FORMAT, RUN_FORMAT), missing)


def text_score(run: RunDir) -> Metric:
    """Return `RunInfo.text_score` of a run, or bleu if run.json is missing or damaged, which is reported elsewhere."""
    with suppress(CheckpointError):
        return read_info(run).text_score
    return "bleu"


def write_info(run: RunDir, info: RunInfo) -> None:
    """Write run.json. Raises OSError."""
    replace_file(run.info, document_text(info))


def read_selected(run: RunDir) -> Selected:
    """Read selected.json, or return defaults if it is missing. Raises CheckpointError if it is damaged."""
    try:
        return read_document(
            run.selected, Selected, CheckpointError, "; remove it to translate with the last checkpoint"
        )
    except FileNotFoundError:
        return Selected()


def check_selected(run: RunDir, selected: Selected, weights: str) -> None:
    """Raise CheckpointError if the selected checkpoint with these weights, or the average, is missing."""
    chosen = run.average if weights == "average" else run.step(selected.best_step or 0)
    is_named = bool(selected.average_steps) if weights == "average" else selected.best_step is not None
    if is_named and not chosen.path.is_dir():
        advice = f"use --checkpoint last, or remove {run.selected.name} so that all commands use the last checkpoint"
        raise CheckpointError(f"{chosen.path}: missing; {advice}")


def write_selected(run: RunDir, selected: Selected) -> None:
    """Write selected.json. Raises OSError."""
    replace_file(run.selected, document_text(selected))


def launch() -> str | None:
    """Return the id shared by all restarts of one `torchrun` launch, or None without `torchrun`."""
    file = os.environ.get("TORCHELASTIC_ERROR_FILE")  # LOGS/LAUNCH/attempt_N/RANK/error.json
    return Path(file).parents[2].name if file else None


class RecordedScore(Document):
    """A corpus-level score."""

    metric: str
    """The name of the metric, such as bleu, chrf or ter."""
    value: Annotated[float, Field(ge=-1e6, le=1e6)]
    signature: str
    """The signature of the metric. Scores with different signatures are not comparable."""
    higher_is_better: bool


class EnsembleMember(Document):
    """The weights of one run of an ensemble."""

    run: str
    step: int
    weights: Weights

    def __str__(self) -> str:
        return f"{self.run} step {self.step} {self.weights}"


class ScoreRecord(Document):
    """One evaluation of one test set."""

    date: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$")]
    """The date and time, in UTC."""
    nmt: str
    """The version of nmt."""
    split: str
    """The name of the test set, or train or valid."""
    direction: str | None = None
    """The direction, of a run with several."""
    lines: Annotated[int, Field(ge=1)]
    step: int | None = None
    """The step of the checkpoint. The step and the kind of weights are None for an ensemble."""
    weights: Weights | None = None
    averaged: list[int] = Field([])
    """The steps of the averaged checkpoints, if the weights are an average; see `Selected`."""
    ensemble: list[EnsembleMember] = Field([])
    """The members of an ensemble; its scores are recorded in the run of the first."""
    search: str
    """The beam size, the length penalty, and settings that differ from the defaults."""
    precision: str
    """The number format of matrix products, and the engine if it is not PyTorch."""
    scores: Annotated[list[RecordedScore], Field(min_length=1)]
    notes: list[str] = Field([])
    """Reasons why these scores are not comparable with others, such as ignored case."""
    data: str
    """The data directory."""
    corpus: str
    """The fingerprint of the data directory, of all pairs of languages."""
    text: str
    """The fingerprint of the text of this split, in both languages."""

    @property
    def name(self) -> str:
        """The name of the split, with the direction if there are several."""
        return self.split if self.direction is None else f"{self.split} {self.direction}"

    @property
    def is_test(self) -> bool:
        """Whether this is the score of a single run on a test set."""
        return self.split not in ("train", "valid") and not self.ensemble

    def score(self, metric: str) -> RecordedScore | None:
        """Return the score of a metric, or None."""
        return next((score for score in self.scores if score.metric == metric), None)


def add_scores(run: RunDir, record: ScoreRecord) -> None:
    """Append a record to scores.jsonl, or print why this is not possible."""
    try:
        append_line(run.scores, record.model_dump_json().encode())
    except (OSError, UnsafeFileError) as error:
        reason = getattr(error, "strerror", error)
        say(f"{run.scores}: cannot be written: {reason}; the scores of {record.split} are not recorded")


def read_scores(run: RunDir) -> list[ScoreRecord]:
    """Return the records of scores.jsonl, oldest first; an empty list if the file is missing. Invalid lines are skipped
    and counted.

    Raises CheckpointError if the file cannot be read.
    """
    try:
        lines = read_regular(run.scores, DOCUMENT_BYTES).split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CheckpointError(f"{run.scores}: cannot be read: {error.strerror}") from error
    records = []
    damaged = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                records.append(ScoreRecord.model_validate_json(line))
            except ValidationError:
                damaged.append(number)
    if damaged:
        say(f"{run.scores}: {len(damaged)} invalid lines are skipped, the first is line {damaged[0]}")
    return records
