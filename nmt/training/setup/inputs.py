"""The inputs of a run, which each rank reads and checks before the run starts."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from nmt.config import Config, TrainingConfig
from nmt.console import say
from nmt.data.corpus import Corpora
from nmt.data.examples import Change, change_of, in_turn
from nmt.data.modifiers import Modifiers
from nmt.data.tagging import Tagging
from nmt.data.windows import Windows
from nmt.errors import CheckpointError, ConfigError, DataError
from nmt.layout import DataDir, RunDir
from nmt.model.device import pick_device
from nmt.model.stacks import make_model
from nmt.model.transformer import Model
from nmt.runs.checkpoint import most_bytes
from nmt.text.imported import ImportedTokenizer
from nmt.training.parallel import World
from nmt.training.setup.init_from import freeze


@dataclass(frozen=True)
class Inputs:
    """The corpora, their windows, the modifiers of pairs, the device and the model.

    If the model is `to_shard`, rank 0 has an unsharded `copy` for validation.
    """

    corpora: Corpora
    windows: Windows
    modifiers: Modifiers | None
    change: Change | None
    """The function that changes the pairs of each update, as in `Session`."""
    device: torch.device
    model: Model
    copy: Model | None
    to_shard: bool


def read_inputs(config: Config, data: DataDir, world: World, tags: Sequence[str] = ()) -> Inputs:
    """Read and check the corpora, and create the model. Raises ConfigError or DataError.

    tags: the tags that a run with several directions, or the one that it starts from, has already.
    """
    if config.data.has_labels and config.training.facts.writes_text:
        raise ConfigError(
            f"data.direction: {config.data.direction} has labels instead of translations; use "
            f"training.objective: classification, not {config.training.facts.name}"
        )
    if config.training.start_share and not isinstance(config.training.init_from, str):
        raise ConfigError("training.start_share: needs one run that the whole model starts from; see --init-from")
    corpora = _read_corpora(config, data, tags)
    device = pick_device(config.training.device)
    world.set_device(device)
    settings, windows = config.training, Windows(corpora, config)
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
    modifiers = Modifiers(corpora, config) if settings.modifiers else None
    change = in_turn(
        modifiers.modified if modifiers else None,
        Tagging(corpora, config).tagged if config.data.has_language_tags or config.data.tag_names else None,
        change_of(config, corpora.tokenizers, settings.seed),
    )
    return Inputs(corpora, windows, modifiers, change, device, model, copy, to_shard)


def _read_corpora(config: Config, data: DataDir, tags: Sequence[str]) -> Corpora:
    corpora = Corpora.open(data, config.data, tags)
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
