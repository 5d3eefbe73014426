"""Measure how long an update takes on two machines, by the format of exchanged gradients and the network's speed.

    python -m scripts.measure.exchange [--rates MBIT ...] [--rounds N] [--update-tokens N] [--precision P]

The machines are two network namespaces of this one with a virtual cable between them, whose rate `tc` limits in both
directions, and a process with one thread in each. They train a Transformer base (32,000 pieces, tied: 60.5 M
parameters) on random ids in sentences as long as those of Multi30k. In every round the same
update is made with each `training.exchange_precision` at each rate, in turn; the first round is not counted. Linux
only, as root, with `ip` and `tc` (iproute2). The namespaces are removed at the end.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from nmt.config import Config
from nmt.config.load import check_config
from nmt.data.batching import Pairs, epoch_updates
from nmt.data.corpus import lines_of
from nmt.model.device import pick_device
from nmt.model.precision import DTYPES, pick_precision
from nmt.process import set_up
from nmt.training.loop import train_step
from nmt.training.loss import Objective
from nmt.training.parallel import World, joined, replicate
from scripts.measure.step_cost import PAIRS, Lines, make_session

VOCABULARY = 32_000
ADDRESS, CABLE, PORT = "10.213.77.{}", "nmt-cable", 29_513
ARMS = ("float32", "bf16")
PROBE_BYTES = 2**24
MISSING = (
    "exchange: this makes network namespaces: it needs Linux, root, and the commands ip and tc (iproute2); missing:"
)


def settings(update_tokens: int) -> Config:
    """The configuration of a Transformer base."""
    model = {"d_model": 512, "n_heads": 8, "d_ff": 2048, "encoder_layers": 6, "decoder_layers": 6}
    files = {"files": {"de": "-", "en": "-"}}
    data = {"direction": "de-en", "train": [files], "valid": files}
    training = {"update_tokens": update_tokens, "device": "cpu"}
    return check_config({"data": data, "model": model, "training": training}, "exchange")


def work(options: argparse.Namespace) -> None:
    """Make the updates of one rank; rank 0 prints the tables."""
    pairs, config = Pairs(lines_of(Lines(), "de"), lines_of(Lines(), "en")), settings(options.update_tokens)
    updates = epoch_updates(pairs.lengths, options.update_tokens, seed=1, epoch=0, pool_pairs=PAIRS)
    with joined() as world:
        session = make_session(config, pairs, updates, options.precision, world, VOCABULARY)
        objective = Objective(session.model, config.training)
        learners = {arm: replicate(objective, DTYPES[arm]) for arm in ARMS}
        mbits: dict[int, float] = {}
        costs: dict[tuple[int, str], list[float]] = defaultdict(list)
        for number in range(options.rounds + 1):
            for rate in options.rates:
                limit(rate)
                mbits[rate] = max(mbits.get(rate, 0.0), throughput(world))
                for arm in ARMS[number % len(ARMS) :] + ARMS[: number % len(ARMS)]:
                    session.learner = learners[arm]
                    world.max_over_ranks(0)  # both begin together
                    start = time.perf_counter()
                    train_step(session, updates[number])
                    world.max_over_ranks(0)
                    if number:
                        costs[rate, arm].append(time.perf_counter() - start)
            if world.is_rank0:
                last = [f"{arm} {found[-1]:.2f} s at {rate:,}" for (rate, arm), found in costs.items()]
                print(f"exchange: round {number} of {options.rounds}:", "; ".join(last), file=sys.stderr, flush=True)
        if world.is_rank0:
            n_parameters = sum(parameter.numel() for parameter in session.model.parameters())
            print(f"{n_parameters:,} parameters, updates of {options.update_tokens:,} tokens, {options.precision}\n")
            print(table(costs, mbits))


def limit(mbit: int) -> None:
    """Limit what this end of the cable sends."""
    bucket = ("burst", "1mb", "latency", "50ms")
    run("tc", "qdisc", "replace", "dev", CABLE, "root", "tbf", "rate", f"{mbit}mbit", *bucket)


def throughput(world: World) -> float:
    """Return how many Mbit per second an all-reduce sends."""
    tensor = torch.zeros(PROBE_BYTES // 4)
    world.max_over_ranks(0)
    start = time.perf_counter()
    world.all_reduce(tensor)
    return 8e-6 * PROBE_BYTES / (time.perf_counter() - start)


def table(costs: dict[tuple[int, str], list[float]], mbits: dict[int, float]) -> str:
    """Return a Markdown table of medians and quartiles; the time saved is that of updates of the same round."""
    head = ("Mbit/s (reached)", "exchange", "s per update", "time saved")
    rows = [head, ("---",) * len(head)]
    for (rate, arm), found in costs.items():
        saved = [100 * (1 - new / old) for new, old in zip(found, costs[rate, ARMS[0]], strict=True)]
        shown = "" if arm == ARMS[0] else f"{spread(saved, 0)} %"
        rows.append((f"{rate:,} ({mbits[rate]:,.0f})", arm, spread(found, 2), shown))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def spread(values: Sequence[float], digits: int) -> str:
    """Return the median and the quartiles."""
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{middle:.{digits}f} ({low:.{digits}f}–{high:.{digits}f})"


@contextmanager
def two_machines() -> Iterator[list[str]]:
    """Two namespaces with a cable between them, by name; they are removed at the end, and the cable with them."""
    names = [f"nmt-{os.getpid()}-{number}" for number in range(2)]
    try:
        for name in names:
            run("ip", "netns", "add", name)
        run("ip", "link", "add", CABLE, "netns", names[0], "type", "veth", "peer", "name", CABLE, "netns", names[1])
        for number, name in enumerate(names):
            run("ip", "-n", name, "addr", "add", f"{ADDRESS.format(number + 1)}/24", "dev", CABLE)
            for device in ("lo", CABLE):
                run("ip", "-n", name, "link", "set", device, "up")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL, check=False)


def run(*command: str) -> None:
    """Run a command that has to succeed."""
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"exchange: {' '.join(command)}: {done.stderr.strip()}")


def launch(names: Sequence[str], precision: str) -> int:
    """Start a process on each machine and wait for both; returns the highest exit status."""
    job = {"WORLD_SIZE": "2", "MASTER_ADDR": ADDRESS.format(1), "MASTER_PORT": str(PORT), "GLOO_SOCKET_IFNAME": CABLE}
    program = [sys.executable, "-m", "scripts.measure.exchange", *sys.argv[1:], "--precision", precision]
    workers = [
        subprocess.Popen(
            ["ip", "netns", "exec", name, *program],
            env={**os.environ, **job, "RANK": str(rank), "LOCAL_RANK": "0", "OMP_NUM_THREADS": "1"},
        )
        for rank, name in enumerate(names)
    ]
    try:
        return max(abs(worker.wait()) for worker in workers)
    finally:
        for worker in workers:
            worker.kill()


def stop(*_: object) -> None:
    """End, but not without removing the namespaces, even if the signal comes twice."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(1)


def main() -> int:
    """Make two machines and start the measurement on both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", type=int, nargs="+", default=[1000, 300], help="Mbit/s of the network")
    parser.add_argument("--rounds", type=int, default=5, help="at least 2")
    parser.add_argument("--update-tokens", type=int, default=4096)
    parser.add_argument("--precision", default="auto", help="training.precision")
    options = parser.parse_args()
    if "RANK" in os.environ:
        set_up()
        work(options)
        return 0
    needed = {"Linux": sys.platform == "linux", "root": hasattr(os, "geteuid") and os.geteuid() == 0}
    needed |= {name: shutil.which(name) is not None for name in ("ip", "tc")}
    if missing := [name for name, is_there in needed.items() if not is_there]:
        print(MISSING, ", ".join(missing), file=sys.stderr)
        return 2
    set_up()  # its environment is that of the processes below
    signal.signal(signal.SIGTERM, stop)
    with two_machines() as names:
        return launch(names, pick_precision(options.precision, pick_device("cpu")))


if __name__ == "__main__":
    sys.exit(main())
