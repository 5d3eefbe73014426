"""File names of data directories, run directories and exported directories."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

RUN_FORMAT = 2
"""Format number of a run directory; incremented when an older version can no longer read it."""
OLD_RUN_FORMAT = 1
"""Format of runs with checksums in a separate file, which can translate but not be resumed."""


@dataclass(frozen=True)
class DataDir:
    """A data directory, written by `prepare`.

    manifest.json            contents and sources; written last
    tokenizer/               see `TokenizerDir`
    SPLIT.LANG               the text, with a line feed after each line
    SPLIT.LANG.ids.npy       the concatenated token ids of all lines, without special tokens
    SPLIT.LANG.ends.npy      end offset of each line in the ids
    mono.LANG, ...           monolingual text: the same files, and
    mono.LANG.documents.npy  the first line of each document, from 0
    report.json, .html       report on what was read, kept and dropped; not part of the content

    A large training set is divided into shards, named train.0-00007 for shard 7 of source 0. End offsets are uint32 in
    shards and int64 otherwise.
    """

    path: Path

    @property
    def manifest(self) -> Path:
        return self.path / "manifest.json"

    @property
    def report(self) -> Path:
        return self.path / "report.json"

    @property
    def report_page(self) -> Path:
        return self.path / "report.html"

    @property
    def tokenizer(self) -> TokenizerDir:
        return TokenizerDir(self.path / "tokenizer")

    def text(self, split: str, language: str) -> Path:
        return self.path / f"{split}.{language}"

    def ids(self, split: str, language: str) -> Path:
        return self.path / f"{split}.{language}.ids.npy"

    def ends(self, split: str, language: str) -> Path:
        return self.path / f"{split}.{language}.ends.npy"

    def documents(self, split: str, language: str) -> Path:
        return self.path / f"{split}.{language}.documents.npy"


MONO = "mono"
"""Takes the place of the split in names of files with monolingual text."""


@dataclass(frozen=True)
class TokenizerDir:
    """A directory with SentencePiece models: `joint.model` for both languages, or `LANG.model` for each language.

    It also contains `profiles.json`, a profile of each language, and, if the target is a label, `labels.json`.
    """

    path: Path

    @property
    def joint(self) -> Path:
        return self.path / "joint.model"

    def language(self, language: str) -> Path:
        return self.path / f"{language}.model"

    @property
    def labels(self) -> Path:
        return self.path / "labels.json"

    @property
    def profiles(self) -> Path:
        return self.path / "profiles.json"


@dataclass(frozen=True)
class CheckpointDir:
    """A checkpoint: everything needed to resume, or only the weights."""

    path: Path

    @property
    def weights(self) -> Path:
        return self.path / "weights.safetensors"

    @property
    def ema(self) -> Path:
        return self.path / "ema.safetensors"

    @property
    def optimizer(self) -> Path:
        return self.path / "optimizer.safetensors"

    @property
    def state(self) -> Path:
        return self.path / "state.json"

    @property
    def old_checksums(self) -> Path:
        return self.path / "checksums.json"


@dataclass(frozen=True)
class RunDir:
    """A run directory, written by `nmt train`. It is self-contained: translation needs no other files.

    config.yaml              the resolved configuration
    run.json                 format, data directory and its fingerprint, machine, automatic choices
    tokenizer/               see `TokenizerDir`
    lock                     locked while a process trains here; names the process
    checkpoints/step-…/      see `CheckpointDir`
    checkpoints/average/     the average of the newest checkpoints
    selected.json            the weights that `nmt translate` uses by default, and why
    log.jsonl, tensorboard/  training log
    dev/                     translations of the development set, one file per validation
    profile/trace.json.gz    profiler trace of a few steps (nmt train --profile)
    scores.jsonl             scores measured by nmt evaluate, see `nmt.runs.info`
    ctranslate2-…/           see `ExportDir`, by number format (nmt translate --engine ctranslate2)
    """

    path: Path

    @property
    def config(self) -> Path:
        return self.path / "config.yaml"

    @property
    def info(self) -> Path:
        return self.path / "run.json"

    @property
    def lock(self) -> Path:
        return self.path / "lock"

    @property
    def tokenizer(self) -> TokenizerDir:
        return TokenizerDir(self.path / "tokenizer")

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    def step(self, step: int) -> CheckpointDir:
        return CheckpointDir(self.checkpoints / f"step-{step:08d}")

    @property
    def average(self) -> CheckpointDir:
        return CheckpointDir(self.checkpoints / "average")

    @property
    def selected(self) -> Path:
        return self.path / "selected.json"

    @property
    def log(self) -> Path:
        return self.path / "log.jsonl"

    @property
    def tensorboard(self) -> Path:
        return self.path / "tensorboard"

    @property
    def dev(self) -> Path:
        return self.path / "dev"

    @property
    def trace(self) -> Path:
        return self.path / "profile" / "trace.json.gz"

    @property
    def scores(self) -> Path:
        return self.path / "scores.jsonl"

    def ctranslate2(self, quantization: str) -> ExportDir:
        return ExportDir(self.path / f"ctranslate2-{quantization}")


EXPORT_FORMAT = 1
"""Format number of an exported directory; incremented when an older version can no longer read it."""


@dataclass(frozen=True)
class ExportDir:
    """An exported translator, written by `nmt export`. It is self-contained.

    translator.json          weights, precision and checksums of the other files; written last
    config.yaml, tokenizer/  as in a run directory
    weights.safetensors      the weights, or
    model.bin, *.json        the same as a model of CTranslate2
    README.md                the model card

    An export for transformers has translator.json, README.md and that library's files, see `nmt.share.transformers`.
    """

    path: Path

    @property
    def info(self) -> Path:
        return self.path / "translator.json"

    @property
    def config(self) -> Path:
        return self.path / "config.yaml"

    @property
    def tokenizer(self) -> TokenizerDir:
        return TokenizerDir(self.path / "tokenizer")

    @property
    def weights(self) -> Path:
        return self.path / "weights.safetensors"

    @property
    def card(self) -> Path:
        return self.path / "README.md"


def hub_note(path: Path) -> str:
    """Return an addition to an error message if `path`, which does not exist, may be meant as a model of the Hub."""
    if path.parent.exists() or not re.fullmatch(r"(hf:/)?[A-Za-z0-9][\w.-]*/[\w.-]+", str(path)):
        return ""
    return "; only Hub models written by nmt push are supported, as --model hf://OWNER/NAME"
