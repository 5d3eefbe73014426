"""What a new run begins with instead of random weights, and the parts of a model that keep what they begin with."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import nn

from nmt.config import Config
from nmt.console import say
from nmt.data.corpus import Corpus
from nmt.errors import CheckpointError, ConfigError, NmtError
from nmt.layout import RunDir
from nmt.model.transformer import Transformer
from nmt.runs.checkpoint import Tensors, check_fit, saved_steps
from nmt.runs.folder import fingerprint
from nmt.runs.info import InitialWeights, RunInfo
from nmt.runs.model import Saved, open_saved
from nmt.training.parallel.shard import shard_like
from nmt.training.parallel.world import World

# every parameter belongs to embeddings, encoder or decoder
PARTS = {
    "embeddings": r"(encoder|decoder)\.embedding\.|output$",
    "encoder": r"encoder\.(layers|norm)\.",
    "decoder": r"decoder\.(layers|norm)\.",
    "cross_attention": r"decoder\.layers\.\d+\.cross_attention(_residual)?\.",
}


def freeze(model: nn.Module, parts: Sequence[str]) -> None:
    """Have these parts of a `Transformer` keep their weights: see `PARTS`. Raises ConfigError if nothing is left."""
    for name, parameter in model.named_parameters():
        if any(re.match(PARTS[part], name) for part in parts):
            parameter.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ConfigError([f"training.freeze: {', '.join(parts)} are all there is, nothing is left to learn"])


class Initial:
    """The weights of `training.init_from`: process 0 reads them, all take them. Without that setting there are none."""

    def __init__(self) -> None:
        self.record: InitialWeights | None = None
        """What run.json says of them."""
        self._tensors: Tensors = {}

    def read(self, config: Config, run: RunDir, corpus: Corpus, model: Transformer, before: RunInfo | None) -> None:
        """In process 0: read and check them, unless the run goes on from a checkpoint of its own.

        `before` is the run.json of a run that goes on. Without a checkpoint it begins again, with the same weights.
        Raises ConfigError, CheckpointError or DataError.
        """
        self.record = known = None if before is None else before.initial
        source = config.training.init_from
        if source is None or (before and (saved_steps(run) or not run.checkpoints.is_dir())):
            return
        if known is None:
            self.record = self._open(Path(source), config, corpus, model)
            return
        path = Path(known.run) if Path(known.run).is_dir() else Path(source)
        try:
            self.record = self._open(path, config, corpus, model)
        except NmtError as error:
            raise CheckpointError(f"{run.path}: no checkpoint yet, and it cannot begin again: {error}") from error
        if self.record.tensors != known.tensors:
            raise CheckpointError(
                f"{run.path}: no checkpoint yet, and {path} no longer has the weights of step {known.step} that it "
                "began with; start another run"
            )

    def give(self, model: Transformer, world: World) -> None:
        """Copy them into the model of every process, whole or divided."""
        if not world.on_rank0(lambda: bool(self._tensors)):
            return
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                tensor = self._tensors.pop(name) if world.is_rank0 else torch.empty(parameter.shape)
                world.broadcast(tensor)
                parameter.copy_(shard_like(tensor, parameter))

    def _open(self, path: Path, config: Config, corpus: Corpus, model: Transformer) -> InitialWeights:
        if not path.is_dir():
            raise CheckpointError(f"{path}: no such directory; training.init_from takes a run or an exported folder")
        saved = open_saved(path)
        problems = list(_mismatches(saved, config, corpus))
        if problems:
            raise ConfigError(problems)
        weights = saved.weights
        check_fit(model, weights.tensors, str(path))
        say(f"the run begins with the weights of {path}: {weights.reason}")
        self._tensors = {name: tensor.float() for name, tensor in weights.tensors.items()}
        return InitialWeights(
            run=str(path.resolve()), step=weights.step, weights=weights.kind, tensors=fingerprint(self._tensors)
        )


def _mismatches(saved: Saved, config: Config, corpus: Corpus) -> Iterator[str]:
    """Why a model cannot begin with what is saved, a line each."""
    its, own = saved.config, config
    if its.data.languages != own.data.languages:
        found, wanted = (" and ".join(each.data.languages) for each in (its, own))
        yield f"{saved.path}: found the languages {found}, wanted {wanted}; begin with a run of these"
    elif saved.tokenizers.fingerprint != corpus.tokenizers.fingerprint:
        yield (
            f"{corpus.directory.path}: its tokenizer is not the one of {saved.path}; take that over with nmt prepare "
            f"--tokenizer-from {saved.path}"
        )
    elif its.data.direction != own.data.direction and not saved.tokenizers.joint:
        yield (
            f"{saved.path}: found data.direction = {its.data.direction}, wanted {own.data.direction}: with one "
            f"vocabulary for each language the embeddings of {its.data.src} cannot be those of {own.data.src}; begin "
            "with a run of this direction, or of a joint vocabulary"
        )
    for key, value in its.model:
        wanted = getattr(own.model, key)
        is_free = key.endswith("_dropout") or (key == "max_positions" and own.model.positions == "sinusoidal")
        if value != wanted and not is_free:
            yield f"{saved.path}: found model.{key} = {value}, wanted {wanted}; --set model.{key}={value} takes it over"
