"""The cool-down at the end of a run, which is fixed only once."""

from __future__ import annotations

import json
import shutil
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fitting import fit
from kept_run import Died, die_before, settings
from nmt.config import Config
from nmt.layout import RunDir
from nmt.prepare.prepare import prepare
from nmt.runs.info import read_selected
from nmt.runs.state import TrainState, load_state, read_seal, saved_steps, state_text
from nmt.training import loop
from nmt.training.limits import cut_short, expected_end, forecast, validation_is_due
from nmt.training.report.log import TrainingLog
from nmt.training.settings import TrainingConfig
from tiny_corpus import tiny_settings

pytestmark = pytest.mark.usefixtures("quick")


def cooled(data: Path, **training: object) -> Config:
    """One minute, of which the last quarter cools down."""
    return settings(data, **{
        "schedule": "constant", "warmup_steps": 1, "cooldown": 0.25, "max_minutes": 1.0, "max_steps": 500,
        "save_every_steps": 100, "validate_every_steps": 100, **training,
    })  # fmt: skip


def take(seconds: float, patch: pytest.MonkeyPatch, first: float = 0.0) -> None:
    """Let every update take this many seconds, the first one `first` in addition, and everything else no time.

    So no time is kept for the end.
    """
    real, clock = loop.train_step, SimpleNamespace(now=0.0)

    def train_step(session: loop.Session, update: loop.Update) -> loop.Outcome:
        clock.now += seconds + (0.0 if session.state.step else first)
        return real(session, update)

    patch.setattr(loop, "train_step", train_step)
    clocks = SimpleNamespace(monotonic=lambda: clock.now, process_time=lambda: 2 * clock.now)  # two threads
    for module in ("process", "training.report.meter"):
        patch.setattr(f"nmt.{module}.time", clocks)
    patch.setattr("nmt.training.limits.PAUSED_SHARE", 0.0)
    patch.setattr("nmt.runs.progress.PAUSED_SHARE", 0.0)


def rates(run: Path) -> dict[int, float]:
    """Return the learning rate of every step, divided by the rate without cool-down."""
    found = [json.loads(line) for line in RunDir(run).log.read_text(encoding="utf-8").splitlines()]
    return {record["step"]: record["lr"] / 7e-4 for record in found if record["kind"] == "train"}


def train(config: Config, data: Path, run: Path, seconds: float, dies_before: int = 0) -> None:
    with pytest.MonkeyPatch.context() as patch:
        take(seconds, patch)
        if dies_before:
            die_before(dies_before, patch)
        with pytest.raises(Died) if dies_before else nullcontext():
            fit(config, data, run, resume=RunDir(run).info.exists())


# 3 seconds a step: a quarter of a minute is left after step 15, by then the whole is 20 steps
FALLING = {**dict.fromkeys(range(1, 16), 1.0), 16: 5 / 6, 17: 4 / 6, 18: 3 / 6, 19: 2 / 6, 20: 1 / 6}


@pytest.mark.parametrize("seconds", [0.1, 3.0, 100.0])
def test_cooldown_is_fixed_once_for_any_speed(data, tmp_path, capsys, seconds):
    run = RunDir(tmp_path / "run")
    config = cooled(data, max_steps=24)  # of which more is used at the end than of the time, on a faster machine
    train(config, data, run.path, 3.0, dies_before=17)
    assert saved_steps(run) == [15]
    state = load_state(run.step(15))
    assert (state.cooldown_start, state.cooldown_end, state.seconds) == (15, 20, 45.0)
    train(config, data, run.path, seconds)
    assert (
        "cool-down from step 15 complete, as determined by training.max_minutes = 1 after 20 steps"
        in capsys.readouterr().err
    )
    assert rates(run.path) == pytest.approx(FALLING)
    assert saved_steps(run) == [15, 20]


def test_slow_first_update_does_not_shorten_cooldown(data, tmp_path):
    run = RunDir(tmp_path / "run")
    with pytest.MonkeyPatch.context() as patch:
        take(1.0, patch, first=20.0)
        fit(cooled(data), data, run.path)
    state = load_state(run.step(saved_steps(run)[-1]))
    assert (state.cooldown_start, state.cooldown_end, state.seconds) == (25, 40, 60.0)


