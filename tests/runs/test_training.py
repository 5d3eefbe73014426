"""The training loop: learning, checkpoints, resuming and the end of a run."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from fitting import fit, start
from kept_run import Died, die_before
from nmt.config.load import load_config
from nmt.errors import CheckpointError, ConfigError, DataError, DivergedError
from nmt.layout import RunDir
from nmt.model import attention
from nmt.model.device import float32_library, use_float32_library
from nmt.prepare.prepare import prepare
from nmt.process import Stop
from nmt.runs.checkpoint import choose_weights, load_weights
from nmt.runs.info import read_selected
from nmt.runs.log import read_log
from nmt.runs.state import TrainState, load_state, saved_steps
from nmt.training import loop
from nmt.training import validate as validate_module
from nmt.training.loop import train_step
from nmt.training.loss import cross_entropy
from nmt.training.objectives.translation import TranslationValidator
from nmt.training.report.log import Board, TrainingLog
from nmt.training.report.meter import Meter, announce
from nmt.training.saving import save
from nmt.training.session import Session
from nmt.training.setup import choices as choices_module
from nmt.training.validate import SplitValidator, Validation
from screen import rows, terminal
from tiny_corpus import tiny_settings, tiny_text
from tiny_run import licensed
from trained import first_update, records, score, session_of

pytestmark = pytest.mark.usefixtures("quick")


def final_weights(run: Path) -> dict[str, torch.Tensor]:
    return load_weights(RunDir(run).step(saved_steps(RunDir(run))[-1]))


@pytest.fixture
def _library_of_before():
    before = float32_library()
    yield
    use_float32_library(before)


@pytest.mark.usefixtures("_library_of_before")
@pytest.mark.parametrize(("recorded", "precision"), [("onednn", "bf16"), ("mkl", "none")])
def test_resumed_run_keeps_float32_library(tiny_data, text, tmp_path, monkeypatch, recorded, precision):
    monkeypatch.setattr(choices_module, "pick_float32_library", lambda *_: "onednn")
    # where oneDNN rounds to bf16, it would not be picked
    monkeypatch.setattr(validate_module, "check_inference", lambda *_: 0.0)
    fit(tiny_settings(text, training={"max_steps": 3}), tiny_data, tmp_path / "run")
    assert torch.backends.mkldnn.matmul.fp32_precision == "bf16"  # by which PyTorch lets oneDNN multiply
    info = RunDir(tmp_path / "run").info
    content = json.loads(info.read_text())
    assert content["float32_library"] == "onednn"
    info.write_text(json.dumps(content | {"float32_library": recorded}))
    monkeypatch.setattr(choices_module, "pick_float32_library", lambda *_: pytest.fail("it was chosen before"))
    fit(tiny_settings(text, training={"max_steps": 6}), tiny_data, tmp_path / "run", resume=True)
    assert json.loads(info.read_text())["float32_library"] == recorded
    assert torch.backends.mkldnn.matmul.fp32_precision == precision


def test_run_with_raised_limit_equals_longer_run(tiny_data, text, tmp_path):
    fit(tiny_settings(text, training={"max_steps": 6}), tiny_data, tmp_path / "run")
    fit(tiny_settings(text), tiny_data, tmp_path / "run", resume=True)
    fit(tiny_settings(text), tiny_data, tmp_path / "whole")
    longer, whole = final_weights(tmp_path / "run"), final_weights(tmp_path / "whole")
    torch.testing.assert_close(longer, whole, rtol=0.0, atol=0.0)


@pytest.mark.parametrize("objective", ["translation", "causal", "denoising"])
def test_first_validation_ends_if_search_computes_another_model(objective, tiny_data, text, tmp_path, monkeypatch):
    attend = attention.attend
    monkeypatch.setattr(attention, "attend", lambda query, *rest: attend(3 * query, *rest))  # search has its own name
    kind = {"kind": "decoder"} if objective == "causal" else {}
    settings = tiny_settings(text, training={"max_steps": 3, "objective": objective}, model=kind)
    with pytest.raises(CheckpointError, match=r"-\d+\.\d{4} .* -\d+\.\d{4}"):
        fit(settings, tiny_data, tmp_path / "run")


def test_gradient_is_independent_of_micro_batches(tiny_data, text, tmp_path):
    """Sums divided once by the tokens of the whole update: no micro-batch weighs more than its tokens do."""
    outcomes = []
    for name, max_tokens in (("one", 5000), ("many", 101)):
        session = session_of(tiny_data, text, tmp_path / name, max_tokens=max_tokens, clip_norm=0.0, update_tokens=900)
        update = first_update(session)
        stats = train_step(session, update).stats
        moments = [session.optimizer.state[p]["exp_avg"] for p in session.model.parameters()]
        n_micro_batches = len(list(session.batches.split(update.rows, max_tokens)))
        outcomes.append((n_micro_batches, stats, moments))
    (n_one, stats_one, one), (n_many, stats_many, many) = outcomes
    assert n_one == 1 and n_many >= 8
    for name in ("loss", "nll", "n_correct", "norm"):
        assert float(getattr(stats_one, name)) == pytest.approx(float(getattr(stats_many, name)), rel=1e-5)
    torch.testing.assert_close(one, many, atol=1e-7, rtol=1e-4)


def test_development_text_without_spaces_that_bleu_divides_at_spaces_is_warned_of(tiny_data, text, tmp_path):
    session, told = session_of(tiny_data, text, tmp_path / "run"), list[str]()
    announce(session, SimpleNamespace(say=told.append))
    before = len(told)
    session.validator.references = ["วันนี้เราไปเดินเล่นที่สวน"]
    announce(session, SimpleNamespace(say=told.append))
    assert [any("tokenize=13a" in line for line in lines) for lines in (told[:before], told[before:])] == [False, True]


def test_clip_norm_bounds_gradient(tiny_data, text, tmp_path):
    session = session_of(tiny_data, text, tmp_path / "run", clip_norm=0.01)
    norm = float(train_step(session, first_update(session)).stats.norm)
    clipped = sum(
        float((session.optimizer.state[p]["exp_avg"] / 0.1).square().sum()) for p in session.model.parameters()
    )
    assert norm > 0.01
    assert math.sqrt(clipped) == pytest.approx(0.01, rel=1e-3)


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ({"max_steps": 5}, "training.max_steps = 5 reached after 5 steps"),
        ({"max_epochs": 2}, "training.max_epochs = 2 reached after"),
        ({"max_minutes": 60}, "training.max_minutes = 60 reached after 1 steps"),
        ({"patience": 1, "max_steps": 60, "validate_every_steps": 1, "peak_lr": 1e-12, "schedule": "constant"},
         "training.patience = 1 validations without a new best reached after"),
    ],
)  # fmt: skip
def test_run_ends_at_limit_with_validated_checkpoint(tiny_data, text, tmp_path, monkeypatch, capsys, limit, reason):
    real = loop.train_step

    def train_step(session, update):
        session.state.seconds += 3600
        return real(session, update)

    monkeypatch.setattr(loop, "train_step", train_step)
    fit(tiny_settings(text, training={"max_steps": 500, **limit}), tiny_data, tmp_path / "run")
    said = capsys.readouterr().err
    assert reason in said and re.search(r"aa-bb: \d+ pairs, ", said)
    last = saved_steps(RunDir(tmp_path / "run"))[-1]
    assert records(tmp_path / "run", "valid")[-1]["step"] == last
    if "max_epochs" in limit:
        assert load_state(RunDir(tmp_path / "run").step(last)).epoch == 2


def test_finished_run_has_expected_files(tiny_data, text, tmp_path, monkeypatch):
    monkeypatch.setattr("nmt.training.report.log.Board", Board)  # not so quickly
    run = RunDir(tmp_path / "run")
    fit(tiny_settings(text), tiny_data, run.path)
    assert sorted(path.name for path in run.path.iterdir()) == [
        "checkpoints", "config.yaml", "dev", "lock", "log.jsonl", "run.json", "selected.json", "tensorboard",
        "tokenizer",
    ]  # fmt: skip
    train, valid = records(run.path, "train"), records(run.path, "valid")
    assert [record["step"] for record in train] == list(range(1, 13))
    assert [record["step"] for record in valid] == [6, 12]
    for record in train:
        assert 0 < record["lr"] < 0.2 and record["gradient_norm"] > 0 and 0 <= record["padding_share"] < 0.5
        assert 0 <= record["accuracy"] <= 1 and record["perplexity"] > 1
        assert math.exp(record["nll"]) == pytest.approx(record["perplexity"]) and record["loss"] != record["nll"]
    assert all(record["nll"] == record["loss"] for record in valid)
    speeds = [json.loads(line).get("tokens_per_second", 1.0) for line in run.log.read_text().splitlines()]
    assert all(0 < speed < 1e7 for speed in speeds)
    assert len((run.dev / "step-00000012.bb").read_text(encoding="utf-8").splitlines()) == 12

    board = EventAccumulator(str(run.tensorboard)).Reload()
    tags = board.Tags()
    assert {"train/loss", "train/perplexity", "train/accuracy", "train/lr", "train/gradient_norm",
            "train/tokens_per_second", "train/padding_share", "valid/bleu", "valid/loss",
            "train/nll", "valid/nll"} <= set(tags["scalars"])  # fmt: skip
    assert board.Scalars("train/loss")[-1].value == pytest.approx(train[-1]["loss"])


def test_cpu_seconds_count_updates_but_not_validations(tiny_data, text, tmp_path, monkeypatch):
    clock, real = SimpleNamespace(now=0.0), loop.train_step

    def train_step(*arguments):
        clock.now += 3.0
        return real(*arguments)

    def validate(*_):
        clock.now += 100.0
        return Validation(1.0, 1.0, 1.0, 1.0, {"bleu": 1.0})

    monkeypatch.setattr(loop, "train_step", train_step)
    monkeypatch.setattr(TranslationValidator, "validate", validate)
    clocks = SimpleNamespace(monotonic=lambda: clock.now, process_time=lambda: 2 * clock.now)  # two threads
    monkeypatch.setattr("nmt.training.report.meter.time", clocks)
    monkeypatch.setattr("nmt.process.time", clocks)
    training = {"max_steps": 4, "validate_every_steps": 2, "watch": ["test"]}
    fit(tiny_settings(text, training=training), tiny_data, tmp_path / "run")
    log = [*read_log(RunDir(tmp_path / "run").log)]
    kinds = ("train", "valid", "watch/test")
    found = {kind: [record["cpu_seconds"] for record in log if record["kind"] == kind] for kind in kinds}
    assert found == {"train": [6.0, 12.0, 18.0, 24.0], "valid": [12.0, 24.0], "watch/test": [12.0, 24.0, 24.0]}
    minutes = [record["minutes"] for record in log if record["kind"] == "valid"]
    assert minutes == pytest.approx([6 / 60, 212 / 60]), "which do count validations"


def test_validations_of_a_timed_run_take_a_tenth_of_its_time(tiny_data, text, tmp_path, monkeypatch, capsys):
    clock, train_step, validate = SimpleNamespace(now=0.0), loop.train_step, TranslationValidator.validate

    def slow_step(*arguments):
        clock.now += 40.0
        return train_step(*arguments)

    def slow_validation(*arguments):
        clock.now += 18.0
        validation = validate(*arguments)
        return replace(validation, scores={"bleu": float(len(validation.translations)), "chrf": 0.0})

    monkeypatch.setattr(loop, "train_step", slow_step)
    monkeypatch.setattr(TranslationValidator, "validate", slow_validation)
    clocks = SimpleNamespace(monotonic=lambda: clock.now, process_time=lambda: clock.now)
    for module in ("process", "training.report.meter"):
        monkeypatch.setattr(f"nmt.{module}.time", clocks)
    run, stop = RunDir(tmp_path / "run"), Stop()
    training = {"max_steps": 500, "max_minutes": 20, "validate_every_steps": 1, "validate_lines": 2}
    config = tiny_settings(text, training=training)
    monkeypatch.setattr("nmt.training.saving.sys", SimpleNamespace(stderr=SimpleNamespace(isatty=lambda: True)))
    clock.now += 40.0  # the start
    with monkeypatch.context() as patch, pytest.raises(Died):
        die_before(15, patch)
        fit(config, tiny_data, run.path, stop=stop)
    fit(config, tiny_data, run.path, resume=True)
    assert [record["step"] for record in records(run.path, "valid")] == [1, 8, 16, 24, 26]
    state = load_state(run.step(26))
    seconds = state.update_seconds, state.paused_seconds, state.check_seconds
    assert seconds == (26 * 40, 7 * 18, 4 * 18), "checks without those of the end, for which time is kept"
    assert 20 * 60 <= state.seconds < 20 * 60 + 40, "with the last weights, their average and all lines"
    n_lines = {file.stem: len(file.read_text(encoding="utf-8").splitlines()) for file in run.dev.iterdir()}
    assert n_lines["step-00000026"] == n_lines["average"] == 2 < n_lines["final"]
    said = capsys.readouterr().err
    assert said.count("validations are left out") == 2, "once by each process"
    assert f"\nBLEU {n_lines['final']:.1f} " in said, "of all lines"
    assert said.count("\n  reference ") == 5


@pytest.mark.parametrize(("select_by", "better"), [("bleu", max), ("chrf", max), ("loss", min)])
def test_checkpoint_is_selected_by_bleu_chrf_or_loss(tiny_data, text, tmp_path, select_by, better):
    fit(tiny_settings(text, training={"select_by": select_by, "validate_every_steps": 3, "average_last": 1}),
        tiny_data, tmp_path / "run")  # fmt: skip
    valid = records(tmp_path / "run", "valid")
    best = better(record[select_by] for record in valid)
    state = load_state(RunDir(tmp_path / "run").step(12))
    assert state.best_step == next(record["step"] for record in valid if record[select_by] == best)


@pytest.fixture(scope="module")
def short_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory whose development set has lines of at most three words, beside its text."""
    folder = tmp_path_factory.mktemp("short")
    tiny_text(folder / "text")
    for path in (folder / "text").glob("dev.*"):
        lines = [" ".join(line.split()[:3]) for line in path.read_text(encoding="utf-8").splitlines()]
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    prepare(tiny_settings(folder / "text"), folder / "data", echo=lambda _: None)
    return folder / "data"


