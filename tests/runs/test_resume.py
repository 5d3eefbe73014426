"""A resumed run equals an uninterrupted one; with another machine or setting, a message or an error says so."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import pytest
import torch

from cases import cases
from fitting import fit, start
from kept_run import Died, die_before
from kept_run import settings as settings_of
from nmt.config import Config
from nmt.data.batching import Update
from nmt.errors import CheckpointError, StoppedError
from nmt.layout import RunDir
from nmt.model.device import threads
from nmt.runs.checkpoint import choose_weights
from nmt.runs.state import load_state, read_seal, saved_steps, state_text
from nmt.training import loop
from nmt.training.limits import cut_short
from nmt.training.loop import train_step
from nmt.training.session import Session
from nmt.training.settings import DECAYS
from nmt.training.setup import choices
from tiny_corpus import tiny_settings
from trained import assert_same_run, records, score, train_with_deaths

pytestmark = pytest.mark.usefixtures("no_coverage", "quick")


@pytest.mark.parametrize(
    ("settings", "deaths"),
    [
        # between two records, so that the sums of a record go through a checkpoint
        pytest.param(
            {"log_every_steps": 5, "save_every_steps": 2, "validate_every_steps": 4},
            [1, 3, 7, 11],
            marks=pytest.mark.exhaustive,
        ),
        # several epochs of few updates
        ({"update_tokens": 1200, "max_tokens": 600, "save_every_steps": 1, "log_every_steps": 3}, [2, 4, 5, 9]),
        # a cool-down, and a schedule with its own end
        ({"schedule": "inverse_sqrt", "cooldown": 0.5, "peak_lr": 0.01, "warmup_steps": 2}, [5, 8, 10]),
        pytest.param({"schedule": "cosine", "peak_lr": 0.01, "warmup_steps": 2}, [4, 11], marks=pytest.mark.exhaustive),
        ({"optimizer": "adamw", "weight_decay": 0.1, "precision": "fp16"}, [4, 11]),
        ({"precision": "bf16"}, [8]),
        ({"optimizer": "muon", "weight_decay": 0.1, "precision": "bf16", "ema": 0.9}, [4, 11]),
        pytest.param(
            {"max_epochs": 2, "max_steps": 50, "update_tokens": 700, "patience": 9, "average_last": 3},
            [4, 7],
            marks=pytest.mark.exhaustive,
        ),
        # whatever can be on together, over several epochs
        (
            {
                "consistency": "simcut",
                "bpe_dropout": 0.2,
                "ema": 0.9,
                "freeze": ["cross_attention"],
                "update_tokens": 2400,
                "max_tokens": 1200,
                "save_every_steps": 1,
            },
            [1, 4, 6, 10],
        ),
        # other pieces in every epoch, by whose number the cool-down begins
        (
            {
                "consistency": "rdrop",
                "bpe_dropout": 0.2,
                "update_tokens": 1200,
                "max_tokens": 600,
                "max_epochs": 3,
                "max_steps": 50,
                "cooldown": 0.5,
            },
            [2, 5, 8],
        ),
        # other forms of some pairs in every epoch, whose lengths are not those that the cool-down is planned by
        (
            {
                "modifiers": {"upper_case": 0.4, "typos": 0.3, "noise": 0.1, "tags": 0.1},
                "bpe_dropout": 0.2,
                "update_tokens": 1200,
                "max_tokens": 600,
                "max_epochs": 3,
                "max_steps": 50,
                "cooldown": 0.5,
            },
            [2, 5, 8],
        ),
    ],
    ids=["log", "epochs", "cooldown", "cosine", "fp16", "bf16", "muon", "max_epochs", "all", "rdrop", "modifiers"],
)
def test_resumed_run_equals_uninterrupted_run(tiny_data, text, tmp_path, monkeypatch, settings, deaths):
    config = tiny_settings(text, training=settings)
    fit(config, tiny_data, tmp_path / "whole")
    train_with_deaths(config, tiny_data, tmp_path / "parts", monkeypatch, deaths)
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_schedule_that_ends_above_0_at_max_steps_says_that_its_rate_jumps(
    tiny_data, text, tmp_path, monkeypatch, capsys
):
    monkeypatch.setitem(DECAYS, "linear", lambda done: 1.0 - 0.5 * done)
    training = {"schedule": "linear", "warmup_steps": 1}
    before, after = (tiny_settings(text, training={**training, "max_steps": n_steps}) for n_steps in (2, 40))
    assert any("max_steps = 40" in part for part in cut_short(after.training, 20))
    start(before, tiny_data, tmp_path / "run")
    capsys.readouterr()
    start(after, tiny_data, tmp_path / "run", resume=True)
    assert "training.max_steps = 40" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "training"),
    [
        ("decoder", {"max_tokens": 300}),
        ("decoder", {"objective": "causal"}),
        ("translation", {"objective": "denoising"}),
        (
            "encoder",
            {
                "objective": "masked",
                "masked": {"pair_task": ["shuffled", "cut", "replaced"]},
                "max_tokens": 400,
            },
        ),
    ],
)
def test_resumed_objective_equals_uninterrupted_run(data, tmp_path, monkeypatch, kind, training):
    config = settings_of(data, kind, **training)
    fit(config, data, tmp_path / "whole")
    train_with_deaths(config, data, tmp_path / "parts", monkeypatch, [5])
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_resume_restores_patience_count(tiny_data, text, tmp_path, monkeypatch):
    settings = {"validate_every_steps": 2, "save_every_steps": 2, "patience": 3, "max_steps": 40, "average_last": 1}
    config = tiny_settings(text, training=settings)
    scores = (10.0, 30.0, 20.0, 19.0, 18.0)
    with monkeypatch.context() as patch:
        score(patch, *scores)
        fit(config, tiny_data, tmp_path / "whole")
    with monkeypatch.context() as patch:
        score(patch, *scores)
        train_with_deaths(config, tiny_data, tmp_path / "parts", patch, [4, 6, 8])
    assert_same_run(tmp_path / "whole", tmp_path / "parts")
    assert load_state(RunDir(tmp_path / "parts").step(10)).checks_since_best == 3


# --- elsewhere ----------------------------------------------------------------------------------


def test_resume_finds_moved_directories(tiny_data, text, tmp_path, monkeypatch, capsys):
    config = tiny_settings(text)
    fit(config, tiny_data, tmp_path / "whole")
    data = tmp_path / "data"
    shutil.copytree(tiny_data, data)
    with monkeypatch.context() as patch, pytest.raises(Died):
        die_before(5, patch)
        fit(config, data, tmp_path / "parts")
    (tmp_path / "elsewhere").mkdir()
    moved, run = data.rename(tmp_path / "elsewhere" / "corpus"), tmp_path / "elsewhere" / "run"
    (tmp_path / "parts").rename(run)
    capsys.readouterr()
    fit(config, moved, run, resume=True)
    assert f"the data directory was {data}; it has moved, but its content is the same" in capsys.readouterr().err
    assert_same_run(tmp_path / "whole", run, but=("run.json",))
    assert json.loads(RunDir(run).info.read_text())["data_dir"] == str(moved)


def test_resume_of_run_of_earlier_version_raises(tiny_data, text, tmp_path):
    settings = tiny_settings(text, training={"max_steps": 1})
    fit(settings, tiny_data, tmp_path / "run")
    info = RunDir(tmp_path / "run").info
    info.write_text(json.dumps({key: value for key, value in json.loads(info.read_text()).items() if key != "nmt"}))
    with pytest.raises(CheckpointError, match=r"run: .* earlier version .* --init-from"):
        fit(tiny_settings(text, training={"max_steps": 2}), tiny_data, tmp_path / "run", resume=True)


@pytest.fixture
def two_threads(monkeypatch):
    """A machine with two cores and a user who has not said how many to take."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    with threads(2):
        yield


