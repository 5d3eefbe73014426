"""Load a trained model from a run directory or an exported folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import torch

from nmt.config import Config
from nmt.config.load import load_saved_config
from nmt.console import say_once
from nmt.errors import CheckpointError, ConfigError
from nmt.files.write import lock_holder
from nmt.languages.directions import ANY
from nmt.layout import RunDir
from nmt.model.device import device_name, pick_float32_library, pick_precision, use_float32_library
from nmt.model.transformer import DecoderModel, DecodingModel, Model, Transformer, make_model
from nmt.runs.checkpoint import ChosenWeights, check_fit, choose_weights
from nmt.runs.folder import ExportInfo, is_folder, load_folder
from nmt.runs.info import RunInfo, Weights, check_is_run, read_info, read_selected
from nmt.runs.state import saved_steps
from nmt.text.vocabularies import Tokenizers


@dataclass(frozen=True)
class ModelRef:
    """A reference to a trained model: runs or exported folders, of which several form an ensemble, and what to use."""

    paths: tuple[Path, ...] = ()
    """The first one provides the settings. Empty for a choice that applies to several models, see `at`."""
    checkpoint: str = "best"
    """best, last, or a step."""
    weights: str = "auto"
    """auto, raw, ema, or average, see `choose_weights`."""
    to: str | None = None
    source: str | None = None
    """The languages, of a model with several directions; see `Config.choose_languages`."""

    @classmethod
    def of(cls, model: AnyModel, **choice: Any) -> ModelRef:
        """Return a reference to a model or to the runs or folders at one or several paths.

        choice: values of `checkpoint`, `weights`, `to` and `source`. Raises TypeError for other names.
        """
        if isinstance(model, ModelRef):
            return replace(model, **choice)
        paths = (model,) if isinstance(model, (Path, str)) else model
        return cls(tuple(map(Path, paths)), **choice)

    @property
    def path(self) -> Path:
        """The path of the first run or folder."""
        return self.paths[0]

    @property
    def chooses_weights(self) -> bool:
        """Whether other weights than the selected ones are asked for, which only runs have."""
        return (self.checkpoint, self.weights) != ("best", "auto")

    def at(self, path: Path) -> ModelRef:
        """Return the same choice for another run or folder."""
        return replace(self, paths=(path,))

    @property
    def undirected(self) -> ModelRef:
        """The same model with all its directions."""
        return replace(self, to=None, source=None)


AnyModel: TypeAlias = ModelRef | Path | str | Sequence[Path | str]


@dataclass(frozen=True)
class Origin:
    """The weights that a translator uses and the reason for the choice."""

    run: Path
    step: int
    weights: Weights
    reason: str
    averaged: tuple[int, ...] = ()
    """The steps of the averaged checkpoints, if the weights are an average and the steps are known."""


@dataclass(frozen=True)
class Saved:
    """A trained model with its configuration and tokenizers, verified."""

    path: Path
    config: Config
    tokenizers: Tokenizers
    weights: ChosenWeights
    info: RunInfo | ExportInfo
    """What the run or the folder records about the training."""

    @property
    def origin(self) -> Origin:
        """The origin of the weights."""
        chosen = self.weights
        return Origin(self.path, chosen.step, chosen.kind, chosen.reason, chosen.averaged)

    def model(self) -> Model:
        """Build the model on the CPU, in evaluation mode. Raises CheckpointError if the weights do not fit it."""
        with torch.device("meta"):  # an untrusted config.yaml gets no memory
            model = make_model(self.config.model, self.config.sizes(self.tokenizers.sizes))
        check_fit(model, self.weights.tensors, str(self.path))
        tensors = {name: tensor.to(torch.float32, copy=True) for name, tensor in self.weights.tensors.items()}
        model.load_state_dict(tensors, strict=False, assign=True)  # the state names tied weights twice
        return model.eval()

    def translation_model(self) -> DecodingModel:
        """Build a model that can translate. Raises ConfigError if the model was trained for something else."""
        self.check_translates()
        model = self.model()
        assert isinstance(model, DecodingModel), "implied by the objective"
        return model

    def transformer(self) -> Transformer:
        """Build a translation model with encoder and decoder. Raises ConfigError for a decoder-only model."""
        self.check_exports()
        model = self.model()
        assert isinstance(model, Transformer), "implied by model.kind"
        return model

    def language_model(self) -> DecoderModel:
        """Build a language model. Raises ConfigError if the model was trained for something else."""
        self._check_objective("causal")
        model = self.model()
        assert isinstance(model, DecoderModel), "implied by the objective"
        return model

    def check_classifies(self) -> None:
        """Raise ConfigError unless the model was trained to predict labels."""
        self._check_objective("classification")

    def check_translates(self) -> None:
        """Raise ConfigError unless the model was trained to translate."""
        self._check_objective("translation")

    def _check_objective(self, name: str) -> None:
        facts = self.config.training.facts
        if facts.name != name:
            raise ConfigError(f"{self.path}: trained with training.objective: {facts.name}, not {name}; {facts.use}")

    def check_exports(self) -> None:
        """Raise ConfigError unless the model is a translation model with encoder and decoder."""
        self.check_translates()
        if not self.config.model.is_encoder_decoder:
            raise ConfigError(
                f"{self.path}: a decoder-only model (model.kind: decoder) cannot be exported or run by CTranslate2"
            )

    def check_goes_with(self, first: Saved) -> None:
        """Raise ConfigError unless this model can form an ensemble with `first`."""
        for name, value, expected in (
            ("tokenizer", self.tokenizers.fingerprint, first.tokenizers.fingerprint),
            ("direction", self.config.data.direction, first.config.data.direction),
            ("training.modifiers.join", self.config.joins_sentences, first.config.joins_sentences),
        ):
            if value != expected:
                raise ConfigError(
                    f"{self.path}: its {name} differs from that of {first.path}; they cannot form an ensemble"
                )


def open_ensemble(model: AnyModel) -> list[Saved]:
    """Read the models of an ensemble, or a single model, for translation.

    Raises ConfigError if they cannot translate or form an ensemble, and what `open_saved` raises.
    """
    model = ModelRef.of(model)
    first, *further = saved = [open_saved(model.at(path)) for path in model.paths]
    first.check_translates()
    for member in further:
        member.check_translates()
        member.check_goes_with(first)
    return saved


def open_saved(model: AnyModel) -> Saved:
    """Read a single model, the first of an ensemble.

    Raises CheckpointError if the directory is missing or damaged, DataError if its tokenizer is, and ConfigError if the
    model has no such direction, or a choice of weights is given for an exported folder, which has only one set.
    """
    model = ModelRef.of(model)
    saved = _read_saved(model)
    if (model.to, model.source) == (None, None):
        return saved
    return replace(saved, config=config_of_direction(saved.config, saved.tokenizers, model.to, model.source))


def config_of_direction(config: Config, tokenizers: Tokenizers, to: str | None, source: str | None) -> Config:
    """Return the configuration of one direction of a model; see `Config.choose_languages`.

    Raises ConfigError, also if there are several source languages, none is chosen, and the model reads it.
    """
    sources = [*dict.fromkeys(src for src, tgt in config.data.all_sides if to in (None, tgt))]
    if tokenizers.is_public and source in (None, ANY) and len(sources) > 1:
        raise ConfigError(f"--from: the model reads the source language; choose one of {', '.join(sources)}")
    return config.choose_languages(to, source, tokenizers[config.data.src].target_languages)


def _read_saved(model: ModelRef) -> Saved:
    path = model.path
    if is_folder(path):
        if model.chooses_weights:
            raise ConfigError(f"{path}: an exported folder has one set of weights; omit --checkpoint and --weights")
        folder = load_folder(path)
        return Saved(path, folder.config, folder.tokenizers, folder.weights(), folder.info)
    run = RunDir(path)
    check_is_run(path)
    config = load_saved_config(run.config)
    info = read_info(run)
    chosen = choose_weights(run, config.training.average_last, model.checkpoint, model.weights)
    if model.checkpoint == "best":
        _say_if_unfinished(run, chosen.step)
    tokenizers = Tokenizers.load(run.tokenizer, config.data.all_languages)
    if tokenizers.fingerprint != info.tokenizer:
        raise CheckpointError(f"{run.tokenizer.path}: not the tokenizer that this run was trained with")
    return Saved(path, config, tokenizers, chosen, info)


def _say_if_unfinished(run: RunDir, step: int) -> None:
    """Print which checkpoint is used if the run is still training, or if no validation has selected one."""
    selected = read_selected(run)
    if selected.best_step is None:
        say_once(f"{run.path}: no validation has selected a checkpoint yet; using the last one, step {step}")
    elif selected.finished_step != saved_steps(run)[-1] and lock_holder(run.lock) is not None:
        say_once(f"{run.path}: still training; using the best checkpoint so far, step {step}")


def choose_precision(saved: Saved, precision: str, device: torch.device) -> str:
    """Choose the precision for translation, and set the library for float32 matrix products.

    With `auto`, it is the precision of training if that is known to be fast on this device, else the fastest.
    """
    info = saved.info
    is_training_device = info.device_name == device_name(device)
    if precision == "auto":
        # half precision is fast on the device of training; on another one it is measured
        is_imported = info.public is not None and info.device_name is None
        is_known = is_training_device or (info.precision == "float32" and not is_imported)
        precision = info.precision if is_known else pick_precision("auto", device)
    library = info.float32_library if is_training_device and precision == info.precision else None
    use_float32_library(library or pick_float32_library(precision, device))
    return precision
