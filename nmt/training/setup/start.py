"""The start of a run: checking the inputs, resolving `auto` settings, and writing the run directory."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from nmt.config import Config
from nmt.config.load import dump_config
from nmt.console import say
from nmt.data.corpus import Corpora
from nmt.errors import ConfigError, DataError, NmtError
from nmt.files.write import replace_file, sync
from nmt.layout import RUN_FORMAT, DataDir, RunDir
from nmt.model.precision import DTYPES, Halves, use_float32_library
from nmt.prepare.recipe import unlike
from nmt.process import Stop
from nmt.runs.checkpoint import Tensors, load_weights, save_checkpoint
from nmt.runs.info import InitialWeights, RunInfo, launch, write_info
from nmt.runs.state import TrainState
from nmt.text.vocabularies import Tokenizers, read_tags
from nmt.training.limits import is_finished
from nmt.training.optim import make_optimizer, make_scaler
from nmt.training.parallel import World, shard
from nmt.training.report.trackers import check_installed
from nmt.training.session import Session
from nmt.training.setup.choices import Choices, choose, compiled, with_split
from nmt.training.setup.init_from import load_initial, read_initial
from nmt.training.setup.inputs import Inputs, check_disk, check_sentences, read_inputs
from nmt.training.setup.resume import check_resume, restore
from nmt.training.validate import (
    DIRECTION_LINES,
    ClassValidator,
    DirectionsValidator,
    SplitValidator,
    TextValidator,
    Validator,
)


def write_run(
    session: Session, corpora: Corpora, choices: Choices, initial: InitialWeights | None, resume: bool
) -> None:
    """Write the run directory, or update the directory of a resumed run. run.json is last and makes the directory a
    run.

    Raises CheckpointError if the checkpoints of a new run do not fit on the disk, and OSError if writing fails.
    """
    run = session.run
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
    glossary = session.modifiers and session.modifiers.glossary
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


def start(
    config: Config, data_dir: Path, run_dir: Path, resume: bool, world: World | None = None, stop: Stop | None = None
) -> Session:
    """Start a new run in a directory, or resume the run there; a finished run stays unchanged.

    Raises ConfigError, DataError or CheckpointError before anything is written.
    """
    world, run = world or World(), RunDir(run_dir)
    initial, origin = Tensors(), None
    tags = world.on_rank0(lambda: _known_tags(config, run, resume))
    inputs = world.on_all_ranks(lambda: read_inputs(config, DataDir(data_dir), world, tags))
    corpora, model = inputs.corpora, inputs.model
    config = with_split(config, corpora)

    def check_and_choose() -> Choices:
        nonlocal initial, origin  # on rank 0
        check_installed(config.training.report_to)
        before = check_resume(config, run, inputs) if resume else None
        if message := unlike(corpora.directory, config):
            say(message)
        initial, origin = read_initial(config, run, corpora, model, before)
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
        config=config,
        run=run,
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
        modifiers=inputs.modifiers,
        change=inputs.change,
        first_tag=corpora.tokenizers[config.data.src].first_tag,
    )
    if resume:
        restore(session)
    world.on_all_ranks(session.load_window)
    if resume:
        session.is_over = world.on_rank0(lambda: is_finished(session))
    if not session.is_over:
        world.on_rank0(lambda: write_run(session, corpora, choices, origin, resume))
        if config.training.start_share:
            world.on_rank0(lambda: _keep_start(session), serve=session.gather)
    return session


def _known_tags(config: Config, run: RunDir, resume: bool) -> list[str]:
    """Return the tags of a resumed run, or of the runs that a new one starts from, which keep their ids."""
    start = config.training.init_from
    if resume:
        return read_tags(run.tokenizer.tags)
    starts = start.values() if isinstance(start, dict) else [start] if start else []
    return [*dict.fromkeys(tag for each in starts for tag in read_tags(RunDir(Path(each)).tokenizer.tags))]


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
    kind: type[SplitValidator] = TextValidator if config.training.facts.writes_text else SplitValidator
    if config.training.objective == "classification":
        kind = ClassValidator
    by_direction = {
        direction: kind(
            config.towards(direction), corpus, inputs.device, choices.precision, choices.max_tokens, name,
            config.training.validate_lines or (None if len(inputs.corpora.by_direction) == 1 else DIRECTION_LINES),
        )
        for direction, corpus in inputs.corpora.by_direction.items()
        if name in corpus.splits
    }  # fmt: skip
    return next(iter(by_direction.values())) if len(by_direction) == 1 else DirectionsValidator(by_direction)