@pytest.mark.usefixtures("two_threads")
def test_resume_keeps_probed_threads(tiny_data, text, tmp_path, monkeypatch, capsys):
    seen = []
    monkeypatch.setattr(choices, "pick_threads", lambda work, _: (work(), 1)[1])
    monkeypatch.setattr(loop, "train_step", lambda *args: (seen.append(torch.get_num_threads()), train_step(*args))[1])
    fit(tiny_settings(text, training={"max_steps": 3}), tiny_data, tmp_path / "run")
    assert json.loads(RunDir(tmp_path / "run").info.read_text())["threads"] == 1
    monkeypatch.setattr(choices, "pick_threads", lambda *_: pytest.fail("it was chosen before"))
    fit(tiny_settings(text, training={"max_steps": 6}), tiny_data, tmp_path / "run", resume=True)
    assert (seen, torch.get_num_threads()) == ([1] * 6, 2)
    assert "instead of" not in capsys.readouterr().err


def test_epoch_of_earlier_version_starts_again(tiny_data, text, tmp_path, capsys):
    """Earlier versions divided it into other updates, so that some pairs would be learned twice and others never."""
    config = tiny_settings(text, training={"max_steps": 3})
    fit(config, tiny_data, tmp_path / "run")
    checkpoint = RunDir(tmp_path / "run").step(3)
    document = read_seal(checkpoint)
    assert document.state.pop("mixed_lengths") is True and document.state["update_in_epoch"] == 3
    checkpoint.state.write_text(state_text(document.checksums, document.state), encoding="utf-8")
    path = RunDir(tmp_path / "run").info
    info = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**info, "nmt": "0.2.0", "layout": "padded"}), encoding="utf-8")
    config = tiny_settings(text, training={"max_steps": 6})
    fit(config, tiny_data, tmp_path / "run", resume=True)
    told = capsys.readouterr().err
    assert "the epoch starts again" in told and "rows instead of padded" in told and "order are the same" not in told
    state = load_state(RunDir(tmp_path / "run").step(6))
    assert (state.step, state.update_in_epoch, state.mixed_lengths) == (6, 3, True)