def test_few_updates_since_a_late_resume_do_not_determine_the_end(data, tmp_path):
    run = RunDir(tmp_path / "run")
    config = cooled(data, save_every_steps=13)
    train(config, data, run.path, 3.0, dies_before=14)
    assert saved_steps(run) == [13]
    train(config, data, run.path, 1.0)
    state = load_state(run.step(saved_steps(run)[-1]))
    assert (state.cooldown_start, state.cooldown_end) == (19, 25)


def test_cooldown_state_of_earlier_version_is_resumed(data, tmp_path, capsys):
    run = RunDir(tmp_path / "run")
    train(cooled(data), data, run.path, 3.0, dies_before=17)
    saved = run.step(15)
    state = asdict(load_state(saved))
    assert state.pop("cooldown_by") == "max_minutes"
    saved.state.write_text(state_text(read_seal(saved).checksums, state))
    train(cooled(data), data, run.path, 3.0)
    assert (
        "cool-down from step 15 complete, as determined by training.max_minutes = 1 after 20 steps"
        in capsys.readouterr().err
    )


def test_raised_limit_restarts_cooldown(data, tmp_path, capsys):
    run = tmp_path / "run"
    train(cooled(data), data, run, 3.0)
    train(cooled(data), data, run, 3.0)
    assert "limits" not in capsys.readouterr().err
    longer = cooled(data, max_minutes=2.0)
    train(longer, data, run, 3.0, dies_before=0)
    assert "limits of the run have changed" in capsys.readouterr().err
    again = {**FALLING, **dict.fromkeys(range(21, 31), 1.0), **{30 + i: (11 - i) / 11 for i in range(1, 11)}}
    assert rates(run) == pytest.approx(again)
    train(longer, data, run, 3.0)
    assert "limits" not in capsys.readouterr().err and max(rates(run)) == 40


def test_cooldown_by_max_steps_ends_there(data, tmp_path, capsys):
    saves = {"save_every_steps": 2, "keep_last": 5, "average_last": 5}
    config = cooled(data, max_minutes=None, max_steps=9, cooldown=0.5, **saves)
    train(config, data, tmp_path / "run", 1.0)
    assert read_selected(RunDir(tmp_path / "run")).average_steps == [8, 9]  # the second half
    assert (
        "cool-down from step 5 complete, as determined by training.max_steps = 9 after 9 steps"
        in capsys.readouterr().err
    )
    assert rates(tmp_path / "run") == pytest.approx({
        **dict.fromkeys(range(1, 6), 1.0), 6: 4 / 5, 7: 3 / 5, 8: 2 / 5, 9: 1 / 5,
    })  # fmt: skip


def test_cooldown_of_run_extended_by_epochs_ends_with_the_last_one(data, tmp_path):
    run = RunDir(tmp_path / "run")
    changes = {"max_minutes": None, "cooldown": 0.5, "update_tokens": 1000}
    for resume, n_epochs in ((False, 3), (True, 4)):
        fit(cooled(data, max_epochs=n_epochs, **changes), data, run.path, resume=resume)
    before, after = (load_state(run.step(step)) for step in saved_steps(run)[-2:])
    assert (before.cooldown_end, after.cooldown_start) == (before.step, before.step)
    assert after.cooldown_end == after.step == before.step * 4 / 3


@pytest.mark.parametrize("lower", [{"max_epochs": 1}, {"max_minutes": 0.25}])
def test_run_resumed_with_a_limit_already_passed_ends_at_once(data, tmp_path, capsys, lower):
    run, changes = RunDir(tmp_path / "run"), {"save_every_steps": 3, "update_tokens": 1000}
    train(cooled(data, **changes), data, run.path, 3.0, dies_before=7)
    train(cooled(data, **changes, **lower), data, run.path, 3.0)
    assert saved_steps(run) == [3, 6]
    assert run.average.path.is_dir() is ("max_epochs" in lower), "which would take more time"
    assert ("checkpoints are not averaged" in capsys.readouterr().err) is ("max_minutes" in lower)
    state = load_state(run.step(6))
    assert state.epoch >= 1 and state.seconds > 15 and state.cooldown is None


# --- A cool-down by epochs, with stages of pairs of different lengths ---------------------------


