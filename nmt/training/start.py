"""Training from a configuration: checking the inputs, resolving `auto` settings, writing the run directory, and the
loop."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import closing, nullcontext
from functools import partial
from pathlib import Path
from typing import cast

from nmt.config import Config
from nmt.config.explanation import MAY_CHANGE
from nmt.config.load import dump_config, load_config
from nmt.console import say
from nmt.data.corpus import Corpora
from nmt.errors import CheckpointError, ConfigError, DataError, NmtError
from nmt.files.write import replace_file, sync
from nmt.layout import RunDir
from nmt.model.device import DTYPES, Halves, out_of_memory, use_float32_library
from nmt.prepare.recipe import unlike
from nmt.process import Stop, stopping
from nmt.runs.checkpoint import Tensors, load_weights, most_bytes, save_checkpoint
from nmt.runs.info import RunInfo, read_info, write_info
from nmt.runs.state import TrainState
from nmt.share.export import model_card
from nmt.text.vocabularies import Tokenizers
from nmt.training.limits import is_finished
from nmt.training.loop import train
from nmt.training.memory import check_memory
from nmt.training.optim import make_optimizer, make_scaler
from nmt.training.parallel import World, shard
from nmt.training.plan import TrainingPlan, locked
from nmt.training.report.log import check_installed
from nmt.training.report.meter import Meter, reporting
from nmt.training.resuming import restore
from nmt.training.session import Description, Session
from nmt.training.setup.choices import choose_run_info, compiled
from nmt.training.setup.inputs import Inputs, learn_new_rows, load_initial, read_initial, read_inputs
from nmt.training.setup.objective import make_validator
from nmt.training.validate import DIRECTION_LINES, DirectionsValidator, Execution, HeldOutSplit, Validator

OUT_OF_MEMORY = "not enough memory; lower training.max_tokens or search.batch_tokens, or use a smaller model"


def fit(plan: TrainingPlan, stop: Stop | None = None, world: World | None = None, profile: bool = False) -> None:
    """Train a model. Every rank of `world` calls this function.

    Raises ConfigError, DataError or CheckpointError before anything is written, DivergedError if training diverges, and
    StoppedError if `stop` or a signal stops the run, which can then be resumed. The time counts since `stop` was made.
    """
    world = world or World()
    with stopping(stop or Stop()) as stop, locked(plan.run, plan.resume, world.on_rank0):
        try:
            session = start(plan, world, stop)
            if session.is_over:
                return
            with (
                closing(session.saver),
                reporting(session, profile) if world.is_rank0 else nullcontext() as meter,
                session.windows.planning_ahead(session.position),
            ):
                train(session, cast(Meter, meter))
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
            raise NmtError(f"{plan.run.path}: {OUT_OF_MEMORY}") from error


def write_run(session: Session, inputs: Inputs, info: RunInfo) -> None:
    """Write the run directory, or update the directory of a resumed run. run.json is last and makes the directory a
    run.

    Raises CheckpointError if the checkpoints of a new run do not fit on the disk, and OSError if writing fails.
    """
    run = session.run
    is_resumed = inputs.plan.resume
    check_disk(session, is_resumed)
    check_memory(session, inputs.config.model)
    for path in (run.tokenizer.path, run.checkpoints, run.dev):
        path.mkdir(parents=True, exist_ok=True)
    if not (is_resumed and _has_tokenizer(run, inputs.corpora)):
        inputs.corpora.tokenizers.save(run.tokenizer)
        for path in (*run.tokenizer.path.iterdir(), run.tokenizer.path):
            sync(path)
    replace_file(run.config, dump_config(inputs.config))
    write_info(run, info)


def check_disk(session: Session, is_resumed: bool) -> None:
    """Print how much disk space the checkpoints need. Raises CheckpointError if a new run needs more than is free."""
    run = session.run
    settings = session.settings
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


def start(plan: TrainingPlan, world: World | None = None, stop: Stop | None = None) -> Session:
    """Start a new run, or resume a run; a finished run stays unchanged.

    Raises ConfigError, DataError or CheckpointError before anything is written.
    """
    world = world or World()
    with world.failing_together():
        inputs = read_inputs(plan, world)
    config = inputs.config
    model, device, settings = inputs.model, inputs.device, config.training
    initial = Tensors()  # on rank 0

    def check_and_choose() -> RunInfo:
        nonlocal initial
        check_installed(settings.report_to)
        before = check_resume(inputs) if plan.resume else None
        if message := unlike(inputs.corpora.directory, config):
            say(message)
        initial, origin = read_initial(inputs, before)
        return choose_run_info(inputs, before, origin, world)

    info = world.on_rank0(check_and_choose)
    with world.failing_together():
        validators = make_validators(inputs, info)
    if not plan.resume:
        info = info.model_copy(update={"text_score": "chrf" if validators["valid"].few_four_grams else "bleu"})
    with world.failing_together():
        masks = learn_new_rows(inputs, info.initial)
    assert info.float32_library, "chosen above"
    use_float32_library(info.float32_library)
    if inputs.to_shard:
        shard(model, device, world, DTYPES[settings.exchange_precision])
    load_initial(model, initial, world)
    session = _make_session(inputs, info, validators, masks, world, stop or Stop())
    if plan.resume:
        restore(session)
    with world.failing_together():
        session.load_window()
    if plan.resume:
        session.is_over = world.on_rank0(lambda: is_finished(session))
    if not session.is_over:
        _restart_old_epoch(session)
        world.on_rank0(lambda: write_run(session, inputs, info))
        if settings.start_share:
            world.on_rank0(lambda: _keep_start(session), serve=session.gather)
    return session


def _make_session(
    inputs: Inputs,
    info: RunInfo,
    validators: Mapping[str, Validator],
    masks: Tensors,
    world: World,
    stop: Stop,
) -> Session:
    config, model, device = inputs.config, inputs.model, inputs.device
    settings = config.training
    assert info.max_tokens and info.threads, "chosen before"
    halves = None
    # on a GPU every cast is a kernel launch; several ranks exchange gradients where autograd leaves them
    if device.type == "cuda" and info.precision != "float32" and world.size == 1:
        halves = Halves(model, info.precision)
    runs = model if halves is None else halves.twin
    with world.failing_together():
        optimizer = make_optimizer(model, settings, info.precision, masks)
    return Session(
        run=inputs.plan.run,
        data=config.data,
        settings=settings,
        d_model=config.model.d_model,
        longest=config.longest,
        training_objective=inputs.training_objective,
        windows=inputs.windows,
        validator=validators["valid"],
        selected_by=settings.selected_by(info.text_score),
        watched={name: validator for name, validator in validators.items() if name != "valid"},
        model=model,
        optimizer=optimizer,
        scaler=make_scaler(device, info.precision),
        state=TrainState(mixed_lengths=True),
        device=device,
        precision=info.precision,
        max_tokens=info.max_tokens,
        world=world,
        stop=stop,
        layout=info.layout or "rows",
        threads=info.threads,
        forward=compiled(runs, cuts=settings.consistency == "simcut") if info.compiled else None,
        halves=halves,
        partly_frozen=masks,
        copy=inputs.copy,
        description=_description(config, inputs.plan.run),
    )


def _description(config: Config, run: RunDir) -> Description:
    settings = dict[str, object]()
    for section, values in config.model_dump(mode="json").items():
        settings.update({f"{section}.{key}": value for key, value in values.items()})
    return Description(settings, partial(_describe, config, run))


def _describe(config: Config, run: RunDir, folder: Path) -> None:
    """Write the files that describe a finished run into a folder: its configuration and facts, and its model card."""
    for path in (run.config, run.info, run.selected):
        shutil.copy(path, folder)
    if config.training.facts.translates and config.model.is_encoder_decoder:
        (folder / "README.md").write_text(model_card(run.path), encoding="utf-8")


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

    Raises CheckpointError if a resumed run lacks them, or they are damaged.
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
            held_out = HeldOutSplit(corpus, name, most_lines)
            data = inputs.config.data.towards(direction)
            config = inputs.config.model_copy(update={"data": data})
            by_direction[direction] = make_validator(config, corpus.tokenizers, held_out, execution)
    return next(iter(by_direction.values())) if len(by_direction) == 1 else DirectionsValidator(by_direction)


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
    if info.glossary != inputs.training_objective.glossary:
        raise DataError(f"{config.training.glossary}: the terms have changed since {run.path} was started")
    if info.data_dir != str(corpora.directory.path.resolve()):
        say(f"the data directory was {info.data_dir}; it has moved, but its content is the same")
    return info