@pytest.mark.parametrize(
    ("select_by", "is_older", "best", "last"),
    [("auto", False, 6, 10), ("bleu", False, 4, 8), ("auto", True, 4, 8)],
)
def test_short_references_select_and_stop_by_chrf_but_as_before_in_an_older_run(
    short_data, tmp_path, monkeypatch, capsys, select_by, is_older, best, last
):
    run = RunDir(tmp_path / "run")
    scores = iter([(0.0, 30.0), (60.0, 40.0), (0.0, 50.0), (0.0, 45.0), (0.0, 44.0)])
    monkeypatch.setattr(
        SplitValidator, "text_scores", lambda *_: dict(zip(("bleu", "chrf"), next(scores), strict=True))
    )
    training = {"validate_every_steps": 2, "patience": 2, "average_last": 1, "select_by": select_by}
    for max_steps in (2, 40):
        config = tiny_settings(short_data.parent / "text", training=training | {"max_steps": max_steps})
        fit(config, short_data, run.path, resume=max_steps > 2)
        content = json.loads(run.info.read_text())
        if is_older:
            run.info.write_text(json.dumps({name: value for name, value in content.items() if name != "text_score"}))
    state = load_state(run.step(last))
    assert (state.best_step, saved_steps(run)[-1], state.checks_since_best) == (best, last, 2)
    name = "chrF" if best == 6 else "BLEU"
    assert capsys.readouterr().err.count(f"checkpoints are selected by {name}") == 1 + (not is_older)
    assert f", {name.lower()} {state.best_score:g} on" in read_selected(run).reason


