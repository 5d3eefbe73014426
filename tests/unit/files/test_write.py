"""Files and directories appear whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from disk import steps_of
from nmt.errors import DataError, LockedError
from nmt.files.write import refuse_overwriting, replace_file, staged, work_directory


def test_written_file_appears_only_when_complete(tmp_path: Path) -> None:
    final = tmp_path / "deep" / "data"
    with staged(final, is_directory=True) as part:
        (part / "sub").mkdir()
        (part / "sub" / "a").write_text("1")
        assert not final.exists()
    assert (final / "sub" / "a").read_text() == "1"
    assert list(final.parent.iterdir()) == [final]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_failed_write_keeps_old_file(tmp_path: Path, error: type[BaseException]) -> None:
    final = tmp_path / "data"
    final.mkdir()
    (final / "a").write_text("1")
    with pytest.raises(error), staged(final, is_directory=True) as part:
        (part / "b").write_text("2")
        raise error
    assert [path.name for path in final.iterdir()] == ["a"]
    assert list(tmp_path.iterdir()) == [final]


def test_work_directory_rejects_second_process(tmp_path: Path) -> None:
    with work_directory(tmp_path / "work", "works") as work:
        (work / "a").write_text("1")
        with pytest.raises(LockedError), work_directory(work, "works"):
            raise AssertionError("not reached")
        assert (work / "a").read_text() == "1"
    assert list(tmp_path.iterdir()) == []


def test_work_directory_keeps_partial_work(tmp_path: Path) -> None:
    for name in ("lock", "a"):
        (tmp_path / "work").mkdir(exist_ok=True)
        (tmp_path / "work" / name).touch()
    with pytest.raises(ZeroDivisionError), work_directory(tmp_path / "work", "works"):
        assert 1 / 0
    assert (tmp_path / "work" / "a").exists()


def test_work_directory_removes_empty_parents_that_it_created(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), work_directory(tmp_path / "a" / "b" / "work", "works"):
        assert 1 / 0
    assert list(tmp_path.iterdir()) == []
    with work_directory(tmp_path / "a" / "b" / "work", "works"):
        (tmp_path / "a" / "kept").touch()
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["kept"]


def test_failed_replacement_restores_old_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    final, real = tmp_path / "data", Path.rename
    final.mkdir()
    (final / "a").write_text("1")

    def full_at_the_second(path: Path, target: Path) -> Path:
        return real(path, target) if target != final or final.exists() else full()

    full_disk = pytest.raises(OSError, match="No space left")
    with monkeypatch.context() as patch, full_disk, staged(final, is_directory=True):
        patch.setattr(Path, "rename", full_at_the_second)
    assert [path.name for path in tmp_path.iterdir()] == ["data.part.old"]
    with pytest.raises(ZeroDivisionError), staged(final, is_directory=True):
        assert 1 / 0
    assert [path.name for path in tmp_path.iterdir()] == ["data"] and (final / "a").read_text() == "1"


def full(*_: object, **__: object) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_file_is_synced_before_rename(tmp_path, monkeypatch):
    assert steps_of(monkeypatch, lambda: replace_file(tmp_path / "f", "text")) == [
        "open f.part", "write f.part", "open f.part", "fsync f.part", "rename f.part f", f"open {tmp_path.name}",
        f"fsync {tmp_path.name}", "unlink f.part",
    ]  # fmt: skip
    assert (tmp_path / "f").read_text() == "text"


@pytest.mark.parametrize("function", ["write", "fsync", "rename"])
def test_small_file_is_written_atomically(tmp_path, monkeypatch, function):
    (tmp_path / "f").write_text("before")
    with monkeypatch.context() as patch:
        patch.setattr(os, function, full)
        with pytest.raises(OSError, match="No space left") as caught:
            replace_file(tmp_path / "f", "after")
    assert caught.value.filename == str(tmp_path / "f")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("f", "before")]


def test_inputs_are_not_overwritten(tmp_path: Path) -> None:
    read, other, link = tmp_path / "read", tmp_path / "other", tmp_path / "link"
    read.write_text("a\n")
    link.symlink_to(read)
    for target in (read, link):
        with pytest.raises(DataError, match="is an input and would be overwritten; choose another output file"):
            refuse_overwriting((target,), (None, "-", read))
    with pytest.raises(DataError, match="other: would be written twice; choose two different files"):
        refuse_overwriting((other, None, tmp_path / "." / "other"), (read,))
    refuse_overwriting((other, "-", tmp_path / "third"), (read, "-", tmp_path / "none"))
