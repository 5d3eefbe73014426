"""Tests that text from files, names and values cannot control the terminal."""

from __future__ import annotations

import errno
import io
import json
import os
import pty
import termios
from pathlib import Path

import pytest

from command import Command
from nmt.config.load import load_config
from nmt.console import Progress, columns, folded, printable, printable_sentence, say, show, width
from nmt.layout import RunDir
from nmt.runs.state import TrainState
from nmt.training.report.log import TrainingLog
from screen import Terminal, terminal
from steering import EVIL, SHOWN, STEERING, check


def test_unprintable_characters_are_escaped() -> None:
    assert printable(EVIL) == printable_sentence(EVIL) == SHOWN
    assert printable("a\nb\u2028c\tä 日本\\x1b") == r"a\nb\u2028c\tä 日本\x1b"
    assert printable(os.fsdecode(b"\xff")) == r"\udcff"
    farsi = "می\u200cخواهم\u00a0۵"  # with a zero-width non-joiner and a no-break space
    assert printable_sentence(farsi) == farsi
    assert printable(farsi) == "می\\u200cخواهم\\xa0۵"


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("abc", 3), ("日本", 4), ("ｶﾅ", 2), ("e\u0301", 1), ("น้ำ", 2), ("각", 2), ("👩\u200d🔬", 2), ("❤\ufe0f", 2),
        ("", 0),
    ],
)  # fmt: skip
def test_width_is_that_of_the_terminal(text: str, columns: int) -> None:
    assert width(text) == columns


def test_say_prints_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    say("a\nb")
    show("c\nd", "e")
    assert capsys.readouterr() == (r"c\nd" + "\ne\n", r"nmt: a\nb" + "\n")


def test_columns_are_those_of_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w", encoding="utf-8") as stream:
        assert columns(stream) == 100, "no size is known yet"
        for n in (80, 120):
            termios.tcsetwinsize(theirs, (24, n))
            assert columns(stream) == n
    os.close(ours)
    assert columns(io.StringIO()) == 100 and columns(io.StringIO(), 7) == 7
    monkeypatch.setattr("sys.stdout", None)
    show("closed from the start")


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("step 20 valid bleu 62.25, chrf 71.5", ["step 20 valid", "  bleu 62.25,", "  chrf 71.5"]),
        ("  source  日本語 日本語 日本", ["  source  日本語", "    日本語 日本"]),
        ("go on: nmt train --resume --run a", ["go on:", "  nmt train --resume --run a"]),
        ("https://example.org/a/b?c", ["https://example.org/a/b?c"]),
        ("ends with a space ", ["ends with a space "]),
        ("", [""]),
    ],
)
def test_lines_are_folded_between_words(text: str, lines: list[str]) -> None:
    assert folded(text, 18) == lines


def test_messages_fit_the_terminal_and_are_above_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = terminal(monkeypatch)
    with Progress("training", 10) as progress:
        progress.add(5)
        say("validations are left out that would take too long")
        monkeypatch.setattr("sys.stdout", screen)
        show("a result")
    before, *after = screen.getvalue().split("nmt: validations are left out that would\n  take too long\n")
    assert "50% training" in before and not before.split("\r")[-2].strip(), "the line was cleared"
    (after,) = after
    assert after.startswith("\r") and "50% training" in after and after.endswith("\r")
    assert "\ra result\n" in after


def test_message_before_the_delay_of_a_bar_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = terminal(monkeypatch, delay=60.0)
    with Progress("training", 10):
        say("soon")
    assert not screen.getvalue().split("\r")[-2].strip()


def test_write_errors_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.StringIO):
        def write(self, _: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("sys.stderr", Full())
    say("a")


@pytest.mark.parametrize("name", [EVIL, "a\nnmt: all is well", os.fsdecode(b"\xff\xfe")])
def test_control_characters_in_names_of_missing_files_are_escaped(name: str, nmt: Command) -> None:
    for command in (
        ("translate", "--run", name),
        ("translate", "--model", name),
        ("evaluate", "--hyp", name, "--ref", name),
        ("config", "--config", name),
        ("prepare", "--config", "sample.yaml", "--set", f"data.root={json.dumps(name)}"),
        ("train", "--config", "sample.yaml", "--data", name),
        ("runs", name),
        ("plot", name),
        ("score", "--src", name, "--ref", name),
        ("export", "--run", name, "--output", "x"),
        ("translate", "--beam", name),
        ("sweep", name, "--grid", "training.seed=1"),
        (name,),
    ):
        result = nmt(*command)
        assert (result.status, result.err.count("\n")) == (2, 1), result
        assert STEERING.search(result.out + result.err) is None, result


def test_control_characters_in_keys_and_values_of_config_are_escaped(tmp_path: Path, nmt: Command) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(json.dumps({EVIL: {"a": EVIL}}), encoding="utf-8")
    check(nmt("config", "--config", config), n_lines=2)  # data is missing, too


def test_printed_config_escapes_control_characters(tmp_path: Path, nmt: Command) -> None:
    result = nmt("config", "--config", "sample.yaml", "--set", f"data.root={json.dumps(EVIL)}")
    assert result.status == 0 and STEERING.search(result.out) is None
    (tmp_path / "c.yaml").write_text(result.out, encoding="utf-8")
    assert load_config(tmp_path / "c.yaml").data.root == EVIL


def test_control_characters_in_training_messages_are_escaped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for screen in (Terminal(), io.StringIO()):
        monkeypatch.setattr("sys.stderr", screen)
        with TrainingLog(RunDir(tmp_path), TrainState()) as log:
            log.say(f"a\nb{EVIL}")
        monkeypatch.undo()
        assert rf"a\nb{SHOWN}" + "\n" in screen.getvalue()
