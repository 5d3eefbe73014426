"""The cool-down at the end of a run is fixed once, however fast the machine is that goes on with it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import pytest

from kept_run import Died, die_before, settings
from nmt.config import Config
from nmt.layout import RunDir
from nmt.runs.checkpoint import saved_steps
from nmt.runs.info import read_selected
from nmt.runs.state import load_state, read_seal, state_text
from nmt.training import loop
from nmt.training.loop import fit

pytestmark = pytest.mark.usefixtures("quick")


def cooled(data: Path, **training: object) -> Config:
    """One minute, of which the last quarter cools down."""
    return settings(data, **{
        "schedule": "constant", "warmup_steps": 1, "cooldown": 0.25, "max_minutes": 1.0, "max_steps": 500,
        "save_every_steps": 100, "validate_every_steps": 100, **training,
    })  # fmt: skip


def take(seconds: float, patch: pytest.MonkeyPatch) -> None:
    """Have every update take so long, and nothing else any time."""
    real, clock = loop.train_step, SimpleNamespace(now=0.0)

    def train_step(session: loop.Session, update: loop.Update) -> loop.Outcome:
        clock.now += seconds
        return real(session, update)

    patch.setattr(loop, "train_step", train_step)
    patch.setattr("nmt.training.report.meter.time", SimpleNamespace(monotonic=lambda: clock.now))


def rates(run: Path) -> dict[int, float]:
    """The learning rate of every step, over that of a run without cool-down."""
    found = [json.loads(line) for line in RunDir(run).log.read_text(encoding="utf-8").splitlines()]
    return {record["step"]: record["lr"] / 7e-4 for record in found if record["kind"] == "train"}


def train(config: Config, data: Path, run: Path, seconds: float, dies_before: int = 0) -> None:
    with pytest.MonkeyPatch.context() as patch:
        take(seconds, patch)
        if not dies_before:
            fit(config, data, run, resume=RunDir(run).info.exists())
            return
        die_before(dies_before, patch)
        with pytest.raises(Died):
            fit(config, data, run)


# 3 seconds a step: a quarter of a minute is left after step 15, by then the whole is 20 steps
FALLING = {**dict.fromkeys(range(1, 16), 1.0), 16: 5 / 6, 17: 4 / 6, 18: 3 / 6, 19: 2 / 6, 20: 1 / 6}


@pytest.mark.parametrize("seconds", [0.1, 3.0, 100.0])
def test_start_and_end_are_fixed_once(data, tmp_path, capsys, seconds):
    run = RunDir(tmp_path / "run")
    config = cooled(data, max_steps=24)  # of which more is used at the end than of the time, on a faster machine
    train(config, data, run.path, 3.0, dies_before=17)
    assert saved_steps(run) == [15]
    state = load_state(run.step(15))
    assert (state.cooldown_start, state.cooldown_end, state.seconds) == (15, 20, 45.0)
    train(config, data, run.path, seconds)
    assert (
        "cool-down from step 15, as fixed by training.max_minutes = 1, complete after 20 steps"
        in capsys.readouterr().err
    )
    assert read_selected(run).finished_by == "max_minutes"
    assert rates(run.path) == pytest.approx(FALLING)
    assert saved_steps(run) == [15, 20]


def test_a_cooldown_of_an_earlier_version_goes_on(data, tmp_path, capsys):
    run = RunDir(tmp_path / "run")
    train(cooled(data), data, run.path, 3.0, dies_before=17)
    saved = run.step(15)
    state = asdict(load_state(saved))
    assert state.pop("cooldown_by") == "max_minutes"
    saved.state.write_text(state_text(read_seal(saved).checksums, state))
    train(cooled(data), data, run.path, 3.0)
    assert (
        "cool-down from step 15, as fixed by training.max_minutes = 1, complete after 20 steps"
        in capsys.readouterr().err
    )


def test_a_slower_machine_before_the_cooldown_only_makes_it_earlier(data, tmp_path):
    train(cooled(data), data, tmp_path / "run", 5.0)
    assert rates(tmp_path / "run") == pytest.approx(
        {**dict.fromkeys(range(1, 10), 1.0), 10: 3 / 4, 11: 2 / 4, 12: 1 / 4}
    )


def test_a_limit_that_is_raised_begins_the_cooldown_anew(data, tmp_path, capsys):
    run = tmp_path / "run"
    train(cooled(data), data, run, 3.0)
    train(cooled(data), data, run, 3.0)
    assert "limits" not in capsys.readouterr().err
    longer = cooled(data, max_minutes=2.0)
    train(longer, data, run, 3.0, dies_before=0)
    said = "nmt: the run's limits have changed: its cool-down starts over, and the learning rate jumps up"
    assert capsys.readouterr().err.count(said) == 1
    again = {**FALLING, **dict.fromkeys(range(21, 31), 1.0), **{30 + i: (11 - i) / 11 for i in range(1, 11)}}
    assert rates(run) == pytest.approx(again)
    train(longer, data, run, 3.0)
    assert "limits" not in capsys.readouterr().err and max(rates(run)) == 40


def test_with_steps_it_ends_exactly_there(data, tmp_path, capsys):
    config = cooled(data, max_minutes=None, max_steps=9, cooldown=0.5)
    train(config, data, tmp_path / "run", 1.0)
    assert (
        "cool-down from step 5, as fixed by training.max_steps = 9, complete after 9 steps" in capsys.readouterr().err
    )
    assert rates(tmp_path / "run") == pytest.approx({
        **dict.fromkeys(range(1, 6), 1.0), 6: 4 / 5, 7: 3 / 5, 8: 2 / 5, 9: 1 / 5,
    })  # fmt: skip
