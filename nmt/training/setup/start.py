"""The start of a run: checking the inputs, resolving `auto` settings, writing the run directory, resuming."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace

import torch
from torch import Tensor

from nmt.config import Config
from nmt.config.load import dump_config, load_config
from nmt.console import say
from nmt.data.corpus import Corpora
from nmt.errors import CheckpointError, ConfigError, DataError, NmtError
from nmt.files.write import replace_file, sync
from nmt.layout import RUN_FORMAT, RunDir
from nmt.model.precision import DTYPES, Halves, use_float32_library
from nmt.prepare.recipe import unlike
from nmt.process import Stop
from nmt.runs.checkpoint import (
    Tensors,
    assign,
    check_fit,
    check_optimizer,
    load_ema,
    load_optimizer,
    load_weights,
    restore_optimizer,
    save_checkpoint,
    saved_steps,
)
from nmt.runs.info import InitialWeights, RunInfo, launch, read_info, write_info
from nmt.runs.state import TrainState, load_state
from nmt.text.vocabularies import Tokenizers
from nmt.training.limits import LIMITS, is_finished
from nmt.training.objectives import make_objective
from nmt.training.optim import make_optimizer, make_scaler
from nmt.training.parallel import World, shard, shard_like
from nmt.training.plan import Plan
from nmt.training.report.trackers import check_installed
from nmt.training.session import Session, position_of
from nmt.training.setup.choices import Choices, choose, compiled, with_split
from nmt.training.setup.inputs import Inputs, check_disk, check_sentences, load_initial, read_initial, read_inputs
from nmt.training.validate import DIRECTION_LINES, DirectionsValidator, Execution, HeldOut, Validator


def write_run(session: Session, corpora: Corpora, choices: Choices, initial: InitialWeights | None) -> None:
    """Write the run directory, or update the directory of a resumed run. run.json is last and makes the directory a
    run.

    Raises CheckpointError if the checkpoints of a new run do not fit on the disk, and OSError if writing fails.
    """
    run, resume = session.run, session.plan.resume
    message = check_disk(run, session.model.n_parameters, session.config.training, resume)
    if message is not None:
        say(message)
    for path in (run.tokenizer.path, run.checkpoints, run.dev):
        path.mkdir(parents=True, exist_ok=True)
    if not resume or not _has_tokenizer(run, corpora):
        corpora.tokenizers.save(run.tokenizer)
        for path in (*run.tokenizer.path.iterdir(), run.tokenizer.path):
            sync(path)
    replace_file(run.config, dump_config(session.config))
    modifiers = session.objective.modifiers
    glossary = modifiers and modifiers.glossary
    optional = {**asdict(choices), "glossary": glossary, "initial": initial, "launch": launch()}
    info = RunInfo(
        format=RUN_FORMAT,
        data_dir=str(corpora.directory.path.resolve()),
        corpus=corpora.fingerprint,
        tokenizer=corpora.tokenizers.fingerprint,
        **{key: value for key, value in optional.items() if value is not None},
    )
    write_info(run, info)


def _has_tokenizer(run: RunDir, corpora: Corpora) -> bool:
    """Return whether the tokenizer in the run directory is complete; if not, print a message."""
    try:
        if Tokenizers.load(run.tokenizer, corpora.tokenizers.languages).fingerprint == corpora.tokenizers.fingerprint:
            return True
    except NmtError:
        pass
    say(f"{run.tokenizer.path}: missing or damaged; copied from the data directory again")
    return False


def start(plan: Plan, world: World | None = None, stop: Stop | None = None) -> Session:
    """Start a new run, or resume a run; a finished run stays unchanged.

    Raises ConfigError, DataError or CheckpointError before anything is written.
    """
    world = world or World()
    initial, origin = Tensors(), None
    inputs = world.on_all_ranks(lambda: read_inputs(plan, world))
    corpora, model = inputs.corpora, inputs.model
    config = with_split(plan.config, corpora)
    plan = replace(plan, config=config)

    def check_and_choose() -> Choices:
        nonlocal initial, origin  # on rank 0
        check_installed(config.training.report_to)
        before = check_resume(config, plan.run, inputs) if plan.resume else None
        if message := unlike(corpora.directory, config):
            say(message)
        initial, origin = read_initial(plan, corpora, model, before)
        return choose(config, before, inputs, world)

    choices = world.on_rank0(check_and_choose)
    use_float32_library(choices.float32_library)
    fingerprint = world.on_rank0(lambda: corpora.fingerprint)
    validator = world.on_all_ranks(lambda: _make_validator(config, inputs, choices, fingerprint))
    watched = world.on_all_ranks(lambda: _watched(config, inputs, choices))
    if inputs.to_shard:
        shard(model, inputs.device, world, DTYPES[config.training.exchange_precision])
    load_initial(model, initial, world)
    halves = None
    # on a GPU, every cast is a kernel launch; with several ranks, gradients are exchanged where autograd leaves them
    if inputs.device.type == "cuda" and choices.precision != "float32" and world.size == 1:
        halves = Halves(model, choices.precision)
    runs = model if halves is None else halves.twin
    session = Session(
        plan=plan,
        objective=inputs.objective,
        windows=inputs.windows,
        validator=validator,
        watched=watched,
        model=model,
        optimizer=world.on_all_ranks(lambda: make_optimizer(model, config.training, choices.precision)),
        scaler=make_scaler(inputs.device, choices.precision),
        state=TrainState(),
        device=inputs.device,
        precision=choices.precision,
        max_tokens=choices.max_tokens,
        world=world,
        stop=stop or Stop(),
        is_packed=choices.layout == "packed",
        threads=choices.threads,
        forward=compiled(runs, cuts=config.training.consistency == "simcut") if choices.compiled else None,
        halves=halves,
        copy=inputs.copy,
    )
    if plan.resume:
        restore(session)
    world.on_all_ranks(session.load_window)
    if plan.resume:
        session.is_over = world.on_rank0(lambda: is_finished(session))
    if not session.is_over:
        world.on_rank0(lambda: write_run(session, corpora, choices, origin))
        if config.training.start_share:
            world.on_rank0(lambda: _keep_start(session), serve=session.gather)
    return session


def _keep_start(session: Session) -> None:
    """Save the weights that the run starts with, which it needs at its end.

    Raises CheckpointError if those of a resumed run are missing or damaged.
    """
    if session.state.step == 0:
        save_checkpoint(session.run.start, session.full("raw"), None, {})
    else:
        load_weights(session.run.start)


def _watched(config: Config, inputs: Inputs, choices: Choices) -> dict[str, Validator]:
    """Return the validators of the test sets of training.watch.

    Raises ConfigError if there is none of that name, or if one has too long a sentence.
    """
    names = config.training.watch
    known = dict.fromkeys(split for corpus in inputs.corpora.distinct for split in corpus.tests)
    if unknown := sorted({*names} - {*known}):
        raise ConfigError(
            f"training.watch: {', '.join(unknown)}: the data directory has no such test set; it has "
            f"{', '.join(known) or 'none'}"
        )
    validators = {name: _validator(config, inputs, choices, name) for name in names}
    check_sentences(config, {f"test set {name} (training.watch)": each.longest for name, each in validators.items()})
    return validators


def _make_validator(config: Config, inputs: Inputs, choices: Choices, fingerprint: str) -> Validator:
    """Load the development set. Raises DataError or ConfigError if it or the training set cannot be used."""
    if inputs.corpora.fingerprint != fingerprint:
        raise DataError(f"{inputs.corpora.directory.path}: its text differs from that of rank 0")
    validator = _validator(config, inputs, choices, "valid")
    n_sides = 2 if config.joins_sides else 1
    in_training = n_sides * inputs.windows.longest() + config.n_tags
    longest = {"training set": in_training, "development set": validator.longest}
    check_sentences(config, longest)
    return validator


def _validator(config: Config, inputs: Inputs, choices: Choices, name: str) -> Validator:
    """Return the validator of a split: of its one direction, or of all that have it."""
    execution = Execution(inputs.device, choices.precision, choices.max_tokens)
    most_lines = config.training.validate_lines
    if most_lines is None and len(inputs.corpora.by_direction) > 1:
        most_lines = DIRECTION_LINES
    by_direction = {}
    for direction, corpus in inputs.corpora.by_direction.items():
        if name in corpus.splits:
            objective = make_objective(config.towards(direction), corpus.tokenizers)
            by_direction[direction] = objective.validator(HeldOut(corpus, name, most_lines), execution)
    return next(iter(by_direction.values())) if len(by_direction) == 1 else DirectionsValidator(by_direction)


Shape = tuple[str, torch.Size, torch.dtype]
# settings for the end of a run, checkpoints, logs and memory may change when it is resumed
MAY_CHANGE = {
    *LIMITS, "patience", "log_every_steps", "validate_every_steps", "save_every_steps", "keep_last", "average_last",
    "max_tokens", "planned_steps", "device", "parallel", "compile", "run_dir", "watch", "report_to",
}  # fmt: skip


def check_resume(config: Config, run: RunDir, inputs: Inputs) -> RunInfo:
    """Check that the model, settings, tokenizer and text are the same as before, and return the content of run.json.

    Raises ConfigError, DataError or CheckpointError.
    """
    info = read_info(run)
    if info.nmt is None:  # its updates and gradients were computed in another way
        raise CheckpointError(
            f"{run.path}: was started by an earlier version of nmt and cannot be resumed; start another run with "
            f"--init-from {run.path}"
        )
    before, corpora = load_config(run.config), inputs.corpora
    was, now = (settings.without_licenses().model_dump() for settings in (before, config))
    changed = [
        f"{section}.{field}"
        for section in ("data", "tokenizer", "model", "training", "search")
        for field, value in was[section].items()
        if value != now[section][field]
        and (section, field) not in {("data", "dir"), ("data", "root")}
        and not (section == "training" and field in MAY_CHANGE)
        and (section, field) != ("search", "batch_tokens")
    ]
    if changed:
        raise ConfigError(*[f"{run.config}: {key} cannot change when a run is resumed" for key in changed])
    if before.training.max_steps != config.training.max_steps and config.training.ends_at_max_steps:
        say(
            f"the {config.training.schedule} schedule now falls to 0 at training.max_steps = "
            f"{config.training.max_steps}: the learning rate jumps from the old curve to the new one"
        )
    if info.tokenizer != corpora.tokenizers.fingerprint:
        raise DataError(f"{corpora.directory.path}: its tokenizer is not the one that {run.path} was trained with")
    if info.corpus != corpora.fingerprint:
        raise DataError(f"{corpora.directory.path}: its text is not the one that {run.path} was trained on")
    modifiers = inputs.objective.modifiers
    if modifiers is not None and info.glossary != modifiers.glossary:
        raise DataError(f"{config.training.glossary}: the terms have changed since {run.path} was started")
    if info.data_dir != str(corpora.directory.path.resolve()):
        say(f"the data directory was {info.data_dir}; it has moved, but its content is the same")
    return info


def restore(session: Session) -> None:
    """Load the newest intact checkpoint into the sessions of all ranks; without a checkpoint, do nothing."""
    read: list[Tensors] = [{}, {}, {}]  # on rank 0: weights, optimizer state, moving average if there is one

    def newest() -> tuple[TrainState, list[list[Shape]]] | None:
        checkpoint = _newest(session)
        if checkpoint is None:
            return None
        state, *read[:] = checkpoint
        _drop_stale(session, state)
        return state, [[(name, tensor.shape, tensor.dtype) for name, tensor in tensors.items()] for tensors in read]

    restored = session.world.on_rank0(newest)
    if restored is None:
        return
    state, shapes = restored
    where = str(session.run.step(state.step).path)
    weights, moments, ema = (
        dict(_broadcast(session, tensors, names)) for tensors, names in zip(read, shapes, strict=True)
    )
    assign(session.model, weights, where)
    restore_optimizer(session.optimizer, session.optimizer_names, moments, where)
    if session.ema is not None:
        session.ema.tensors = {name: ema[name].to(session.device) for name in session.ema.tensors}
    if state.scaler:
        session.scaler.load_state_dict(state.scaler)
    session.state, session.saver.saved_step = state, state.step


def _newest(session: Session) -> tuple[TrainState, Tensors, Tensors, Tensors] | None:
    """Read the newest checkpoint that is intact and fits the session. Raises CheckpointError if there is none."""
    run, steps = session.run, saved_steps(session.run)
    if not run.checkpoints.is_dir():  # it was created before run.json
        raise CheckpointError(f"{run.checkpoints}: no such directory; restore it, or start another run")
    for step in reversed(steps):
        saved = run.step(step)
        where = str(saved.path)
        try:
            state = load_state(saved)
            if not session.windows.mix.has(position_of(state)):
                raise CheckpointError(f"{saved.state}: damaged: its position is outside the training text")
            weights, moments, ema = load_weights(saved), load_optimizer(saved), {}
            check_fit(session.model, weights, where)
            if session.ema is not None:
                check_fit(session.model, ema := load_ema(saved), where)
            check_optimizer(session.optimizer, session.optimizer_names, moments, where)
        except CheckpointError as error:
            say(f"{error}; trying the previous checkpoint")
            continue
        return state, weights, moments, ema
    if steps:
        raise CheckpointError(f"{run.path}: no intact checkpoint of this version; start another run")
    say(f"{run.path}: no checkpoint yet, starting from the first update")
    return None


def _drop_stale(session: Session, state: TrainState) -> None:
    """Remove outdated entries from a state: a best checkpoint that is missing, and a cool-down for previous limits."""
    state.is_extra = False
    if state.best_step is not None and state.best_step not in saved_steps(session.run):
        say(f"the best checkpoint, step {state.best_step}, is missing; the next validated one replaces it")
        state.best_step = state.best_score = None
        state.best_weights = "raw"
    limits = [getattr(session.config.training, name) for name in LIMITS]
    if state.cooldown is not None and state.cooldown_limits != limits:
        state.cooldown_start = state.cooldown_end = state.cooldown_by = None
        say("the limits of the run have changed, so its cool-down starts over and the learning rate jumps up")


def _broadcast(session: Session, tensors: Tensors, shapes: list[Shape]) -> Iterable[tuple[str, Tensor]]:
    """Broadcast the tensors of rank 0, and yield this rank's part of each, sharded like the parameters."""
    parameters = dict(session.model.named_parameters())
    for name, shape, dtype in shapes:
        tensor = tensors.pop(name) if session.world.is_rank0 else torch.empty(shape, dtype=dtype)
        session.world.broadcast(tensor)
        yield name, shard_like(tensor, parameters[name if name in parameters else name.rpartition("/")[0]])
