"""Lines are given out as they come: alone if they come alone, in windows if they come fast, and never hoarded."""

from __future__ import annotations

import io
import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.errors import DataError
from nmt.text import lines as module
from nmt.text.lines import windows
from nmt.text.tokenizer import Tokenizer
from nmt.translate.loading import Translator
from tiny_run import tiny_model, write_run


class Pipe:
    """Both ends of a pipe, the reading one buffered as standard input is."""

    def __init__(self) -> None:
        reading, self._writing = os.pipe()
        self.file = os.fdopen(reading, "rb")

    def write(self, data: bytes) -> None:
        os.write(self._writing, data)

    def end(self) -> None:
        os.close(self._writing)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    rescue = threading.Timer(60, pipe.end)  # instead of waiting forever for a line
    rescue.start()
    with pipe.file:
        yield pipe
    rescue.cancel()


def test_line_is_yielded_before_next_is_read(pipe: Pipe) -> None:
    found = windows(pipe.file, "pipe")
    for line in ("eins", "", "zwei"):
        pipe.write(f"{line}\n".encode())
        assert next(found) == [line]
    pipe.write(b"drei\nvier\nf")
    assert next(found) == ["drei", "vier"]
    pipe.write("ünf\r\nsechs".encode())
    assert next(found) == ["fünf"]
    pipe.end()
    assert list(found) == [["sechs"]]


def test_available_lines_form_one_batch(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.0)
    for _ in range(10):
        pipe.write(b"a\n" * 100)
    found = windows(pipe.file, "pipe", size=300)
    assert [len(next(found)) for _ in range(4)] == [300, 300, 300, 100]
    pipe.end()
    assert list(found) == []


def test_windows_do_not_wait_at_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GAP", 3600.0)
    monkeypatch.setattr(module, "PATIENCE", 3600.0)
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "rb") as file:
        found = windows(file, "terminal")
        for line in ("eins", "zwei"):
            os.write(ours, f"{line}\n".encode())
            assert next(found) == [line]
        os.write(ours, b"\x04")
        assert list(found) == []
    os.close(ours)


@given(
    st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=6), max_size=30),
    st.booleans(),
    st.integers(1, 10),
    st.integers(1, 12),
)
def test_lines_keep_order(lines: list[str], ends: bool, size: int, most: int) -> None:
    data = "\n".join(lines) + "\n" * ends
    whole = data.removeprefix("\ufeff").split("\n")[: -1 if data.endswith("\n") or not data else None]
    expected = [line.removesuffix("\r") for line in whole]
    found = list(windows(io.BytesIO(data.encode()), "bytes", size, most=most))
    assert [line for window in found for line in window] == expected
    for i, window in enumerate(found):
        is_last = i == len(found) - 1
        assert is_last or len(window) == size or sum(map(len, window)) >= most
        assert len(window) <= size and sum(map(len, window[:-1])) < most


def test_error_follows_preceding_lines() -> None:
    found = windows(io.BytesIO(b"eins\nzwei\ndrei\nvi\xffer\nf\n"), "standard input", size=2)
    assert next(found) == ["eins", "zwei"]
    assert next(found) == ["drei"]
    with pytest.raises(DataError, match=r"^standard input: not UTF-8 at line 4, byte 3 of the line \(0xFF\)"):
        next(found)
    with pytest.raises(DataError, match="pipe: compressed with gzip"):
        next(windows(io.BytesIO(b"\x1f\x8b..."), "pipe"))


SCRIPT = """
import sys
from nmt.text.lines import windows
for window in windows(sys.stdin.buffer, "standard input"):
    print(len(window), flush=True)
"""


@contextmanager
def answering(*command: str) -> Iterator[tuple[subprocess.Popen[bytes], Callable[[str], bytes]]]:
    """Start a command; yield its process, and a function that writes a line and returns the answer."""
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, *command], env=buffered, **pipes) as process:
        rescue = threading.Timer(120, process.kill)  # instead of waiting forever for an answer
        rescue.start()

        def answer(line: str) -> Any:
            process.stdin.write(f"{line}\n".encode())
            process.stdin.flush()
            return process.stdout.readline()

        yield process, answer
        rescue.cancel()


def test_interrupt_while_waiting_for_input() -> None:
    with answering("-c", SCRIPT) as (process, answer):
        assert [answer("line") for _ in range(2)] == [b"1\n"] * 2
        process.send_signal(signal.SIGINT)
        assert process.wait() == -signal.SIGINT


# --- nmt translate --------------------------------------------------------------------------------


def test_open_pipe_is_answered_line_by_line(translator: Translator, tokenizer: Tokenizer, tmp_path: Path) -> None:
    run = write_run(tmp_path / "tiny", translator.config, tokenizer, tiny_model(translator.config, tokenizer))
    lines = ["mali bore", "", "ta go", "mali bore"]
    with answering("-m", "nmt", "translate", "--run", str(run), "--beam", "1") as (process, answer):
        assert [*map(answer, lines)] == [f"{line}\n".encode() for line in translator.translate(lines, beam=1)]
        assert process.communicate() == (b"", None) and process.returncode == 0
