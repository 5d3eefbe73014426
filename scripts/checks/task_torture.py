"""Kill workers and drivers of tasks at random moments, damage finished files, and compare the final results.

    python -m scripts.checks.task_torture [--rounds 50] [--seed 1] [--workers 3] [--prepare]
                                          [--nodes 2 | --address HOST:PORT]

In each round a driver does the same few dozen tasks in several processes; with --prepare, those of preparing 5,000
pairs of the sample corpus, half of them compressed, as shards. It and its workers get SIGKILL at random moments; each
time a driver has ended, a file of a finished task may be cut off, and another driver goes on, until one ends well. Then
every file must be as one process writes it. The exit status is 1 if anything differs.

--nodes: the workers are those of a Ray cluster of so many nodes, which is started on this machine. Nodes are killed,
too, but for the last one, and started again for the next round.
--address: the workers are those of a Ray cluster that runs on this machine.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.cli.app import user_errors
from nmt.config.load import load_config
from nmt.prepare.pipeline.work import Sizes
from nmt.prepare.prepare import prepare
from nmt.prepare.sources import text_folder
from nmt.tasks import ray as ray_engine
from nmt.tasks.perform import Json, Task, TaskRunner, run_all
from nmt.tasks.processes import InProcess
from nmt.tasks.runners import open_runner

if TYPE_CHECKING:
    from ray._private.node import Node

N_TASKS = 40
PLAIN_LINES = 2500
"""Of the sample corpus, and as many that are compressed."""
STORE_BYTES = 80 << 20
"""Of each node of a Ray cluster, about Ray's least."""
DRIVER = "import sys; from scripts.checks.task_torture import drive; drive(*sys.argv[1:])"


def write(folder: Path, arguments: Json) -> Json:
    """Write two files, slowly. A task."""
    number = int(str(arguments["number"]))
    rng = random.Random(number)
    digest = hashlib.sha256()
    for name in ("src", "tgt"):
        with (folder / name).open("wb") as file:
            for _ in range(5):
                data = rng.randbytes(2000)
                digest.update(data)
                file.write(data)
                time.sleep(rng.uniform(0.0, 0.02))
    return {"number": number, "sha256": digest.hexdigest()}


def make_tasks() -> list[Task]:
    """Return the tasks of a round."""
    return [Task(f"part/{number:05d}", write, {"number": number}) for number in range(N_TASKS)]


def drive(work: str, workers: str, address: str, is_prepare: str) -> None:
    """Do the tasks: the main function of a driver."""
    with user_errors(), open_runner("ray" if address else "local", int(workers), address or None) as engine:
        do(Path(work), engine, bool(is_prepare))


def do(work: Path, engine: TaskRunner, is_prepare: bool) -> None:
    """Do the tasks."""
    if is_prepare:
        sizes = Sizes(part_pairs=350, bucket_pairs=1200, shard_pairs=1000)
        config = load_config(
            "sample.yaml",
            [
                "data.valid=200",
                "data.test={}",
                "tokenizer.vocab_size=700",
                "data.clean.drop=[near_duplicates]",
                f"data.root={work.parent / 'text'}",
                "data.train=[{files: {de: plain.de, en: plain.en}}, {files: {de: rest.de.gz, en: rest.en.gz}}]",
            ],
        )
        prepare(config, work / "data", echo=lambda _: None, engine=engine, sizes=sizes)
    else:
        run_all(engine, work, make_tasks())


def divide_sample(folder: Path) -> None:
    """Write the training text of the sample corpus as two corpora, one of which is compressed."""
    folder.mkdir()
    for language in ("de", "en"):
        lines = (text_folder("data/sample") / f"train.{language}").read_bytes().splitlines(keepends=True)
        (folder / f"plain.{language}").write_bytes(b"".join(lines[:PLAIN_LINES]))
        (folder / f"rest.{language}.gz").write_bytes(gzip.compress(b"".join(lines[PLAIN_LINES : 2 * PLAIN_LINES])))


class Nodes:
    """A Ray cluster on this machine, whose nodes can be killed."""

    def __init__(self, n: int) -> None:
        ray_engine.library()
        from ray.cluster_utils import Cluster

        os.environ["PYTHONPATH"] = str(Path.cwd())  # of the workers
        head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": STORE_BYTES}
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        self._n = n
        self._nodes: list[Node] = []
        self.address: str = self._cluster.address

    def start(self) -> None:
        """Start nodes for those that were killed."""
        while len(self._nodes) < self._n:
            self._nodes.append(self._cluster.add_node(num_cpus=2, object_store_memory=STORE_BYTES))

    def kill_one(self, rng: random.Random) -> bool:
        """Kill a node, unless it is the last. Returns whether there was another one."""
        if len(self._nodes) == 1:
            return False
        node = self._nodes.pop(rng.randrange(len(self._nodes)))
        self._cluster.remove_node(node, allow_graceful=False)
        return True


