"""Tests of the training log: screen, log.jsonl and TensorBoard."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from nmt.layout import RunDir
from nmt.runs.state import TrainState
from nmt.training.report.log import TrainingLog
from screen import Terminal


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return RunDir(tmp_path)


def test_progress_bar_shows_fields(run, monkeypatch):
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    with TrainingLog(run, TrainState()) as log:
        log.progress(40, 160, {"loss": 2.5, "nll": 2.2, "lr": 7e-4, "tokens_per_second": 12345.6}, 754)
        log.log({"kind": "train", "step": 40, "minutes": 1.0, "loss": 2.5})
        log.log({"kind": "valid", "step": 40, "minutes": 1.0, "bleu": 12.5})
        log.close_bar()
        log.log({"kind": "train", "step": 50, "minutes": 1.0, "loss": 2.5})
        log.say("selected")
    shown = screen.getvalue()
    assert shown.endswith("tok/s\nselected\n"), "the bar is above what is printed after it was closed"
    assert "25%" in shown and "40/160" in shown and "|" not in shown
    assert "40/160, 12:34 left, loss 2.50, nll 2.20, lr 7.0e-04, 12,346 tok/s" in shown
    assert "step     40 valid     1:00  bleu 12.5" in shown
    assert "train" not in shown  # the bar shows it


def test_records_are_lines_without_terminal(run, capsys):
    with TrainingLog(run, TrainState()) as log:
        log.progress(40, 160, {"loss": 2.5, "nll": 12.2, "lr": 7e-4, "tokens_per_second": 12345.6}, 754)
        log.log({"kind": "train", "step": 40, "minutes": 61.0, "loss": 2.5, "lr": 7e-4})
    assert capsys.readouterr().err == "step     40 train  1:01:00  loss 2.5, lr 0.0007\n"
    assert run.log.read_text() == '{"kind": "train", "step": 40, "minutes": 61.0, "loss": 2.5, "lr": 0.0007}\n'


@pytest.mark.parametrize(
    ("record", "line"),
    [
        ({"kind": "train", "loss": 2.5, "nll": 2.2}, "loss 2.5, nll 2.2, lr 0.1"),
        ({"kind": "train", "loss": 2.2, "nll": 2.2}, "nll 2.2, lr 0.1"),
        ({"kind": "valid", "loss": 2.4, "nll": 2.4}, "nll 2.4, lr 0.1"),
    ],
)
def test_train_and_valid_records_share_nll(run, capsys, record, line):
    with TrainingLog(run, TrainState()) as log:
        log.log({**record, "step": 40, "minutes": 1.0, "lr": 0.1})
    assert capsys.readouterr().err.startswith(f"step     40 {record['kind']}     1:00  {line}")
    assert losses(run) == [record["loss"]], "the log keeps both under their names"
    assert shown(run, f"{record['kind']}/nll") == [(40, pytest.approx(record["nll"]))]


def shown(run: RunDir, name: str) -> list[tuple[int, float]]:
    board = EventAccumulator(str(run.tensorboard)).Reload()
    return [(scalar.step, scalar.value) for scalar in board.Scalars(name)]


def lives(run: RunDir, *lives_: tuple[int, int, list[tuple[str, int, float]]]) -> list[int]:
    """Lives of a run, each (step, bytes, records) with (kind, step, loss); the lengths of log.jsonl."""
    lengths = []
    for step, n_bytes, records in lives_:
        second = int(time.time())
        while lengths and int(time.time()) == second:  # TensorBoard orders its files by the second they were begun in
            time.sleep(0.05)
        with TrainingLog(run, TrainState(step, log_bytes=n_bytes)) as log:
            for kind, at, loss in records:
                log.log({"kind": kind, "step": at, "minutes": 0.0, "loss": loss})
            lengths.append(log.sync())
    return lengths


def losses(run: RunDir) -> list[float]:
    return [json.loads(line)["loss"] for line in run.log.read_text().splitlines()]


LINE = len('{"kind": "train", "step": 1, "minutes": 0.0, "loss": 1.0}\n')


def test_resumed_log_has_no_duplicates(run):
    first = [("train", step, float(step)) for step in (1, 2, 3)]
    lengths = lives(run, (0, 0, first), (2, 2 * LINE, [("train", 3, 23.0), ("train", 4, 24.0)]))
    assert lengths == [3 * LINE, 4 * LINE + 2]
    assert losses(run) == [1.0, 2.0, 23.0, 24.0]
    assert shown(run, "train/loss") == [(1, 1.0), (2, 2.0), (3, 23.0), (4, 24.0)]


def test_truncated_log_is_continued(run):
    run.log.write_text("an edited line\n")
    with TrainingLog(run, TrainState(5, log_bytes=1000)) as log:
        log.warn(TrainState(step=6, seconds=30.0), "something")
    last = '{"kind": "warning", "step": 6, "minutes": 0.5, "message": "something"}\n'
    assert run.log.read_text() == "an edited line\n" + last
