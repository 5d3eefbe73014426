"""File names of data directories, run directories and exported directories."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

RUN_FORMAT = 2
"""Format number of a run directory, incremented when older versions can no longer read it."""
OLD_RUN_FORMAT = 1
"""Format number of runs with checksums in a separate file, which can translate but not be resumed."""


class File:
    """A descriptor that returns the path of a file or directory within the owner's `path`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, directory: HasPath, _: object) -> Path:
        return directory.path / self._name


class HasPath(Protocol):
    """A class whose objects describe a directory."""

    @property
    def path(self) -> Path:
        """The path of the directory."""


@dataclass(frozen=True)
class DataDir:
    """A data directory, written by `prepare`.

    manifest.json            contents and sources; written last
    tokenizer/               see `TokenizerDir`
    SPLIT.LANG               the text, with a line feed after each line
    SPLIT.LANG.ids.npy       the concatenated token ids of all lines, without special tokens
    SPLIT.LANG.ends.npy      end offset of each line in the ids
    SPLIT.LANG.matches.npy   with data.fuzzy_threshold: the row of the most similar training line of each line, or -1
    SPLIT.follows.npy        with data.documents: 1 for each pair that follows the one before it in a document, or 0
    mono.LANG, ...           monolingual text: the same files, and
    mono.LANG.documents.npy  the first line of each document, from 0
    report.json, .html       report on what was read, kept and dropped; not part of the content

    A large training set is divided into shards, named train.0-00007 for shard 7 of source 0. End offsets are uint32 in
    shards and int64 otherwise.

    The directory of several pairs of languages has only pairs.json, which lists them, and a data directory for each,
    such as de-en, all with the same tokenizer.
    """

    path: Path

    manifest = File("manifest.json")
    pairs = File("pairs.json")
    report = File("report.json")
    report_page = File("report.html")

    @property
    def is_prepared(self) -> bool:
        """Whether the directory has a manifest, which is written last."""
        return any(path.is_file() for path in (self.manifest, self.pairs))

    @property
    def tokenizer(self) -> TokenizerDir:
        return TokenizerDir(self.path / "tokenizer")

    def text(self, split: str, language: str) -> Path:
        return self.path / f"{split}.{language}"

    def ids(self, split: str, language: str) -> Path:
        return self.path / f"{split}.{language}.ids.npy"

    def ends(self, split: str, language: str) -> Path:
        return self.path / f"{split}.{language}.ends.npy"

    def matches(self, split: str, language: str) -> Path:
        return self.path / f"{split}.{language}.matches.npy"

    def follows(self, split: str) -> Path:
        return self.path / f"{split}.follows.npy"

    def documents(self, split: str, language: str) -> Path:
        return self.path / f"{split}.{language}.documents.npy"


MONO = "mono"
"""Replaces the split in names of files with monolingual text."""


@dataclass(frozen=True)
class TokenizerDir:
    """A directory with SentencePiece models: `joint.model` for both languages, or `LANG.model` for each language.

    It also contains `profiles.json`, a profile of each language and the forms of its letters, `labels.json` if the
    target is a label, `tags.json` if sources have tags, and `imported.json`, the vocabulary, if the models come
    from an imported translator.
    """

    path: Path

    joint = File("joint.model")

    def language(self, language: str) -> Path:
        return self.path / f"{language}.model"

    labels = File("labels.json")
    tags = File("tags.json")
    profiles = File("profiles.json")
    imported = File("imported.json")


@dataclass(frozen=True)
class CheckpointDir:
    """A checkpoint directory, which contains everything needed to resume, or only the weights."""

    path: Path

    weights = File("weights.safetensors")
    ema = File("ema.safetensors")
    optimizer = File("optimizer.safetensors")
    state = File("state.json")
    old_checksums = File("checksums.json")


