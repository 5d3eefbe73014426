"""Tests of translation in parts: equal results, reuse of finished parts after an interruption, and errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from nmt.config import SearchConfig
from nmt.errors import ConfigError, DataError, LockedError
from nmt.files import write
from nmt.files.write import Lock
from nmt.runs.model import ModelRef
from nmt.tasks.perform import Done, Task
from nmt.tasks.processes import InProcess
from nmt.text.tokenizer import Tokenizer
from nmt.translate import files
from nmt.translate.files import Models, translate_file, translate_in_parts
from nmt.translate.translator import Translator
from nmt.translate.types import Options
from tiny_run import BEAM, GREEDY, PLAIN, STRANGE, tiny_model, write_run

SAMPLE = SearchConfig(sample=True, beam=2, max_length_ratio=1.0, seed=5)


@pytest.fixture(scope="module")
def run(tokenizer: Tokenizer, translator: Translator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "run"
    return write_run(folder, translator.config, tokenizer, translator.searcher.models[0])


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "WINDOW", 5)
    files._translator.cache_clear()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Create a text with unusual lines, which boundaries between parts must not change."""
    lines = [
        *PLAIN,
        *STRANGE,
        "te ra\r",
        "\ufeffmali",
        ". ".join(PLAIN[:3] * 8),
        "",
    ]
    (tmp_path / "in").write_bytes("\n".join(lines).encode())
    return tmp_path / "in"


@pytest.fixture
def n_windows(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that records the number of lines of each translated window."""
    seen = []
    real = Translator.translate_window

    def counted(self: Translator, window: Sequence[str], *arguments: Any) -> Iterator[Any]:
        seen.append(len(window))
        return real(self, window, *arguments)

    monkeypatch.setattr(Translator, "translate_window", counted)
    return seen


def models(run: Path) -> Models:
    return Models.read(ModelRef.of(run))[0]


@pytest.mark.parametrize(("search", "n_best"), [(GREEDY, 1), (SAMPLE, 2)])
def test_parts_translate_like_whole_file(
    run: Path, source: Path, search: SearchConfig, n_best: int, capsys: pytest.CaptureFixture[str]
) -> None:
    target = source.with_name("out")
    target.write_text("before")
    translate_file(Translator.load(run), source, source.with_name("whole"), Options(search, n_best))
    messages = capsys.readouterr()
    translate_in_parts(InProcess(), models(run), source, target, Options(search, n_best))
    assert target.read_bytes() == source.with_name("whole").read_bytes()
    assert capsys.readouterr() == messages
    assert "translations cut off at the length limit" in messages.err
    assert sorted(path.name for path in source.parent.iterdir()) == ["in", "out", "whole"]


class Stopped(Exception):  # noqa: N818
    """An exception for an interruption such as Ctrl-C."""


class StoppedAfter:
    """An engine that is interrupted after `n` tasks."""

    def __init__(self, n: int) -> None:
        self._n = n

    def run(self, work: Path, tasks: Sequence[Task]) -> Iterator[tuple[int, Done]]:
        for index, done in InProcess().run(work, tasks):
            if index == self._n:
                raise Stopped
            yield index, done


def test_finished_parts_are_reused(
    run: Path, source: Path, n_windows: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write, "KEPT_AFTER", 0.0)
    target, whole = source.with_name("out"), source.with_name("whole")
    with pytest.raises(Stopped):
        translate_in_parts(StoppedAfter(2), models(run), source, target, Options(GREEDY))
    assert n_windows == [5, 5, 5] and not target.exists()
    lines = source.read_bytes().split(b"\n")
    lines[7] = b"ri su"
    source.write_bytes(b"\n".join(lines))
    translate_in_parts(InProcess(), models(run), source, target, Options(GREEDY))
    n_parts = -(-len(lines[:-1]) // 5)
    assert len(n_windows) == 3 + n_parts - 2
    translate_file(Translator.load(run), source, whole, Options(GREEDY))
    assert target.read_bytes() == whole.read_bytes()
    with pytest.raises(Stopped):
        translate_in_parts(StoppedAfter(2), models(run), source, target, Options(GREEDY))
    n_windows.clear()
    translate_in_parts(InProcess(), models(run), source, target, Options(BEAM))
    assert len(n_windows) == n_parts


def test_concurrent_translation_raises(run: Path, source: Path) -> None:
    work = source.with_name("out.work")
    work.mkdir()
    (work / "lock").touch()
    lock = Lock(work / "lock", "translates")
    with pytest.raises(LockedError, match=r"out\.work: another process translates here"):
        translate_in_parts(InProcess(), models(run), source, source.with_name("out"), Options(GREEDY))
    lock.release()
    translate_in_parts(InProcess(), models(run), source, source.with_name("out"), Options(GREEDY))
    assert not work.exists()


def test_errors_are_raised_before_translation(run: Path, source: Path, n_windows: list[int]) -> None:
    target = source.with_name("out")
    with source.open("ab") as file:
        file.write(b"\ncaf\xe9")
    n_lines = source.read_bytes().count(b"\n") + 1
    for text, out, error in (
        (source, target, f"in: not UTF-8 at line {n_lines}, byte 4"),
        (source.with_name("none"), target, "none: no such file"),
        (source, source, "in: is an input and would be overwritten"),
        (source, source.with_name("no") / "out", "the directory .*no does not exist"),
        (source, source.parent, "is a directory, but the output must be a file"),
    ):
        with pytest.raises(DataError, match=error):
            translate_in_parts(InProcess(), models(run), text, out, Options(GREEDY))
    with pytest.raises(ConfigError, match="needs a beam of at least 2"):
        translate_in_parts(InProcess(), models(run), source, target, Options(GREEDY, 2))
    assert n_windows == [] and [path.name for path in source.parent.iterdir()] == ["in"]


def test_changed_model_raises(run: Path, source: Path, tokenizer: Tokenizer, tmp_path: Path) -> None:
    before = models(run)
    other = Translator.load(run)
    changed = write_run(tmp_path / "other", other.config, tokenizer, tiny_model(other.config, tokenizer, seed=4))
    there = before.model_copy(update={"model": ModelRef((changed,))})
    with pytest.raises(DataError, match=r"other: the weights have changed since the start; run the command again"):
        translate_in_parts(InProcess(), there, source, source.with_name("out"), Options(GREEDY))
