"""Everything the loop needs, made for a new run or restored for one that goes on."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import torch

from nmt.checkpoint import (
    FORMAT,
    TrainState,
    assign,
    load_optimizer,
    load_state,
    load_weights,
    read_info,
    replace_file,
    restore_optimizer,
    saved_steps,
)
from nmt.config import Config
from nmt.config_file import dump_config, load_config
from nmt.data.batching import Pairs
from nmt.data.corpus import Corpus
from nmt.errors import CheckpointError, ConfigError, DataError
from nmt.layout import DataDir, RunDir
from nmt.model.precision import pick_device, pick_precision
from nmt.model.transformer import Transformer
from nmt.training.optim import make_optimizer
from nmt.training.validate import Validator

# settings that may change when a run goes on: they decide when it ends, what it keeps and shows, and what fits
MAY_CHANGE = {
    "max_steps", "max_epochs", "max_minutes", "patience", "log_every_steps", "validate_every_steps",
    "save_every_steps", "keep_last", "average_last", "max_tokens", "device", "run_dir",
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

    @property
    def optimizer_names(self) -> list[str]:
        """Parameter names in the order in which the optimizer's groups hold them."""
        names = {id(parameter): name for name, parameter in self.model.named_parameters()}
        return [names[id(p)] for group in self.optimizer.param_groups for p in group["params"]]


def start(config: Config, data_dir: Path, run_dir: Path, resume: bool) -> Session:
    """Check everything, then make a new run directory or read one.

    Raises ConfigError, DataError or CheckpointError, before anything is written.
    """
    run, corpus = RunDir(run_dir), Corpus.open(DataDir(data_dir))
    if tuple(corpus.languages) != config.data.languages:
        found, wanted = " and ".join(corpus.languages), " and ".join(config.data.languages)
        raise DataError(f"{data_dir}: holds {found}, but data.direction = {config.data.direction} needs {wanted}")
    device = pick_device(config.training.device)
    if resume:
        _check_resume(config, run, corpus)
        precision = _recorded_precision(run, config, device)
    elif run_dir.exists() and (not run_dir.is_dir() or any(run_dir.iterdir())):
        raise CheckpointError(f"{run_dir}: exists already; --resume continues it, --run DIR starts another")
    elif run_dir.resolve() == Path.cwd():
        raise CheckpointError(f"{run_dir}: is where you are; give the run a directory of its own with --run DIR")
    else:
        precision = pick_precision(config.training.precision, device)
    pairs = Pairs(corpus.split("train"), config.data.src, config.data.tgt)
    validator = Validator(config, corpus, device, precision)
    _check_room(config, {"training": pairs, "development": validator.pairs})

    torch.manual_seed(config.training.seed)
    n_src, n_tgt = (len(corpus.tokenizers[language]) for language in (config.data.src, config.data.tgt))
    model = Transformer(config.model, n_src, n_tgt).to(device)
    session = Session(
        config=config,
        run=run,
        pairs=pairs,
        validator=validator,
        model=model,
        optimizer=make_optimizer(model, config.training),
        scaler=torch.amp.GradScaler(device.type, enabled=precision == "fp16"),
        state=TrainState(),
        device=device,
        precision=precision,
    )
    if resume:
        _restore(session)
        replace_file(run.config, dump_config(config))
        replace_file(run.info, _info(corpus, device, precision))
    else:
        _create(session, corpus)
    return session


def _check_resume(config: Config, run: RunDir, corpus: Corpus) -> None:
    """Refuse to go on with another model, tokenizer or text than before."""
    if not run.info.exists():
        raise CheckpointError(f"{run.path}: no run here to resume; without --resume a new one starts")
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
        print(
            f"nmt: the {config.training.schedule} schedule now falls to 0 at training.max_steps = "
            f"{config.training.max_steps}: the learning rate jumps from the old curve to the new one",
            file=sys.stderr,
        )
    info = read_info(run)
    if info["tokenizer"] != corpus.tokenizers.fingerprint:
        raise DataError(f"{corpus.directory.path}: its tokenizer is not the one that {run.path} was trained with")
    if info["corpus"] != corpus.fingerprint:
        raise DataError(f"{corpus.directory.path}: its text is not the one that {run.path} was trained on")


def _recorded_precision(run: RunDir, config: Config, device: torch.device) -> str:
    """What the probe chose when the run began; on another kind of device that says nothing, so it is chosen again."""
    info = read_info(run)
    if info.get("device") == device.type:
        return str(info["precision"])
    precision = pick_precision(config.training.precision, device)
    print(
        f"nmt: the run was on {info.get('device')} in {info['precision']} and goes on on {device.type} in {precision}: "
        "the same data in the same order, but not the same bits",
        file=sys.stderr,
    )
    return precision


def _check_room(config: Config, sets: dict[str, Pairs]) -> None:
    """Refuse sentences that the settings have no room for, rather than fail at the first one hours later."""
    problems = []
    for name, pairs in sets.items():
        longest = int(max(pairs.lengths.src.max(), pairs.lengths.tgt.max()))
        limits = {"training.max_tokens": config.training.max_tokens} if name == "training" else {}
        if config.model.positions == "learned":
            limits["model.max_positions"] = config.model.max_positions
        problems += [
            f"{key}: {limit} has no room for a sentence of {longest} pieces in the {name} set"
            for key, limit in limits.items()
            if longest > limit
        ]
    if problems:
        raise ConfigError(problems)


def _info(corpus: Corpus, device: torch.device, precision: str) -> str:
    """The text of run.json."""
    info = {
        "format": FORMAT,
        "data_dir": str(corpus.directory.path.resolve()),
        "corpus": corpus.fingerprint,
        "tokenizer": corpus.tokenizers.fingerprint,
        "device": device.type,
        "precision": precision,
    }
    return json.dumps(info, indent=1) + "\n"


def _create(session: Session, corpus: Corpus) -> None:
    """Make the run directory under a temporary name, so that none is ever half there."""
    run = session.run
    part = RunDir(run.path.with_name(run.path.name + ".part"))
    shutil.rmtree(part.path, ignore_errors=True)
    try:
        for path in (part.tokenizer.path, part.checkpoints, part.dev):
            path.mkdir(parents=True)
        corpus.tokenizers.save(part.tokenizer)
        replace_file(part.config, dump_config(session.config))
        replace_file(part.info, _info(corpus, session.device, session.precision))
        part.path.rename(run.path)  # also over an empty directory
    except BaseException:
        shutil.rmtree(part.path, ignore_errors=True)
        raise


def _restore(session: Session) -> None:
    """Read the newest whole checkpoint into the session; without any the run starts from its first update."""
    run, steps = session.run, saved_steps(session.run, resumable=True)
    for step in reversed(steps):
        saved = run.step(step)
        try:
            state, weights, moments = TrainState(**load_state(saved)), load_weights(saved), load_optimizer(saved)
        except CheckpointError as error:
            print(f"nmt: {error}; trying the one before", file=sys.stderr)
            continue
        assign(session.model, weights, str(saved.path))
        restore_optimizer(session.optimizer, session.optimizer_names, moments)
        session.scaler.load_state_dict(state.scaler)
        session.state = state
        return
    if steps:
        raise CheckpointError(f"{run.path}: no checkpoint here is whole; start another run")
