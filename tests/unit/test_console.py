"""Nothing that a file, a name or a value holds steers the terminal."""

from __future__ import annotations

import errno
import io
import json
import os
from pathlib import Path

import pytest

from command import Command
from nmt.config.load import load_config
from nmt.console import printable, printable_sentence, say, show
from nmt.layout import RunDir
from nmt.training.report.log import TrainingLog
from steering import EVIL, SHOWN, STEERING, check


def test_what_is_shown_as_an_escape() -> None:
    assert printable(EVIL) == printable_sentence(EVIL) == SHOWN
    assert printable("a\nb\u2028c\tä 日本\\x1b") == r"a\nb\u2028c\tä 日本\x1b"
    assert printable(os.fsdecode(b"\xff")) == r"\udcff"
    farsi = "می\u200cخواهم\u00a0۵"  # written with a joiner and a space that does not break
    assert printable_sentence(farsi) == farsi
    assert printable(farsi) == "می\\u200cخواهم\\xa0۵"


def test_a_message_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    say("a\nb")
    show("c\nd", "e")
    assert capsys.readouterr() == (r"c\nd" + "\ne\n", r"nmt: a\nb" + "\n")


def test_a_screen_that_takes_nothing_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.StringIO):
        def write(self, _: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("sys.stderr", Full())
    say("a")


@pytest.mark.parametrize("name", [EVIL, "a\nnmt: all is well", os.fsdecode(b"\xff\xfe")])
def test_names_of_files_that_are_not_there(name: str, nmt: Command) -> None:
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


def test_keys_and_values_of_a_config(tmp_path: Path, nmt: Command) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(json.dumps({EVIL: {"a": EVIL}}), encoding="utf-8")
    check(nmt("config", "--config", config), n_lines=2)  # it lacks data, too


def test_a_config_that_is_printed(tmp_path: Path, nmt: Command) -> None:
    """Whatever steers is within double quotes, where YAML has escapes."""
    result = nmt("config", "--config", "sample.yaml", "--set", f"data.root={json.dumps(EVIL)}")
    assert result.status == 0 and STEERING.search(result.out) is None
    (tmp_path / "c.yaml").write_text(result.out, encoding="utf-8")
    assert load_config(tmp_path / "c.yaml").data.root == EVIL


def test_the_format_of_an_exported_translator(tmp_path: Path, nmt: Command) -> None:
    (tmp_path / "translator.json").write_text(json.dumps({"format": EVIL}))
    check(nmt("translate", "--model", tmp_path, "--input", os.devnull))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_what_is_said_while_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for screen in (Terminal(), io.StringIO()):
        monkeypatch.setattr("sys.stderr", screen)
        with TrainingLog(RunDir(tmp_path), 0, 0, True, 200) as log:
            log.say(f"a\nb{EVIL}")
        monkeypatch.undo()
        assert rf"a\nb{SHOWN}" + "\n" in screen.getvalue()