# --- what a review has found --------------------------------------------------------------------


def stop_at(step: int, config: Config, data: Path, run: Path, resume: bool) -> None:
    """Train to this step and stop as by a signal."""

    def stopping(session: Session, update: Update) -> object:
        outcome = train_step(session, update)
        if session.state.step == step:
            session.stop.receive(signal.SIGTERM)
        return outcome

    with pytest.MonkeyPatch.context() as patch, pytest.raises(StoppedError):
        patch.setattr(loop, "train_step", stopping)
        fit(config, data, run, resume=resume)


@pytest.mark.parametrize("stops", cases([[5, 6], [5, 6, 7, 9, 11], [4, 10]], always=[[5, 6, 7, 9, 11]]))
def test_extra_checkpoints_of_stops_are_not_averaged(tiny_data, text, tmp_path, stops):
    settings = {"save_every_steps": 4, "validate_every_steps": 4, "keep_last": 3, "average_last": 3}
    config = tiny_settings(text, training=settings)
    fit(config, tiny_data, tmp_path / "whole")
    for i, step in enumerate(stops):
        stop_at(step, config, tiny_data, tmp_path / "parts", resume=i > 0)
    fit(config, tiny_data, tmp_path / "parts", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "parts")
    assert json.loads(RunDir(tmp_path / "parts").selected.read_text())["average_steps"] == [4, 8, 12]


