"""Compare the time per update of two checkouts, which learn from the same updates in turn.

    python -m scripts.measure.train_speed BASELINE [CHECKOUT] [--data DIR] [--precision P] [--seconds S]

The model is that of `step_cost` (3+3 layers, width 256, 8,000 pieces, dropout 0.1). Every update is another one, since
a size of batch that was not seen before costs more than a known one. CPU seconds are those of all threads of a process.
Medians are over updates, and the quartiles are those of the ratios of one update.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def serve(data: Path | None, precision: str) -> None:
    """Learn from one update for each line read, and print its CPU seconds, seconds and loss; runs in a checkout."""
    from nmt.process import set_up

    set_up()
    from nmt.data.batching import Pairs, epoch_updates
    from nmt.data.corpus import Corpus, lines_of
    from nmt.layout import DataDir
    from nmt.training.loop import train_step
    from scripts.measure.step_cost import UPDATE_TOKENS, WIDTH, Lines, make_session, settings

    split = Lines() if data is None else Corpus.open(DataDir(data)).split("train")
    pairs = Pairs(lines_of(split, "de"), lines_of(split, "en"))
    updates = epoch_updates(pairs.lengths, UPDATE_TOKENS, seed=1, epoch=0, pool_pairs=len(pairs))
    session = make_session(settings(WIDTH, UPDATE_TOKENS), pairs, updates, precision)
    for number, _ in enumerate(sys.stdin):
        update = updates[number % len(updates)]
        cpu, start = time.process_time(), time.perf_counter()
        loss = float(train_step(session, update).stats.loss)
        seconds = time.process_time() - cpu, time.perf_counter() - start
        print(json.dumps([*seconds, loss / update.n_tokens]), flush=True)


def start(checkout: Path, options: argparse.Namespace) -> subprocess.Popen[str]:
    """Start a process that runs the code of `checkout`."""
    words = [str(checkout), "--serve", "--precision", options.precision]
    words += [] if options.data is None else ["--data", str(options.data.resolve())]
    environment = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": str(options.threads)}
    command = [sys.executable, "-P", __file__, *words]
    return subprocess.Popen(
        command, cwd=checkout, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def learn(process: subprocess.Popen[str]) -> list[float]:
    """Let a process learn from its next update; returns CPU seconds, seconds and loss."""
    assert process.stdin is not None and process.stdout is not None
    print(file=process.stdin, flush=True)
    outcome: list[float] = json.loads(process.stdout.readline())
    return outcome


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("baseline", type=Path, help="a checkout")
    parser.add_argument("checkout", type=Path, nargs="?", default=ROOT, help="another; default: this one")
    parser.add_argument("--data", type=Path, help="a prepared data directory, de-en; default: random ids")
    parser.add_argument("--precision", choices=["auto", "bf16", "float32", "fp16"], default="auto")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=120.0, help="of all updates together")
    parser.add_argument("--warm", type=int, default=30, help="first updates of each checkout, which are not counted")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.data, options.precision)
        return
    from nmt.model.device import pick_device
    from nmt.model.precision import pick_precision

    # probed once, since the probes of two checkouts may differ on a busy machine
    options.precision = pick_precision(options.precision, pick_device("auto"))
    processes = [start(path.resolve(), options) for path in (options.baseline, options.checkout)]
    rounds: list[list[list[float]]] = []
    end = time.monotonic() + options.seconds
    while len(rounds) < options.warm + 2 or time.monotonic() < end:
        rounds.append([learn(process) for process in processes])
    rounds = rounds[options.warm :]
    for name, column in (("CPU seconds", 0), ("seconds", 1)):
        old, new = ([arm[column] for arm in arms] for arms in zip(*rounds, strict=True))
        low, middle, high = statistics.quantiles([b / a for a, b in zip(old, new, strict=True)], n=4)
        medians = f"{statistics.median(old):.3f} and {statistics.median(new):.3f}"
        print(f"{name}: {medians}, ratio {middle:.3f} ({low:.3f} to {high:.3f})")
    print(
        f"{len(rounds)} updates in {options.precision}, mean loss:",
        *(f"{statistics.fmean(arm[2] for arm in arms):.4f}" for arms in zip(*rounds, strict=True)),
    )


if __name__ == "__main__":
    main()
