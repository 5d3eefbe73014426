"""Fine-tuning: the weights that a new run starts with (`training.init_from`), and the parts that it freezes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
    """Freeze these parts of a `Transformer`, see `PARTS`. Raises ConfigError if nothing is left to learn."""
    for name, parameter in model.named_parameters():
        if any(re.match(PARTS[part], name) for part in parts):
            parameter.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ConfigError([f"training.freeze: {', '.join(parts)} freeze all weights, nothing is left to learn"])


@dataclass(frozen=True)
class StartWeights:
    """The weights that a new run starts with, on rank 0 until `load_initial`, and what run.json says of them."""

    tensors: Tensors
    origin: InitialWeights | None


NO_WEIGHTS = StartWeights({}, None)


def read_initial(
    config: Config, run: RunDir, corpus: Corpus, model: Transformer, before: RunInfo | None
) -> StartWeights:
    """On rank 0: read and check the weights of `training.init_from`, unless the run resumes from its own checkpoint.

    `before` is the run.json of a resumed run. Without a checkpoint it starts over, with the same weights as before.
    Raises ConfigError, CheckpointError or DataError.
    """
    origin = None if before is None else before.initial
    source = config.training.init_from
    if source is None or (before and (saved_steps(run) or not run.checkpoints.is_dir())):
        return StartWeights({}, origin)
    if origin is None:
        return _read_weights(Path(source), config, corpus, model)
    path = Path(origin.run) if Path(origin.run).is_dir() else Path(source)
    try:
        weights = _read_weights(path, config, corpus, model)
    except NmtError as error:
        raise CheckpointError(f"{run.path}: no checkpoint yet, and it cannot start over: {error}") from error
    if weights.origin is None or weights.origin.tensors != origin.tensors:
        raise CheckpointError(
            f"{run.path}: no checkpoint yet, and {path} no longer has the weights of step {origin.step} that it "
            "started with; start another run"
        )
    return weights


def load_initial(model: Transformer, tensors: Tensors, world: World) -> None:
    """Broadcast the weights of rank 0 into the model of every rank, whole or sharded; without any it stays random."""
    if not world.on_rank0(lambda: bool(tensors)):
        return
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            tensor = tensors.pop(name) if world.is_rank0 else torch.empty(parameter.shape)
            world.broadcast(tensor)
            parameter.copy_(shard_like(tensor, parameter))


def _read_weights(path: Path, config: Config, corpus: Corpus, model: Transformer) -> StartWeights:
    if not path.is_dir():
        raise CheckpointError(f"{path}: no such directory; training.init_from takes a run or an exported folder")
    saved = open_saved(path)
    problems = list(_mismatches(saved, config, corpus))
    if problems:
        raise ConfigError(problems)
    weights = saved.weights
    check_fit(model, weights.tensors, str(path))
    say(f"the run starts with the weights of {path}: {weights.reason}")
    tensors = {name: tensor.float() for name, tensor in weights.tensors.items()}
    origin = InitialWeights(
        run=str(path.resolve()), step=weights.step, weights=weights.kind, tensors=fingerprint(tensors)
    )
    return StartWeights(tensors, origin)


def _mismatches(saved: Saved, config: Config, corpus: Corpus) -> Iterator[str]:
    """Yield a message for each reason why a model cannot start with saved weights."""
    theirs, ours = saved.config, config
    if theirs.data.languages != ours.data.languages:
        found, wanted = (" and ".join(side.data.languages) for side in (theirs, ours))
        yield f"{saved.path}: found the languages {found}, wanted {wanted}; start with a run of these"
    elif saved.tokenizers.fingerprint != corpus.tokenizers.fingerprint:
        yield (
            f"{corpus.directory.path}: its tokenizer is not the one of {saved.path}; reuse that one with nmt prepare "
            f"--tokenizer-from {saved.path}"
        )
    elif theirs.data.direction != ours.data.direction and not saved.tokenizers.joint:
        yield (
            f"{saved.path}: found data.direction = {theirs.data.direction}, wanted {ours.data.direction}: with a "
            f"vocabulary for each language the embeddings of {theirs.data.src} cannot be those of {ours.data.src}; "
            "start with a run of this direction, or of a joint vocabulary"
        )
    for key, value in theirs.model:
        wanted = getattr(ours.model, key)
        is_free = key.endswith("_dropout") or (key == "max_positions" and ours.model.positions == "sinusoidal")
        if value != wanted and not is_free:
            yield f"{saved.path}: found model.{key} = {value}, wanted {wanted}; --set model.{key}={value} takes it over"
