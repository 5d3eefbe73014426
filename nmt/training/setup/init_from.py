"""Fine-tuning: the weights that a new run starts with (`training.init_from`), and the parts that it freezes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn

from nmt.config import Config
from nmt.console import say
from nmt.data.corpus import Corpus
from nmt.errors import CheckpointError, ConfigError, NmtError
from nmt.layout import RunDir, hub_note
from nmt.model.transformer import Model
from nmt.runs.checkpoint import Tensors, saved_steps
from nmt.runs.folder import fingerprint
from nmt.runs.info import InitialWeights, RunInfo
from nmt.runs.model import Saved, open_saved
from nmt.training.parallel.shard import shard_like
from nmt.training.parallel.world import World
from nmt.training.setup.parts import PARTS, described, mismatches, stacks_of, taken


def freeze(model: nn.Module, parts: Sequence[str]) -> None:
    """Freeze these parts of a `Model`, see `PARTS`. Raises ConfigError if nothing is left to learn."""
    for name, parameter in model.named_parameters():
        if any(re.match(PARTS[part], name) for part in parts):
            parameter.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ConfigError([f"training.freeze: {', '.join(parts)} freeze all weights, nothing is left to learn"])


Source = str | Mapping[Literal["encoder", "decoder"], str]
"""A run, or one for each stack, as `training.init_from` names them."""


@dataclass(frozen=True)
class StartWeights:
    """The weights that a new run starts with, on rank 0 until `load_initial`, and what run.json says of them."""

    tensors: Tensors
    origin: InitialWeights | None


NO_WEIGHTS = StartWeights({}, None)


def read_initial(config: Config, run: RunDir, corpus: Corpus, model: Model, before: RunInfo | None) -> StartWeights:
    """On rank 0: read and check the weights of `training.init_from`, unless the run resumes from its own checkpoint.

    `before` is the run.json of a resumed run. Without a checkpoint it starts over, with the same weights as before.
    Raises ConfigError, CheckpointError or DataError.
    """
    origin = None if before is None else before.initial
    source = config.training.init_from
    if source is None or (before and (saved_steps(run) or not run.checkpoints.is_dir())):
        return StartWeights({}, origin)
    if origin is None:
        return _read_weights(source, config, corpus, model)
    if isinstance(source, str) and Path(origin.run).is_dir():
        source = origin.run
    try:
        weights = _read_weights(source, config, corpus, model)
    except NmtError as error:
        raise CheckpointError(f"{run.path}: no checkpoint yet, and it cannot start over: {error}") from error
    if weights.origin is None or weights.origin.tensors != origin.tensors:
        where = source if isinstance(source, str) else weights.origin and weights.origin.run
        raise CheckpointError(
            f"{run.path}: no checkpoint yet, and {where} no longer has the weights of step {origin.step} that it "
            "started with; start another run"
        )
    return weights


def load_initial(model: Model, tensors: Tensors, world: World) -> None:
    """Broadcast the weights of rank 0 into the model of every rank, whole or sharded; without any it stays random."""
    if not world.on_rank0(lambda: bool(tensors)):
        return
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            tensor = tensors.pop(name) if world.is_rank0 else torch.empty(parameter.shape)
            world.broadcast(tensor)
            parameter.copy_(shard_like(tensor, parameter))


def _read_weights(source: Source, config: Config, corpus: Corpus, model: Model) -> StartWeights:
    """Read the weights of a run, or of a run for each stack; what they lack stays as it is in the model."""
    runs: dict[str | None, str] = {None: source} if isinstance(source, str) else dict(source.items())
    opened = {stack: _opened(Path(path)) for stack, path in runs.items()}
    stacks = {stack: stacks_of(saved, config, stack) for stack, saved in opened.items()}
    problems = [p for stack, saved in opened.items() for p in mismatches(saved, config, corpus, stacks[stack])]
    if problems:
        raise ConfigError(problems)
    found: dict[str, Tensor] = {}
    for stack, saved in opened.items():
        has_its_head = saved.config.model.head == config.model.head and _has_labels_of(saved, corpus)
        is_same = stack is None and saved.config.model.kind == config.model.kind and has_its_head
        found = taken(saved, model, stacks[stack], takes_all=is_same) | found  # of tied embeddings the first is taken
    paths = ", ".join(f"{path}" if stack is None else f"{stack} {path}" for stack, path in runs.items())
    if not found:
        hint = f"; {config.model.kind}={source} takes the stack that it has" if isinstance(source, str) else ""
        raise ConfigError([f"training.init_from: {paths}: has nothing for model.kind = {config.model.kind}{hint}"])
    reasons = "; ".join(saved.weights.reason for saved in opened.values())
    parameters = dict(model.named_parameters())
    parts = "" if found.keys() == parameters.keys() else f"; taken: {described(set(found), model)}"
    say(f"the run starts with the weights of {paths}: {reasons}{parts}")
    first = next(iter(opened.values()))
    origin = InitialWeights(
        run=", ".join(f"{saved.path.resolve()}" if stack is None else f"{stack} {saved.path.resolve()}"
                      for stack, saved in opened.items()),
        step=first.weights.step, weights=first.weights.kind, tensors=fingerprint(found),
    )  # fmt: skip
    return StartWeights({name: found.get(name, parameter.detach()) for name, parameter in parameters.items()}, origin)


def _has_labels_of(saved: Saved, corpus: Corpus) -> bool:
    """Whether the classes of a saved model are those of the corpus, if there are some."""
    both = (saved.tokenizers.labels, corpus.tokenizers.labels)
    theirs, ours = (None if labels is None else labels.fingerprint for labels in both)
    return theirs == ours


def _opened(path: Path) -> Saved:
    if not path.is_dir():
        raise CheckpointError(
            f"{path}: no such directory; training.init_from takes a run or an exported folder{hub_note(path)}"
        )
    return open_saved(path)
