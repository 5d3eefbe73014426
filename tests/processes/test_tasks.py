"""Tasks in several processes of this machine, which are killed, fail, or lose the main process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tasks
from cases import cases
from folders import Folder
from nmt.errors import ConfigError, DataError
from nmt.prepare.pipeline.work import Sizes
from nmt.prepare.prepare import prepare
from nmt.tasks.perform import Attempt, Task, run_all
from nmt.tasks.processes import InProcess, Processes
from nmt.tasks.runners import open_runner
from places import ROOT
from tasks import children, left, numbered
from waiting import until


@pytest.fixture
def engine() -> Iterator[Processes]:
    with open_runner("local", 2) as engine:
        assert isinstance(engine, Processes)
        yield engine


def test_two_processes_write_same_bytes_as_one(engine: Processes, tmp_path: Path) -> None:
    parts = numbered(12, tmp_path / "log")
    expected, found = run_all(InProcess(), tmp_path / "one", parts), run_all(engine, tmp_path / "two", parts)
    assert [done.summary for done in found] == [done.summary for done in expected]
    assert left(tmp_path / "two") == left(tmp_path / "one")
    assert run_all(engine, tmp_path / "two", parts) == found
    assert (tmp_path / "log").read_text().count("\n") == 24


def test_prepare_survives_killed_worker(engine: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Folder(tmp_path)
    config = place.config(data__valid=10, data__root="text", data__clean={"drop": ["near_duplicates"]})
    contents = []
    killed: list[int] = []
    before, wait = children(), engine.wait

    def kill_one() -> list[tuple[int, Attempt]]:
        ended = wait()
        if not killed and (workers := sorted(children() - before)):  # not the servers of other tests
            killed.append(workers[0])
            os.kill(workers[0], signal.SIGKILL)
        return ended

    monkeypatch.setattr(engine, "wait", kill_one)
    for name, chosen in (("one", None), ("two", engine)):
        place.data = tmp_path / name
        sizes = Sizes(part_pairs=60, bucket_pairs=100, shard_pairs=90)
        prepare(config, Path(name), echo=place.said.append, engine=chosen, sizes=sizes)
        contents.append(place.content())
    assert contents[0] == contents[1] and len(killed) == 1


def test_processes_live_until_the_engine_is_closed(tmp_path: Path) -> None:
    before = children()
    with open_runner("local", 2) as engine:
        log = {"log": str(tmp_path / "log")}
        seen = []
        for stage in ("a", "b"):
            todo = [Task(f"{stage}/{n}", tasks.whereabouts, {"number": n, **log}) for n in range(4)]
            seen.append({done.summary["pid"] for done in run_all(engine, tmp_path, todo)})
            for pid in children() - before:
                os.kill(pid, signal.SIGINT)  # as a terminal does; it is the driver that decides
        assert seen[0] == seen[1] == children() - before and len(seen[0]) == 2
        [alone] = run_all(engine, tmp_path, [Task("alone", tasks.whereabouts, {"number": 0, **log})])
        assert alone.summary["pid"] == os.getpid()
        [done, _] = run_all(engine, tmp_path, [Task(f"c/{n}", tasks.whereabouts, {"number": n, **log}) for n in (0, 1)])
        assert done.summary["threads"] == "1"
    assert children() == before


def test_workers_share_gpus_and_replace_dead_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, before, seen = str(tmp_path / "log"), children(), []
    with open_runner("local", 2, gpus=["3", "GPU-5"]) as engine:
        for stage in range(2):
            todo = [Task(f"{stage}/{n}", tasks.whereabouts, {"number": n, "log": log}) for n in range(4)]
            seen.append({done.summary["gpu"] for done in run_all(engine, tmp_path, todo)})
            for pid in children() - before:
                os.kill(pid, signal.SIGKILL)
                os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert capsys.readouterr().err == ""
    assert seen == [{"3", "GPU-5"}] * 2


def dying(n: int, lives: int, folder: Path) -> list[Task]:
    """Return tasks that kill a number of processes in all."""
    for life in range(lives):
        path = folder / "lives" / str(life)
        path.parent.mkdir(exist_ok=True)
        path.touch()
    arguments = {"log": str(folder / "log"), "lives": str(folder / "lives")}
    return [Task(f"dying/{number}", tasks.dying, {"number": number, **arguments}) for number in range(n)]


def test_killed_worker_is_replaced(engine: Processes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    todo = [*numbered(3, tmp_path / "log"), *dying(1, 2, tmp_path)]
    assert len(run_all(engine, tmp_path / "work", todo)) == 4
    assert capsys.readouterr().err.count("dying/0: its process was killed (SIGKILL); retrying\n") == 2
    assert not list((tmp_path / "work").rglob("*.part*"))


def test_task_that_kills_workers_raises(engine: Processes, tmp_path: Path) -> None:
    killed = r"work/dying/[01]: its process was killed \(SIGKILL\), 3 times; .* fewer --workers"
    with pytest.raises(DataError, match=killed):
        run_all(engine, tmp_path / "work", dying(2, 9, tmp_path))
    assert left(tmp_path / "work") == {}


def test_task_error_is_raised_in_caller(engine: Processes, tmp_path: Path) -> None:
    before = children()
    for kind, error, text in (
        ("data", DataError, "text.de: not UTF-8 at line 3"),
        ("config", ConfigError, "one\ntwo"),
        ("bug", RuntimeError, "task bad: ZeroDivisionError: a bug"),
    ):
        log, work = tmp_path / f"{kind}.log", tmp_path / kind
        late = Task("late", tasks.slow, {"number": 1, "log": str(log), "seconds": 100})
        with pytest.raises(error) as caught:
            run_all(engine, work, [late, Task("bad", tasks.failing, {"kind": kind}), *numbered(3, log)])
        assert (type(caught.value), str(caught.value), left(work)) == (error, text, {}) and not log.exists()
        assert (len(children() - before), len(run_all(engine, work, numbered(3, log)))) == (1, 3)
    assert "in failing\n" in str(caught.value.__cause__)


@pytest.mark.parametrize(
    ("number", "status"),
    cases([(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)], always=[(signal.SIGKILL, -9)]),
)
def test_workers_end_with_their_driver(tmp_path: Path, number: signal.Signals, status: int) -> None:
    """Finished tasks are not repeated afterwards."""
    log, work = tmp_path / "log", tmp_path / "work"

    def n_done() -> int:
        return len(list(work.glob("part/?????/record.json")))

    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(Path(tasks.__file__).parent)])}
    command = [sys.executable, "-c", tasks.DRIVER, "", str(log), str(work)]
    driver = subprocess.Popen([*command, "0.4", "6"], env=environment, stderr=subprocess.DEVNULL)
    until(lambda: n_done() >= 2 and len(list(work.glob("part/*.part-*"))) == 2)
    workers = subprocess.run(["pgrep", "-P", str(driver.pid)], capture_output=True, check=True).stdout.split()
    assert len(workers) == 2
    os.kill(driver.pid, number)
    assert driver.wait(10) == status
    until(lambda: not any(Path(f"/proc/{pid.decode()}").exists() for pid in workers))
    assert 2 <= n_done() < 6
    n_left = 6 - n_done()
    assert bool(list(work.glob("part/*.part-*"))) == (number == signal.SIGKILL)
    before = log.read_text().count("\n")
    assert len(run_all(InProcess(), work, tasks.several_slow(6, log, 0.4))) == 6
    assert log.read_text().count("\n") == before + n_left
    assert not list(work.glob("part/*.part-*"))
