"""A run that ends before its warm-up or its schedule does says so; the time that it tells is that of the clock."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kept_run import settings
from nmt.config import TrainingConfig
from nmt.layout import RunDir
from nmt.runs.state import TrainState, load_state
from nmt.training import loop
from nmt.training.limits import FIRST_UPDATES, SLOW_UPDATES, cut_short, forecast, pace_is_known
from nmt.training.loop import fit
from nmt.training.validate import Validation, Validator

WARM_UP = "the end of the warm-up (training.warmup_steps = 4000)"


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
        ({"consistency": "rdrop", "consistency_start": 5000}, 5000, [
            "the start of rdrop (training.consistency_start = 5000)",
        ]),
        ({"consistency": "rdrop", "consistency_start": 5000}, 5001, []),
        ({"consistency": "rdrop", "consistency_start": 5000, "consistency_weight": 0}, 5000, []),
    ],
)  # fmt: skip
def test_what_a_run_does_not_come_to(changes: dict[str, Any], last: int, found: list[str]) -> None:
    assert cut_short(TrainingConfig(**changes), last) == found


def test_a_cooldown_that_begins_before_the_warm_up_is_over() -> None:
    assert cut_short(TrainingConfig(cooldown=0.3), 5000, 3500) == [WARM_UP]
    assert cut_short(TrainingConfig(cooldown=0.3), 5000, 4000) == []


def said(update_seconds: float = 1.0, state: TrainState | None = None, **changes: Any) -> str | None:
    """The forecast after 50 updates, the first ten of which took 30 seconds each, in an epoch of 100 updates."""
    seconds = [30.0] * SLOW_UPDATES + [update_seconds] * (FIRST_UPDATES - SLOW_UPDATES)
    state = state or TrainState(step=50, n_tokens=50_000, seconds=340.0)
    return forecast(TrainingConfig(**changes), state, 100_000, seconds)


def test_what_is_foreseen() -> None:
    allow = "; raise training.max_minutes or lower the other settings"
    # 50 steps are done in 340 s, which leaves 260 s for 260 more
    ends = "training.max_minutes = 10 ends training after about 310 steps at most"
    assert said(max_minutes=10.0) == f"warning: {ends}, before {WARM_UP}{allow}"
    assert said(max_minutes=10.0, warmup_steps=310, max_steps=600) is None
    assert said(max_minutes=10.0, warmup_steps=310, max_steps=640) == f"{ends}, long before training.max_steps = 640"
    cosine = {"schedule": "cosine", "warmup_steps": 100, "max_steps": 400}
    end = "the end of the cosine schedule (training.max_steps = 400)"
    assert said(max_minutes=10.0, **cosine) == f"warning: {ends}, before {end}{allow}"
    assert said(0.5, max_minutes=10.0, **cosine) is None
    cooled = "training.max_minutes = 10 ends training after about 310 steps at most"
    assert said(max_minutes=10.0, schedule="constant", cooldown=0.5, warmup_steps=155, max_steps=500) is None
    line = said(max_minutes=10.0, schedule="constant", cooldown=0.5, warmup_steps=156, max_steps=500)
    assert line == f"warning: {cooled}, before the end of the warm-up (training.warmup_steps = 156){allow}"
    assert said(max_steps=5000) is None
    allow = allow.replace("minutes", "epochs")
    assert said(max_steps=1_000_000, max_epochs=3) == (
        f"warning: training.max_epochs = 3 ends training after about 300 steps at most, before {WARM_UP}{allow}"
    )
    state = TrainState(step=50, seconds=9.0, cooldown_start=40, cooldown_end=60, cooldown_by="max_epochs")
    assert said(state=state, max_epochs=1, cooldown=0.3, warmup_steps=41) == (
        "warning: training.max_epochs = 1 ends training after about 60 steps at most, before the end of the warm-up "
        f"(training.warmup_steps = 41){allow}"
    )
    assert said(state=TrainState(step=50, n_tokens=1, seconds=601.0), max_minutes=10.0) is None  # it ends by itself


def test_a_slow_machine_is_told_by_fewer_updates() -> None:
    settings, state = TrainingConfig(max_minutes=4.0), TrainState(step=6, n_tokens=6000, seconds=60.0)
    assert pace_is_known(settings, state, 5) and not pace_is_known(settings, state, 4)
    assert not pace_is_known(TrainingConfig(), state, 49) and pace_is_known(TrainingConfig(), state, 50)
    line = forecast(settings, state, 100_000, [30.0, 30.0, 10.0, 10.0, 10.0])
    assert line is not None and "ends training after about 24 steps at most" in line


@pytest.mark.usefixtures("quick")
def test_a_run_says_so_when_it_can_know_and_at_its_end(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An update takes a second and a validation five, on a clock that nothing else moves."""
    clock = SimpleNamespace(now=0.0)
    real = loop.train_step

    def train_step(session: loop.Session, update: loop.Update) -> loop.Outcome:
        clock.now += 1.0
        return real(session, update)

    def validate(*_: object) -> Validation:
        clock.now += 5.0
        return Validation(1.0, 1.0, 2.0, 0.5, {"bleu": 10.0, "chrf": 20.0}, ["a", "b", "c"])

    monkeypatch.setattr(loop, "train_step", train_step)
    monkeypatch.setattr(Validator, "validate", validate)
    monkeypatch.setattr("nmt.training.report.meter.time", SimpleNamespace(monotonic=lambda: clock.now))
    for module in ("limits", "report.meter"):
        monkeypatch.setattr(f"nmt.training.{module}.FIRST_UPDATES", 10)
    monkeypatch.setattr("nmt.training.limits.SLOW_UPDATES", 2)
    config = settings(
        data, schedule="linear", warmup_steps=22, max_steps=25, max_minutes=0.4, validate_every_steps=8,
        save_every_steps=8, log_every_steps=5,
    )  # fmt: skip
    run = RunDir(tmp_path / "run")
    fit(config, data, run.path)
    lines = capsys.readouterr().err.splitlines()
    what = "the end of the warm-up (training.warmup_steps = 22)"
    # ten updates and a validation have taken 15 of the 24 seconds
    told = f"warning: training.max_minutes = 0.4 ends training after about 19 steps at most, before {what} and the end "
    (at,) = [i for i, line in enumerate(lines) if line.startswith(told)]
    assert lines[at + 1].startswith("step     10 train")
    told = f"warning: training has ended before {what} and the end of the linear schedule (training.max_steps = 25); "
    (at,) = [i for i, line in enumerate(lines) if line.startswith(told)]
    assert lines[at - 1] == "training.max_minutes = 0.4 reached after 16 steps"
    assert f"; to continue: nmt train --resume --run {run.path} --set training.max_minutes=0.8" in lines[at]
    # 16 updates and three validations, the average's, too
    assert lines[-1].endswith("(0:31 in all)")
    last = json.loads(run.log.read_text().splitlines()[-1])
    assert (last["kind"], last["minutes"]) == ("average", pytest.approx(31 / 60))
    assert load_state(run.step(16)).seconds == 31.0
