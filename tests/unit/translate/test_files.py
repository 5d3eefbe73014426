"""Tests of the translation of files and streams, whole and in parts: what is written appears whole or not at all."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from nmt.errors import CheckpointError, ConfigError, DataError, LockedError
from nmt.files import write
from nmt.files.write import Lock
from nmt.layout import RunDir
from nmt.runs.model import ModelRef
from nmt.search.settings import SearchConfig
from nmt.tasks.perform import Done, Task
from nmt.tasks.processes import InProcess
from nmt.text.tokenizer import Tokenizer
from nmt.translate import files
from nmt.translate.files import TranslationFiles, TranslationModels, translate_file, translate_in_parts
from nmt.translate.loading import Translator
from nmt.translate.types import Options
from tiny_run import BEAM, GREEDY, PLAIN, STRANGE, texts, tiny_config, tiny_model, write_run

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
    lines = [*PLAIN, *STRANGE, "te ra\r", "\ufeffmali", ". ".join(PLAIN[:3] * 8), ""]
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


def models(run: Path) -> TranslationModels:
    return TranslationModels.read(ModelRef.of(run))[0]


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


@pytest.mark.parametrize("in_parts", [False, True], ids=["whole", "parts"])
def test_errors_leave_what_is_there(in_parts: bool, run: Path, source: Path, n_windows: list[int]) -> None:
    target, n_lines = source.with_name("out"), source.read_bytes().count(b"\n") + 2
    target.write_text("before")
    with source.open("ab") as file:
        file.write(b"\ncaf\xe9")
    whole, parts = partial(translate_file, Translator.load(run)), partial(translate_in_parts, InProcess(), models(run))
    for text, out, n_best, error, problem in (
        (source, target, 1, DataError, rf"in: not UTF-8 at line {n_lines}, byte 4 of the line \(0xE9\)"),
        (source.with_name("none"), target, 1, DataError, "none: no such file$"),
        (source, source, 1, DataError, "in: is an input and would be overwritten"),
        (source, source.with_name("no") / "out", 1, DataError, "the directory .*no does not exist"),
        (source, source.parent, 1, DataError, "is a directory, but the output must be a file"),
        (source, target, 2, ConfigError, "needs a beam of at least 2"),
    ):
        with pytest.raises(error, match=problem):
            (parts if in_parts else whole)(text, out, Options(GREEDY, n_best))
    assert not (n_windows and in_parts), "the parts are read before any of them is translated"
    assert target.read_text() == "before" and sorted(path.name for path in source.parent.iterdir()) == ["in", "out"]


def test_changed_model_raises(run: Path, source: Path, tokenizer: Tokenizer, tmp_path: Path) -> None:
    before = models(run)
    other = Translator.load(run)
    changed = write_run(tmp_path / "other", other.config, tokenizer, tiny_model(other.config, tokenizer, seed=4))
    there = before.model_copy(update={"model": ModelRef((changed,))})
    with pytest.raises(DataError, match=r"other: the weights have changed since the start; run the command again"):
        translate_in_parts(InProcess(), there, source, source.with_name("out"), Options(GREEDY))


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
    for row, one in zip(rows[:2], next(translator.translate_lines([PLAIN[0]], BEAM, n_best=2)), strict=True):
        assert [float(number) for number in row[1:3]] == pytest.approx([one.score, one.log_prob], abs=1e-4)
        assert row[3] == one.text


def test_non_run_directory_raises(translator: Translator, tokenizer: Tokenizer, run: Path, tmp_path: Path) -> None:
    wrong = shutil.copytree(run, tmp_path / "wrong")
    info = json.loads(RunDir(wrong).info.read_text())
    RunDir(wrong).info.write_text(json.dumps({**info, "tokenizer": "0" * 16}))
    other = write_run(tmp_path / "other", tiny_config(d_ff=48), tokenizer, translator.searcher.models[0])
    for folder, checkpoint, problem in (
        (tmp_path / "nowhere", "best", "nowhere: no such directory"),
        (run, "8", "no checkpoint 8; choose 7, best or last"),
        (wrong, "best", "tokenizer: not the tokenizer that this run was trained with"),
        (other, "best", r"has shape \(32, 16\), the model of config\.yaml needs \(48, 16\)"),
    ):
        with pytest.raises(CheckpointError, match=problem):
            Translator.load(folder, checkpoint=checkpoint)


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
    subtitles = b"1\n00:00:01,000 --> 00:00:02,000\nmali\n"
    for stdin, problem in (
        (None, "standard input is closed; specify a file with --input"),
        (io.BytesIO(b"mali\n\xff\n"), r"standard input: not UTF-8 at line 2, byte 1 of the line \(0xFF\)"),
        (io.BytesIO(subtitles), "standard input: subtitles"),
    ):
        monkeypatch.setattr("sys.stdin", stdin and io.TextIOWrapper(stdin))
        with pytest.raises(DataError, match=problem):
            translate_file(translator, "-", tmp_path / "out")
    assert list(tmp_path.glob("out*")) == []
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(subtitles)))
    translate_file(translator, "-", tmp_path / "out", files=TranslationFiles(as_text=True))
    assert (tmp_path / "out").read_bytes().count(b"\n") == 3