def test_average_of_last_checkpoints_equals_mean(tiny_data, text, tmp_path):
    run = RunDir(tmp_path / "run")
    config = tiny_settings(text, training={"select_by": "loss", "validate_lines": 1000})
    fit(config, tiny_data, run.path)
    n_lines = len(next(run.dev.glob("final*")).read_text(encoding="utf-8").splitlines())
    assert f" on {n_lines} lines of the development set" in read_selected(run).reason and n_lines < 1000
    (average,) = records(run.path, "average")
    best = min(record["loss"] for record in records(run.path, "valid"))
    first, last = (load_weights(run.step(step)) for step in (9, 12))
    stored = choose_weights(run, config.training.average_last, weights="average").tensors
    torch.testing.assert_close(dict(stored), {name: (first[name] + last[name]) / 2 for name in first})
    assert choose_weights(run, config.training.average_last).kind == ("average" if average["loss"] < best else "raw")


def test_fit_into_other_directory_raises(tiny_data, text, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "thesis.txt").write_text("mine")
    with pytest.raises(
        CheckpointError, match=r"run: exists already, but is not a run directory; choose another one with --run"
    ):
        fit(tiny_settings(text), tiny_data, run)
    assert [path.name for path in tmp_path.rglob("*")] == ["run", "thesis.txt"]