LONG, SHORT = {"weights": {"long": 1.0}}, {"weights": {"short": 1.0}}
N_PAIRS = 50  # in an epoch


@pytest.fixture(scope="module")
def lengths(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory of 25 long and 25 short pairs."""
    folder = tmp_path_factory.mktemp("lengths")
    shutil.copytree(data.parent / "text", folder / "text")
    for language in ("aa", "bb"):
        words = (folder / "text" / f"train.{language}").read_text(encoding="utf-8").split()
        for name, n in (("long", 20), ("short", 3)):
            lines = [" ".join(words[i : i + n]) for i in range(0, 25 * n, n)]
            (folder / "text" / f"{name}.{language}").write_text("\n".join([*lines, ""]), encoding="utf-8")
    prepare(staged(folder / "data"), folder / "data", echo=lambda _: None)
    return folder / "data"


def staged(data: Path, *stages: dict[str, object]) -> Config:
    """Four epochs, of which the last half cools down."""
    return tiny_settings(
        data.parent / "text",
        data={"train": [{"files": {"aa": f"{n}.aa", "bb": f"{n}.bb"}, "name": n} for n in ("long", "short")]},
        training={
            "schedule": "constant", "max_epochs": 4, "cooldown": 0.5, "stages": list(stages), "select_by": "loss",
            "update_tokens": 200, "max_steps": 500, "save_every_steps": 500, "validate_every_steps": 500,
        },
        search={"beam": 1},
    )  # fmt: skip


@pytest.mark.parametrize("stages", [({**LONG, "steps": 9}, SHORT), ({**SHORT, "steps": 3}, LONG)])
def test_stages_of_other_lengths_do_not_shift_a_cooldown_by_epochs(lengths, tmp_path, monkeypatch, stages):
    real, n_pairs, totals, run = loop.train_step, [], {}, RunDir(tmp_path / "run")

    def train_step(session: loop.Session, update: loop.Update) -> loop.Outcome:
        n_pairs.append(len(update.rows))
        return real(session, update)

    monkeypatch.setattr(loop, "train_step", train_step)
    monkeypatch.setattr(TrainingLog, "progress", lambda _, step, last, *__: totals.update({step: last}))
    monkeypatch.setattr("nmt.training.report.meter.SHOW_SECONDS", 0.0)
    fit(staged(lengths, *stages), lengths, run.path)
    state = load_state(run.step(saved_steps(run)[-1]))
    assert state.cooldown_by == "max_epochs" and state.cooldown_start > state.stage_step > 0
    assert sum(n_pairs[: state.cooldown_start]) == pytest.approx(2 * N_PAIRS, abs=max(n_pairs))
    assert sum(n_pairs) == pytest.approx(4 * N_PAIRS, abs=max(n_pairs))
    last = max(step for step in totals if step <= state.cooldown_start)
    assert last >= state.stage_step and totals[last] == pytest.approx(state.step, abs=1), "those of the progress bar"


# --- A run that ends before its warm-up or its schedule does says so; the time that it tells  ---


WARM_UP = "the end of the warm-up (training.warmup_steps = 4000)"
STAGES = [{"steps": 10}, {"steps": 20}, {}]


@pytest.mark.parametrize(
    ("changes", "last", "found"),
    [
        ({}, 3999, [WARM_UP]),
        ({}, 4000, []),
        ({"schedule": "constant"}, 10, [WARM_UP]),
        ({"schedule": "cosine", "max_steps": 10_000}, 8999, [
            "the end of the cosine schedule (training.max_steps = 10000)",
        ]),
        ({"schedule": "linear", "max_steps": 10_000}, 9000, []),
        ({"schedule": "linear", "max_steps": 10_000}, 100, [
            WARM_UP, "the end of the linear schedule (training.max_steps = 10000)",
        ]),
        ({"stages": STAGES, "warmup_steps": 9}, 30, ["the last of training.stages (from step 30)"]),
        ({"stages": STAGES, "warmup_steps": 9}, 31, []),
        ({"planned_steps": 100, "warmup_steps": 9}, 90, []),
        ({"planned_steps": 100, "warmup_steps": 9}, 89, [
            "the planned updates (training.planned_steps = 100, at the speed that was measured)",
        ]),
    ],
)  # fmt: skip
def test_cut_short_lists_missed_parts_of_schedule(changes: dict[str, Any], last: int, found: list[str]) -> None:
    assert cut_short(TrainingConfig(**changes), last) == found


def test_cut_short_names_a_cooldown_that_begins_before_the_end_of_the_warm_up() -> None:
    settings = TrainingConfig(warmup_steps=100, cooldown=0.5, schedule="constant")
    (missed,) = cut_short(settings, 150, 75)
    assert "cool-down begins at step 75" in missed and "training.warmup_steps = 100" in missed
    assert cut_short(settings, 99, 49) == [WARM_UP.replace("4000", "100")]
    assert cut_short(settings, 200, 100) == []


def said(update_seconds: float = 1.0, state: TrainState | None = None, **changes: Any) -> str | None:
    """Return the forecast after 50 updates in an epoch of 100 updates."""
    state = state or TrainState(step=50, n_tokens=50_000, seconds=310.0)
    return forecast(session_of(TrainingConfig(**changes), state, 100_000), update_seconds)


def session_of(settings: TrainingConfig, state: TrainState, n_epoch_tokens: int) -> Any:
    """Return what a forecast reads of a session after half an epoch."""
    return SimpleNamespace(settings=settings, state=state, n_epochs=0.5, n_epoch_tokens=n_epoch_tokens)


def test_forecast_by_minutes_and_epochs() -> None:
    allow = "; raise training.max_minutes or lower the other settings"
    # 50 steps are done in 310 s; without a twentieth of the time for the end, this leaves 260 s for 260 more
    ends = "training.max_minutes = 10 ends training after about 310 steps at most"
    assert said(max_minutes=10.0) == f"warning: {ends}, without reaching {WARM_UP}{allow}"
    cosine = {"schedule": "cosine", "warmup_steps": 100, "max_steps": 400}
    end = "the end of the cosine schedule (training.max_steps = 400)"
    assert said(max_minutes=10.0, **cosine) == f"warning: {ends}, without reaching {end}{allow}"
    for seconds, changes in (
        (1.0, {"max_minutes": 10.0, "warmup_steps": 310, "max_steps": 600}), (0.5, {"max_minutes": 10.0, **cosine}),
        (1.0, {"max_minutes": 10.0, "schedule": "constant", "cooldown": 0.5, "warmup_steps": 155, "max_steps": 500}),
        (1.0, {"max_steps": 5000}),
    ):  # fmt: skip
        assert said(seconds, **changes) is None
    allow = allow.replace("minutes", "epochs")
    assert said(max_steps=1_000_000, max_epochs=3) == (
        "warning: training.max_epochs = 3 ends training after about 300 steps at most, without reaching "
        f"{WARM_UP}{allow}"
    )
    state = TrainState(step=50, seconds=9.0, cooldown_start=40, cooldown_end=60, cooldown_by="max_epochs")
    warning = said(state=state, max_epochs=1, cooldown=0.3, warmup_steps=41)
    assert warning is not None and "begins at step 40, before training.warmup_steps = 41" in warning
    assert "after about 60 steps" in warning and warning.endswith(allow)
    assert said(state=TrainState(step=50, n_tokens=1, seconds=601.0), max_minutes=10.0) is None  # it ends by itself


def test_forecast_by_epochs_after_a_stage_of_longer_pairs() -> None:
    state = TrainState(step=50, n_tokens=50_000, seconds=50.0)  # half an epoch; one of the shorter pairs has 20 updates
    limit, last = expected_end(session_of(TrainingConfig(max_epochs=3), state, 20_000), 1.0)
    assert (limit, last) == ("max_epochs", 100)


@pytest.mark.parametrize(("seconds", "is_due"), [(16.0, True), (16.5, False)])
def test_checkpoints_leave_validations_their_share_of_time(seconds: float, is_due: bool, capsys) -> None:
    state = TrainState(step=50, seconds=310.0, paused_seconds=200.0, check_seconds=seconds)
    settings = TrainingConfig(max_minutes=10.0, max_steps=640, validate_every_steps=25)
    session: Any = SimpleNamespace(state=state, settings=settings, n_epochs=0.0, leaves_out_checks=False)
    assert [validation_is_due(session), validation_is_due(session)] == [is_due, is_due]
    assert len(capsys.readouterr().err.splitlines()) == (not is_due), "said once"
