"""A text that several processes translate, one of which is killed."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from command import Command
from nmt.tasks.engines import open_engine
from nmt.text.tokenizer import Tokenizer
from nmt.translate import files
from nmt.translate.files import translate_file
from nmt.translate.parts import Models, translate_in_parts
from nmt.translate.translator import Translator, open_ensemble
from tiny_run import GREEDY, PLAIN, write_run
from waiting import until


@pytest.fixture
def run(tokenizer: Tokenizer, translator: Translator, tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", translator.config, tokenizer, translator.searcher.models[0])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    lines = [f"{line} {n}" for n in range(8) for line in PLAIN]
    (tmp_path / "in").write_text("".join(f"{line}\n" for line in lines))
    return tmp_path / "in"


def test_a_worker_is_killed(
    run: Path, source: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    translate_file(Translator.load(run), source, source.with_name("whole"), GREEDY)
    told = capsys.readouterr().err
    monkeypatch.setattr(files, "WINDOW", 8)
    target = source.with_name("out")

    def kill() -> None:
        parts = target.with_name("out.work") / "translated"
        until(lambda: list(parts.glob("*.part-*")))
        os.kill(int(next(parts.glob("*.part-*")).name.split("-")[-2]), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    models = Models.of(open_ensemble(run), "best", "auto", "auto")
    with open_engine("local", 2, gpus=[]) as engine:
        translate_in_parts(engine, models, source, target, GREEDY)
    killer.join()
    assert target.read_bytes() == source.with_name("whole").read_bytes()
    lost, _, rest = capsys.readouterr().err.partition("\n")
    assert lost.endswith("its process was killed (SIGKILL); it is done again") and rest == told
    assert not target.with_name("out.work").exists()


def test_the_command(run: Path, source: Path, nmt: Command) -> None:
    whole = nmt("translate", "--run", run, "--input", source, "--beam", "1")
    out = source.with_name("out")
    result = nmt("translate", "--run", run, "--input", source, "--output", out, "--beam", "1", "--workers", "1")
    assert (result.status, result.out, result.err) == (whole.status, "", whole.err)
    assert out.read_text() == whole.out != ""


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--workers", "2"], "--workers and --engine ray need files: name --input"),
        (["--engine", "ray", "--input", "a"], "--workers and --engine ray need files: name --input"),
        (
            ["--workers", "2", "--input", "a", "--output", "b", "--prefix", "c"],
            "--prefix, --constraints, --glossary, --alignments and --attention: not available",
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
def test_what_cannot_be_combined(
    run: Path, source: Path, options: list[str], problem: str, nmt: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(source.parent)
    result = nmt("translate", "--run", run, *options)
    assert (result.status, result.out, result.err.count("\n")) == (2, "", 1)
    assert problem in result.err