def test_resume_with_changed_settings_raises(tiny_data, text, tmp_path):
    fit(tiny_settings(text, training={"max_steps": 3}), tiny_data, tmp_path / "run")
    other = tiny_settings(text, model={"d_ff": 65}, training={"seed": 2, "max_steps": 9})
    with pytest.raises(ConfigError) as caught:
        fit(other, tiny_data, tmp_path / "run", resume=True)
    for key, problem in zip(("model.d_ff", "training.seed"), caught.value.problems, strict=True):
        assert f"{key} cannot change when a run is resumed" in problem
    search = {"batch_tokens": 100}  # changes no result
    settings = licensed(tiny_settings(text, training={"max_steps": 4}, search=search))
    fit(settings, tiny_data, tmp_path / "run", resume=True)
    assert load_config(tmp_path / "run" / "config.yaml").data.train == settings.data.train, "as it is stated now"


def test_resume_with_another_text_raises(tiny_data, text, tmp_path):
    config = tiny_settings(text, training={"max_steps": 3})
    fit(config, tiny_data, tmp_path / "run")
    tiny_text(tmp_path / "text", n_train=150)
    same_tokenizer = tiny_settings(tmp_path / "text")
    prepare(same_tokenizer, tmp_path / "more", tokenizer_from=tmp_path / "run", echo=lambda _: None)
    with pytest.raises(DataError, match=r"more: its text is not the one that .*run was trained on"):
        fit(config, tmp_path / "more", tmp_path / "run", resume=True)


