"""Load a trained model from a run directory or an exported folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from nmt.config import Config
from nmt.config.load import load_saved_config
from nmt.errors import CheckpointError, ConfigError
from nmt.layout import RunDir
from nmt.model.device import device_name
from nmt.model.precision import pick_float32_library, pick_precision, use_float32_library
from nmt.model.stacks import DecodingModel, make_model
from nmt.model.transformer import Model, Transformer
from nmt.runs.checkpoint import ChosenWeights, assign, check_fit, choose_weights
from nmt.runs.folder import is_folder, load_folder
from nmt.runs.info import Weights, check_is_run, read_info, read_selected
from nmt.text.tokenizer import Tokenizers


@dataclass(frozen=True)
class Origin:
    """The weights that a translator uses, and the reason for the choice."""

    run: Path
    step: int
    weights: Weights
    reason: str
    averaged: tuple[int, ...] = ()
    """The steps of the checkpoints whose mean they are, if they are one and it is known."""


@dataclass(frozen=True)
class Saved:
    """A trained model with its configuration and tokenizers, read and verified."""

    path: Path
    config: Config
    tokenizers: Tokenizers
    weights: ChosenWeights
    precision: str
    """Number format of the matrix products in training."""
    device_name: str | None
    """The device it was trained on."""
    float32_library: str | None
    note: str | None = None
    """A message about the choice of the weights."""

    @property
    def origin(self) -> Origin:
        """Origin of the weights."""
        chosen = self.weights
        return Origin(self.path, chosen.step, chosen.kind, chosen.reason, chosen.averaged)

    def model(self) -> Model:
        """Build the model on the CPU, in evaluation mode. Raises CheckpointError if the weights do not fit it."""
        with torch.device("meta"):  # before memory is allocated for what a stranger's config.yaml asks for
            check_fit(make_model(self.config, self.tokenizers.sizes), self.weights.tensors, str(self.path))
        model = make_model(self.config, self.tokenizers.sizes)
        assign(model, self.weights.tensors, str(self.path))
        return model.eval()

    def translation_model(self) -> DecodingModel:
        """Like `model`, for those that translate. Raises ConfigError for others."""
        self.check_translates()
        model = self.model()
        assert isinstance(model, DecodingModel), "its objective says so"
        return model

    def transformer(self) -> Transformer:
        """Like `translation_model`, for encoder and decoder. Raises ConfigError for a decoder alone."""
        self.check_exports()
        model = self.model()
        assert isinstance(model, Transformer), "its kind says so"
        return model

    def check_classifies(self) -> None:
        """Raise ConfigError if the model has not learned labels."""
        objective = self.config.training.objective
        if objective == "classification":
            return
        start = f"nmt train --init-from {self.path} starts a run of classification with its weights"
        use = "see nmt translate" if objective == "translation" else start
        raise ConfigError(
            [f"{self.path}: trained with training.objective: {objective}, which predicts no labels; {use}"]
        )

    def check_translates(self) -> None:
        """Raise ConfigError if the model has learned something else."""
        objective = self.config.training.objective
        if objective == "translation":
            return
        classes = "see nmt classify, and nmt evaluate with it alone"
        use = {"classification": classes, "causal": "see nmt generate, nmt score without --src, and --lm"}
        start = f"nmt train --init-from {self.path} starts a translation run with its weights"
        raise ConfigError(
            [
                f"{self.path}: trained with training.objective: {objective}, which does not translate; "
                f"{use.get(objective, start)}"
            ]
        )

    def check_exports(self) -> None:
        """Raise ConfigError unless the model is an encoder and a decoder that translate."""
        self.check_translates()
        if self.config.model.kind != "translation":
            raise ConfigError(
                [f"{self.path}: a decoder-only model (model.kind: decoder) cannot be exported or run by CTranslate2"]
            )

    def check_goes_with(self, first: Saved) -> None:
        """Raise ConfigError unless the output probabilities of both can be averaged."""
        for name, own, other in (
            ("tokenizer", self.tokenizers.fingerprint, first.tokenizers.fingerprint),
            ("direction", self.config.data.direction, first.config.data.direction),
        ):
            if own != other:
                raise ConfigError([f"{self.path}: has another {name} than {first.path}; they cannot form an ensemble"])


def open_saved(path: Path, checkpoint: str = "best", weights: str = "auto") -> Saved:
    """Open the run or exported folder at `path`.

    Args:
        checkpoint: best, last, or a step.
        weights: auto, raw, ema, or average, see `choose_weights`.

    Raises CheckpointError if it is missing or damaged, DataError for its tokenizer, ConfigError if an exported folder,
    which has a single set of weights, is to be opened with another choice of them.
    """
    if is_folder(path):
        if (checkpoint, weights) != ("best", "auto"):
            raise ConfigError([f"{path}: an exported folder has one set of weights; leave out --checkpoint, --weights"])
        folder = load_folder(path)
        exported = folder.info
        return Saved(
            path, folder.config, folder.tokenizers, folder.weights(), exported.precision, exported.device_name,
            exported.float32_library,
        )  # fmt: skip
    run = RunDir(path)
    check_is_run(path)
    config, info = load_saved_config(run.config), read_info(run)
    chosen = choose_weights(run, config.training, checkpoint, weights)
    note = None
    if checkpoint == "best" and read_selected(run).best_step is None:
        last = f"using the last, step {chosen.step} of {config.training.max_steps}"
        note = f"{path}: no validation has selected a checkpoint (selected.json); {last}"
    tokenizers = Tokenizers.load(run.tokenizer, config.data.languages)
    if tokenizers.fingerprint != info.tokenizer:
        raise CheckpointError(f"{run.tokenizer.path}: not the tokenizer that this run was trained with")
    return Saved(path, config, tokenizers, chosen, info.precision, info.device_name, info.float32_library, note)


def choose_precision(saved: Saved, wanted: str, device: torch.device) -> str:
    """Choose the precision for translating: `wanted`, or with auto the one of training, if it is known to be fast.

    Also sets the library for float32 matrix products.
    """
    is_training_device = saved.device_name == device_name(device)
    if wanted == "auto":
        # half precision is fast on the device of training; on another one it is measured
        is_known = is_training_device or saved.precision == "float32"
        wanted = saved.precision if is_known else pick_precision("auto", device)
    library = saved.float32_library if is_training_device and wanted == saved.precision else None
    use_float32_library(library or pick_float32_library(wanted, device))
    return wanted
