"""Untrusted runs, exports and text: links are not followed, and special files are rejected."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command import Command
from kept_run import kept, quicken
from nmt.config.load import dump_config
from nmt.data.corpus import Corpus
from nmt.data.manifest import content_fingerprint, file_facts
from nmt.data.sources import TrainFiles
from nmt.errors import CheckpointError, DataError, UnsafeFileError
from nmt.files.write import Lock, replace_file, staged, work_directory, write_file
from nmt.layout import DataDir, RunDir
from nmt.prepare import build, sources
from nmt.runs.checkpoint import save_checkpoint
from nmt.share.engine import load_ctranslate2
from nmt.share.export import ExportOptions, engine_folder, export
from nmt.text import lines as stream
from nmt.text import lines as text_lines
from nmt.text.tokenizer import Tokenizer
from nmt.training.report.log import Board
from nmt.training.saving import rotate
from tiny_run import PLAIN, tiny_config, tiny_model, write_run

SECRET = b"of great worth\n"


def content(folder: Path) -> dict[str, bytes | None]:
    """Return the content of all files in a folder."""
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def link_away(path: Path, victim: Path) -> None:
    """Move `path`, or a new file, into `victim`, and leave a link to it."""
    target = victim / path.name
    victim.mkdir(exist_ok=True)
    if path.exists():
        path.rename(target)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(SECRET)
    path.symlink_to(target)


def fails(nmt: Command, said: str, *arguments: object) -> None:
    """Check that the command ends with one line with this message, and status 2."""
    result = nmt(*arguments)
    assert (result.status, result.err.count("\n")) == (2, 1), result.err
    assert said in result.err


# --- links in a run ---------------------------------------------------------------------------------


@pytest.fixture
def run(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunDir:
    """A copy of a finished run."""
    quicken(monkeypatch)
    return RunDir(shutil.copytree(whole, tmp_path / "run"))


def go_on(run: RunDir, data: Path) -> tuple[object, ...]:
    return "train", "--resume", "--run", run.path, "--data", data, "--set", "training.max_steps=7"


WRITTEN_IN_PLACE = (
    "lock", "log.jsonl", "tokenizer", "checkpoints", "dev", "tensorboard", "profile", "checkpoints/average",
    "checkpoints/step-00000004", "checkpoints/step-00000099",
)  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN_IN_PLACE)
def test_symlinked_output_raises(nmt, data, run, tmp_path, name):
    if name in ("tensorboard", "profile"):
        (run.path / name).mkdir(exist_ok=True)
    link_away(run.path / name, tmp_path / "victim")
    before, others = content(tmp_path / "victim"), content(run.path)
    fails(nmt, f"{run.path / name}: a symbolic link, and nothing is written through links", *go_on(run, data))
    assert (content(tmp_path / "victim"), content(run.path)) == (before, others)


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
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "kept").write_bytes(SECRET)
    (run.checkpoints / "step-00000009.part").symlink_to(tmp_path / "folder")
    victims = [tmp_path / "folder", *(tmp_path / f"victim{number}" for number in range(len(names)))]
    before = [content(victim) for victim in victims]
    (tmp_path / "link").symlink_to(run.path)  # the run itself may be one
    result = nmt(*go_on(RunDir(tmp_path / "link"), data))
    assert result.status in (0, None), result.err
    assert [content(victim) for victim in victims] == before
    assert {path.name for path in run.path.rglob("*") if path.is_symlink()} <= {"state.json"}  # which was only read
    assert kept(run.path).keys() >= {"checkpoints/step-00000007/weights.safetensors", "dev/step-00000007.bb"}


def test_symlink_made_during_training_is_not_followed(run, tmp_path):
    for path in (run.dev, run.checkpoints, run.tensorboard):
        link_away(path, tmp_path / "victim")
    before, said = content(tmp_path / "victim"), []
    with pytest.raises(UnsafeFileError, match="dev: a symbolic link"):
        replace_file(run.dev / "x", "text", may_follow=False)
    with pytest.raises(UnsafeFileError, match="checkpoints: a symbolic link"):
        save_checkpoint(run.step(8), {}, None, {})
    with pytest.raises(UnsafeFileError, match="checkpoints: a symbolic link"):
        rotate(run, 1, 6, None)
    Board(run.tensorboard, 0, said.append).close()
    assert said[0].startswith(f"warning: {run.tensorboard}: is now a symbolic link; training continues")
    assert content(tmp_path / "victim") == before


def test_new_and_changed_files_stay_in_their_directory(tmp_path):
    for name in ("written", "lock", "out.part"):
        link_away(tmp_path / name, tmp_path / "victim")
    write_file(tmp_path / "written", b"new")
    assert not (tmp_path / "written").is_symlink() and (tmp_path / "written").read_bytes() == b"new"
    with pytest.raises(UnsafeFileError, match="lock: a symbolic link"):
        Lock(tmp_path / "lock", "trains")
    assert set(content(tmp_path / "victim").values()) == {SECRET}


# --- links beside what is made ----------------------------------------------------------------------


def test_symlinked_data_directory_raises(tmp_path):
    victim = tmp_path / "victim"
    (victim / "deep").mkdir(parents=True)
    (victim / "deep" / "file").write_bytes(SECRET)
    (tmp_path / "work").symlink_to(victim)
    with pytest.raises(DataError, match="work: a symbolic link"), work_directory(tmp_path / "work", "works"):
        raise AssertionError("not reached")
    (tmp_path / "work").unlink()
    (tmp_path / "data.part").symlink_to(victim)
    with staged(tmp_path / "data", is_directory=True):
        pass
    (tmp_path / "data.part.old").symlink_to(victim)
    (tmp_path / "data.part").mkdir()
    (tmp_path / "data.part" / "remains").symlink_to(victim)  # of one who was killed
    (tmp_path / "data" / "old").symlink_to(victim)
    with staged(tmp_path / "data", is_directory=True) as part:
        (part / "new").touch()
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["new"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "victim"]
    assert content(victim) == {str(victim / "deep"): None, str(victim / "deep" / "file"): SECRET}


@pytest.fixture
def tiny(tmp_path: Path, tokenizer: Tokenizer) -> Path:
    """An untrained run."""
    config = tiny_config()
    return write_run(tmp_path / "tiny", config, tokenizer, tiny_model(config, tokenizer))


def test_translations_and_exports_do_not_follow_links(nmt, tiny, tmp_path):
    (tmp_path / "text").write_text(f"{PLAIN[0]}\n")
    victim = tmp_path / "victim"
    for name in ("out.part", "export.part"):
        link_away(tmp_path / name, victim)
    before = content(victim)
    translated = nmt("translate", "--run", tiny, "--input", tmp_path / "text", "--output", tmp_path / "out")
    assert translated.status in (0, None) and (tmp_path / "out").read_text().count("\n") == 1
    exported = nmt("export", "--run", tiny, "--output", tmp_path / "export")
    assert exported.status in (0, None), exported.err
    assert content(victim) == before and not (tmp_path / "export").is_symlink()
    path = RunDir(tiny).ctranslate2("float32").path
    path.symlink_to(victim)
    with pytest.raises(UnsafeFileError, match="ctranslate2-float32: a symbolic link"):
        engine_folder(tiny, "float32")
    assert content(victim) == before


# --- what is no regular file ------------------------------------------------------------------------


def pipe(path: Path) -> None:
    """A named pipe that nobody writes to."""
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def zeros(path: Path) -> None:
    """An endless stream of bytes."""
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/zero")


def sparse(path: Path) -> None:
    """Much larger than it can be, but taking no room on the disk."""
    path.touch()
    os.truncate(path, 1 << 40)


@pytest.fixture(autouse=True)
def watchdog() -> Any:
    """A test that waits for a pipe ends, instead of holding up all others."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.alarm(300)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