def test_bpe_dropout_changes_by_epoch_but_not_in_validation(tiny_data, text, tmp_path):
    changes = {"bpe_dropout": 0.3}
    plain = session_of(tiny_data, text, tmp_path / "plain")
    session = session_of(tiny_data, text, tmp_path / "run", **changes)
    rows, seen = np.arange(20), []
    for epoch in (0, 1, 0):
        session.state.epoch = epoch
        session.load_window()
        seen.append(session.batches.batch(rows).tgt_out)
        assert session.n_epoch_tokens > 1.1 * plain.n_epoch_tokens
    assert seen[0].shape != seen[1].shape or not torch.equal(seen[0], seen[1])
    assert torch.equal(seen[0], seen[2])
    assert session.validator.pairs.lengths.tgt.sum() == plain.validator.pairs.lengths.tgt.sum()


def test_development_loss_is_without_smoothing_and_dropout(tiny_data, text, tmp_path, monkeypatch):
    config = tiny_settings(text, model={"residual_dropout": 0.5})
    session = start(config, tiny_data, tmp_path / "run", resume=False)
    screen = terminal(monkeypatch)
    found = session.validator.validate(session.model)
    assert any("% validating: " in row for row in rows(screen))
    assert session.model.training
    session.model.eval()
    pairs = session.validator.pairs
    with torch.no_grad():
        sums = cross_entropy(session.model, pairs.batch(np.arange(len(pairs))), label_smoothing=0.0)
    assert found.loss == pytest.approx(sums.loss_per_token, rel=1e-5)
    assert found.perplexity == pytest.approx(math.exp(found.loss), rel=1e-5)


