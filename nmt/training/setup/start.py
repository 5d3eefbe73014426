"""Everything the loop needs, made for a new run or restored for one that goes on, and said."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from nmt.config import Config, TrainingConfig
from nmt.config.load import dump_config, load_config
from nmt.console import say
from nmt.data.batching import Pairs
from nmt.data.bpe_dropout import BpeDropout
from nmt.data.corpus import Corpus
from nmt.data.packing import Packing
from nmt.errors import ConfigError, DataError, NmtError
from nmt.evaluate.metrics import looks_tokenized
from nmt.files.write import replace_file, sync
from nmt.layout import RUN_FORMAT, DataDir, RunDir
from nmt.model.device import device_name, pick_device
from nmt.model.precision import pick_float32_library, pick_precision, use_float32_library
from nmt.model.transformer import Transformer
from nmt.prepare.checks import unlike
from nmt.process import Stop
from nmt.runs.info import InitialWeights, RunInfo, launch, read_info, write_info
from nmt.runs.state import TrainState
from nmt.text.tokenizer import Tokenizers
from nmt.training.limits import LIMITS, is_finished
from nmt.training.memory import pick_max_tokens
from nmt.training.optim import make_optimizer, make_scaler
from nmt.training.parallel.shard import shard
from nmt.training.parallel.world import World
from nmt.training.report.log import TrainingLog
from nmt.training.session import Session
from nmt.training.setup.compiled import compiled, pick_compile, pick_layout
from nmt.training.setup.init_from import Initial, freeze
from nmt.training.setup.preflight import check_disk, check_sentences
from nmt.training.setup.resume import restore
from nmt.training.validate import Validator

# settings that may change when a run goes on: they decide when it ends, what it keeps and shows, and what fits
MAY_CHANGE = {
    *LIMITS, "patience", "log_every_steps", "validate_every_steps", "save_every_steps", "keep_last", "average_last",
    "max_tokens", "device", "parallel", "layout", "compile", "run_dir",
}  # fmt: skip


@dataclass(frozen=True)
class _Material:
    """What every process reads or makes for itself."""

    corpus: Corpus
    pairs: Pairs
    bpe_dropout: BpeDropout | None
    device: torch.device
    model: Transformer
    copy: Transformer | None


def start(
    config: Config, data_dir: Path, run_dir: Path, resume: bool, world: World | None = None, stop: Stop | None = None
) -> Session:
    """Check everything, then make a new run in the directory or read the one there; one that is over stays as it is.

    Raises ConfigError, DataError or CheckpointError, before anything is written.
    """
    world = world or World()
    run = RunDir(run_dir)
    given = world.on_all_ranks(lambda: _material(config, data_dir, world))
    corpus, pairs, device, model = given.corpus, given.pairs, given.device, given.model
    initial = Initial()

    def choose() -> dict[str, Any]:
        before = _check_resume(config, run, corpus) if resume else None
        _tell_what_does_not_count(corpus, config)
        initial.read(config, run, corpus, model, before)
        return _choices(config, before, model, pairs, device, world)

    choices = world.on_rank0(choose)
    precision, max_tokens = str(choices["precision"]), int(choices["max_tokens"])
    use_float32_library(choices["float32_library"])
    fingerprint = world.on_rank0(lambda: corpus.fingerprint)

    def check() -> Validator:
        if corpus.fingerprint != fingerprint:
            raise DataError(f"{data_dir}: its text is not the one that process 0 learns from")
        validator = Validator(config, corpus, device, precision, max_tokens)
        check_sentences(config, max_tokens, {"training": pairs, "development": validator.pairs})
        return validator

    validator = world.on_all_ranks(check)
    if _is_divided(config, world):
        shard(model, device, world)
    initial.give(model, world)
    session = Session(
        config=config,
        run=run,
        pairs=pairs,
        validator=validator,
        model=model,
        optimizer=world.on_all_ranks(lambda: make_optimizer(model, config.training)),
        scaler=make_scaler(device, precision),
        state=TrainState(),
        device=device,
        precision=precision,
        max_tokens=max_tokens,
        world=world,
        stop=stop or Stop(),
        packing=Packing(pairs) if choices["layout"] == "packed" else None,
        forward=compiled(model) if choices["compiled"] else None,
        copy=given.copy,
        bpe_dropout=given.bpe_dropout,
    )
    if resume:
        restore(session)
        session.is_over = world.on_rank0(lambda: is_finished(session))
    if not session.is_over:
        world.on_rank0(lambda: _write(session, corpus, choices, initial.record, resume))
    return session


def _is_divided(config: Config, world: World) -> bool:
    return config.training.parallel == "fsdp" and world.size > 1


def _material(config: Config, data_dir: Path, world: World) -> _Material:
    """Read the corpus and make the model. Raises ConfigError or DataError."""
    corpus = Corpus.open(DataDir(data_dir))
    if tuple(corpus.languages) != config.data.languages:
        found, wanted = " and ".join(corpus.languages), " and ".join(config.data.languages)
        raise DataError(f"{data_dir}: holds {found}, but data.direction = {config.data.direction} needs {wanted}")
    corpus.verify("train", ("ids", "ends"))
    corpus.verify("valid")
    device = pick_device(config.training.device)
    world.set_device(device)
    settings, src, tgt = config.training, config.data.src, config.data.tgt
    if not corpus.tokenizers.joint and (settings.both_directions or config.model.tie_embeddings == "all"):
        what = "training.both_directions" if settings.both_directions else "model.tie_embeddings: all"
        raise DataError(f"{data_dir}: has a vocabulary for each language, {what} needs a joint one; prepare it anew")
    text = corpus.split("train")
    pairs, bpe_dropout = Pairs(text, src, tgt, settings.both_directions), None
    if settings.src_bpe_dropout or settings.tgt_bpe_dropout:
        bpe_dropout = BpeDropout(text, corpus.tokenizers, config.data, settings)
    torch.manual_seed(config.training.seed)
    n_src, n_tgt = (len(corpus.tokenizers[language]) for language in (src, tgt))
    model, copy = Transformer(config.model, n_src, n_tgt), None
    freeze(model, settings.freeze)
    if settings.freeze and settings.init_from is None and world.is_rank0:
        say(f"training.freeze: {', '.join(settings.freeze)} keep random weights, for there is no training.init_from")
    if not _is_divided(config, world):
        model = model.to(device)
    elif world.is_rank0:  # divided it goes to the device layer by layer, since as a whole it might not fit there
        copy = Transformer(config.model, n_src, n_tgt).to(device)
    if config.training.parallel == "fsdp" and world.size == 1:
        say("training.parallel: fsdp divides a model among several processes; this one has it alone")
    return _Material(corpus, pairs, bpe_dropout, device, model, copy)


def _check_resume(config: Config, run: RunDir, corpus: Corpus) -> RunInfo:
    """Refuse to go on with another model, tokenizer or text than before; returns what run.json holds."""
    before = load_config(run.config)
    changed = [
        f"{section}.{field}"
        for section in ("data", "tokenizer", "model", "training", "search")
        for field, value in getattr(before, section)
        if value != getattr(getattr(config, section), field)
        and (section, field) not in {("data", "dir"), ("data", "root")}
        and not (section == "training" and field in MAY_CHANGE)
        and (section, field) not in {("search", "batch_sentences"), ("search", "batch_tokens")}
    ]
    if changed:
        raise ConfigError([f"{run.config}: {key} cannot change when a run goes on" for key in changed])
    if before.training.max_steps != config.training.max_steps and config.training.schedule in ("linear", "cosine"):
        say(
            f"the {config.training.schedule} schedule now falls to 0 at training.max_steps = "
            f"{config.training.max_steps}: the learning rate jumps from the old curve to the new one"
        )
    info = read_info(run)
    if info.tokenizer != corpus.tokenizers.fingerprint:
        raise DataError(f"{corpus.directory.path}: its tokenizer is not the one that {run.path} was trained with")
    if info.corpus != corpus.fingerprint:
        raise DataError(f"{corpus.directory.path}: its text is not the one that {run.path} was trained on")
    if info.data_dir != str(corpus.directory.path.resolve()):
        say(f"the data directory was {info.data_dir}: it has moved, but nothing in it has changed")
    return info


def _tell_what_does_not_count(corpus: Corpus, config: Config) -> None:
    """Say where the config is not what the data directory was prepared with, and which rate is set but unused."""
    if line := unlike(corpus.directory, corpus.manifest, config):
        say(line)
    settings, idle = config.training, config.training.idle_rate
    if (value := getattr(settings, idle)) != TrainingConfig.model_fields[idle].default:
        other = "factor" if idle == "peak_lr" else "peak_lr"
        say(
            f"training.{idle} = {value:g} counts for nothing: the {settings.schedule} schedule goes by training.{other}"
        )


def _choices(
    config: Config, before: RunInfo | None, model: Transformer, pairs: Pairs, device: torch.device, world: World
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
    kept = before
    if before is not None and (before.device, before.device_name) != (place["device"], place["device_name"]):
        kept = None
    precision = pick_precision(settings.precision, device) if kept is None else kept.precision
    # before it was chosen it was always mkl
    library = pick_float32_library(precision, device) if kept is None else kept.float32_library or "mkl"
    use_float32_library(library)
    place["float32_library"] = library
    place["layout"] = pick_layout(config, device, precision)
    place["compiled"] = pick_compile(config, device, _is_divided(config, world))
    max_tokens = settings.max_tokens
    if max_tokens == "auto":
        fitting = kept.auto_max_tokens if kept is not None and kept.processes == world.size else None
        max_tokens = fitting or pick_max_tokens(
            model, pairs, settings, precision, device, 4 * settings.update_tokens // world.size
        )
        place["auto_max_tokens"] = max_tokens
    now = {"precision": precision, **place}
    was = {} if before is None else before.model_dump(exclude_unset=True)
    other = [f"{key} {now[key]} instead of {was[key]}" for key in now if was.get(key, now[key]) != now[key]]
    if other:
        say(f"the run goes on with {', '.join(other)}: the same data in the same order, but not the same bits")
    return {**now, "max_tokens": max_tokens}


def _write(
    session: Session, corpus: Corpus, choices: dict[str, Any], initial: InitialWeights | None, resume: bool
) -> None:
    """Make the run, or write down how it goes on. run.json comes last: with it the directory is a run."""
    run = session.run
    n_parameters = sum(parameter.numel() for parameter in session.model.parameters())
    told = check_disk(run, n_parameters, session.config.training, resume)
    if told is not None:
        say(told)
    for path in (run.tokenizer.path, run.checkpoints, run.dev):
        path.mkdir(parents=True, exist_ok=True)
    if not resume or not _has_tokenizer(run, corpus):
        corpus.tokenizers.save(run.tokenizer)
        for path in (*run.tokenizer.path.iterdir(), run.tokenizer.path):
            sync(path)
    replace_file(run.config, dump_config(session.config))
    optional: dict[str, Any] = {} if initial is None else {"initial": initial}
    if launch() is not None:
        optional["launch"] = launch()
    info = RunInfo(
        format=RUN_FORMAT,
        data_dir=str(corpus.directory.path.resolve()),
        corpus=corpus.fingerprint,
        tokenizer=corpus.tokenizers.fingerprint,
        **choices,
        **optional,
    )
    write_info(run, info)


def _has_tokenizer(run: RunDir, corpus: Corpus) -> bool:
    """Whether the run's own copy of the tokenizer is whole; if not, say so."""
    try:
        if Tokenizers.load(run.tokenizer, corpus.languages).fingerprint == corpus.tokenizers.fingerprint:
            return True
    except NmtError:
        pass
    say(f"{run.tokenizer.path}: missing or damaged; it is taken from the data directory again")
    return False


def announce(session: Session, log: TrainingLog) -> None:
    """Say what is about to be trained, on what, and where it goes."""
    n_parameters = sum(parameter.numel() for parameter in session.model.parameters())
    n_learned = sum(parameter.numel() for parameter in session.model.parameters() if parameter.requires_grad)
    learned = "" if n_learned == n_parameters else f" ({n_learned:,} of them learned)"
    log.say(
        f"{session.config.data.direction}: {len(session.pairs):,} pairs, {n_parameters:,} parameters{learned}, "
        f"{session.precision} on {session.device.type}{' packed' if session.packing else ''}, into {session.run.path}"
    )
    if looks_tokenized(session.validator.references):
        log.say(
            "the development set looks tokenised: its BLEU here is of text that is tokenised once more; "
            "nmt evaluate --tokenize none scores it as it stands"
        )
    if session.forward is not None:
        log.say("compiling the model first: its first updates take a minute or more (training.compile)")
    if session.state.step:
        log.say(f"going on from step {session.state.step}")