@dataclass(frozen=True)
class RunDir:
    """A run directory, written by `nmt train`. It is self-contained: translation needs no other files.

    config.yaml              the resolved configuration
    run.json                 format, data directory and its fingerprint, machine, automatic choices
    tokenizer/               see `TokenizerDir`
    lock                     locked while a process trains here; names the process
    checkpoints/step-…/      see `CheckpointDir`
    checkpoints/average/     the average of the newest checkpoints, or of start and end (training.start_share)
    checkpoints/start/       the weights that the run started with, with training.start_share
    selected.json            the weights that `nmt translate` uses by default, and why
    log.jsonl, tensorboard/  training log
    trackers.json            the id of the run in each other tracker (training.report_to)
    dev/                     translations of the development set, one file per validation
    profile/trace.json.gz    profiler trace of a few steps (nmt train --profile)
    scores.jsonl             scores measured by nmt evaluate, see `nmt.runs.info`
    calibration-….json       maps to the confidence in translations, by direction, see `nmt.translate.confidence`
    translations/            translations of evaluated texts, see `nmt.evaluate.run`
    ctranslate2-…/           see `ExportDir`, by number format (nmt translate --engine ctranslate2)
    adapt/config.yaml        the configuration that nmt adapt has written, before it trains the run
    adapt/prepared/          its data directory
    """

    path: Path

    config = File("config.yaml")
    info = File("run.json")
    lock = File("lock")
    adapt = File("adapt")

    @property
    def tokenizer(self) -> TokenizerDir:
        return TokenizerDir(self.path / "tokenizer")

    checkpoints = File("checkpoints")

    def step(self, step: int) -> CheckpointDir:
        return CheckpointDir(self.checkpoints / f"step-{step:08d}")

    @property
    def average(self) -> CheckpointDir:
        return CheckpointDir(self.checkpoints / "average")

    @property
    def start(self) -> CheckpointDir:
        return CheckpointDir(self.checkpoints / "start")

    selected = File("selected.json")
    log = File("log.jsonl")
    tensorboard = File("tensorboard")
    trackers = File("trackers.json")
    dev = File("dev")
    trace = File("profile/trace.json.gz")
    scores = File("scores.jsonl")
    translations = File("translations")

    def calibration(self, direction: str) -> Path:
        return self.path / f"calibration-{direction}.json"

    def calibrations(self) -> Iterator[Path]:
        """Return the calibrations of all directions."""
        return self.path.glob("calibration-*.json")

    def ctranslate2(self, quantization: str) -> ExportDir:
        return ExportDir(self.path / f"ctranslate2-{quantization}")


EXPORT_FORMAT = 1
"""Format number of an exported directory, incremented when older versions can no longer read it."""


@dataclass(frozen=True)
class ExportDir:
    """An exported translator, written by `nmt export`. It is self-contained.

    translator.json          weights, precision and checksums of the other files; written last
    config.yaml, tokenizer/  as in a run directory
    weights.safetensors      the weights, or
    model.bin, *.json        a CTranslate2 model
    README.md                the model card

    An export for transformers or ONNX Runtime has translator.json, README.md and that library's files, see
    `nmt.share.transformers` and `nmt.share.onnx`.
    """

    path: Path

    info = File("translator.json")
    config = File("config.yaml")

    @property
    def tokenizer(self) -> TokenizerDir:
        return TokenizerDir(self.path / "tokenizer")

    weights = File("weights.safetensors")
    card = File("README.md")


def not_usable(path: Path, problem: str, advice: str = "") -> str:
    """Return the message on a directory that is missing, or else has a problem.

    advice: what to do, unless `path` is a model of transformers or looks like a name on the Hub.
    """
    if (path / "config.json").is_file():
        advice = "; turn it into a run with nmt import"
    elif not path.parent.exists() and re.fullmatch(r"(hf:/)?[A-Za-z0-9][\w.-]*/[\w.-]+", str(path)):
        advice = "; only Hub models written by nmt push are supported, as --model hf://OWNER/NAME"
    return f"{path}: {problem if path.exists() else 'no such directory'}{advice}"