ODD = [(pipe, "a pipe, where a regular file is needed"), (zeros, "a device, where a regular file is needed")]
STEP = "checkpoints/step-00000007/"
READ = ("run.json", "config.yaml", "selected.json", "tokenizer/joint.model", f"{STEP}weights.safetensors")
Change = Callable[[Path], None]


@pytest.mark.parametrize(("odd", "said"), [*ODD, (sparse, " bytes, ")])
@pytest.mark.parametrize("name", [*READ, f"{STEP}state.json"])
def test_run_with_special_files_raises(nmt, tiny, tmp_path, name, odd: Change, said: str):
    (tmp_path / "text").write_text(f"{PLAIN[0]}\n")
    odd(tiny / name)
    if name == "config.yaml" and odd is not sparse:
        said = "not a run directory: it has no config.yaml"
    fails(nmt, said, "translate", "--run", tiny, "--input", tmp_path / "text")


@pytest.mark.parametrize("name", ["run.json", "config.yaml"])
def test_resumed_run_without_its_files_names_the_missing_one(nmt, tiny, name):
    (tiny / name).unlink()
    fails(nmt, f"{name} is missing", "train", "--resume", "--run", tiny)


@pytest.mark.parametrize(("odd", "said"), [*ODD, (sparse, " bytes, ")])
@pytest.mark.parametrize("name", ["weights.safetensors", "tokenizer/joint.model", "config.yaml", "translator.json"])
def test_export_with_special_files_raises(nmt, tiny, tmp_path, name, odd: Change, said: str):
    (tmp_path / "text").write_text(f"{PLAIN[0]}\n")
    assert nmt("export", "--run", tiny, "--output", tmp_path / "export").status in (0, None)
    odd(tmp_path / "export" / name)
    if name == "translator.json" and odd is not sparse:
        said = "run.json is missing"
    fails(nmt, said, "translate", "--model", tmp_path / "export", "--input", tmp_path / "text")


