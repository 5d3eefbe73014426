"""Tasks run once, and their files are either complete or absent."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tasks
from nmt.errors import ConfigError, DataError
from nmt.tasks import perform as module
from nmt.tasks.perform import Task, perform, run_all
from nmt.tasks.processes import InProcess
from tasks import left, numbered


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return tmp_path / "work"


@pytest.fixture
def task(log: Path) -> Task:
    return numbered(1, log)[0]


def test_finished_tasks_are_not_repeated(work: Path, log: Path) -> None:
    parts = numbered(3, log)
    seen: list[Any] = []
    first = run_all(InProcess(), work, parts, seen.append)
    assert [done.summary for done in first] == [{"number": n, "shape": [1, 2]} for n in range(3)]
    assert first == seen and first[2].folder == work / "part/00002"
    assert (first[2].folder / "inner/text").read_text() == "2\n" * 1000
    before = left(work)
    assert run_all(InProcess(), work, parts) == first
    assert (log.read_text(), left(work)) == ("0\n1\n2\n", before)
    assert not list(work.rglob("*.part*"))


@pytest.mark.parametrize("changed", [{"version": "2"}, {"function": tasks.whereabouts}, {"arguments": {"number": 5}}])
def test_different_task_with_same_name_is_run(work: Path, task: Task, changed: dict[str, Any], log: Path) -> None:
    perform(work, task)
    (work / task.name / "old").touch()
    arguments = {**task.arguments, **changed.pop("arguments", {})}
    other = replace(task, arguments=arguments, **changed)
    done, problem = perform(work, other)
    assert problem is None and done.summary["number"] == other.arguments["number"]
    assert (log.read_text().count("\n"), (work / task.name / "old").exists()) == (2, False)


def flip(folder: Path) -> None:
    content = bytearray((folder / "inner/text").read_bytes())
    content[7] ^= 1
    (folder / "inner/text").write_bytes(content)


def edit(folder: Path) -> None:
    record = folder / "record.json"
    record.write_text(record.read_text().replace('"number": 0', '"number": 7'))


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        (lambda folder: os.truncate(folder / "text", 10), r"00000/text: missing, or not what was written"),
        (flip, r"00000/inner/text: missing, or not what was written"),
        (lambda folder: (folder / "text").unlink(), r"00000/text: missing, or not what was written"),
        (lambda folder: (folder / "record.json").unlink(), r"00000: has no record.json"),
        (lambda folder: os.truncate(folder / "record.json", 50), r"record.json: damaged"),
        (edit, r"record.json: damaged: its checksum does not match"),
        (shutil.rmtree, None),
        (lambda folder: (shutil.rmtree(folder), folder.touch()), r"record.json: cannot be read: Not a directory"),
    ],
)
def test_damaged_tasks_are_repeated(
    work: Path, log: Path, damage: Callable[[Path], None], found: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    run_all(InProcess(), work, numbered(2, log))
    before = left(work)
    damage(work / "part/00000")
    run_all(InProcess(), work, numbered(2, log))
    assert (log.read_text(), left(work)) == ("0\n1\n0\n", before)
    told = capsys.readouterr().err
    assert told == "" if found is None else (found in told and told.endswith("; retrying\n")), told


def test_task_finished_by_another_process_is_kept(work: Path, task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    real = module.checksums_in

    def other_is_first(folder: Path) -> dict[str, str]:
        monkeypatch.setattr(module, "checksums_in", real)
        perform(work, task)
        (work / task.name / "first").touch()
        return real(folder)

    monkeypatch.setattr(module, "checksums_in", other_is_first)
    assert perform(work, task)[0].summary["number"] == 0
    assert sorted(path.name for path in (work / task.name).iterdir()) == ["first", "inner", "record.json", "text"]
    assert [path.name for path in (work / "part").iterdir()] == ["00000"]


def test_partial_folders_of_dead_workers_are_removed(work: Path, log: Path) -> None:
    perform(work, numbered(1, log)[0])
    (work / "part" / "00001.part-other-1").mkdir()
    (work / "part" / "00001.part-other-1" / "text").touch()
    run_all(InProcess(), work, numbered(2, log))
    assert [path.name for path in sorted((work / "part").iterdir())] == ["00000", "00001"]


@pytest.mark.parametrize(
    ("kind", "error", "text"),
    [
        ("data", DataError, "text.de: not UTF-8 at line 3"),
        ("config", ConfigError, "one\ntwo"),
        ("full", DataError, "{work}/a/text: No space left on device; make room and run the same command again"),
        ("full for numpy", DataError, "{work}/a: No space left on device; make room and run the same command again"),
        ("bug", ZeroDivisionError, "a bug"),
    ],
)
def test_failed_task_leaves_no_files(work: Path, kind: str, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        perform(work, Task("a", tasks.failing, {"kind": kind}))
    assert (type(caught.value), str(caught.value)) == (error, text.format(work=work))
    assert left(work) == {}


def test_full_disk_while_recording_raises(work: Path, task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(DataError, match=r"work/part/00000/record.json: No space left on device; make room"):
            perform(work, task)
    assert left(work) == {}
    assert perform(work, task)[1] is None


def test_files_are_synced_before_they_get_their_name(work: Path, task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    events = []
    rename = Path.rename
    monkeypatch.setattr(os, "fsync", lambda fd: events.append(Path(f"/proc/self/fd/{fd}").readlink().name))
    monkeypatch.setattr(Path, "rename", lambda path, to: (events.append(f"> {to.name}"), rename(path, to))[1])
    perform(work, task)
    assert set(events[:-3]) == {"text", "inner", "record.json"}
    assert events[-3].startswith("00000.part-") and events[-2:] == ["> 00000", "part"]
