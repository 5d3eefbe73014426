"""Measure the time from the start of `nmt train` to the end of its first update, by phase.

    python -m scripts.measure.start_time DATA [--config FILE] [--runs N]

DATA is a data directory that `nmt prepare` has written. The command runs N times, after once for the disk's cache, as a
process of its own that ends after its first update. Times of functions and imports are taken from outside by
`start_probe.py`, and add up to the total.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROBE = Path(__file__).with_name("start_probe.py")


def measure(data: Path, config: str) -> dict[str, float]:
    """Seconds of one start, by what they went to."""
    with tempfile.TemporaryDirectory() as folder:
        out, run = Path(folder) / "seconds.json", Path(folder) / "run"
        train = ["train", "--config", config, "--data", str(data), "--run", str(run)]
        program = [sys.executable, str(PROBE), str(time.monotonic()), str(out), *train]
        done = subprocess.run(program, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode or not out.is_file():
            sys.exit(f"{done.stderr}start_time: nmt train ended with status {done.returncode} before its first update")
        seconds: dict[str, float] = json.loads(out.read_text(encoding="utf-8"))
        return seconds


def table(runs: list[dict[str, float]]) -> list[str]:
    """Least and median seconds of everything, in the order in which it began, and of all together."""
    names = list(dict.fromkeys(name for run in runs for name in run))
    rows = {name: [run.get(name, 0.0) for run in runs] for name in names}
    rows["from the command to the first update"] = [sum(run.values()) for run in runs]
    lines = [f"{'seconds of ' + str(len(runs)) + ' starts':<40}{'least':>8}{'median':>8}"]
    return lines + [
        f"{name:<40}{min(seconds):>8.2f}{statistics.median(seconds):>8.2f}" for name, seconds in rows.items()
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data", type=Path, metavar="DATA", help="a prepared data directory")
    parser.add_argument("--config", default="multi30k.yaml", help="configuration of the training")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="how often to measure")
    options = parser.parse_args()
    measure(options.data, options.config)
    print("\n".join(table([measure(options.data, options.config) for _ in range(options.runs)])))


if __name__ == "__main__":
    main()
