"""The inputs of a run, which each rank reads and checks before the run starts: corpora, model and initial weights."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from nmt.config import Config
from nmt.console import say
from nmt.data.corpus import Corpora
from nmt.data.windows import Windows
from nmt.errors import CheckpointError, ConfigError, DataError
from nmt.model.device import pick_device
from nmt.model.transformer import Model, make_model
from nmt.model.weights import weights_fingerprint
from nmt.runs.checkpoint import Tensors
from nmt.runs.info import InitialWeights, RunInfo
from nmt.runs.model import Saved, open_saved
from nmt.runs.state import saved_steps
from nmt.text.growth import StartingRows
from nmt.text.imported import ImportedTokenizer
from nmt.text.tokenizer import Tokenizer
from nmt.training.objective import Objective
from nmt.training.parallel import World, shard_like
from nmt.training.plan import TrainingPlan
from nmt.training.setup.objective import make_objective

FEW_JOINED = 0.02
"""A model hardly learns to translate several sentences at once if fewer of its pairs have several: 0.2 % in Multi30k,
1.3 % in Tatoeba, but 5 % in News Commentary, 8 % in Europarl, 15 % in TED."""


@dataclass(frozen=True)
class Inputs:
    """The corpora, their windows, the objective, the device and the model.

    If the model is `to_shard`, rank 0 has an unsharded `copy` for validation.
    """

    plan: TrainingPlan
    """The plan with the value of `search.split` that auto stands for."""
    corpora: Corpora
    windows: Windows
    training_objective: Objective
    device: torch.device
    model: Model
    copy: Model | None
    to_shard: bool

    @property
    def config(self) -> Config:
        """The configuration of the run."""
        return self.plan.config


def read_inputs(plan: TrainingPlan, world: World) -> Inputs:
    """Read and check the corpora, and create the model. Raises ConfigError or DataError."""
    corpora = _read_corpora(plan)
    config = with_split(plan.config, corpora)
    settings = config.training
    device = pick_device(settings.device)
    world.set_device(device)
    objective = make_objective(config, corpora.tokenizers, corpora)
    windows = Windows(corpora, config.data, settings, config.learned_languages, objective.examples)
    torch.manual_seed(settings.seed)
    sizes = config.sizes(corpora.tokenizers.sizes)
    model = make_model(config.model, sizes)
    copy = None
    freeze(model, settings.freeze)
    for stack in model.stacks:
        stack.recomputes = settings.recompute
    if settings.freeze and not plan.start and world.is_rank0:
        say(f"training.freeze: {', '.join(settings.freeze)} keep random weights because training.init_from is not set")
    to_shard = settings.parallel == "fsdp" and world.size > 1
    if not to_shard:
        model = model.to(device)
    elif world.is_rank0:  # sharding moves the model to the device layer by layer, since as a whole it may not fit there
        copy = make_model(config.model, sizes).to(device)
    return Inputs(replace(plan, config=config), corpora, windows, objective, device, model, copy, to_shard)


def _read_corpora(plan: TrainingPlan) -> Corpora:
    """Read and verify the data directory, and check that it suits the settings. Raises ConfigError or DataError."""
    config = plan.config
    training = config.training
    path = plan.data.path
    if config.data.has_labels and training.facts.writes_text:
        raise ConfigError(
            f"data.direction: {config.data.direction} has labels instead of translations, which need the objective "
            f"classification, not {training.facts.name}"
        )
    if training.start_share and None not in plan.start:
        raise ConfigError("training.start_share: needs one run that the whole model starts from; see --init-from")
    corpora = Corpora.open(plan.data, config.data, plan.tags)
    for corpus in corpora.distinct:
        if not corpus.is_sharded:  # shards are verified when a window first reads them
            corpus.verify("train", ("ids", "ends"))
        corpus.verify("valid")
        if training.learns_lines:
            for language in corpus.mono_languages:
                corpus.verify_mono(language)
    tokenizers = corpora.tokenizers
    if tokenizers.imported is not None:
        _check_imported(config)
    for tokenizer in tokenizers.by_language.values():
        is_unigram = isinstance(tokenizer, ImportedTokenizer) and tokenizer.is_unigram
        if training.subword_nbest > 1 and not is_unigram:
            raise ConfigError("training.subword_nbest: needs a unigram tokenizer, imported or as tokenizer.model")
    if tokenizers.only_direction not in (None, config.data.direction):
        raise DataError(
            f"{path}: was prepared with an imported tokenizer, which serves {tokenizers.only_direction} "
            f"and not {config.data.direction}; prepare the text again"
        )
    if not tokenizers.joint and config.joint_settings:
        raise DataError(
            f"{path}: has a vocabulary for each language, but {config.joint_settings[0]} needs a joint one; "
            "prepare the data again"
        )
    return corpora


def _check_imported(config: Config) -> None:
    """Raise ConfigError for settings that an imported tokenizer does not support."""
    training = config.training
    unavailable = (
        ("bpe_dropout", training.bpe_dropout, "unigram ones have training.subword_nbest"),
        ("modifiers", training.modifiers, "which does not restore the text to modify"),
        ("masked.pair_task", training.masked.pair_task, "which segments only its own language"),
    )
    problems = [
        f"training.{name}: not available with an imported tokenizer or tokenizer.model; {reason}"
        for name, value, reason in unavailable
        if value
    ]
    if problems:
        raise ConfigError(*problems)


def with_split(config: Config, corpora: Corpora) -> Config:
    """Return the configuration with the value of `search.split` that auto stands for with this training text.

    It is recorded in the run, whose exports need no training text.
    """
    if config.search.split != "auto":
        return config
    share = max(corpus.manifest.several for corpus in corpora.distinct)
    split = "always" if share < FEW_JOINED and not config.joins_sentences else "long"
    return config.model_copy(update={"search": config.search.model_copy(update={"split": split})})


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
_MAY_DIFFER = [
    "kind",
    "encoder_layers",
    "decoder_layers",
    "tie_embeddings",
    "max_positions",
    "output_bias",
    "start_embedding",
]
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


def read_initial(inputs: Inputs, before: RunInfo | None) -> tuple[Tensors, InitialWeights | None]:
    """Read and check the weights of `training.init_from`, on rank 0, and return them with their entry in run.json.

    There are no weights if the run starts at random or resumes from its own checkpoint. `before` is the run.json of a
    resumed run; without a checkpoint, the run starts over with the same weights as before.
    Raises ConfigError, CheckpointError or DataError.
    """
    run = inputs.plan.run
    recorded = None
    if before is not None:
        recorded = before.initial
        if saved_steps(run) or not run.checkpoints.is_dir():
            return {}, recorded
    if not inputs.plan.start:
        return {}, recorded
    tensors, initial = _read_weights(inputs)
    if recorded is not None and initial.tensors != recorded.tensors:
        raise CheckpointError(
            f"{run.path}: no checkpoint yet, and {initial.run} no longer has the weights of step {recorded.step} with "
            "which the run started; start another run"
        )
    return tensors, initial


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


def _read_weights(inputs: Inputs) -> tuple[Tensors, InitialWeights]:
    """Read the weights of one run, or of one run for each stack; parameters without saved weights keep their values."""
    starts = inputs.plan.start
    sources = [_Source(open_saved(path), stack, inputs) for stack, path in starts.items()]
    if problems := [problem for source in sources for problem in source.mismatches()]:
        raise ConfigError(*problems)
    tensors: Tensors = {}
    for source in sources:
        tensors = source.weights() | tensors  # of tied embeddings, the first wins
    paths = _listed(starts)
    if not tensors:
        stack = inputs.config.model.stacks[-1]
        hint = f"; {stack}={paths} takes its only stack" if None in starts else ""
        raise ConfigError(f"training.init_from: {paths}: has no weights for the {stack}{hint}")
    parameters = dict(inputs.model.named_parameters())
    notes = "; ".join(source.saved.weights.reason for source in sources)
    if tensors.keys() != parameters.keys():
        notes += f"; loaded: {_described(tensors, inputs.model)}"
    new = _new_in_vocabulary(sources, inputs)
    if new:
        notes += f"; new in the vocabulary: {', '.join(new)}"
    say(f"the run starts with the weights of {paths}: {notes}")
    first = sources[0].saved.weights
    initial = InitialWeights(
        run=_listed({stack: path.resolve() for stack, path in starts.items()}),
        step=first.step,
        weights=first.kind,
        tensors=weights_fingerprint(tensors),
    )
    if new and "embeddings" in inputs.config.training.freeze:
        new_rows = {stack: [*rows.new] for source in sources for stack, rows in source.rows.items()}
        initial = initial.model_copy(update={"new_rows": new_rows})
    for source in sources:
        if source.saved.info.public is not None and initial.public is None:
            initial = initial.model_copy(update={"public": source.saved.info.public})
    # on the CPU, as saved ones, for `World.broadcast`
    return {name: tensors.get(name, parameter.detach().cpu()) for name, parameter in parameters.items()}, initial


def _listed(runs: Mapping[str | None, object]) -> str:
    return ", ".join(f"{path}" if stack is None else f"{stack} {path}" for stack, path in runs.items())


def _new_in_vocabulary(sources: Sequence[_Source], inputs: Inputs) -> list[str]:
    """Describe the tags and pieces that no source has."""
    tokenizer = next(iter(inputs.corpora.tokenizers.by_language.values()))
    rows = set[int].intersection(*({*rows.new} for source in sources for rows in source.rows.values()))
    tags = sorted(row for row in rows if row >= tokenizer.n_pieces)
    new = [f"the tag {name.removeprefix('>>').removesuffix('<<')}" for name in tokenizer.pieces(tags)]
    if n_pieces := max(len(rows.new) for source in sources for rows in source.rows.values()) - len(tags):
        new.append(f"{n_pieces:,} pieces")
    return new


def learn_new_rows(inputs: Inputs, initial: InitialWeights | None) -> dict[str, Tensor]:
    """Unfreeze the new rows of frozen tables. Returns a mask (V, 1) of each such table, by the name of the parameter,
    which is 1 where rows are learned. Raises ConfigError if the tables are sharded."""
    if initial is None or not initial.new_rows:
        return {}
    if inputs.to_shard:
        raise ConfigError(
            "training.freeze: new rows of frozen embeddings cannot be learned with training.parallel=fsdp"
        )
    masks = {}
    for name, parameter in inputs.model.named_parameters():
        stack = name.partition(".")[0]
        if re.match(_OF_VOCABULARY, name) and parameter.dim() > 1:
            parameter.requires_grad_(True)
            masks[name] = torch.zeros(len(parameter), 1, device=parameter.device)
            masks[name][initial.new_rows.get(stack, initial.new_rows.get(inputs.config.model.stacks[-1], []))] = 1
    return masks


def _described(tensors: Tensors, model: nn.Module) -> str:
    """List the parts of a model for which weights were found, and the parts with parameters that keep random values."""
    loaded = dict[str, None]()
    new = dict[str, None]()
    for name, _ in model.named_parameters():
        part = next(part for part in reversed(PARTS) if re.match(PARTS[part], name))  # cross_attention first
        parts = loaded if name in tensors else new
        parts[part.replace("_", "-")] = None
    return f"{', '.join(loaded)}; new: {', '.join(new)}"


class _Source:
    """A saved model with whose weights a stack starts, or all stacks if `stack` is None."""

    def __init__(self, saved: Saved, stack: str | None, inputs: Inputs) -> None:
        self.saved = saved
        self._inputs = inputs
        config = inputs.config
        tokenizers = inputs.corpora.tokenizers
        ours = config.model.stacks
        theirs = saved.config.model.stacks
        self._stacks = {name: name for name in ours if name in theirs}
        """Each stack to be initialized, and the stack of the saved model that initializes it."""
        if stack is not None:  # a model with only another stack fills it with that one
            self._stacks = {stack: stack if stack in theirs else theirs[0]}
        self._is_same_kind = ours == theirs
        our_labels = tokenizers.labels
        their_labels = saved.tokenizers.labels
        has_same_labels = (our_labels and our_labels.fingerprint) == (their_labels and their_labels.fingerprint)
        self._is_whole = stack is None and self._is_same_kind and has_same_labels
        self.rows: dict[str, StartingRows] = {}
        """The rows with which the tables of our stacks start; all have the same in a joint vocabulary."""
        for name in self._stacks:
            if not (tokenizers.joint and self.rows):
                language = _language(config, name)
                rows = StartingRows.of(tokenizers, saved.tokenizers, language, config.tokenizer.like)
            self.rows[name] = rows

    def weights(self) -> Tensors:
        """Return the saved weights under the parameter names of our model.

        The last stack comes with its output layer, and the whole of a model of the same kind and labels with its head.
        Raises CheckpointError if a shape does not fit.
        """
        model = self._inputs.model
        saved = self.saved.config.model
        stacks = self._stacks
        theirs = dict(self.saved.weights.tensors)
        if saved.is_encoder_decoder and saved.tie_embeddings == "all":
            for name in self.saved.weights.tensors:
                if name.startswith("encoder.embedding."):
                    theirs[name.replace("encoder", "decoder", 1)] = theirs[name]
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        takes_output = stacks.get(self._inputs.config.model.stacks[-1]) == saved.stacks[-1]
        taken: Tensors = {}
        for alias, parameter in model.named_parameters(remove_duplicate=False):
            stack, _, of_stack = alias.partition(".")
            name = alias
            if stack in stacks:
                name = f"{stacks[stack]}.{of_stack}"
            elif not (self._is_whole or (takes_output and alias in ("output", "output_bias"))):
                continue
            if name not in theirs:
                continue
            tensor = theirs[name]
            if re.match(_OF_VOCABULARY, alias) and len(tensor) < len(parameter):
                tensor = _extended(tensor, parameter, self.rows[stack if stack in stacks else [*stacks][-1]])
            if tensor.shape != parameter.shape:
                shapes = f"has shape {tuple(tensor.shape)}, this model needs {tuple(parameter.shape)} for {alias}"
                raise CheckpointError(f"{self.saved.path}: {name} {shapes}")
            taken.setdefault(names[id(parameter)], tensor.float())
        return taken

    def mismatches(self) -> Iterator[str]:
        """Yield a message for each reason why our model cannot start with the saved weights."""
        path = self.saved.path
        config = self._inputs.config
        yield from self._other_text()
        keys = {key: key for key in type(config.model).model_fields}
        if not self._is_same_kind or any(ours != theirs for ours, theirs in self._stacks.items()):
            keys = {key: key for key in keys if key not in _MAY_DIFFER}
            keys |= {f"{theirs}_layers": f"{ours}_layers" for ours, theirs in self._stacks.items()}
        for key, our_key in keys.items():
            theirs = getattr(self.saved.config.model, key)
            ours = getattr(config.model, our_key)
            if theirs != ours and not key.endswith("_dropout"):
                change = f"--set model.{our_key}={theirs} adopts it"
                yield f"{path}: found model.{key} = {theirs}, wanted {ours}; {change}"

    def _other_text(self) -> Iterator[str]:
        """Yield a message if languages or tokenizers do not fit."""
        path = self.saved.path
        config = self._inputs.config
        corpora = self._inputs.corpora
        ours = corpora.tokenizers
        languages = config.data.text_languages
        known = self.saved.tokenizers.with_tags(ours.tags)
        theirs = known.by_language
        if known.joint and known.only_direction is None and (config.data.has_language_tags or known.is_public):
            theirs = dict.fromkeys(languages, next(iter(theirs.values())))  # a language may be new
        if not theirs.keys() >= {*languages}:
            yield (
                f"{path}: found the languages {' and '.join(theirs)}, wanted {' and '.join(languages)}; start from a "
                "run with these languages"
            )
        elif not all(_continues(ours[language], theirs[language]) for language in languages):
            yield (
                f"{corpora.directory.path}: its tokenizer is not the one of {path}; reuse that one with nmt prepare "
                f"--tokenizer-from {path}"
            )
        elif not known.joint:
            for stack, other in self._stacks.items():
                language = _language(config, stack)
                other_language = _language(self.saved.config, other)
                if other_language != language:
                    yield (
                        f"{path}: its {other} reads {other_language}, the {stack} of this run reads {language}, and "
                        "each language has its own vocabulary; start from a run of this direction, or with a joint "
                        "vocabulary"
                    )
                    return


def _extended(tensor: Tensor, parameter: Tensor, starts: StartingRows) -> Tensor:
    """Return a saved table with the rows of new pieces and tags; a tag that is like no other keeps its random row."""
    random = parameter.detach().cpu()
    if random.dim() == 1:
        random = tensor.min().expand(len(random))
    result = tensor[[*starts.known]]
    for row, rows in starts.new.items():
        result[row] = tensor[[*rows]].float().mean(0) if rows else random[row]
    return result


def _continues(ours: Tokenizer, theirs: Tokenizer) -> bool:
    """Return whether a tokenizer equals a saved model's, or extends it by pieces."""
    is_extended = ours.extends(theirs) and [*ours.tags] == [*theirs.tags]
    return is_extended or ours.fingerprint == theirs.fingerprint


def _language(config: Config, stack: str) -> str:
    """Return the language that a stack reads."""
    if config.model.is_encoder_decoder:
        return config.data.src if stack == "encoder" else config.data.tgt
    return config.learned_languages[-1]
