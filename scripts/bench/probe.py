"""Run the training command of a toolkit in this process, count its training tokens, and end it after the measurement.

    python -m scripts.bench.probe NAME --out FILE --warm S --seconds S --started T -- ARGUMENTS OF THE TOOLKIT

The counts belong to optimizer steps, which a hook of torch reports, or the toolkit's program in its log. The result is
one JSON object in FILE; without it the training ended or failed before. Standard library and torch only; Linux, for the
CPU time of other processes.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from scripts.bench.peer import NOTHING, Training
from scripts.bench.peers import PEERS
from scripts.bench.task import THREADS
from scripts.bench.windows import Step, summary

TICKS = os.sysconf("SC_CLK_TCK")
BUSY = slice(1, 9)  # of the first line of /proc/stat: user nice system idle iowait irq softirq steal
IDLE, IOWAIT = 3, 4


def other_processes() -> float:
    """CPU seconds that all processes but this one and its children have used since the machine started."""
    with Path("/proc/stat").open(encoding="ascii") as file:
        ticks = [int(word) for word in file.readline().split()[BUSY]]
    own = os.times()
    used = own.user + own.system + own.children_user + own.children_system + sum(map(seconds_of, children()))
    return (sum(ticks) - ticks[IDLE] - ticks[IOWAIT]) / TICKS - used


def children() -> list[int]:
    """The processes that this one has started and that run."""
    processes = list[int]()
    for path in Path("/proc/self/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
            processes += map(int, path.read_text(encoding="ascii").split())
    return processes


def seconds_of(process: int) -> float:
    """CPU seconds of a process; 0 if it has just ended."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text(encoding="ascii", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    user, system = stat.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / TICKS


class Meter:
    """Collects the steps of a training, and ends it with a call of `finish` when `seconds` are full."""

    def __init__(self, seconds: float, finish: Callable[[list[Step]], None]) -> None:
        """`seconds` from the end of the first step."""
        self.steps: list[Step] = []
        self._seconds, self._finish = seconds, finish
        self._counts = NOTHING

    def watch(self, training: Training) -> Any:
        """Count the batches of the toolkit and hear of every optimizer step.

        Returns torch's handle of the hook, or None for a program without torch.
        """
        owner, name = find(training.step)
        learn = getattr(owner, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            self._counts = self._counts.plus(training.count(*args, **kwargs))
            result = learn(*args, **kwargs)
            if training.is_program:
                self._step()
            return result

        setattr(owner, name, counted)
        if training.is_program:
            return None
        return import_module("torch.optim.optimizer").register_optimizer_step_post_hook(self._step)

    def _step(self, *_: Any) -> None:
        if self._counts == NOTHING:  # a trial without a batch
            return
        self.steps.append(Step(time.time(), self._counts, other_processes()))
        self._counts = NOTHING
        if self.steps[-1].time - self.steps[0].time >= self._seconds:
            self._finish(self.steps)


def find(place: str) -> tuple[Any, str]:
    """`module:a.b` -> the object `a` of the module, and `b`."""
    module, _, path = place.partition(":")
    owner: Any = import_module(module)
    *outer, name = path.split(".")
    for part in outer:
        owner = getattr(owner, part)
    return owner, name


def main() -> None:
    """Measure one training."""
    parser = argparse.ArgumentParser()
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--warm", type=float, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--started", type=float, required=True, help="when the process was started (Unix time)")
    end = sys.argv.index("--")  # what follows is the toolkit's
    options, arguments = parser.parse_args(sys.argv[1:end]), sys.argv[end + 1 :]

    peer = PEERS[options.peer]
    training = peer.training
    assert training is not None

    def finish(steps: list[Step]) -> NoReturn:
        for child in children():
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        who = resource.RUSAGE_CHILDREN if training.is_program else resource.RUSAGE_SELF
        torch = None if training.is_program else import_module("torch")
        result = {
            **summary(steps, options.warm),
            "first_step_s": steps[0].time - options.started,
            "peak_rss_mb": resource.getrusage(who).ru_maxrss / 1024,
            "threads": torch.get_num_threads() if torch else THREADS,
            "torch": torch.__version__ if torch else "",
        }
        options.out.write_text(json.dumps(result), encoding="utf-8")
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)  # nothing of what a toolkit does at its end

    owner, name = find(training.entry)
    Meter(options.warm + options.seconds, finish).watch(training)
    sys.argv = [peer.name, *arguments]
    getattr(owner, name)()
    sys.exit(f"probe: {peer.title} ended before enough was measured")


if __name__ == "__main__":
    main()
