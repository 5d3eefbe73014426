"""If one of several processes ends, all end, and `torchrun --max-restarts` restarts them."""

from __future__ import annotations

import re
import signal
import threading
import time

import pytest
import torch.distributed as dist

from cases import cases
from nmt.layout import RunDir
from nmt.runs.state import saved_steps
from nmt.training.parallel import meet
from several import NEW, SLOW_VALIDATION, ended, left, the_other, torchrun

# `nmt train` with something that happens in one process once `step` updates are done: in the first before the next one,
# in others in its backward pass, when some of its gradients have been exchanged.
SCRIPT = """
import os, signal, sys
from nmt.cli import main
from nmt.errors import DataError
from nmt.training import loop
from nmt.training.setup import choices

real, rank, life = loop.train_step, int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])

def train_step(session, update):
    step = session.state.step
    if rank == 0 or session.is_sharded:
        happens(step)
        return real(session, update)
    handle = session.model.encoder.layers[0].attention.in_weight.register_hook(lambda _: happens(step))
    outcome = real(session, update)
    handle.remove()
    return outcome

def happens(step):
    {body}

loop.train_step = train_step
choices.pick_float32_library = lambda *_: "mkl"  # as in `pair`; a probe might choose another
main()
"""
DIE = "os.kill(os.getpid(), signal.SIGKILL)"


def script(body: str) -> str:
    return SCRIPT.replace("{body}", body)


@pytest.mark.parametrize("parallel", cases(["ddp", "fsdp"], always=["ddp"]))
def test_killed_workers_restart_and_resume(several, pair, parallel):
    """The second process is killed before the first checkpoint is complete, then after one, then the first process."""
    run = RunDir(several / f"restarted-{parallel}")
    body = f"if (life, rank, step) in ((0, 1, 2), (1, 1, 8), (2, 0, 13)): {DIE}"
    options = ("--set", f"training.parallel={parallel}")
    process = torchrun(several, *NEW, run.path.name, *options, restarts=3, script=script(body))
    err = ended(process)
    assert process.returncode == 0 and not re.search("^Traceback", err, re.M), err  # but torchrun's own, in its log
    assert "no checkpoint yet, starting" in err and "resuming from step 5" in err and "resuming from step 10" in err
    assert err.count("selected: ") == 1
    if parallel == "fsdp":  # sums of squares for clipping, and the configuration, are others
        assert saved_steps(run) == saved_steps(RunDir(pair))
        return
    assert left(run.path) == left(pair)


FAILURES = {
    "raises an error": ('if (rank, step) == (1, 12): raise RuntimeError("injected")', "RuntimeError: injected"),
    "finds a mistake": ('if (rank, step) == (1, 12): raise DataError("no more")', "nmt: rank 1: no more\n"),
    "dies": (f"if (rank, step) == (1, 12): {DIE}", "Signal 9 (SIGKILL)"),
    "has not enough memory": ("if (rank, step) == (1, 12): raise MemoryError", "nmt: rank 1: "),
    "is the first and raises an error": (
        'if (rank, step) == (0, 12): raise RuntimeError("injected")',
        "Error: injected",
    ),
    "is the first and dies": (f"if (rank, step) == (0, 12): {DIE}", "Signal 9 (SIGKILL)"),
}


@pytest.mark.parametrize("what", cases(FAILURES, always=["finds a mistake", "is the first and dies"]))
def test_failure_of_one_process_ends_all(several, what):
    body, told = FAILURES[what]
    run = RunDir(several / what.replace(" ", "-"))
    process = torchrun(several, *NEW, run.path.name, script=script(body))
    err = ended(process)
    assert process.returncode == 1 and told in err
    others = err.count("nmt: rank 0 ends because another rank has ended; see the error of that rank, if any: ")
    assert others == ("first" not in what) and err.count("nmt: rank") == others + ("nmt: rank 1: " in told), err
    assert saved_steps(run)[-1] == 10


@pytest.mark.exhaustive
def test_worker_killed_in_validation_resumes_with_equal_bits(several, pair):
    run = RunDir(several / "outside")
    process = torchrun(several, *NEW, "outside", script=SLOW_VALIDATION)
    err = ended(process, lambda: run.step(10).path.exists(), lambda pid: the_other(run, pid), signal.SIGKILL)
    assert process.returncode == 1 and "Traceback" not in err.split("torch")[0]
    assert saved_steps(run)[-1] == 10
    process = torchrun(several, "--resume", "--run", "outside")
    ended(process)
    assert left(run.path) == left(pair)


def test_restart_of_another_launch_does_not_resume(several, pair):
    before = left(pair)
    process = torchrun(several, *NEW, pair.name, restarts=1)
    err = ended(process)
    assert process.returncode == 1 and err.count("nmt: pair: exists already; continue it with --resume") == 2
    assert left(pair) == before


# --- in this process ----------------------------------------------------------------------------


def test_meet_ignores_keys_of_dead_processes():
    store, found = dist.HashStore(), dict[int, dist.Store]()
    store.set("nmt/name", "dead")
    store.set("nmt/dead/1", "dead, too")
    store.set("nmt/dead/dead, too", "heard")

    def living(rank: int) -> None:
        if rank == 0:
            time.sleep(0.3)  # so that the others find the dead
        found[rank] = meet(store, rank, 3)
        found[rank].set(str(rank), "here")

    threads = [threading.Thread(target=living, args=(rank,)) for rank in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    assert len(found) == 3 and all(each.get(str(rank)) == b"here" for each in found.values() for rank in range(3))
