"""Tasks in several processes of this machine, which are killed, fail, or lose their driver."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tasks
from nmt.errors import ConfigError, DataError
from nmt.tasks.engines import open_engine
from nmt.tasks.in_process import InProcess
from nmt.tasks.processes import Processes
from nmt.tasks.task import Task, run_all
from tasks import left, numbered

DRIVER = """
import sys
from pathlib import Path
from nmt.cli.exits import user_errors
from nmt.tasks.engines import open_engine
from nmt.tasks.task import Task, run_all
import tasks

log, work, seconds, n = sys.argv[1:]
todo = [Task(f"part/{i:05d}", tasks.slow, {"number": i, "log": log, "seconds": float(seconds)}) for i in range(int(n))]
with user_errors(), open_engine("local", 2) as engine:
    run_all(engine, Path(work), todo)
"""


@pytest.fixture
def engine() -> Iterator[Processes]:
    with open_engine("local", 2) as engine:
        assert isinstance(engine, Processes)
        yield engine


def children() -> set[int]:
    found = subprocess.run(["pgrep", "-P", str(os.getpid())], capture_output=True, text=True, check=False).stdout
    return {int(pid) for pid in found.split()}


def until(condition: Callable[[], object], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_same_bytes_in_two_processes(engine: Processes, tmp_path: Path) -> None:
    parts = numbered(12, tmp_path / "log")
    expected = run_all(InProcess(), tmp_path / "one", parts)
    found = run_all(engine, tmp_path / "two", parts)
    assert [done.summary for done in found] == [done.summary for done in expected]
    assert left(tmp_path / "two") == left(tmp_path / "one")
    assert run_all(engine, tmp_path / "two", parts) == found
    assert (tmp_path / "log").read_text().count("\n") == 24


def test_processes_live_until_the_engine_is_closed(tmp_path: Path) -> None:
    before = children()
    with open_engine("local", 2) as engine:
        log = {"log": str(tmp_path / "log")}
        seen = []
        for stage in ("a", "b"):
            todo = [Task(f"{stage}/{n}", tasks.whereabouts, {"number": n, **log}) for n in range(4)]
            seen.append({done.summary["pid"] for done in run_all(engine, tmp_path, todo)})
        assert seen[0] == seen[1] == children() - before and len(seen[0]) == 2
        [alone] = run_all(engine, tmp_path, [Task("alone", tasks.whereabouts, {"number": 0, **log})])
        assert alone.summary["pid"] == os.getpid()
        [done, _] = run_all(engine, tmp_path, [Task(f"c/{n}", tasks.whereabouts, {"number": n, **log}) for n in (0, 1)])
        assert done.summary["threads"] == "1"
    assert children() == before


def test_a_killed_worker_is_replaced(engine: Processes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lives = tmp_path / "lives"
    lives.mkdir()
    for n in range(2):
        (lives / str(n)).touch()
    arguments = {"log": str(tmp_path / "log"), "lives": str(lives), "number": 1}
    todo = [*numbered(3, tmp_path / "log"), Task("dying", tasks.dying, arguments)]
    assert len(run_all(engine, tmp_path / "work", todo)) == 4
    assert capsys.readouterr().err.count("dying: its process was killed (SIGKILL); it is done again\n") == 2
    assert not list((tmp_path / "work").rglob("*.part*"))


def test_a_task_that_kills_every_worker_is_given_up(engine: Processes, tmp_path: Path) -> None:
    lives = tmp_path / "lives"
    lives.mkdir()
    for n in range(9):
        (lives / str(n)).touch()
    todo = [Task(f"{n}", tasks.dying, {"log": str(tmp_path / "log"), "lives": str(lives), "number": n}) for n in (0, 1)]
    with pytest.raises(DataError, match=r"work/[01]: its process was killed \(SIGKILL\), 3 times; .* fewer --workers"):
        run_all(engine, tmp_path / "work", todo)
    assert left(tmp_path / "work") == {}


@pytest.mark.parametrize(
    ("kind", "error", "text"),
    [
        ("data", DataError, "text.de: not UTF-8 at line 3"),
        ("config", ConfigError, "one\ntwo"),
        ("bug", RuntimeError, "task bad: ZeroDivisionError: a bug"),
    ],
)
def test_an_error_of_a_task_is_raised_here(
    engine: Processes, tmp_path: Path, kind: str, error: type[Exception], text: str
) -> None:
    log = str(tmp_path / "log")
    late = Task("late", tasks.slow, {"number": 1, "log": log, "seconds": 100})
    todo = [late, Task("bad", tasks.failing, {"kind": kind}), *numbered(3, tmp_path / "log")]
    with pytest.raises(error) as caught:
        run_all(engine, tmp_path / "work", todo)
    assert (type(caught.value), str(caught.value)) == (error, text)
    assert left(tmp_path / "work") == {} and not Path(log).exists()
    if kind == "bug":
        assert "in failing\n" in str(caught.value.__cause__)
    assert len(run_all(engine, tmp_path / "work", numbered(3, tmp_path / "log"))) == 3


def test_a_worker_that_cannot_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "nonsense")
    with open_engine("local", 2) as engine, pytest.raises(DataError, match=r"ended with status 1 \(.*PYTHONHASHSEED"):
        run_all(engine, tmp_path, numbered(2, tmp_path / "log"))


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_workers_end_with_their_driver(tmp_path: Path, number: signal.Signals, status: int) -> None:
    """And what was done is not done again."""
    log, work = tmp_path / "log", tmp_path / "work"
    environment = {**os.environ, "PYTHONPATH": str(Path(tasks.__file__).parent)}
    command = [sys.executable, "-c", DRIVER, str(log), str(work)]
    driver = subprocess.Popen([*command, "0.4", "6"], env=environment, stderr=subprocess.DEVNULL)
    until(lambda: log.exists() and log.read_text().count("\n") >= 2 and len(list(work.glob("part/*.part-*"))) == 2)
    workers = subprocess.run(["pgrep", "-P", str(driver.pid)], capture_output=True, check=True).stdout.split()
    assert len(workers) == 2
    os.kill(driver.pid, number)
    assert driver.wait(10) == status
    until(lambda: not any(Path(f"/proc/{pid.decode()}").exists() for pid in workers), 2)
    n_done = len(list(work.glob("part/*/record.json")))
    assert 2 <= n_done < 6
    assert bool(list(work.glob("part/*.part-*"))) == (number == signal.SIGKILL)
    before = log.read_text().count("\n")
    todo = [Task(f"part/{n:05d}", tasks.slow, {"number": n, "log": str(log), "seconds": 0.4}) for n in range(6)]
    assert len(run_all(InProcess(), work, todo)) == 6
    assert log.read_text().count("\n") == before + 6 - n_done
    assert not list(work.glob("part/*.part-*"))
