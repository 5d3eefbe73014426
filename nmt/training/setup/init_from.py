"""Fine-tuning: the weights that a new run starts with (`training.init_from`), and the parts that it freezes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
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
from nmt.training.parallel import World, shard_like

# every parameter belongs to embeddings, encoder, decoder or head
PARTS = {
    "embeddings": r"(encoder|decoder)\.embedding\.|output$",
    "encoder": r"encoder\.(layers|norm)\.",
    "decoder": r"decoder\.(layers|norm)\.",
    "cross_attention": r"decoder\.layers\.\d+\.cross_attention(_residual)?\.",
    "head": r"head\.",
}
STACKS = {"translation": ("encoder", "decoder"), "encoder": ("encoder",), "decoder": ("decoder",)}
"""The stacks of each kind of model."""

_MAY_DIFFER = {"kind", "encoder_layers", "decoder_layers", "tie_embeddings", "max_positions"}
"""Settings of the model that may differ if a stack is taken from a model of another kind."""


def stacks_of(saved: Saved, config: Config, stack: str | None) -> dict[str, str]:
    """Return which stack of a saved model initialises which of ours: `stack`, or all of the same name if it is None.

    A model with another stack alone fills `stack` with that: an encoder of masked lines can start a decoder.
    """
    theirs = STACKS[saved.config.model.kind]
    if stack is None:
        return {name: name for name in STACKS[config.model.kind] if name in theirs}
    return {stack: stack if stack in theirs else theirs[0]}


def taken(saved: Saved, model: nn.Module, stacks: Mapping[str, str], takes_all: bool) -> dict[str, Tensor]:
    """Return the weights of a saved model under the names of ours. Raises CheckpointError if a shape does not fit.

    `stacks`: which of theirs is taken for which of ours, the last one with its output layer; with `takes_all` also the
    head.
    """
    theirs = saved.weights.tensors
    if saved.config.model.kind == "translation" and saved.config.model.tie_embeddings == "all":
        shared = {name: tensor for name, tensor in theirs.items() if name.startswith("encoder.embedding.")}
        theirs = theirs | {name.replace("encoder", "decoder", 1): tensor for name, tensor in shared.items()}
    own = {id(parameter): name for name, parameter in model.named_parameters()}
    last = "decoder" if hasattr(model, "decoder") else "encoder"
    takes_output = stacks.get(last) == STACKS[saved.config.model.kind][-1]
    found: dict[str, Tensor] = {}
    for alias, parameter in model.named_parameters(remove_duplicate=False):
        first, _, rest = alias.partition(".")
        name = f"{stacks[first]}.{rest}" if first in stacks else alias
        is_wanted = first in stacks or takes_all or (alias == "output" and takes_output)
        if is_wanted and name in theirs:
            tensor = theirs[name]
            if tensor.shape != parameter.shape:
                shapes = f"has shape {tuple(tensor.shape)}, this model needs {tuple(parameter.shape)} for {alias}"
                raise CheckpointError(f"{saved.path}: {name} {shapes}")
            found.setdefault(own[id(parameter)], tensor.float())
    return found


def described(names: set[str], model: nn.Module) -> str:
    """Describe which parts of a model these parameters are, and which parts are left."""
    there: dict[str, list[str]] = {}
    for name, _ in model.named_parameters():
        part = next(part for part in reversed(PARTS) if re.match(PARTS[part], name))  # cross_attention first
        there.setdefault(part, []).append(name)
    whole = [part for part, of in there.items() if names.issuperset(of)]
    some = [f"a part of {part}" for part, of in there.items() if part not in whole and not names.isdisjoint(of)]
    new = [part for part, of in there.items() if names.isdisjoint(of)]
    return f"{', '.join([*whole, *some])}; new: {', '.join(new) or 'nothing'}".replace("_", "-")


def mismatches(saved: Saved, config: Config, corpus: Corpus, stacks: Mapping[str, str]) -> Iterator[str]:
    """Yield a message for each reason why a model cannot start with saved weights; `stacks`: see `taken`."""
    theirs, ours = saved.config, config
    if ours.data.has_labels:
        yield from _other_texts(saved, config, corpus)
        if not saved.tokenizers.joint:
            yield from _other_vocabularies(saved, ours, stacks)
    elif theirs.data.languages != ours.data.languages:
        found, wanted = (" and ".join(side.data.languages) for side in (theirs, ours))
        yield f"{saved.path}: found the languages {found}, wanted {wanted}; start with a run of these"
    elif saved.tokenizers.fingerprint != corpus.tokenizers.fingerprint:
        yield (
            f"{corpus.directory.path}: its tokenizer is not the one of {saved.path}; reuse that one with nmt prepare "
            f"--tokenizer-from {saved.path}"
        )
    elif not saved.tokenizers.joint:
        yield from _other_vocabularies(saved, ours, stacks)
    keys = {key: key for key in type(ours.model).model_fields}
    if theirs.model.kind != ours.model.kind or any(own != other for own, other in stacks.items()):
        keys = {key: key for key in keys if key not in _MAY_DIFFER}
        keys |= {f"{other}_layers": f"{own}_layers" for own, other in stacks.items()}
    for key, own_key in keys.items():
        value, own = getattr(theirs.model, key), getattr(ours.model, own_key)
        is_free = key.endswith("_dropout") or (key == "max_positions" and ours.model.positions == "sinusoidal")
        if value != own and not is_free:
            change = f"--set model.{own_key}={value} adopts it"
            yield f"{saved.path}: found model.{key} = {value}, wanted {own}; {change}"


def _other_texts(saved: Saved, config: Config, corpus: Corpus) -> Iterator[str]:
    """Yield a message if saved weights have another language or vocabulary than the labelled texts."""
    language, theirs = config.data.src, saved.tokenizers.by_language
    if language not in theirs:
        yield f"{saved.path}: found the languages {' and '.join(theirs)}, wanted {language}; start with a run of that"
    elif theirs[language].fingerprint != corpus.tokenizers[language].fingerprint:
        yield (
            f"{corpus.directory.path}: its tokenizer is not the one of {saved.path}; reuse that one with nmt prepare "
            f"--tokenizer-from {saved.path}"
        )


def _other_vocabularies(saved: Saved, ours: Config, stacks: Mapping[str, str]) -> Iterator[str]:
    """Yield a message if, with separate vocabularies, a saved embedding has another language than ours."""

    def language(config: Config, stack: str) -> str:
        if config.model.kind == "translation":
            return config.data.src if stack == "encoder" else config.data.tgt
        return config.learned_languages[-1]

    for own, other in stacks.items():
        found, wanted = language(saved.config, other), language(ours, own)
        if found != wanted:
            yield (
                f"{saved.path}: its {other} reads {found}, the {own} of this run {wanted}: with a vocabulary for each "
                f"language the embeddings of {found} cannot be those of {wanted}; start with a run of this direction, "
                "or of a joint vocabulary"
            )
            return


def freeze(model: nn.Module, parts: Sequence[str]) -> None:
    """Freeze these parts of a `Model`, see `PARTS`. Raises ConfigError if nothing is left to learn."""
    for name, parameter in model.named_parameters():
        if any(re.match(PARTS[part], name) for part in parts):
            parameter.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ConfigError([f"training.freeze: {', '.join(parts)} freeze all weights, so there is nothing to train"])


Source = str | Mapping[Literal["encoder", "decoder"], str]
"""A run, or one for each stack, as `training.init_from` names them."""


@dataclass(frozen=True)
class StartWeights:
    """The weights that a new run starts with, on rank 0 until `load_initial`, and their entry in run.json."""

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
    """Read the weights of a run, or of a run for each stack; weights that they lack stay as they are."""
    runs: dict[str | None, str] = {None: source} if isinstance(source, str) else dict(source.items())
    opened = {stack: _opened(Path(path)) for stack, path in runs.items()}
    stacks = {stack: stacks_of(saved, config, stack) for stack, saved in opened.items()}
    problems = [p for stack, saved in opened.items() for p in mismatches(saved, config, corpus, stacks[stack])]
    if problems:
        raise ConfigError(problems)
    found: dict[str, Tensor] = {}
    for stack, saved in opened.items():
        is_same = stack is None and saved.config.model.kind == config.model.kind and _has_labels_of(saved, corpus)
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
    """Whether a saved model has the classes of the corpus, if there are any."""
    both = (saved.tokenizers.labels, corpus.tokenizers.labels)
    theirs, ours = (None if labels is None else labels.fingerprint for labels in both)
    return theirs == ours


def _opened(path: Path) -> Saved:
    if not path.is_dir():
        raise CheckpointError(
            f"{path}: no such directory; training.init_from takes a run or an exported folder{hub_note(path)}"
        )
    return open_saved(path)