def matching(work: Path, pattern: str) -> list[Path]:
    """Return the paths below a folder whose name matches; others may be removed meanwhile."""
    while True:
        with suppress(FileNotFoundError):
            return sorted(work.rglob(pattern))


def workers_of(driver: subprocess.Popen[bytes], work: Path) -> list[int]:
    """Return the processes that write now, by the names of their folders; none of an earlier driver's."""
    folders = [path for path in matching(work, "*.part-*-*-*") if not path.name.endswith(".old")]
    pids = {int(path.name.split("-")[-2]) for path in folders}
    return [pid for pid in sorted(pids) if pid != driver.pid and Path(f"/proc/{pid}").exists()]


def survive(
    work: Path, options: argparse.Namespace, nodes: Nodes | None, rng: random.Random, counts: Counter[str]
) -> None:
    """Start drivers until one ends well, and kill it, its workers and nodes meanwhile."""
    patience = rng.randint(2, 12)  # kills in this round
    if nodes:
        nodes.start()
    address = nodes.address if nodes else options.address or ""
    command = [sys.executable, "-c", DRIVER, str(work), str(options.workers), address, "1" * options.prepare]
    while True:
        counts["drivers"] += 1
        with tempfile.TemporaryFile() as errors:
            driver = subprocess.Popen(command, stderr=errors)
            patience -= disturb(driver, work, nodes, patience, rng, counts)
            if driver.wait() == 0:
                return
            if driver.returncode > 0:  # such as a task whose workers were killed three times
                counts["drivers that gave up"] += 1
                errors.seek(0)
                print(errors.read().decode().rstrip().rpartition("\n")[2], flush=True)
        finished = [path.parent for path in matching(work, "record.json")]
        if finished and rng.random() < 0.5:
            victim = rng.choice([path for path in sorted(rng.choice(finished).rglob("*")) if path.is_file()])
            os.truncate(victim, victim.stat().st_size // 2)
            counts["files cut off"] += 1


def disturb(
    driver: subprocess.Popen[bytes],
    work: Path,
    nodes: Nodes | None,
    patience: int,
    rng: random.Random,
    counts: Counter[str],
) -> int:
    """Kill at most `patience` times until a driver has ended. Returns how often."""
    n_kills = 0
    while driver.poll() is None:
        time.sleep(rng.uniform(0.02, 0.5))
        if n_kills == patience:
            driver.wait()
            break
        workers, dice = workers_of(driver, work), rng.random()
        if dice < (0.3 if workers else 0.005):
            driver.kill()
            driver.wait()
            counts["kills of drivers"] += 1
        elif workers and nodes and dice < 0.5 and nodes.kill_one(rng):
            counts["kills of nodes"] += 1
        elif workers:
            with suppress(ProcessLookupError):
                os.kill(rng.choice(workers), signal.SIGKILL)
                counts["kills of workers"] += 1
        else:
            continue
        n_kills += 1
    return n_kills


def left(work: Path) -> dict[str, bytes]:
    """Return all files below a folder."""
    return {str(path.relative_to(work)): path.read_bytes() for path in work.rglob("*") if path.is_file()}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--prepare", action="store_true", help="prepare a part of the sample corpus")
    cluster = parser.add_mutually_exclusive_group()
    cluster.add_argument("--nodes", type=int, help="of a Ray cluster; by default workers are local processes")
    cluster.add_argument("--address", help="of a Ray cluster that runs on this machine")
    options = parser.parse_args()
    rng, counts, n_wrong = random.Random(options.seed), Counter[str](), 0
    nodes = Nodes(options.nodes) if options.nodes else None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # workers on Ray may still write
        divide_sample(Path(folder) / "text")
        wanted = Path(folder) / "wanted"
        do(wanted, InProcess(), options.prepare)
        for number in range(options.rounds):
            work = Path(folder) / f"round-{number}"
            survive(work, options, nodes, rng, counts)
            is_equal = left(work) == left(wanted)
            n_wrong += not is_equal
            print(f"round {number + 1}: {'equal' if is_equal else 'NOT EQUAL'}; so far {dict(counts)}", flush=True)
    print(f"{options.rounds - n_wrong} of {options.rounds} rounds equal")
    sys.exit(n_wrong > 0)


if __name__ == "__main__":
    from scripts.checks.task_torture import main as imported_main  # workers cannot import what is in __main__

    imported_main()