def test_death_before_rotation_does_not_change_run(tiny_data, text, tmp_path, monkeypatch):
    config = tiny_settings(text, training={"save_every_steps": 4, "keep_last": 3, "average_last": 3})
    fit(config, tiny_data, tmp_path / "whole")
    stop_at(5, config, tiny_data, tmp_path / "parts", resume=False)
    with monkeypatch.context() as patch, pytest.raises(Died):
        patch.setattr("nmt.training.saving.rotate", _dying)
        fit(config, tiny_data, tmp_path / "parts", resume=True)
    fit(config, tiny_data, tmp_path / "parts", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def _dying(*_: object) -> None:
    raise Died


def test_resume_of_finished_run_changes_nothing(tiny_data, text, tmp_path, monkeypatch, capsys):
    """Whatever its limit and the machine are now, and also if its checkpoints are gone, as with a disk that is not
    mounted."""
    config, run = tiny_settings(text), RunDir(tmp_path / "run")
    fit(config, tiny_data, run.path)
    before = {path: path.read_bytes() for path in (run.log, run.config, run.info, run.selected)}
    monkeypatch.setattr("torch.get_num_threads", lambda: 77)
    for steps in (12, 5):
        fit(tiny_settings(text, training={"max_steps": steps}), tiny_data, run.path, resume=True)
        assert f"finished at step 12, training.max_steps = {steps} reached; to continue: nmt" in capsys.readouterr().err
    run.checkpoints.rename(tmp_path / "disk")
    with pytest.raises(CheckpointError, match="checkpoints: no such directory; restore it"):
        fit(config, tiny_data, run.path, resume=True)
    assert {path: path.read_bytes() for path in before} == before


def test_missing_best_checkpoint_is_replaced(tiny_data, text, tmp_path, monkeypatch, capsys):
    settings = {"validate_every_steps": 3, "save_every_steps": 1, "keep_last": 2, "average_last": 1, "max_steps": 9}
    config, run = tiny_settings(text, training=settings), RunDir(tmp_path / "run")
    with monkeypatch.context() as patch:
        score(patch, 10.0, 20.0)
        die_before(6, patch)
        with pytest.raises(Died):
            fit(config, tiny_data, run.path)
    assert saved_steps(run) == [5, 6]  # that of step 3, which the state of step 5 knows as the best, is gone
    run.step(6).weights.write_bytes(b"")
    score(monkeypatch, 4.0, 5.0)
    fit(config, tiny_data, run.path, resume=True)
    assert "the best checkpoint, step 3, is missing; the next validated one replaces it" in capsys.readouterr().err
    best = json.loads(run.selected.read_text())["best_step"]
    assert choose_weights(run, config.training.average_last).step == best == 9


def test_nan_score_is_never_best(tiny_data, text, tmp_path, monkeypatch):
    score(monkeypatch, float("nan"), 3.0, float("nan"), 2.0)
    config = tiny_settings(text, training={"validate_every_steps": 3, "average_last": 1})
    fit(config, tiny_data, tmp_path / "run")
    assert load_state(RunDir(tmp_path / "run").step(12)).best_step == 6


@pytest.mark.parametrize(("free", "refused"), [(10_000, True), (10**9, False)])
def test_too_little_disk_space_raises_or_warns(tiny_data, text, tmp_path, monkeypatch, capsys, free, refused):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**12, 0, free))  # type: ignore[attr-defined]
    config = tiny_settings(text, training={"max_steps": 3})
    if refused:
        with pytest.raises(CheckpointError, match=r"checkpoints take up to .* MB .training.keep_last., 0 MB are free"):
            fit(config, tiny_data, tmp_path / "run")
        assert not (tmp_path / "run").exists()
        return
    fit(config, tiny_data, tmp_path / "run")
    assert "1,000 MB are free" in capsys.readouterr().err
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**12, 0, 10))  # type: ignore[attr-defined]
    start(tiny_settings(text, training={"max_steps": 4}), tiny_data, tmp_path / "run", resume=True)
    assert "0 MB are free, which may not be enough" in capsys.readouterr().err


@pytest.mark.parametrize("damage", ["{", None])
def test_damaged_selection_is_repaired(tiny_data, text, tmp_path, damage):
    config, run = tiny_settings(text), RunDir(tmp_path / "run")
    fit(config, tiny_data, run.path)
    selected = run.selected.read_text()
    run.selected.write_text(damage) if damage else run.selected.unlink()
    fit(config, tiny_data, run.path, resume=True)
    assert run.selected.read_text() == selected
    assert len(records(run.path, "average")) == 1
