"""A staged directory appears whole or not at all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nmt.files import staged_directory
from nmt.errors import DataError


def test_it_takes_its_place_at_the_end(tmp_path: Path) -> None:
    final = tmp_path / "deep" / "data"
    with staged_directory(final) as staged:
        (staged / "sub").mkdir()
        (staged / "sub" / "a").write_text("1")
        assert not final.exists()
    assert (final / "sub" / "a").read_text() == "1"
    assert list(final.parent.iterdir()) == [final]


def test_it_replaces_what_was_there(tmp_path: Path) -> None:
    final = tmp_path / "data"
    for text in ("1", "2"):
        with staged_directory(final) as staged:
            (staged / text).write_text(text)
    assert [path.name for path in final.iterdir()] == ["2"]
    assert list(tmp_path.iterdir()) == [final]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_error_leaves_what_was_there(tmp_path: Path, error: type[BaseException]) -> None:
    final = tmp_path / "data"
    with staged_directory(final) as staged:
        (staged / "a").write_text("1")
    with pytest.raises(error), staged_directory(final) as staged:
        (staged / "b").write_text("2")
        raise error
    assert [path.name for path in final.iterdir()] == ["a"]
    assert list(tmp_path.iterdir()) == [final]


def test_what_a_killed_writer_left_is_removed(tmp_path: Path) -> None:
    final = tmp_path / "data"
    code = (
        "import os, sys, signal, pathlib\n"
        "from nmt.files import staged_directory\n"
        "with staged_directory(pathlib.Path(sys.argv[1])) as staged:\n"
        "    (staged / 'half').write_text('1')\n"
        "    (staged / 'folder').mkdir()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(final)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not final.exists()
    assert [path.name for path in tmp_path.iterdir()] == [".data.partial"]
    with staged_directory(final) as staged:
        assert list(staged.iterdir()) == []
        (staged / "a").write_text("1")
    assert [path.name for path in final.iterdir()] == ["a"]
    assert list(tmp_path.iterdir()) == [final]


def test_two_writers_at_a_time_are_refused(tmp_path: Path) -> None:
    final = tmp_path / "data"
    with staged_directory(final) as staged:
        (staged / "a").write_text("1")
        busy = pytest.raises(DataError, match="another prepare is writing here; wait for it to end")
        with busy, staged_directory(final):
            raise AssertionError("not reached")
    assert (final / "a").read_text() == "1"


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="file: cannot be written: "), staged_directory(tmp_path / "file" / "data"):
        raise AssertionError("not reached")
    with pytest.raises(DataError, match="data: cannot be written: No space left"), staged_directory(tmp_path / "data"):
        raise OSError(28, os.strerror(28))
