"""Everything the loop needs, made for a new run or restored for one that goes on."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from nmt.checkpoint import (
    Tensors,
    TrainState,
    assign,
    check_fit,
    load_optimizer,
    load_state,
    load_weights,
    restore_optimizer,
    saved_steps,
)
from nmt.config import Config
from nmt.config_file import dump_config, load_config
from nmt.data.batching import Pairs
from nmt.data.corpus import Corpus
from nmt.errors import CheckpointError, ConfigError, DataError, NmtError
from nmt.files import replace_file, sync
from nmt.layout import FORMAT, DataDir, RunDir
from nmt.metadata import read_info
from nmt.model.precision import device_name, pick_device, pick_precision
from nmt.model.transformer import Transformer
from nmt.tokenizer import Tokenizers
from nmt.training.dist import World
from nmt.training.memory import pick_max_tokens
from nmt.training.optim import make_optimizer, make_scaler
from nmt.training.room import check_disk, check_sentences
from nmt.training.stop import Stop
from nmt.training.validate import Validator

# settings that may change when a run goes on: they decide when it ends, what it keeps and shows, and what fits
LIMITS = ("max_steps", "max_epochs", "max_minutes")
MAY_CHANGE = {
    *LIMITS, "patience", "log_every_steps", "validate_every_steps", "save_every_steps", "keep_last", "average_last",
    "max_tokens", "device", "run_dir",
}  # fmt: skip


@dataclass
class Session:
    """One training run in memory."""

    config: Config
    run: RunDir
    pairs: Pairs
    validator: Validator
    model: Transformer
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    state: TrainState
    device: torch.device
    precision: str
    max_tokens: int
    world: World
    stop: Stop
    saved_step: int = 0
    """The step of the last checkpoint that this process has written or read."""
    save_failed: bool = False
    """Whether the last attempt to save has failed."""

    @property
    def optimizer_names(self) -> list[str]:
        """Parameter names in the order in which the optimizer's groups hold them."""
        names = {id(parameter): name for name, parameter in self.model.named_parameters()}
        return [names[id(p)] for group in self.optimizer.param_groups for p in group["params"]]

    @cached_property
    def n_epoch_tokens(self) -> int:
        """Target tokens of an epoch."""
        return int(self.pairs.lengths.tgt.sum())


def start(
    config: Config, data_dir: Path, run_dir: Path, resume: bool, world: World | None = None, stop: Stop | None = None
) -> Session:
    """Check everything, then make a new run in the directory or read the one there.

    Raises ConfigError, DataError or CheckpointError, before anything is written.
    """
    world = world or World()
    run, corpus = RunDir(run_dir), Corpus.open(DataDir(data_dir))
    if tuple(corpus.languages) != config.data.languages:
        found, wanted = " and ".join(corpus.languages), " and ".join(config.data.languages)
        raise DataError(f"{data_dir}: holds {found}, but data.direction = {config.data.direction} needs {wanted}")
    corpus.verify("train", ("ids", "ends"))
    corpus.verify("valid")
    device = pick_device(config.training.device)
    pairs = Pairs(corpus.split("train"), config.data.src, config.data.tgt)
    torch.manual_seed(config.training.seed)
    n_src, n_tgt = (len(corpus.tokenizers[language]) for language in (config.data.src, config.data.tgt))
    model = Transformer(config.model, n_src, n_tgt).to(device)

    def choose() -> dict[str, Any]:
        before = _check_resume(config, run, corpus) if resume else {}
        return _choices(config, before, model, pairs, device, world)

    choices = world.from_first(choose)
    precision, max_tokens = str(choices["precision"]), int(choices["max_tokens"])
    validator = Validator(config, corpus, device, precision, max_tokens)
    check_sentences(config, max_tokens, {"training": pairs, "development": validator.pairs})
    session = Session(
        config=config,
        run=run,
        pairs=pairs,
        validator=validator,
        model=model,
        optimizer=make_optimizer(model, config.training),
        scaler=make_scaler(device, precision),
        state=TrainState(),
        device=device,
        precision=precision,
        max_tokens=max_tokens,
        world=world,
        stop=stop or Stop(),
    )
    if resume:
        restored = world.from_first(lambda: _restore_newest(session))
        if restored is not None and not world.is_first:
            _restore(session, *restored)
    world.from_first(lambda: _write(session, corpus, choices, resume))
    return session


def _check_resume(config: Config, run: RunDir, corpus: Corpus) -> dict[str, Any]:
    """Refuse to go on with another model, tokenizer or text than before; returns what run.json holds."""
    before = load_config(run.config)
    changed = [
        f"{section}.{field}"
        for section in ("data", "tokenizer", "model", "training", "search")
        for field, value in getattr(before, section)
        if value != getattr(getattr(config, section), field)
        and (section, field) not in {("data", "dir"), ("data", "root")}
        and not (section == "training" and field in MAY_CHANGE)
    ]
    if changed:
        raise ConfigError([f"{run.config}: {key} cannot change when a run goes on" for key in changed])
    if before.training.max_steps != config.training.max_steps and config.training.schedule in ("linear", "cosine"):
        _say(
            f"the {config.training.schedule} schedule now falls to 0 at training.max_steps = "
            f"{config.training.max_steps}: the learning rate jumps from the old curve to the new one"
        )
    info = read_info(run)
    if info["tokenizer"] != corpus.tokenizers.fingerprint:
        raise DataError(f"{corpus.directory.path}: its tokenizer is not the one that {run.path} was trained with")
    if info["corpus"] != corpus.fingerprint:
        raise DataError(f"{corpus.directory.path}: its text is not the one that {run.path} was trained on")
    if info["data_dir"] != str(corpus.directory.path.resolve()):
        _say(f"the data directory was {info['data_dir']}: it has moved, but nothing in it has changed")
    return info