def test_best_step_between_regular_saves_is_saved(tiny_data, text, tmp_path, monkeypatch):
    score(monkeypatch, 10.0, 30.0, 20.0, 20.0, 20.0, 20.0)
    config = tiny_settings(text, training={"validate_every_steps": 2, "save_every_steps": 5, "average_last": 1})
    fit(config, tiny_data, tmp_path / "run")
    run = RunDir(tmp_path / "run")
    assert saved_steps(run) == [4, 8, 10, 12]
    assert choose_weights(run, config.training.average_last).step == 4


@pytest.mark.parametrize(("average_bleu", "kind"), [(31.0, "average"), (29.0, "raw")])
def test_average_is_selected_if_better(tiny_data, text, tmp_path, monkeypatch, average_bleu, kind):
    score(monkeypatch, 30.0, 20.0, average_bleu)
    config = tiny_settings(text)
    fit(config, tiny_data, tmp_path / "run")
    chosen = choose_weights(RunDir(tmp_path / "run"), config.training.average_last)
    assert (chosen.kind, chosen.step) == (kind, 12 if kind == "average" else 6)


def test_resume_restores_scale_and_counts_without_probing(tiny_data, text, tmp_path, monkeypatch):
    config = tiny_settings(text, training={"precision": "fp16"})
    session = start(config, tiny_data, tmp_path / "run", resume=False)
    train_step(session, first_update(session))
    session.scaler.update(1024.0)
    with TrainingLog(session.run, TrainState()) as log:
        save(session, Meter(session, log))

    def probing(*_: object) -> str:
        raise AssertionError("resuming never probes")

    monkeypatch.setattr("nmt.training.setup.choices.pick_precision", probing)
    resumed = start(config, tiny_data, tmp_path / "run", resume=True)
    assert (resumed.precision, resumed.scaler.get_scale(), resumed.state) == ("fp16", 1024.0, session.state)
    assert resumed.state.n_tokens == first_update(session).n_tokens > 0


def test_damaged_checkpoint_is_not_averaged(tiny_data, text, tmp_path, monkeypatch, capsys):
    real = loop.save

    def damaging(session: Session, meter: Meter) -> None:
        real(session, meter)
        if session.state.step == 12:
            session.run.step(9).weights.write_bytes(b"")

    monkeypatch.setattr(loop, "save", damaging)
    config = tiny_settings(text)
    fit(config, tiny_data, tmp_path / "run")
    assert "checkpoints are not averaged: " in capsys.readouterr().err
    assert choose_weights(RunDir(tmp_path / "run"), config.training.average_last).kind == "raw"
    assert not RunDir(tmp_path / "run").average.path.exists()


def test_run_without_finite_update_raises(tiny_data, text, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", lambda *_: torch.tensor(math.nan))
    with pytest.raises(DivergedError, match=r"run: training.max_steps = 12 reached before anything was learned"):
        fit(tiny_settings(text), tiny_data, tmp_path / "run")
