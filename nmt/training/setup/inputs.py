"""The inputs of a run, which each rank reads and checks before the run starts: corpora, model and initial weights."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from nmt.config import Config, TrainingConfig
from nmt.console import say
from nmt.data.corpus import Corpora
from nmt.data.windows import Windows
from nmt.errors import CheckpointError, ConfigError, DataError
from nmt.layout import RunDir
from nmt.model.device import pick_device
from nmt.model.stacks import make_model
from nmt.model.transformer import Model
from nmt.runs.checkpoint import Tensors, most_bytes, saved_steps
from nmt.runs.folder import fingerprint
from nmt.runs.info import InitialWeights, RunInfo
from nmt.runs.model import Saved, open_saved
from nmt.text.imported import ImportedTokenizer
from nmt.text.tokenizer import LosslessTokenizer, Tokenizer
from nmt.training.objectives import Objective, make_objective
from nmt.training.parallel import World, shard_like
from nmt.training.plan import Plan


@dataclass(frozen=True)
class Inputs:
    """The corpora, their windows, the objective, the device and the model.

    If the model is `to_shard`, rank 0 has an unsharded `copy` for validation.
    """

    corpora: Corpora
    windows: Windows
    objective: Objective
    device: torch.device
    model: Model
    copy: Model | None
    to_shard: bool


def read_inputs(plan: Plan, world: World) -> Inputs:
    """Read and check the corpora, and create the model. Raises ConfigError or DataError."""
    config = plan.config
    if config.data.has_labels and config.training.facts.writes_text:
        raise ConfigError(
            f"data.direction: {config.data.direction} has labels instead of translations; use "
            f"training.objective: classification, not {config.training.facts.name}"
        )
    if config.training.start_share and not isinstance(config.training.init_from, str):
        raise ConfigError("training.start_share: needs one run that the whole model starts from; see --init-from")
    corpora = _read_corpora(plan)
    device = pick_device(config.training.device)
    world.set_device(device)
    settings, objective = config.training, make_objective(config, corpora.tokenizers, corpora)
    windows = Windows(corpora, config, objective.examples)
    torch.manual_seed(settings.seed)
    sizes = corpora.tokenizers.sizes
    model, copy = make_model(config, sizes), None
    freeze(model, settings.freeze)
    if settings.freeze and settings.init_from is None and world.is_rank0:
        say(f"training.freeze: {', '.join(settings.freeze)} keep random weights because training.init_from is not set")
    to_shard = settings.parallel == "fsdp" and world.size > 1
    if not to_shard:
        model = model.to(device)
    elif world.is_rank0:  # sharding moves the model to the device layer by layer, since as a whole it may not fit there
        copy = make_model(config, sizes).to(device)
    return Inputs(corpora, windows, objective, device, model, copy, to_shard)


def _read_corpora(plan: Plan) -> Corpora:
    config, data = plan.config, plan.data
    corpora = Corpora.open(data, config.data, plan.tags)
    for corpus in corpora.distinct:
        if not corpus.is_sharded:  # shards are verified when a window first reads them
            corpus.verify("train", ("ids", "ends"))
        corpus.verify("valid")
        if config.learns_lines:
            for language in corpus.mono_languages:
                corpus.verify_mono(language)
    imported = corpora.tokenizers.imported
    unigram = all(
        isinstance(each, ImportedTokenizer) and each.is_unigram for each in corpora.tokenizers.by_language.values()
    )
    if imported is not None and (problems := list(_unavailable(config.training))):
        raise ConfigError(*problems)
    if config.training.subword_nbest > 1 and not unigram:
        raise ConfigError("training.subword_nbest: needs a unigram tokenizer, imported or as tokenizer.model")
    if corpora.tokenizers.only_direction not in (None, config.data.direction):
        raise DataError(
            f"{data.path}: was prepared with an imported tokenizer, which serves {corpora.tokenizers.only_direction} "
            f"and not {config.data.direction}; prepare the text again"
        )
    if not corpora.tokenizers.joint and config.joint_settings:
        raise DataError(
            f"{data.path}: has a vocabulary for each language, but {config.joint_settings[0]} needs a joint one; "
            "prepare the data again"
        )
    return corpora


def _unavailable(training: TrainingConfig) -> Iterator[str]:
    """Yield a problem for each setting that an imported tokenizer does not support."""
    for name, is_set, reason in (
        ("bpe_dropout", training.bpe_dropout, "unigram ones have training.subword_nbest"),
        ("modifiers", training.modifiers, "which does not restore the text to modify"),
        ("masked.pair_task", training.masked.pair_task, "which segments only its own language"),
    ):
        if is_set:
            yield f"training.{name}: not available with an imported tokenizer or tokenizer.model; {reason}"


def check_sentences(config: Config, sets: dict[str, int]) -> None:
    """Raise ConfigError for sentences longer than the settings allow, which would otherwise fail hours later.

    `sets` has the length of the longest sentence of each set, including the end of sentence.
    """
    problems, max_tokens = [], config.training.max_tokens
    for name, longest in sets.items():
        limits = {"training.max_tokens": max_tokens} if name == "training set" and isinstance(max_tokens, int) else {}
        if config.model.positions == "learned":
            limits["model.max_positions"] = config.model.max_positions
        problems += [
            f"{key}: {limit} is too small for a sentence of {longest} pieces in the {name}"
            for key, limit in limits.items()
            if longest > limit
        ]
    if problems:
        raise ConfigError(*problems)


def check_disk(run: RunDir, n_parameters: int, settings: TrainingConfig, resume: bool) -> str | None:
    """Return a message about the disk space for checkpoints, or None for a resumed run that has enough.

    Raises CheckpointError if a new run needs more space than is free.
    """
    most = most_bytes(n_parameters, settings.keep_last + (settings.start_share > 0), settings.ema > 0)
    here = next(path for path in (run.path, *run.path.absolute().parents) if path.exists())
    free = shutil.disk_usage(here).free
    taken = sum(path.stat().st_size for path in run.checkpoints.rglob("*") if path.is_file())
    text = f"checkpoints take up to {most / 1e6:,.0f} MB (training.keep_last), {free / 1e6:,.0f} MB are free"
    if most <= free + taken:
        return None if resume else text
    if resume:
        return f"{text}, which may not be enough"
    raise CheckpointError(f"{run.path}: {text}; free some space, or lower training.keep_last")


PARTS = {
    "embeddings": r"(encoder|decoder)\.embedding\.|output(_bias)?$",
    "encoder": r"encoder\.(layers|norm)\.",
    "decoder": r"decoder\.(layers|norm)\.",
    "cross_attention": r"decoder\.layers\.\d+\.cross_attention(_residual)?\.",
    "head": r"head\.",
}
"""The parts of a model, as patterns of parameter names. Cross-attention is also a part of the decoder."""
_OF_VOCABULARY = r"(encoder|decoder)\.embedding\.weight$|output(_bias)?$"
"""A pattern of the parameters that have a row for each piece."""

_MAY_DIFFER = {
    "kind",
    "encoder_layers",
    "decoder_layers",
    "tie_embeddings",
    "max_positions",
    "output_bias",
    "start_embedding",
}
"""Settings of the model that may differ if a stack is taken from a model of another kind."""


def freeze(model: nn.Module, parts: Sequence[str]) -> None:
    """Freeze parts of a model by the names in `PARTS`.

    Raises ConfigError if the model lacks one of them, or if no weights are left to train.
    """
    parameters = dict(model.named_parameters())
    problems = []
    for part in parts:
        names = [name for name in parameters if re.match(PARTS[part], name)]
        if not names:
            problems.append(f"training.freeze: {part}: the model has no such part")
        for name in names:
            parameters[name].requires_grad_(False)
    if problems:
        raise ConfigError(*problems)
    if not any(parameter.requires_grad for parameter in parameters.values()):
        raise ConfigError(f"training.freeze: {', '.join(parts)}: all weights are frozen; freeze fewer parts")


def read_initial(
    plan: Plan, corpora: Corpora, model: Model, before: RunInfo | None
) -> tuple[Tensors, InitialWeights | None]:
    """Read and check the weights of `training.init_from`, on rank 0, and return them with their entry in run.json.

    There are no weights if the run starts at random or resumes from its own checkpoint. `before` is the run.json of a
    resumed run; without a checkpoint, the run starts over with the same weights as before.
    Raises ConfigError, CheckpointError or DataError.
    """
    origin, run = None if before is None else before.initial, plan.run
    if not plan.start or (before and (saved_steps(run) or not run.checkpoints.is_dir())):
        return {}, origin
    tensors, found = _read_weights(plan, corpora, model)
    if origin is not None and found.tensors != origin.tensors:
        raise CheckpointError(
            f"{run.path}: no checkpoint yet, and {found.run} no longer has the weights of step {origin.step} with "
            "which the run started; start another run"
        )
    return tensors, found


def load_initial(model: Model, tensors: Tensors, world: World) -> None:
    """Copy the weights of rank 0 into the model of every rank, whole or sharded; without weights, the model keeps its
    random initialization."""
    if not world.on_rank0(lambda: bool(tensors)):
        return
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            tensor = tensors.pop(name) if world.is_rank0 else torch.empty(parameter.shape)
            world.broadcast(tensor)
            parameter.copy_(shard_like(tensor, parameter))


def _read_weights(plan: Plan, corpora: Corpora, model: Model) -> tuple[Tensors, InitialWeights]:
    """Read the weights of one run, or of one run for each stack; parameters without saved weights keep their values."""
    config = plan.config
    opened = {stack: open_saved(path) for stack, path in plan.start.items()}
    stacks = {stack: _stacks(saved, config, stack) for stack, saved in opened.items()}
    problems = [p for stack, saved in opened.items() for p in _mismatches(saved, config, corpora, stacks[stack])]
    if problems:
        raise ConfigError(*problems)
    found: Tensors = {}
    spelled = {stack: _spelled(saved, corpora) for stack, saved in opened.items()}
    for stack, saved in opened.items():
        is_same = stack is None and saved.config.model.stacks == config.model.stacks and _has_labels_of(saved, corpora)
        taken = _taken(saved, model, stacks[stack], spelled[stack], takes_all=is_same)
        found = taken | found  # of tied embeddings, the first wins
    paths = _listed(plan.start)
    if not found:
        stack = config.model.stacks[-1]
        hint = f"; {stack}={paths} takes its only stack" if None in plan.start else ""
        raise ConfigError(f"training.init_from: {paths}: has no weights for the {stack}{hint}")
    reasons = "; ".join(saved.weights.reason for saved in opened.values())
    parameters = dict(model.named_parameters())
    parts = "" if found.keys() == parameters.keys() else f"; loaded: {_described(found, model)}"
    known = {tag for saved in opened.values() for tag in saved.tokenizers.tags}
    new = [f"the tag {tag}" for tag in corpora.tokenizers.tags if tag not in known]
    if n := max(map(len, spelled.values())):
        new.append(f"{n:,} pieces")
    if new and "embeddings" in config.training.freeze:
        raise ConfigError(f"training.freeze: with frozen embeddings, {new[0]} could not be learned")
    parts += f"; new in the vocabulary: {', '.join(new)}" if new else ""
    say(f"the run starts with the weights of {paths}: {reasons}{parts}")
    first = next(iter(opened.values())).weights
    public = next((saved.public for saved in opened.values() if saved.public), None)
    where = _listed({stack: saved.path.resolve() for stack, saved in opened.items()})
    origin = InitialWeights(
        run=where, step=first.step, weights=first.kind, tensors=fingerprint(found),
        **({} if public is None else {"public": public}),
    )  # fmt: skip
    # on the CPU, as saved ones, for `World.broadcast`
    return {name: found.get(name, parameter.detach().cpu()) for name, parameter in parameters.items()}, origin


def _listed(runs: Mapping[str | None, object]) -> str:
    return ", ".join(f"{path}" if stack is None else f"{stack} {path}" for stack, path in runs.items())


def _stacks(saved: Saved, config: Config, stack: str | None) -> dict[str, str]:
    """Map each stack to be initialized, `stack` or all if it is None, to the stack of a saved model that initializes
    it.

    A model with only another stack fills `stack` with that one: an encoder of masked lines can initialise a decoder.
    """
    theirs = saved.config.model.stacks
    if stack is None:
        return {name: name for name in config.model.stacks if name in theirs}
    return {stack: stack if stack in theirs else theirs[0]}


def _spelled(saved: Saved, corpora: Corpora) -> list[list[int]]:
    """Return, for each piece by which the corpora's tokenizer extends that of a saved model, the ids of the pieces of
    the latter that spell it."""
    ours, theirs = (next(iter(each.by_language.values())) for each in (corpora.tokenizers, saved.tokenizers))
    if not (isinstance(ours, LosslessTokenizer) and isinstance(theirs, LosslessTokenizer) and ours.extends(theirs)):
        return []
    return theirs.encode_parts(ours.texts(range(theirs.n_pieces, ours.n_pieces)))


def _taken(
    saved: Saved, model: nn.Module, stacks: Mapping[str, str], spelled: Sequence[Sequence[int]], takes_all: bool
) -> Tensors:
    """Return the weights of a saved model under the parameter names of `model`. Raises CheckpointError if a shape does
    not fit.

    `stacks` maps our stacks to theirs; the last one comes with its output layer, and with `takes_all` also the head.
    New pieces, before the tags, start with the mean of the pieces that spell them.
    """
    theirs = saved.weights.tensors
    if saved.config.model.is_encoder_decoder and saved.config.model.tie_embeddings == "all":
        shared = {name: tensor for name, tensor in theirs.items() if name.startswith("encoder.embedding.")}
        theirs = theirs | {name.replace("encoder", "decoder", 1): tensor for name, tensor in shared.items()}
    own = {id(parameter): name for name, parameter in model.named_parameters()}
    last = "decoder" if hasattr(model, "decoder") else "encoder"
    takes_output = stacks.get(last) == saved.config.model.stacks[-1]
    found: Tensors = {}
    for alias, parameter in model.named_parameters(remove_duplicate=False):
        first, _, rest = alias.partition(".")
        name = f"{stacks[first]}.{rest}" if first in stacks else alias
        is_wanted = first in stacks or takes_all or (alias in ("output", "output_bias") and takes_output)
        if is_wanted and name in theirs:
            tensor = theirs[name]
            if re.match(_OF_VOCABULARY, alias) and len(tensor) < len(parameter):
                if spelled:
                    means = torch.stack([tensor[ids].float().mean(0) for ids in spelled]).to(tensor.dtype)
                    n = len(tensor) - len(saved.tokenizers.tags)
                    tensor = torch.cat((tensor[:n], means, tensor[n:]))
                new = parameter.detach().cpu()[len(tensor) :]  # tags
                tensor = torch.cat((tensor, new if new.dim() > 1 else tensor.min().expand(len(new))))
            if tensor.shape != parameter.shape:
                shapes = f"has shape {tuple(tensor.shape)}, this model needs {tuple(parameter.shape)} for {alias}"
                raise CheckpointError(f"{saved.path}: {name} {shapes}")
            found.setdefault(own[id(parameter)], tensor.float())
    return found


def _described(found: Tensors, model: nn.Module) -> str:
    """List the parts of a model for which weights were found, and the parts with parameters that keep random values."""
    parts: dict[str, list[bool]] = {}
    for name, _ in model.named_parameters():
        part = next(part for part in reversed(PARTS) if re.match(PARTS[part], name))  # cross_attention first
        parts.setdefault(part.replace("_", "-"), []).append(name in found)
    some = ", ".join(part for part, is_found in parts.items() if any(is_found))
    return f"{some}; new: {', '.join(part for part, is_found in parts.items() if not all(is_found))}"


def _mismatches(saved: Saved, config: Config, corpora: Corpora, stacks: Mapping[str, str]) -> Iterator[str]:
    """Yield a message for each reason why a model cannot start with saved weights; for `stacks` see `_taken`."""
    ours = corpora.tokenizers
    wanted, known = config.data.text_languages, saved.tokenizers.with_tags(ours.tags)
    if config.data.has_language_tags and known.joint and not known.is_public:
        known = known.of_languages(wanted)  # a language may be new
    theirs = known.by_language
    if not theirs.keys() >= {*wanted}:
        yield (
            f"{saved.path}: found the languages {' and '.join(theirs)}, wanted {' and '.join(wanted)}; start from a "
            "run with these languages"
        )
    elif any(not _continues(ours[language], theirs[language]) for language in wanted):
        yield (
            f"{corpora.directory.path}: its tokenizer is not the one of {saved.path}; reuse that one with nmt prepare "
            f"--tokenizer-from {saved.path}"
        )
    elif not saved.tokenizers.joint:
        languages = (
            (own, _language(config, own), other, _language(saved.config, other)) for own, other in stacks.items()
        )
        for own, reads, other, found in languages:
            if found != reads:
                yield (
                    f"{saved.path}: its {other} reads {found}, the {own} of this run reads {reads}, and each language "
                    "has its own vocabulary; start from a run of this direction, or with a joint vocabulary"
                )
                break
    keys = {key: key for key in type(config.model).model_fields}
    if saved.config.model.stacks != config.model.stacks or any(own != other for own, other in stacks.items()):
        keys = {key: key for key in keys if key not in _MAY_DIFFER}
        keys |= {f"{other}_layers": f"{own}_layers" for own, other in stacks.items()}
    for key, own_key in keys.items():
        value, own_value = getattr(saved.config.model, key), getattr(config.model, own_key)
        is_free = key.endswith("_dropout") or (key == "max_positions" and config.model.positions != "learned")
        if value != own_value and not is_free:
            change = f"--set model.{own_key}={value} adopts it"
            yield f"{saved.path}: found model.{key} = {value}, wanted {own_value}; {change}"


def _continues(ours: Tokenizer, theirs: Tokenizer) -> bool:
    """Return whether a tokenizer is that of a saved model, or extends it by pieces."""
    is_extended = isinstance(ours, LosslessTokenizer) and ours.extends(theirs) and [*ours.tags] == [*theirs.tags]
    return is_extended or ours.fingerprint == theirs.fingerprint


def _language(config: Config, stack: str) -> str:
    """Return the language that a stack reads."""
    if config.model.is_encoder_decoder:
        return config.data.src if stack == "encoder" else config.data.tgt
    return config.learned_languages[-1]


def _has_labels_of(saved: Saved, corpora: Corpora) -> bool:
    """Return whether a saved model and the corpora have the same labels, or neither has labels."""
    theirs, ours = saved.tokenizers.labels, corpora.tokenizers.labels
    return (theirs and theirs.fingerprint) == (ours and ours.fingerprint)
