"""Nothing that a file, a name or a value holds steers the terminal."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from command import Command, Result
from nmt.config.load import dump_config, load_config
from nmt.console import printable, printable_sentence, say, show
from nmt.files.write import Lock
from nmt.layout import RunDir
from nmt.runs.checkpoint import save_checkpoint
from nmt.training.report.log import TrainingLog
from tiny_corpus import tiny_settings

EVIL = "\x1b]0;owned\x07\x1b[31mred\x9b2J\x7f\u202eback\u2066\r"
STEERING = re.compile("[\0-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
SHOWN = r"\x1b]0;owned\x07\x1b[31mred\x9b2J\x7f\u202eback\u2066\r"


def check(result: Result, status: int = 2, n_lines: int = 1) -> None:
    """It ended so, with so many lines on standard error, what was planted can be seen, and nothing steers."""
    assert (result.status, result.err.count("\n")) == (status, n_lines), result
    assert STEERING.search(result.out + result.err) is None, result
    assert SHOWN in result.out + result.err


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


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> RunDir:
    """A copy of a run with names that steer."""
    return RunDir(shutil.copytree(whole, tmp_path / "run"))


def planted_in_weights(run: RunDir) -> None:
    for step in run.checkpoints.glob("step-*"):
        save_checkpoint(run.step(int(step.name[5:])), {EVIL: torch.zeros(2)}, None, {})
    run.selected.unlink()


def planted_in_state(run: RunDir) -> None:
    for state in run.checkpoints.glob("*/state.json"):
        state.write_text(json.dumps({"format": EVIL, "seal": ""}))


def planted_in_info(run: RunDir) -> None:
    run.info.write_text(json.dumps(json.loads(run.info.read_text()) | {"format": EVIL}))


def planted_in_config(run: RunDir) -> None:
    run.config.write_text(json.dumps({EVIL: 1, "data": tiny_settings(Path()).model_dump(mode="json")["data"]}))


def planted_in_tokenizer(run: RunDir) -> None:
    shutil.rmtree(run.tokenizer.path)
    run.tokenizer.path.mkdir()
    (run.tokenizer.path / f"{EVIL}.model").touch()


@pytest.mark.parametrize(
    "plant", [planted_in_weights, planted_in_state, planted_in_info, planted_in_config, planted_in_tokenizer]
)
def test_what_a_run_says_of_itself(plant: Callable[[RunDir], None], run: RunDir, nmt: Command) -> None:
    plant(run)
    check(nmt("translate", "--run", run.path, "--input", os.devnull))
    listed = nmt("runs", run.path.parent)
    assert listed.status == 0 and STEERING.search(listed.out) is None


def test_the_format_of_an_exported_translator(tmp_path: Path, nmt: Command) -> None:
    (tmp_path / "translator.json").write_text(json.dumps({"format": EVIL}))
    check(nmt("translate", "--model", tmp_path, "--input", os.devnull))


def test_the_holder_of_a_lock(run: RunDir, nmt: Command) -> None:
    lock = Lock(run.lock, "trains")
    try:
        run.lock.write_text(json.dumps({"host": EVIL, "pid": EVIL, "since": EVIL}))
        check(nmt("train", "--resume", "--run", run.path))
        check(nmt("runs", run.path.parent), 0, 0)
    finally:
        lock.release()


def test_the_name_of_a_directory_and_its_text(tiny_data: Path, tmp_path: Path, nmt: Command) -> None:
    """In the report of prepare, while training, and in that of evaluate with its samples."""
    text = tmp_path / "text"
    shutil.copytree(tiny_data.parent / "text", text)
    for language in ("aa", "bb"):
        (text / f"test.{language}").write_text(f"mali {EVIL[:-1]} ta\n", encoding="utf-8")
    config = tmp_path / "c.yaml"
    config.write_text(dump_config(tiny_settings(text, training={"max_steps": 2})), encoding="utf-8")
    data, run = tmp_path / f"data{EVIL}", tmp_path / f"run{EVIL}"
    check(nmt("prepare", "--config", config, "--data", data), 0, 0)
    check(nmt("prepare", "--config", config, "--data", data), 0, 0)
    trained = nmt("train", "--config", config, "--data", data, "--run", run)
    assert trained.status == 0 and STEERING.search(trained.err) is None
    result = nmt("evaluate", "--run", run, "--samples", "1")
    assert result.status == 0 and STEERING.search(result.out + result.err) is None
    assert SHOWN.removesuffix(r"\r") in result.out.split("\n")[1]  # the source
    assert f"run{SHOWN}" in result.out


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