def test_files_are_checked_before_libraries_read_them(tiny, tmp_path):
    export(ExportOptions(tiny, check_lines=2), tmp_path / "export", "ctranslate2")
    pipe(tmp_path / "export" / "shared_vocabulary.json")
    with pytest.raises(CheckpointError, match=r"shared_vocabulary\.json: a pipe, where a regular file is needed"):
        load_ctranslate2(tmp_path / "export")


@pytest.mark.parametrize(("odd", "said"), ODD)
def test_special_file_as_log_or_lock_raises(nmt, tiny, odd: Change, said: str):
    for name in ("log.jsonl", "lock"):
        odd(tiny / name)
    fails(nmt, f"log.jsonl: {said}", "plot", tiny)
    listed = nmt("runs", tiny.parent)
    assert listed.status in (0, None) and f"log.jsonl: {said}" in listed.out


@pytest.mark.parametrize(("odd", "said"), ODD)
def test_pipe_as_output_raises(nmt, data, run, odd: Change, said: str):
    odd(run.log)
    said = "a symbolic link" if odd is zeros else said
    fails(nmt, f"log.jsonl: {said}", *go_on(run, data))


@pytest.fixture
def prepared(data: Path, tmp_path: Path) -> Path:
    """A copy of a data directory."""
    return Path(shutil.copytree(data, tmp_path / "data"))


@pytest.mark.parametrize(("odd", "said"), [*ODD, (sparse, " bytes, ")])
@pytest.mark.parametrize("name", ["manifest.json", "train.aa.ids.npy", "valid.bb", "tokenizer/joint.model"])
def test_data_directory_with_special_files_raises(prepared, name, odd: Change, said: str):
    odd(prepared / name)
    if name != "manifest.json" and odd is not sparse:
        said = "no such file, but the manifest says"
    with pytest.raises(DataError, match=said):
        Corpus.open(DataDir(prepared))


def of_objects(path: Path) -> None:
    np.save(path, np.array([{}]), allow_pickle=True)


