"""A text that other processes translate, one of which is killed."""

from __future__ import annotations

import io
import json
import os
import signal
from contextlib import closing
from pathlib import Path

import pytest

from command import Command
from nmt.errors import CheckpointError, ConfigError, DataError
from nmt.layout import RunDir
from nmt.runs.model import ModelRef
from nmt.tasks.perform import Task
from nmt.tasks.processes import Processes
from nmt.text.tokenizer import Tokenizer
from nmt.translate import files
from nmt.translate.files import Files, Models, translate_file, translate_in_parts
from nmt.translate.translator import Translator
from nmt.translate.types import Options
from tasks import children
from tiny_run import BEAM, GREEDY, PLAIN, STRANGE, texts, tiny_config, write_run


@pytest.fixture
def run(tokenizer: Tokenizer, translator: Translator, tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", translator.config, tokenizer, translator.searcher.models[0])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    lines = [f"{line} {n}" for n in range(8) for line in PLAIN]
    (tmp_path / "in").write_text("".join(f"{line}\n" for line in lines))
    return tmp_path / "in"


def test_killed_translation_worker_is_replaced(
    run: Path, source: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    translate_file(Translator.load(run), source, source.with_name("whole"), Options(GREEDY))
    told = capsys.readouterr().err
    monkeypatch.setattr(files, "WINDOW", 8)
    target, before = source.with_name("out"), children()
    models = Models.read(ModelRef.of(run))[0]
    with closing(Processes(1)) as engine:  # test_ray.py has two at a time
        start, killed = engine.start, list[int]()

        def start_and_kill(index: int, work: Path, task: Task) -> None:
            start(index, work, task)
            if not killed:
                killed.extend(children() - before)
                os.kill(killed[0], signal.SIGKILL)

        monkeypatch.setattr(engine, "start", start_and_kill)
        translate_in_parts(engine, models, source, target, Options(GREEDY))
    assert target.read_bytes() == source.with_name("whole").read_bytes()
    lost, _, rest = capsys.readouterr().err.partition("\n")
    assert lost.endswith("its process was killed (SIGKILL); retrying") and rest == told
    assert not target.with_name("out.work").exists()


def test_translate_command_with_workers_equals_one_process(run: Path, source: Path, nmt: Command) -> None:
    whole = nmt("translate", "--run", run, "--input", source, "--beam", "1")
    out = source.with_name("out")
    result = nmt("translate", "--run", run, "--input", source, "--output", out, "--beam", "1", "--workers", "1")
    assert (result.status, result.out, result.err) == (whole.status, "", whole.err)
    assert out.read_text() == whole.out != ""


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--workers", "2"], "--workers and --engine ray need files: give --input"),
        (["--engine", "ray", "--input", "a"], "--workers and --engine ray need files: give --input"),
        (
            ["--workers", "2", "--input", "a", "--output", "b", "--prefix", "c"],
            "--prefix: not available with --workers",
        ),
        (["--engine", "ctranslate2", "--workers", "2"], "--workers needs --engine native or ray"),
        (["--address", "10.0.0.1:1"], "--address 10.0.0.1:1 needs --engine ray"),
        (["--engine", "ray", "--int8"], "--int8 needs --engine ctranslate2"),
        (
            ["--engine", "ray", "--address", "127.0.0.1:1", "--input", "in", "--output", "b"],
            "--engine ray: no Ray cluster at 127.0.0.1:1",
        ),
    ],
)
def test_incompatible_options_raise(
    run: Path, source: Path, options: list[str], problem: str, nmt: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(source.parent)
    result = nmt("translate", "--run", run, *options)
    assert (result.status, result.out, result.err.count("\n")) == (2, "", 1)
    assert problem in result.err


# --- From file to file and from pipe to pipe; what is written appears whole or not at all; ru ---


@pytest.fixture
def run_dir(tokenizer: Tokenizer, translator: Translator, tmp_path: Path) -> Path:
    return write_run(tmp_path / "runs" / "tiny", translator.config, tokenizer, translator.searcher.models[0])


def test_translate_file_writes_one_line_per_source_line(translator: Translator, tmp_path: Path, capsysbinary) -> None:  # type: ignore[no-untyped-def]
    lines = [*PLAIN, "", *(line for line in STRANGE if "\r" not in line and "\ufeff" not in line)]
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    target.write_text("what was there before")
    translate_file(translator, source, target, Options(BEAM))
    expected = "".join(f"{text}\n" for text in texts(translator, lines, BEAM))
    assert target.read_bytes().decode() == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "out.txt"]
    translate_file(translator, source, "-", Options(BEAM))
    assert capsysbinary.readouterr().out.decode() == expected


