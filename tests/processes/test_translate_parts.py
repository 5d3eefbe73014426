"""A text that other processes translate, one of which is killed."""

from __future__ import annotations

import os
import signal
from contextlib import closing
from pathlib import Path

import pytest

from command import Command
from nmt.runs.model import ModelRef
from nmt.tasks.perform import Task
from nmt.tasks.processes import Processes
from nmt.text.tokenizer import Tokenizer
from nmt.translate import files
from nmt.translate.files import TranslationModels, translate_file, translate_in_parts
from nmt.translate.loading import Translator
from nmt.translate.types import Options
from tasks import children
from tiny_run import GREEDY, PLAIN, write_run


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
    models = TranslationModels.read(ModelRef.of(run))[0]
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
