"""Files and directories appear whole or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from disk import hook
from nmt.errors import DataError
from nmt.files import write as files
from nmt.files.staging import staged_directory
from nmt.files.write import refuse_overwriting, replace_file, write_file


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


def full(*_: object, **__: object) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def steps_of(monkeypatch: pytest.MonkeyPatch, action: Callable[[], None]) -> list[str]:
    """What is done to the disk, in order."""
    steps: list[str] = []

    def note(name: str, first: Any, second: Any) -> None:
        path = Path(f"/proc/self/fd/{first}").readlink() if isinstance(first, int) else Path(first)
        steps.append(f"{name} {path.name}" + (f" {Path(second).name}" if name in ("rename", "replace") else ""))

    with monkeypatch.context() as patch:
        hook(patch, note)
        action()
    return steps


def test_a_file_is_written_in_as_many_goes_as_it_takes(tmp_path, monkeypatch):
    data, real = bytes(range(256)) * 10, os.write
    monkeypatch.setattr(files, "CHUNK", 1000)
    monkeypatch.setattr(os, "write", lambda descriptor, part: real(descriptor, part[: max(1, len(part) - 7)]))
    write_file(tmp_path / "f", data)
    assert (tmp_path / "f").read_bytes() == data
    write_file(tmp_path / "f", b"")
    assert (tmp_path / "f").read_bytes() == b""


def test_a_file_is_on_the_disk_before_it_gets_its_name_and_then_its_name_is(tmp_path, monkeypatch):
    assert steps_of(monkeypatch, lambda: replace_file(tmp_path / "f", "text")) == [
        f"open {tmp_path.name}", "open f.part", "write f.part", "fsync f.part", "replace f.part f",
        f"fsync {tmp_path.name}", "unlink f.part",
    ]  # fmt: skip
    assert (tmp_path / "f").read_text() == "text"


@pytest.mark.parametrize("function", ["write", "fsync", "replace"])
def test_a_small_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch, function):
    (tmp_path / "f").write_text("before")
    with monkeypatch.context() as patch:
        patch.setattr(os, function, full)
        with pytest.raises(OSError, match="No space left") as caught:
            replace_file(tmp_path / "f", "after")
    assert caught.value.filename == str(tmp_path / "f")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("f", "before")]


def test_what_is_read_is_not_written_over(tmp_path: Path) -> None:
    read, other, link = tmp_path / "read", tmp_path / "other", tmp_path / "link"
    read.write_text("a\n")
    link.symlink_to(read)
    for target in (read, link):
        with pytest.raises(DataError, match="is an input and would be overwritten; name another output file"):
            refuse_overwriting((target,), (None, "-", read))
    with pytest.raises(DataError, match="other: would be written twice; name two files"):
        refuse_overwriting((other, None, tmp_path / "." / "other"), (read,))
    refuse_overwriting((other, "-", tmp_path / "third"), (read, "-", tmp_path / "none"))