def _choices(
    config: Config, before: dict[str, Any], model: Transformer, pairs: Pairs, device: torch.device, world: World
) -> dict[str, Any]:
    """What a probe decides, and where that holds: the device, torch, threads and processes of this run.

    A resumed run takes what was chosen when it began, unless it goes on on another device. There, and with other
    software or other numbers of threads and processes, results are as good but not the same bits, which is said.
    """
    settings = config.training
    place = {
        "device": device.type,
        "device_name": device_name(device),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "processes": world.size,
    }
    moved = any(before.get(key) != place[key] for key in ("device", "device_name"))
    precision = pick_precision(settings.precision, device) if moved else str(before["precision"])
    max_tokens = settings.max_tokens
    if max_tokens == "auto":
        kept = None if moved or before.get("processes") != world.size else before.get("auto_max_tokens")
        max_tokens = kept or pick_max_tokens(model, pairs, precision, device, 4 * settings.update_tokens // world.size)
        place["auto_max_tokens"] = max_tokens
    now = {"precision": precision, **place}
    other = [f"{key} {now[key]} instead of {before[key]}" for key in now if before.get(key, now[key]) != now[key]]
    if other:
        _say(f"the run goes on with {', '.join(other)}: the same data in the same order, but not the same bits")
    return {**now, "max_tokens": max_tokens}


def _write(session: Session, corpus: Corpus, choices: dict[str, Any], resume: bool) -> None:
    """Make the run, or write down how it goes on. run.json comes last: with it the directory is a run."""
    run = session.run
    n_parameters = sum(parameter.numel() for parameter in session.model.parameters())
    told = check_disk(run, n_parameters, session.config.training.keep_last, resume)
    if told is not None:
        _say(told)
    for path in (run.tokenizer.path, run.checkpoints, run.dev):
        path.mkdir(parents=True, exist_ok=True)
    if not resume or not _has_tokenizer(run, corpus):
        corpus.tokenizers.save(run.tokenizer)
        for path in (*run.tokenizer.path.iterdir(), run.tokenizer.path):
            sync(path)
    replace_file(run.config, dump_config(session.config))
    info = {
        "format": FORMAT,
        "data_dir": str(corpus.directory.path.resolve()),
        "corpus": corpus.fingerprint,
        "tokenizer": corpus.tokenizers.fingerprint,
        **choices,
    }
    replace_file(run.info, json.dumps(info, indent=1) + "\n")


def _has_tokenizer(run: RunDir, corpus: Corpus) -> bool:
    """Whether the run's own copy of the tokenizer is whole; if not, say so."""
    try:
        if Tokenizers.load(run.tokenizer, corpus.languages).fingerprint == corpus.tokenizers.fingerprint:
            return True
    except NmtError:
        pass
    _say(f"{run.tokenizer.path}: missing or damaged; it is taken from the data directory again")
    return False


def _restore_newest(session: Session) -> tuple[TrainState, Tensors, Tensors] | None:
    """Read the newest whole checkpoint into the session; without any the run starts from its first update."""
    run, steps = session.run, saved_steps(session.run)
    if not run.checkpoints.is_dir():  # it is made before there is a run
        raise CheckpointError(
            f"{run.checkpoints}: no such directory, or it cannot be reached; put it back, or start another run"
        )
    for step in reversed(steps):
        saved = run.step(step)
        try:
            state, weights, moments = load_state(saved), load_weights(saved), load_optimizer(saved)
            restored = TrainState.of(state, str(saved.path)), weights, moments
            _restore(session, *restored)
        except CheckpointError as error:
            _say(f"{error}; trying the one before")
            continue
        return restored
    if steps:
        raise CheckpointError(f"{run.path}: no checkpoint here is whole and of this version; start another run")
    _say(f"{run.path} has no checkpoint yet: it starts from its first update")
    return None


def _restore(session: Session, state: TrainState, weights: Tensors, moments: Tensors) -> None:
    """Restore what a checkpoint holds. Raises CheckpointError, with nothing changed, if that does not fit."""
    where = str(session.run.step(state.step).path)
    check_fit(session.model, weights, where)
    restore_optimizer(session.optimizer, session.optimizer_names, moments, where)
    assign(session.model, weights, where)
    if state.scaler:
        session.scaler.load_state_dict(state.scaler)
    session.state, session.saved_step = state, state.step
    state.is_extra = False
    if state.best_step is not None and state.best_step not in saved_steps(session.run):
        if session.world.is_first:
            _say(f"the checkpoint of the best validation, step {state.best_step}, is gone: the next one is the best")
        state.best_step = state.best_score = None
    limits = [getattr(session.config.training, name) for name in LIMITS]
    if state.cooldown is not None and state.cooldown_limits != limits:
        state.cooldown_start = state.cooldown_end = None
        if session.world.is_first:
            _say("the run's limits have changed: its cool-down begins anew, and the learning rate jumps up")


def _say(text: str) -> None:
    with suppress(OSError):  # a screen that is gone, or a file on a full disk
        print(f"nmt: {text}", file=sys.stderr)