def test_n_best_output_has_columns(translator: Translator, tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_text(f"{PLAIN[0]}\n\n{PLAIN[1]}\n")
    translate_file(translator, source, target, Options(BEAM, 2))
    rows = [line.split("\t", 3) for line in target.read_text().split("\n")[:-1]]
    assert [row[0] for row in rows] == ["1", "1", "2", "3", "3"]
    assert rows[2] == ["2", "0.000000", "0.000000", ""]
    best, second = next(translator.translate_lines([PLAIN[0]], BEAM, n_best=2))
    assert (rows[0][3], float(rows[0][1])) == (best.text, pytest.approx(best.score, abs=1e-4))
    assert float(rows[0][2]) == pytest.approx(best.log_prob, abs=1e-4)
    assert rows[1][3] == second.text


def test_error_leaves_no_partial_output(translator: Translator, tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    target.write_text("before")
    source.write_bytes(b"good line\n" * 3 + b"caf\xe9\n")
    with pytest.raises(DataError, match=r"in: not UTF-8 at line 4, byte 4 of the line \(0xE9\)"):
        translate_file(translator, source, target, Options(GREEDY))
    with pytest.raises(DataError, match=r"none: no such file$"):
        translate_file(translator, tmp_path / "none", target, Options(GREEDY))
    with pytest.raises(ConfigError):
        translate_file(translator, source, target, Options(GREEDY, 2))
    assert target.read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


def test_non_run_directory_raises(translator: Translator, tokenizer: Tokenizer, run_dir: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="nowhere: no such directory"):
        Translator.load(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match=r"no checkpoint 8; choose 7, best or last"):
        Translator.load(ModelRef((run_dir,), "8"))
    info = json.loads(RunDir(run_dir).info.read_text())
    RunDir(run_dir).info.write_text(json.dumps({**info, "tokenizer": "0" * 16}))
    with pytest.raises(CheckpointError, match=r"tokenizer: not the tokenizer that this run was trained with"):
        Translator.load(run_dir)
    other = write_run(tmp_path / "other", tiny_config(d_ff=48), tokenizer, translator.searcher.models[0])
    with pytest.raises(CheckpointError, match=r"has shape \(32, 16\), the model of config\.yaml needs \(48, 16\)"):
        Translator.load(other)


def test_standard_input_starts_at_current_offset(
    translator: Translator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What another program has read of it does not come back, and shift the lines."""
    (tmp_path / "lines").write_bytes(b"mali bore\nta go\nri su\n")
    with (tmp_path / "lines").open("rb") as file:
        file.seek(len(b"mali bore\n"))
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(file))
        translate_file(translator, "-", tmp_path / "out", Options(GREEDY))
    assert (tmp_path / "out").read_bytes().count(b"\n") == 2


def test_closed_or_binary_standard_input_raises(
    translator: Translator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(DataError, match=r"standard input is closed; specify a file with --input"):
        translate_file(translator, "-", tmp_path / "out")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"mali\n\xff\n")))
    with pytest.raises(DataError, match=r"standard input: not UTF-8 at line 2, byte 1 of the line \(0xFF\)"):
        translate_file(translator, "-", tmp_path / "out")
    subtitles = b"1\n00:00:01,000 --> 00:00:02,000\nmali\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(subtitles)))
    with pytest.raises(DataError, match=r"standard input: subtitles"):
        translate_file(translator, "-", tmp_path / "out")
    assert list(tmp_path.glob("out*")) == []
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(subtitles)))
    translate_file(translator, "-", tmp_path / "out", files=Files(as_text=True))
    assert (tmp_path / "out").read_bytes().count(b"\n") == 3
