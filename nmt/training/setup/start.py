"""The start of a run: checking the inputs, resolving `auto` settings, writing the run directory, resuming."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from nmt.config.load import dump_config, load_config
from nmt.config.settings import MAY_CHANGE
from nmt.console import say
from nmt.data.corpus import Corpora
from nmt.errors import CheckpointError, ConfigError, DataError, NmtError
from nmt.files.write import replace_file, sync
from nmt.layout import RunDir
from nmt.model.device import DTYPES, Halves, use_float32_library
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
    most_bytes,
    restore_optimizer,
    save_checkpoint,
)
from nmt.runs.info import RunInfo, read_info, write_info
from nmt.runs.state import TrainState, load_state, saved_steps
from nmt.text.vocabularies import Tokenizers
from nmt.training.limits import LIMITS, is_finished
from nmt.training.objectives.make import make_objective
from nmt.training.optim import make_optimizer, make_scaler
from nmt.training.parallel import World, shard, shard_like
from nmt.training.plan import Plan
from nmt.training.report.log import check_installed
from nmt.training.session import Session, position_of
from nmt.training.setup.choices import choose, compiled
from nmt.training.setup.inputs import Inputs, load_initial, read_initial, read_inputs
from nmt.training.validate import DIRECTION_LINES, DirectionsValidator, Execution, HeldOut, Validator


def write_run(session: Session, corpora: Corpora, info: RunInfo) -> None:
    """Write the run directory, or update the directory of a resumed run. run.json is last and makes the directory a
    run.

    Raises CheckpointError if the checkpoints of a new run do not fit on the disk, and OSError if writing fails.
    """
    run = session.run
    check_disk(session)
    for path in (run.tokenizer.path, run.checkpoints, run.dev):
        path.mkdir(parents=True, exist_ok=True)
    if not (session.plan.resume and _has_tokenizer(run, corpora)):
        corpora.tokenizers.save(run.tokenizer)
        for path in (*run.tokenizer.path.iterdir(), run.tokenizer.path):
            sync(path)
    replace_file(run.config, dump_config(session.config))
    write_info(run, info)


def check_disk(session: Session) -> None:
    """Print how much disk space the checkpoints need. Raises CheckpointError if a new run needs more than is free."""
    run = session.run
    settings = session.config.training
    is_resumed = session.plan.resume
    n_kept = settings.keep_last
    if settings.start_share:
        n_kept += 1
    most = most_bytes(session.model.n_parameters, n_kept, settings.ema > 0)
    existing = next(path for path in (run.path, *run.path.absolute().parents) if path.exists())
    free = shutil.disk_usage(existing).free
    taken = sum(path.stat().st_size for path in run.checkpoints.rglob("*") if path.is_file())
    text = f"checkpoints take up to {most / 1e6:,.0f} MB (training.keep_last), {free / 1e6:,.0f} MB are free"
    is_enough = most <= free + taken
    if not is_enough and not is_resumed:
        raise CheckpointError(f"{run.path}: {text}; free some space, or lower training.keep_last")
    if not is_enough:
        say(f"{text}, which may not be enough")
    elif not is_resumed:
        say(text)


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
    inputs = world.on_all_ranks(lambda: read_inputs(plan, world))
    model, device, settings = inputs.model, inputs.device, inputs.config.training
    initial = Tensors()  # on rank 0

    def check_and_choose() -> RunInfo:
        nonlocal initial
        check_installed(settings.report_to)
        before = check_resume(inputs) if plan.resume else None
        if message := unlike(inputs.corpora.directory, inputs.config):
            say(message)
        initial, origin = read_initial(inputs, before)
        return choose(inputs, before, origin, world)

    info = world.on_rank0(check_and_choose)
    validators = world.on_all_ranks(lambda: make_validators(inputs, info))
    validator = validators.pop("valid")
    if not plan.resume:
        info = info.model_copy(update={"text_score": "chrf" if validator.few_four_grams else "bleu"})
    assert info.float32_library and info.max_tokens and info.threads, "chosen above"
    use_float32_library(info.float32_library)
    if inputs.to_shard:
        shard(model, device, world, DTYPES[settings.exchange_precision])
    load_initial(model, initial, world)
    halves = _halves(inputs, info, world)
    runs = model if halves is None else halves.twin
    session = Session(
        plan=inputs.plan,
        training_objective=inputs.training_objective,
        windows=inputs.windows,
        validator=validator,
        selected_by=settings.selected_by(info.text_score),
        watched=validators,
        model=model,
        optimizer=world.on_all_ranks(lambda: make_optimizer(model, settings, info.precision)),
        scaler=make_scaler(device, info.precision),
        state=TrainState(mixed_lengths=True),
        device=device,
        precision=info.precision,
        max_tokens=info.max_tokens,
        world=world,
        stop=stop or Stop(),
        layout=info.layout or "rows",
        threads=info.threads,
        forward=compiled(runs, cuts=settings.consistency == "simcut") if info.compiled else None,
        halves=halves,
        copy=inputs.copy,
    )
    if plan.resume:
        restore(session)
    world.on_all_ranks(session.load_window)
    if plan.resume:
        session.is_over = world.on_rank0(lambda: is_finished(session))
    if not session.is_over:
        _restart_old_epoch(session)
        world.on_rank0(lambda: write_run(session, inputs.corpora, info))
        if settings.start_share:
            world.on_rank0(lambda: _keep_start(session), serve=session.gather)
    return session


def _halves(inputs: Inputs, info: RunInfo, world: World) -> Halves | None:
    """Return half-precision copies of the weights on a GPU, where every cast is a kernel launch; None with several
    ranks, which exchange gradients where autograd leaves them."""
    if inputs.device.type == "cuda" and info.precision != "float32" and world.size == 1:
        return Halves(inputs.model, info.precision)
    return None


def _restart_old_epoch(session: Session) -> None:
    """Start the epoch again if it was begun by an earlier version, which divided it into other updates."""
    state = session.state
    if state.mixed_lengths:
        return
    if state.update_in_epoch:
        message = "this version of nmt divides the text into other updates: the current part of the epoch starts again"
        session.world.on_rank0(lambda: say(message))
    state.update_in_epoch = 0
    state.mixed_lengths = True


def _keep_start(session: Session) -> None:
    """Save the weights that the run starts with, which it needs at its end.

    Raises CheckpointError if those of a resumed run are missing or damaged.
    """
    if session.state.step == 0:
        save_checkpoint(session.run.start, session.full("raw"), None, {})
    else:
        load_weights(session.run.start)


def make_validators(inputs: Inputs, info: RunInfo) -> dict[str, Validator]:
    """Return the validators of the development set, `valid`, and of the test sets of training.watch.

    Raises DataError if the text differs between ranks, and ConfigError if there is no such test set, or a sentence of
    these sets or of the training set is too long.
    """
    config = inputs.config
    corpora = inputs.corpora
    if corpora.fingerprint != info.corpus:
        raise DataError(f"{corpora.directory.path}: its text differs from that of rank 0")
    known = dict.fromkeys(split for corpus in corpora.distinct for split in corpus.tests)
    if unknown := sorted({*config.training.watch} - {*known}):
        raise ConfigError(
            f"training.watch: {', '.join(unknown)}: the data directory has no such test set; it has "
            f"{', '.join(known) or 'none'}"
        )
    n_sides = 2 if config.joins_sides else 1
    longest = {"training set": n_sides * inputs.windows.longest() + config.n_tags}
    validators = dict[str, Validator]()
    for name in ("valid", *config.training.watch):
        validators[name] = _validator(inputs, info, name)
        label = "development set" if name == "valid" else f"test set {name} (training.watch)"
        longest[label] = validators[name].longest
    check_sentences(inputs, longest)
    return validators


def check_sentences(inputs: Inputs, sets: Mapping[str, int]) -> None:
    """Raise ConfigError for sentences longer than the settings allow, which would otherwise fail hours later.

    `sets` has the length of the longest sentence of each set, including the end of sentence.
    """
    model = inputs.config.model
    max_tokens = inputs.config.training.max_tokens
    problems = []
    for name, longest in sets.items():
        limits = dict[str, int]()
        if name == "training set" and isinstance(max_tokens, int):
            limits["training.max_tokens"] = max_tokens
        if model.positions == "learned":
            limits["model.max_positions"] = model.max_positions
        for key, limit in limits.items():
            if longest > limit:
                problems.append(f"{key}: {limit} is too small for a sentence of {longest} pieces in the {name}")
    if problems:
        raise ConfigError(*problems)


def _validator(inputs: Inputs, info: RunInfo, name: str) -> Validator:
    """Return the validator of a split: of its one direction, or of all that have it."""
    assert info.max_tokens, "chosen at the start"
    execution = Execution(inputs.device, info.precision, info.max_tokens)
    most_lines = inputs.config.training.validate_lines
    directions = inputs.corpora.by_direction
    if most_lines is None and len(directions) > 1:
        most_lines = DIRECTION_LINES
    by_direction = {}
    for direction, corpus in directions.items():
        if name in corpus.splits:
            objective = make_objective(inputs.config.towards(direction), corpus.tokenizers)
            by_direction[direction] = objective.validator(HeldOut(corpus, name, most_lines), execution)
    return next(iter(by_direction.values())) if len(by_direction) == 1 else DirectionsValidator(by_direction)


Shape = tuple[str, torch.Size, torch.dtype]


def check_resume(inputs: Inputs) -> RunInfo:
    """Check that the model, settings, tokenizer and text are the same as before, and return the content of run.json.

    Raises ConfigError, DataError or CheckpointError.
    """
    run = inputs.plan.run
    config = inputs.config
    corpora = inputs.corpora
    info = read_info(run)
    before = load_config(run.config)
    if info.nmt is None:  # its updates and gradients were computed in another way
        raise CheckpointError(
            f"{run.path}: was started by an earlier version of nmt and cannot be resumed; start another run with "
            f"--init-from {run.path}"
        )
    was, now = (settings.without_licenses().model_dump() for settings in (before, config))
    problems = []
    for section, settings in was.items():
        for field, value in settings.items():
            key = f"{section}.{field}"
            if value != now[section][field] and key not in MAY_CHANGE:
                problems.append(f"{run.config}: {key} cannot change when a run is resumed")
    if problems:
        raise ConfigError(*problems)
    if before.training.max_steps != config.training.max_steps and config.training.ends_at_max_steps:
        say(
            f"the {config.training.schedule} schedule now ends at training.max_steps = "
            f"{config.training.max_steps}: the learning rate jumps from the old curve to the new one"
        )
    if info.tokenizer != corpora.tokenizers.fingerprint:
        raise DataError(f"{corpora.directory.path}: its tokenizer is not the one that {run.path} was trained with")
    if info.corpus != corpora.fingerprint:
        raise DataError(f"{corpora.directory.path}: its text is not the one that {run.path} was trained on")
    modifiers = inputs.training_objective.modifiers
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
    session.state = state
    session.saver.saved_step = state.step


def _newest(session: Session) -> tuple[TrainState, Tensors, Tensors, Tensors] | None:
    """Read the newest checkpoint that is intact and fits the session. Raises CheckpointError if there is none."""
    run = session.run
    steps = saved_steps(session.run)
    if not run.checkpoints.is_dir():  # it was created before run.json
        raise CheckpointError(f"{run.checkpoints}: no such directory; restore it, or start another run")
    for step in reversed(steps):
        saved = run.step(step)
        where = str(saved.path)
        try:
            state = load_state(saved)
            if not session.windows.mix.has(position_of(state)):
                raise CheckpointError(f"{saved.state}: damaged: its position is outside the training text")
            weights = load_weights(saved)
            moments = load_optimizer(saved)
            ema = {}
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
        parameter = parameters.get(name)  # moments have the name of their parameter before a slash
        yield name, shard_like(tensor, parameters[name.rpartition("/")[0]] if parameter is None else parameter)
