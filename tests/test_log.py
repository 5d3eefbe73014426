"""The log on a screen, in a file and in TensorBoard."""

from __future__ import annotations

import io
import warnings
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from nmt.layout import RunDir
from nmt.training.log import TrainingLog, clock


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return RunDir(tmp_path)


@pytest.mark.parametrize(("seconds", "shown"), [(0, "0:00"), (59.6, "1:00"), (3725, "1:02:05")])
def test_clock(seconds, shown):
    assert clock(seconds) == shown


def test_the_progress_bar_shows_what_people_look_for(run, monkeypatch):
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    with TrainingLog(run, 0, 200) as log:
        log.total(160)
        log.progress(40, 2.5, 12.2, 7e-4, 12345.6, 754)
        log.log({"kind": "train", "step": 40, "minutes": 1.0, "loss": 2.5})
        log.log({"kind": "valid", "step": 40, "minutes": 1.0, "bleu": 12.5})
    shown = screen.getvalue()
    assert "25%" in shown and "40/160 steps" in shown
    assert "loss 2.500, ppl 12.2, lr 7.00e-04, 12,346 tokens/s, 12:34 left" in shown
    assert "step     40 valid     1:00  bleu 12.5" in shown
    assert "train" not in shown  # the bar shows it


def test_without_a_terminal_every_record_is_a_line(run, capsys):
    with TrainingLog(run, 0, 200) as log:
        log.progress(40, 2.5, 12.2, 7e-4, 12345.6, 754)
        log.log({"kind": "train", "step": 40, "minutes": 61.0, "loss": 2.5, "lr": 7e-4})
    assert capsys.readouterr().err == "step     40 train  1:01:00  loss 2.5, lr 0.0007\n"
    assert run.log.read_text() == '{"kind": "train", "step": 40, "minutes": 61.0, "loss": 2.5, "lr": 0.0007}\n'


def test_a_resumed_log_has_no_doubles(run):
    for start, steps in ((0, (1, 2, 3)), (2, (3, 4))):
        with TrainingLog(run, start, 4) as log:
            for step in steps:
                log.log({"kind": "train", "step": step, "minutes": 0.0, "loss": 10.0 * start + step})
    assert [line.split('"loss": ')[1] for line in run.log.read_text().splitlines()] == [
        "1.0}",
        "2.0}",
        "23.0}",
        "24.0}",
    ]
    board = EventAccumulator(str(run.tensorboard)).Reload()
    assert [(s.step, s.value) for s in board.Scalars("train/loss")] == [(1, 1.0), (2, 2.0), (3, 23.0), (4, 24.0)]


def test_the_picture_of_a_long_sentence_in_any_script_stays_small_and_quiet(run, monkeypatch):
    shown = []
    draw = Axes.imshow
    monkeypatch.setattr(Axes, "imshow", lambda self, x, **options: shown.append(x.shape) or draw(self, x, **options))
    pieces = ["你", "$x$", "\x07", "▁a"] * 30
    with TrainingLog(run, 0, 1) as log, warnings.catch_warnings():
        warnings.simplefilter("error")
        log.attention(1, np.zeros((120, 120), dtype=np.float32), pieces, pieces)
    (picture,) = EventAccumulator(str(run.tensorboard)).Reload().Images("valid/attention")
    assert picture.width < 2000 and picture.height < 2000
    assert shown == [(40, 40)]
