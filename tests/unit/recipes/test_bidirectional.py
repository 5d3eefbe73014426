"""Tests of `nmt bidirectional`: its runs, and which of them are finished."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from typer.main import get_command

from command import Command
from nmt.cli import app
from nmt.config import Config
from nmt.config.load import dump_config, load_config
from nmt.recipes import directory
from nmt.recipes.bidirectional import Bidirectional, plan

SEED = "training.seed=2"


def config_of(words: list[str]) -> Config:
    """Return the settings of a command, parsed as by the command line."""
    commands: Any = get_command(app)
    context = commands.commands["train"].make_context("train", words[1:], **commands.context_settings)
    config, changes, init_from = (context.params[name] for name in ("config", "overrides", "init_from"))
    return load_config(config, [*changes, *(f"training.init_from={run}" for run in init_from or ())])


def begin(run: str, config: Config) -> None:
    Path(run).mkdir(parents=True)
    Path(run, "run.json").touch()
    Path(run, "config.yaml").write_text(dump_config(config), encoding="utf-8")


def test_run_in_both_directions_precedes_run_in_one() -> None:
    both, one = plan(Bidirectional("sample.yaml", "900", "20m", [SEED]))
    assert both.command()[:5] == ["train", "--config", "sample.yaml", "--run", "runs/sample-both"]
    assert one.command()[:5] == ["train", "--config", "sample.yaml", "--run", "runs/sample-both-de-en"]
    assert one.command()[-2:] == ["--init-from", "runs/sample-both"] and "--init-from" not in both.command()
    sample = load_config("sample.yaml", [SEED])
    for training, limits, directions in (
        (both, (900, None), ["de-en", "en-de"]),
        (one, (sample.training.max_steps, 20), ["de-en"]),
    ):
        config = training.settings()
        assert config_of(training.command()) == config
        assert (config.training.max_steps, config.training.max_minutes) == limits
        assert config.data.directions == directions and config.data.without_language_tags() == sample.data
        assert config.training.seed == 2 and config.model == sample.model


def test_unfinished_run_is_resumed() -> None:
    request = Bidirectional("sample.yaml", "900", "20m", [SEED])
    both, one = plan(request)
    before = both.command(), one.command()
    begin("runs/sample-both", both.settings())
    both, one = plan(request)
    assert (both.command(), one.command()) == (["train", "--resume", *before[0][1:]], before[1])
    turned = Bidirectional("sample.yaml", "900", "20m", [SEED, "data.direction=en-de"])
    both, one = plan(turned)
    assert both.settings().data.direction == "de-en", "the one it was begun for, though it has learned both"
    assert one.run.path == Path("runs/sample-both-en-de") and one.settings().data.direction == "en-de"


def test_runs_accept_name_and_initial_weights() -> None:
    both, one = plan(Bidirectional("sample.yaml", "900", "900", ["training.init_from=runs/big"], name="mine"))
    assert (both.run.path, one.run.path) == (Path("runs/mine-both"), Path("runs/mine-both-de-en"))
    assert both.settings().training.init_from == "runs/big", "the weights that the user names are for the first"
    assert one.settings().training.init_from == "runs/mine-both"


def test_interruption_of_first_run_stops_command(nmt: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    run_nmt = Mock(side_effect=[75, 0, 2])
    monkeypatch.setattr(directory, "run_nmt", run_nmt)
    again = ("bidirectional", "--config", "sample.yaml", "--both", "900", "--one", "20m")
    assert nmt(*again).status == 75 and run_nmt.call_count == 1
    assert nmt(*again).status == 2 and run_nmt.call_count == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--both", "3h", "--one", "900"],
            "--both 3h: must be a number of steps such as 6000",
        ),
        (["--both", "900", "--one", "2m3"], "--one 2m3: must be a number"),
        (["--both", "900", "--one", ""], "--one : must be a number"),
        (["--both", "900", "--one", "0"], "training.max_steps: must be"),
        (["--both", "900", "--one", "900", "--set", "training.sed=3"], "training.sed"),
        (["--both", "900", "--one", "900", "--set", "training.max_minutes=1"], "--set training.max_minutes=1: "),
        (["--both", "900", "--one", "9m", "--set", "training.max_steps=600"], "--set training.max_steps=600: "),
        (["--both", "9m", "--one", "9m", "--set", "data.directions=[de-en]"], "--set data.directions=[de-en]: "),
        (["--both", "900", "--one", "900", "--config", "none"], "none: no such config"),
    ],
)
def test_errors_are_reported_before_training(
    words: list[str], message: str, nmt: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory, "run_nmt", lambda _: pytest.fail("nothing is to be trained"))
    config = [] if "--config" in words else ["--config", "sample.yaml"]
    done = nmt("bidirectional", *config, *words)
    assert done.status == 2 and message in done.err and done.err.count("\n") == 1