def of_two_rows(path: Path) -> None:
    np.save(path, np.zeros((2, 2), np.int64))


def shorter_than_it_says(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-8])


@pytest.mark.parametrize("change", [of_objects, of_two_rows, shorter_than_it_says, Path.touch])
def test_ids_with_wrong_header_raise(prepared, change: Change):
    """A stranger's manifest has the right checksums."""
    path = DataDir(prepared).ends("train", "aa")
    if change is Path.touch:
        path.write_bytes(b"")
    change(path)
    manifest = json.loads((prepared / "manifest.json").read_text())
    (prepared / "manifest.json").unlink()
    files = file_facts(prepared)
    manifest |= {"files": {name: file.model_dump() for name, file in files.items()}}
    manifest |= {"fingerprint": content_fingerprint(files)}
    (prepared / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DataError, match=r"train\.aa\.ends\.npy: damaged"):
        Corpus.open(DataDir(prepared)).verify("train")


@pytest.mark.parametrize(("odd", "said"), ODD)
def test_special_file_source_raises(tmp_path, odd: Change, said: str):
    odd(tmp_path / "text")
    (tmp_path / "other").write_text("a\n")
    source = TrainFiles(files={"aa": "text", "bb": "other"})
    with pytest.raises(DataError, match=f"text: {said}, since it is read more than once; write the text into one"):
        sources.open_source(source, ("aa", "bb"), tmp_path)


def test_special_file_config_raises(nmt, tmp_path):
    pipe(tmp_path / "c.yaml")
    fails(nmt, "c.yaml: a pipe, where a regular file is needed", "config", "--config", tmp_path / "c.yaml")
    fails(nmt, "/dev/zero: a device, where a regular file is needed", "config", "--config", "/dev/zero")


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


# --- text without end -------------------------------------------------------------------------------


def test_endless_line_raises_while_reading(tmp_path, monkeypatch):
    monkeypatch.setattr(text_lines, "LINE_BYTES", 1000)
    monkeypatch.setattr(stream, "LINE_BYTES", 1000)
    monkeypatch.setattr(stream, "BLOCK", 100)
    text = b"good\n" + b"x" * 1000 + b"\n" + b"x" * 1001 + b"\n"
    (tmp_path / "text").write_bytes(text)
    (tmp_path / "text.gz").write_bytes(gzip.compress(text))
    for read in (
        lambda: text_lines.read_lines(tmp_path / "text"),
        lambda: text_lines.read_lines(tmp_path / "text.gz"),
        lambda: (line for window in stream.windows(io.BytesIO(text), "standard input") for line in window),
    ):
        found = []
        with pytest.raises(DataError, match="line 3 has more than 0 MB; is it text, with a line feed after each sen"):
            for line in read():
                found.append(len(line))
        assert found == [4, 1000]


# --- asked to end -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)])
def test_signalled_command_leaves_no_partial_output(nmt, data, tmp_path, monkeypatch, number, status):
    def end(*_: object) -> None:
        assert (tmp_path / ".new.partial").is_dir()
        os.kill(os.getpid(), number)

    monkeypatch.setattr(build, "file_facts", end)
    config = tmp_path / "c.yaml"
    config.write_text(dump_config(tiny_config()))
    manifest = json.loads((data / "manifest.json").read_text())["config"]
    assert manifest["languages"] == ["aa", "bb"]
    text = data.parent / "text"
    settings = {
        "data.direction": "aa-bb", "data.root": text, "tokenizer.vocab_size": 330, "data.test": "{}",
        "data.train": "[{files: {aa: train.aa, bb: train.bb}}]", "data.valid": "{files: {aa: dev.aa, bb: dev.bb}}",
    }  # fmt: skip
    overrides = [argument for key, value in settings.items() for argument in ("--set", f"{key}={value}")]
    result = nmt("prepare", "--config", config, "--data", tmp_path / "new", *overrides)
    assert (result.status, result.err.count("\n")) == (status, 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.yaml"]
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
