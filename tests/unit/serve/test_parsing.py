"""Tests of the child process that reads and writes documents."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from hanging import hang
from nmt.errors import DataError
from nmt.serve.parsing import MEMORY_BYTES, DocumentProcess, read_texts, write_translated

HTML = "<p>Ein <b>Hund</b> schläft.</p><p>Ein Tag</p>".encode()
MOST = 100, 1000, 50


@pytest.fixture(scope="module")
def child() -> Iterator[DocumentProcess]:
    process = DocumentProcess()
    yield process
    process.close()


def never() -> bool:
    return False


def test_document_is_read_and_written_in_another_process(child: DocumentProcess) -> None:
    assert child.run_in_child(never, os.getpid) not in (os.getpid(), child.run_in_child(never, os.getppid))
    texts, flags = child.run_in_child(never, read_texts, MOST, "a.html", HTML, "de", "en")
    assert (texts, flags) == (["Ein Hund schläft.", "Ein Tag"], ["", ""])
    rendered = [("A dog sleeps.", (((0, 3), (0, 1)), ((4, 8), (2, 5)), ((9, 16), (6, 12)))), ("A day", None)]
    written, notes = child.run_in_child(never, write_translated, "a.html", HTML, ("de", "en"), rendered)
    assert (written, notes) == (b"<p>A <b>dog</b> sleeps.</p><p>A day</p>", [])


@pytest.mark.parametrize(
    ("name", "content", "most"),
    [
        ("a.docx", b"PK", MOST),
        ("a.txt", b"eins\nzwei", (1, 1000, 50)),
        ("a.txt", b"eins\nzwei", (2, 7, 50)),
        ("a.txt", b"eins\nzwei", (2, 8, 3)),
    ],
)
def test_document_that_is_damaged_or_exceeds_limits_raises(
    child: DocumentProcess, name: str, content: bytes, most: tuple[int, int, int]
) -> None:
    with pytest.raises(DataError):
        child.run_in_child(never, read_texts, most, name, content, "de", "en")


def test_document_at_its_limits_is_read(child: DocumentProcess) -> None:
    assert child.run_in_child(never, read_texts, (2, 8, 4), "a.txt", b"eins\nzwei", "de", "en")[0] == ["eins", "zwei"]


def test_too_much_memory_raises(child: DocumentProcess) -> None:
    with pytest.raises(DataError):
        child.run_in_child(never, bytearray, MEMORY_BYTES)
    assert len(child.run_in_child(never, bytearray, 1 << 20)) == 1 << 20


def test_bug_raises_its_exception(child: DocumentProcess) -> None:
    with pytest.raises(TypeError):
        child.run_in_child(never, read_texts)


def test_child_ends_when_it_should_stop_and_is_started_again(child: DocumentProcess) -> None:
    first = child.run_in_child(never, os.getpid)
    end = time.monotonic() + 0.2
    with pytest.raises(DataError):
        child.run_in_child(lambda: time.monotonic() > end, hang)
    second = child.run_in_child(never, os.getpid)
    threading.Timer(0.3, os.kill, (second, signal.SIGKILL)).start()  # as the system does if memory is short
    with pytest.raises(DataError):
        child.run_in_child(never, hang)
    third = child.run_in_child(never, os.getpid)
    os.kill(third, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):  # the pool has waited for it
        os.waitid(os.P_PID, third, os.WEXITED | os.WNOWAIT)
    time.sleep(0.5)  # until the pool knows it
    assert len({first, second, third, child.run_in_child(never, os.getpid)}) == 4
