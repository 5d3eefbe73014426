"""Untrusted runs, exports and text: links are not followed, nothing steers the terminal, and no line is endless."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from command import Command
from export_run import write_run
from kept_run import kept, quicken, settings
from nmt.config.load import dump_config
from nmt.errors import DataError, UnsafeFileError
from nmt.files.write import Lock, replace_file, staged, work_directory, write_file
from nmt.layout import RunDir
from nmt.prepare import build
from nmt.runs.checkpoint import save_checkpoint
from nmt.share.export import engine_folder
from nmt.text import lines as text_lines
from nmt.training.report.log import Board
from nmt.training.saving import rotate
from steering import EVIL, SHOWN, STEERING, check
from tiny_corpus import tiny_settings

SECRET = b"of great worth\n"


def content(folder: Path) -> dict[str, bytes | None]:
    """Return the content of all files in a folder."""
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def link_away(path: Path, victim: Path) -> None:
    """Move `path`, or a new file, into `victim`, and leave a link to it."""
    victim.mkdir(exist_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.rename(victim / path.name) if path.exists() else (victim / path.name).write_bytes(SECRET)
    path.symlink_to(victim / path.name)


# --- links ------------------------------------------------------------------------------------------


@pytest.fixture
def run(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunDir:
    """A copy of a finished run."""
    quicken(monkeypatch)
    return RunDir(shutil.copytree(whole, tmp_path / "run"))


def test_replaced_symlinks_are_not_followed(nmt, data, run, tmp_path):
    names = (
        "config.yaml", "run.json", "selected.json", "config.yaml.part", "run.json.part", "selected.json.part",
        "tokenizer/joint.model", "checkpoints/step-00000006/state.json", "checkpoints/step-00000007.part",
        "checkpoints/step-00000004/optimizer.safetensors", "checkpoints/average.part", "dev/step-00000007.bb.part",
        "dev/average.bb",
    )  # fmt: skip
    for number, name in enumerate(names):
        link_away(run.path / name, tmp_path / f"victim{number}")
    (tmp_path / "victim6" / "joint.model").write_bytes(SECRET)  # so that it is taken from the data again
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "kept").write_bytes(SECRET)
    (run.checkpoints / "step-00000009.part").symlink_to(tmp_path / "victim")
    before = [content(victim) for victim in sorted(tmp_path.glob("victim*"))]
    (tmp_path / "link").symlink_to(run.path)  # the run itself may be one
    result = nmt("train", "--resume", "--run", tmp_path / "link", "--data", data, "--set", "training.max_steps=7")
    assert result.status in (0, None), result.err
    assert [content(victim) for victim in sorted(tmp_path.glob("victim*"))] == before
    assert {path.name for path in run.path.rglob("*") if path.is_symlink()} <= {"state.json"}  # which was only read
    assert kept(run.path).keys() >= {"checkpoints/step-00000007/weights.safetensors", "dev/step-00000007.bb"}


def test_symlink_made_during_work_is_not_followed(run, tmp_path):
    names = ("run/dev", "run/checkpoints", "run/tensorboard", "written", "lock", "out.part")
    for name in names:
        link_away(tmp_path / name, tmp_path / "victim")
    before, said = content(tmp_path / "victim"), []
    for name, act in (
        ("dev", lambda: replace_file(run.dev / "x", "text", may_follow=False)),
        ("checkpoints", lambda: save_checkpoint(run.step(8), {}, None, {})),
        ("checkpoints", lambda: rotate(run, 1, 6, None)),
        ("lock", lambda: Lock(tmp_path / "lock", "trains")),
    ):
        with pytest.raises(UnsafeFileError, match=f"{name}: a symbolic link"):
            act()
    Board(run.tensorboard, 0, said.append).close()
    assert said[0].startswith(f"warning: {run.tensorboard}: is now a symbolic link; training continues")
    write_file(tmp_path / "written", b"new")
    assert not (tmp_path / "written").is_symlink() and (tmp_path / "written").read_bytes() == b"new"
    assert content(tmp_path / "victim") == before


def test_symlinked_data_directory_raises(tmp_path):
    victim, data = tmp_path / "victim", tmp_path / "data"
    (victim / "deep").mkdir(parents=True)
    (victim / "deep" / "file").write_bytes(SECRET)
    (tmp_path / "work").symlink_to(victim)
    with pytest.raises(DataError, match="work: a symbolic link"), work_directory(tmp_path / "work", "works"):
        raise AssertionError("not reached")
    (tmp_path / "data.part").symlink_to(victim)
    with staged(data, is_directory=True):
        pass
    (tmp_path / "data.part").mkdir()
    for name in ("data.part.old", "data.part/remains", "data/old"):  # remains of one who was killed
        (tmp_path / name).symlink_to(victim)
    with staged(data, is_directory=True) as part:
        (part / "new").touch()
    assert [path.name for path in data.iterdir()] == ["new"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "victim", "work"]
    assert content(victim) == {str(victim / "deep"): None, str(victim / "deep" / "file"): SECRET}


def test_translations_and_exports_do_not_follow_links(nmt, tmp_path):
    run = write_run(tmp_path / "run")
    (tmp_path / "text").write_text("mali\n")
    for name in ("out.part", "export.part"):
        link_away(tmp_path / name, tmp_path / "victim")
    RunDir(run).ctranslate2("float32").path.symlink_to(tmp_path / "victim")
    before = content(tmp_path / "victim")
    for command in ("translate --run run --input text --output out", "export --run run --output export"):
        done = nmt(*command.split())
        assert done.status in (0, None), done.err
    with pytest.raises(UnsafeFileError, match="ctranslate2-float32: a symbolic link"):
        engine_folder(run, "float32")
    assert (tmp_path / "out").read_text().count("\n") == 1 and not (tmp_path / "export").is_symlink()
    assert content(tmp_path / "victim") == before


# --- the terminal -----------------------------------------------------------------------------------


def test_control_characters_in_lock_holder_are_not_printed(run: RunDir, nmt: Command) -> None:
    lock = Lock(run.lock, "trains")
    try:
        run.lock.write_text(json.dumps({"host": EVIL, "pid": EVIL, "since": EVIL}))
        check(nmt("train", "--resume", "--run", run.path))
        check(nmt("runs", run.path.parent), 0, 0)
    finally:
        lock.release()


def test_control_characters_in_directory_name_and_text_are_not_printed(
    tiny_data: Path, tmp_path: Path, nmt: Command
) -> None:
    """In the report of prepare, while training, and in that of evaluate with its samples."""
    text = shutil.copytree(tiny_data.parent / "text", tmp_path / "text")
    for language in ("aa", "bb"):
        (text / f"test.{language}").write_text(f"mali {EVIL[:-1]} ta\n", encoding="utf-8")
    Path("c.yaml").write_text(dump_config(tiny_settings(text, training={"max_steps": 2})), encoding="utf-8")
    data, run = tmp_path / f"data{EVIL}", tmp_path / f"run{EVIL}"
    for _ in range(2):
        check(nmt("prepare", "--config", "c.yaml", "--data", data), 0, 0)
    trained = nmt("train", "--config", "c.yaml", "--data", data, "--run", run)
    result = nmt("evaluate", "--run", run, "--samples", "1")
    assert trained.status == result.status == 0
    assert STEERING.search(trained.err + result.out + result.err) is None
    assert SHOWN.removesuffix(r"\r") in result.out.split("\n")[1]  # the source
    assert f"run{SHOWN}" in result.out


# --- text -------------------------------------------------------------------------------------------


def test_text_is_read_from_pipe(nmt, tmp_path):
    """As the shell has it: nmt evaluate --hyp <(cut -f2 x) --ref y."""
    (tmp_path / "ref").write_text("a b c d\n")
    reading, writing = os.pipe()
    os.write(writing, b"a b c d\n")
    os.close(writing)
    try:
        result = nmt("evaluate", "--hyp", f"/dev/fd/{reading}", "--ref", tmp_path / "ref")
    finally:
        os.close(reading)
    assert result.status in (0, None) and "BLEU 100.00" in result.out
    assert list(text_lines.read_lines(Path(os.devnull))) == []


def test_endless_line_raises_while_reading(tmp_path, monkeypatch):
    monkeypatch.setattr(text_lines, "LINE_BYTES", 1000)
    monkeypatch.setattr(text_lines, "BYTES_PER_READ", 100)
    text = b"good\n" + b"x" * 1000 + b"\n" + b"x" * 1001 + b"\n"
    (tmp_path / "text").write_bytes(text)
    (tmp_path / "text.gz").write_bytes(gzip.compress(text))
    windows = text_lines.windows(io.BytesIO(text), "standard input")
    files = map(text_lines.read_lines, (tmp_path / "text", tmp_path / "text.gz"))
    for lines in (*files, itertools.chain.from_iterable(windows)):
        found = []
        with pytest.raises(DataError, match="line 3 has more than 0 MB; is it text, with a line feed after each sen"):
            for line in lines:
                found.append(len(line))
        assert found == [4, 1000]


# --- asked to end -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)])
def test_signalled_command_leaves_no_partial_output(nmt, data, tmp_path, monkeypatch, number, status):
    def end(*_: object) -> None:
        assert (tmp_path / ".new.partial").is_dir()
        os.kill(os.getpid(), number)

    monkeypatch.setattr(build, "file_facts", end)
    Path("c.yaml").write_text(dump_config(settings(data)))
    result = nmt("prepare", "--config", "c.yaml", "--data", "new")
    assert (result.status, result.err.count("\n")) == (status, 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.yaml"]
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
