"""Tasks on a Ray cluster of two nodes, both on this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import nmt
import tasks
from nmt.errors import ConfigError, DataError
from nmt.runs.model import ModelRef
from nmt.tasks import ray as ray_engine
from nmt.tasks.perform import Task, run_all
from nmt.tasks.processes import InProcess
from nmt.tasks.ray import RayRunner, enter_node, ready_among
from nmt.tasks.runners import open_runner
from nmt.text.tokenizer import Tokenizer
from nmt.translate import files
from nmt.translate.files import TranslationModels, translate_file, translate_in_parts
from nmt.translate.loading import Translator
from nmt.translate.types import Options
from places import ROOT
from tasks import left, numbered
from tiny_run import GREEDY, PLAIN, write_run
from waiting import until

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.skipif(find_spec("ray") is None, reason="needs ray, which nmt imports in its own way"),
]
MEMORY = 78 * 2**20  # Ray's least, of each node's store of objects


class TwoNodes:
    """A cluster whose nodes can be removed."""

    def __init__(self) -> None:
        ray_engine.library()
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": MEMORY}
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        self._nodes = [self._cluster.add_node(num_cpus=1, object_store_memory=MEMORY, wait=False) for _ in range(2)]
        self._cluster.wait_for_nodes()
        self.address: str = self._cluster.address

    def remove_one(self) -> None:
        self._cluster.remove_node(self._nodes.pop(), allow_graceful=False)

    def shutdown(self) -> None:
        self._cluster.shutdown()


@pytest.fixture(scope="module")
def cluster() -> Iterator[TwoNodes]:
    handler = signal.getsignal(signal.SIGTERM)  # Ray puts its own in place of it, for good
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_worker_niceness", "0")  # or else workers wait for all other tests
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(Path(tasks.__file__).parent)]))
        cluster = TwoNodes()
        yield cluster
        cluster.shutdown()
    signal.signal(signal.SIGTERM, handler)


@pytest.fixture(scope="module")
def engine(cluster: TwoNodes) -> Iterator[RayRunner]:
    with open_runner("ray", address=cluster.address) as engine:
        assert isinstance(engine, RayRunner)
        yield engine


def test_killed_driver_resumes(cluster: TwoNodes, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """This must be the first test, since the engine of the other tests takes the CPUs."""
    log, work = tmp_path / "log", tmp_path / "work"
    command = [sys.executable, "-c", tasks.DRIVER, cluster.address, str(log), str(work), "0.5", "6"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(Path(tasks.__file__).parent)])}
    driver = subprocess.Popen(command, env=environment, cwd=tmp_path)
    until(lambda: len(list(work.glob("part/?????/record.json"))) >= 2)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    workers = [int(path.name.split("-")[2]) for path in work.glob("part/*.part-*")]
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))
    n_done = len(list(work.glob("part/?????/record.json")))
    before = log.read_text().count("\n")
    assert 2 <= n_done < 6
    engine = request.getfixturevalue("engine")
    todo = tasks.several_slow(6, log, 0.5)
    found = run_all(engine, Path("work"), todo)
    assert log.read_text().count("\n") == before + 6 - n_done
    assert [done.summary for done in found] == [done.summary for done in run_all(InProcess(), tmp_path / "one", todo)]
    assert left(work) == left(tmp_path / "one")


def test_node_without_shared_folder_raises(engine: RayRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.tasks.ray.SEEN_SECONDS", 0.0)
    monkeypatch.setattr(Path, "touch", lambda _: None)
    with pytest.raises(DataError, match=rf"node \S+ of the Ray cluster does not see {tmp_path}/work; all nodes"):
        run_all(engine, tmp_path / "work", numbered(2, tmp_path / "log"))


def test_translation_on_two_nodes_matches_one_process(
    engine: RayRunner, tokenizer: Tokenizer, translator: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_run(tmp_path / "run", translator.config, tokenizer, translator.searcher.models[0])
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_text("".join(f"{line}\n" for line in PLAIN))
    translate_file(Translator.load(run), source, tmp_path / "whole", Options(GREEDY))
    monkeypatch.setattr(files, "WINDOW", 2)
    translate_in_parts(engine, TranslationModels.read(ModelRef.of(run))[0], source, target, Options(GREEDY))
    assert target.read_bytes() == (tmp_path / "whole").read_bytes()
    assert not target.with_name("out.work").exists()


def test_tasks_of_removed_nodes_are_repeated(
    engine: RayRunner, cluster: TwoNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    """This must be the last test of the cluster."""
    monkeypatch.setattr(ray_engine, "POLL_SECONDS", 0.5)
    gate, work = tmp_path / "gate", tmp_path / "work"
    log = {"log": str(tmp_path / "log")}
    todo = [Task(f"part/{n}", tasks.gated, {"number": n, "gate": str(gate), **log}) for n in range(4)]

    def remove() -> None:
        until(lambda: len(list(work.glob("part/*.part-*"))) == 2)
        workers = [int(path.name.split("-")[2]) for path in work.glob("part/*.part-*")]
        cluster.remove_one()
        until(lambda: not all(Path(f"/proc/{pid}").exists() for pid in workers))
        gate.touch()

    remover = threading.Thread(target=remove)
    remover.start()
    assert len(run_all(engine, work, todo)) == 4
    remover.join()
    told = capfd.readouterr()
    assert told.out == "" and told.err.count("; retrying\n") == told.err.count("\n") == 1, told
    run_all(InProcess(), tmp_path / "one", todo)
    assert left(work) == left(tmp_path / "one")
    cluster.remove_one()
    until(lambda: not engine._alive())
    with pytest.raises(DataError, match="no node with CPUs is left in the Ray cluster"):
        run_all(engine, work, numbered(8, tmp_path / "log"))


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("127.0.0.1:1", r"no Ray cluster at 127.0.0.1:1 \(.*refused\); start one with `ray start --head`"),
        ("ray://10.0.0.1:10001", "--address: must be HOST:PORT, such as 10.0.0.1:6379, found ray://10.0.0.1:10001"),
        ("10.0.0.1", "--address: must be HOST:PORT"),
    ],
)
def test_unreachable_cluster_raises(address: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem), open_runner("ray", address=address):
        pass


def test_exit_status_after_signal_is_preserved() -> None:
    class Ended(BaseException):
        pass

    def wait(*_: object, **__: object) -> None:
        raise SystemError("returned a result with an exception set") from Ended(15)

    with pytest.raises(Ended, match="15"):
        ready_among(SimpleNamespace(wait=wait), [object()], 1, 5.0)  # type: ignore[arg-type]


def test_node_with_other_version_or_folder_is_rejected(tmp_path: Path) -> None:
    assert enter_node(nmt.__version__, str(tmp_path)) is None
    assert "but 0.0.1 is needed" in (enter_node("0.0.1", str(tmp_path)) or "")
    assert "has no folder" in (enter_node(nmt.__version__, str(tmp_path / "missing")) or "")
