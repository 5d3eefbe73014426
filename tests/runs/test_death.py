"""A run that is killed at any moment and resumed ends like an uninterrupted run."""

from __future__ import annotations

import shutil
from collections.abc import Container
from pathlib import Path

import pytest

from disk import Deaths
from fitting import fit
from kept_run import differences, kept, quicken, settings
from nmt.config import Config
from nmt.layout import RunDir
from nmt.runs.checkpoint import choose_weights
from nmt.runs.state import saved_steps

pytestmark = pytest.mark.usefixtures("no_coverage")


def live(config: Config, data: Path, run: Path) -> None:
    """Start a run, or resume the existing one."""
    fit(config, data, run, resume=RunDir(run).info.exists())


def deaths_of(
    config: Config, data: Path, run: Path, copies: Path, at: Container[int] | None = None, each_once: bool = False
) -> Deaths:
    """Continue a run to its end, and return a copy of its directory for every moment at which it could be killed.

    `at`, `each_once`: only for some of them; see `Deaths`.
    """
    with pytest.MonkeyPatch.context() as patch:
        deaths = Deaths(patch, run, copies, at, each_once)
        live(config, data, run)
    return deaths


def check_all(deaths: dict[Path, str], config: Config, data: Path, wanted: dict[str, object]) -> None:
    """Resume every copy, and check that it ends like the uninterrupted run."""
    wrong = {}
    for left, moment in deaths.items():
        run = RunDir(shutil.copytree(left, left.with_name("again")))
        if saved_steps(run) and run.selected.exists():
            choose_weights(run, config.training.average_last)  # at any time it translates with what was selected last
        live(config, data, run.path)
        if found := differences(kept(run.path), wanted):
            wrong[f"{left.name}: {moment}"] = found
        shutil.rmtree(run.path)
    assert wrong == {}


@pytest.fixture(scope="module")
def life(data: Path, tmp_path_factory: pytest.TempPathFactory, stride: int) -> Deaths:
    """Run a training from start to end."""
    folder = tmp_path_factory.mktemp("life")
    with pytest.MonkeyPatch.context() as patch:
        quicken(patch)
        return deaths_of(settings(data), data, folder / "run", folder / "deaths", each_once=stride > 1)


def test_reference_run_covers_all_writes(life):
    assert saved_steps(RunDir(life.watched)) == [4, 6]
    assert len(life.killed) > 50 and len(life.power) > 5
    moments = " ".join(life.operations)
    for operation in (
        "rename run.json.part", "rename checkpoints/step-00000003.part", "fsync checkpoints/average.part",
        "rmdir checkpoints/step-00000003", "rename checkpoints/step-00000006/state.json.part",
        "mkdir checkpoints", "pwrite log.jsonl", "dev/average.bb", "rename selected.json.part",
    ):  # fmt: skip
        assert operation in moments


def some(deaths: dict[Path, str], stride: int) -> dict[Path, str]:
    """Every third copy, or all with `--exhaustive`."""
    return dict(list(deaths.items())[:: max(1, stride // 2)])


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("of", ["killed", "power"])
def test_interrupted_run_resumes(life, data, stride, of):
    is_run = [(left / "run.json").exists() for left in life.killed]
    assert 5 < is_run.count(False) < is_run.count(True)
    check_all(some(getattr(life, of), stride), settings(data), data, kept(life.watched))


@pytest.mark.usefixtures("quick")
def test_resumed_run_killed_again_resumes(life, data, tmp_path, stride):
    left = next(left for left, moment in life.killed.items() if "half of write optimizer" in moment)
    shutil.copytree(left, tmp_path / "run")
    deaths = deaths_of(settings(data), data, tmp_path / "run", tmp_path / "deaths", at=range(21))
    assert "ftruncate log.jsonl" in deaths.operations[:20] and len(deaths.killed) > 10
    check_all(some(deaths.killed, stride) | some(deaths.power, stride), settings(data), data, kept(life.watched))


@pytest.mark.usefixtures("quick")
def test_killed_run_with_raised_limit_resumes(life, data, tmp_path, stride):
    """There is an average already, which the new one takes the place of."""
    shutil.copytree(life.watched, tmp_path / "run")
    longer = settings(data, max_steps=8, average_last=2)
    deaths = deaths_of(longer, data, tmp_path / "run", tmp_path / "deaths", each_once=stride > 1)
    of_the_end = list(deaths.killed.items())[-30:]
    assert "rename average" in " ".join(moment for _, moment in of_the_end)
    check_all(dict(of_the_end[::stride]), longer, data, kept(tmp_path / "run"))
