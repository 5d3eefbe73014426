"""Measure the training of nmt and of other toolkits: the same text, model and machine.

    python -m scripts.bench.train [--peers NAME,NAME] [--rounds N] [--seconds S] [--warm S] [--data FOLDER] [--dir DIR]

Each toolkit is installed into an environment of its own on first use (10 GB for all). Then they train in turn, one
process at a time with two threads, and again in the next round. Target tokens are counted with one end of sentence for
each pair, without padding. Medians are over windows of five seconds in which no other process was busy: leave the
machine alone. A toolkit that cannot be installed or run is in the table as failed, with its log; the exit status is
then 1. Every result is appended to train.jsonl in DIR. `bench/__init__.py` says how to add a toolkit. Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import torch

from nmt.cli.app import user_errors
from nmt.model.device import pick_precision
from scripts.bench.install import FailedError, convert, install
from scripts.bench.peer import Peer
from scripts.bench.peers import PEERS
from scripts.bench.process import run_python
from scripts.bench.table import Row, render
from scripts.bench.task import MEASURED
from scripts.bench.text import prepare_text

TRAINED = {name: peer for name, peer in PEERS.items() if peer.training is not None}
ROOT = Path(__file__).resolve().parents[2]
START_LIMIT = 300.0
"""Seconds until the first step, with a margin for steps that are late at the end."""


def measure(peer: Peer, text: Path, home: Path, name: str, warm: float, seconds: float) -> dict[str, Any]:
    """Train for a while in a process of its own. Raises FailedError."""
    training = peer.training
    assert training is not None
    run, log = home / "runs" / peer.name, home / "logs" / f"{name}.log"
    shutil.rmtree(run, ignore_errors=True)
    run.mkdir(parents=True)
    out = run / "result.json"
    seconds = max(seconds, training.at_least)
    options = {"--out": out, "--warm": warm, "--seconds": seconds, "--started": time.time()}
    words = [str(word) for option in options.items() for word in option]
    program = ["-m", "scripts.bench.probe", peer.name, *words, "--", *training.arguments(text, run, MEASURED)]
    limit = START_LIMIT + warm + seconds
    run_python(peer, home, program, log=log, run=run, variables=training.variables(), seconds=limit)
    if not out.is_file():
        raise FailedError(f"was not measured: {log}")
    result: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    shutil.rmtree(run)
    return result


def bench(peers: list[Peer], options: argparse.Namespace) -> list[Row]:
    """Install, convert and measure, round by round."""
    home = options.dir.expanduser().resolve()
    text = prepare_text(options.data.resolve(), home)
    problems: dict[str, str] = {}
    rounds: dict[str, list[dict[str, Any] | None]] = {peer.name: [] for peer in peers}
    for peer in peers:
        try:
            install(peer, home)
            convert(peer, text, home)
        except FailedError as error:
            problems[peer.name] = str(error)
            say(f"{peer.title}: {error}")
    absent = set(problems)
    began = time.strftime("%Y-%m-%dT%H:%M:%S")
    for number in range(1, options.rounds + 1):
        for peer in peers:
            result = None
            if peer.name not in absent:
                try:
                    result = measure(peer, text, home, f"train-{peer.name}-{number}", options.warm, options.seconds)
                except FailedError as error:
                    problems[peer.name] = str(error)
            rounds[peer.name].append(result)
            record = {"bench": began, "round": number, "peer": peer.name, "problem": problems.get(peer.name, "")}
            with (home / "train.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps({**record, "warm": options.warm, **(result or {})}) + "\n")
            report = f"{result['tgt_per_s']:,.0f} target tokens/s" if result else problems[peer.name]
            say(f"round {number}, {peer.title}: {report}")
    return [Row(peer, rounds[peer.name], problems.get(peer.name, "")) for peer in peers]


def usual() -> list[str]:
    """The toolkits that are measured by default: in bf16 if this CPU is faster with it, and none compiled.

    Without instructions for bf16, an update takes minutes, as the first one does after compilation.
    """
    has_bf16 = pick_precision("auto", torch.device("cpu")) == "bf16"
    return [name for name in TRAINED if "compile" not in name and (has_bf16 or "bf16" not in name)]


def say(line: str) -> None:
    """Report progress."""
    print(f"bench: {line}", file=sys.stderr, flush=True)


def parse() -> argparse.Namespace:
    """The command line."""
    home = os.environ.get("PEERS") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "nmt-peers"
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--peers", default=",".join(usual()), help=f"of {','.join(TRAINED)}; default: {','.join(usual())}"
    )
    parser.add_argument("--rounds", type=int, default=2, help="0: only install and prepare")
    parser.add_argument("--seconds", type=float, default=60.0, help="measured for each toolkit in a round")
    parser.add_argument("--warm", type=float, default=15.0, help="seconds after the first step that do not count")
    parser.add_argument("--data", type=Path, default=ROOT / "data" / "multi30k", help="folder of Multi30k")
    parser.add_argument("--dir", type=Path, default=Path(home), help=f"of what is installed and kept; default: {home}")
    options = parser.parse_args()
    unknown = [name for name in options.peers.split(",") if name not in TRAINED]
    if unknown:
        parser.error(f"--peers: no {', '.join(unknown)}; there are {', '.join(TRAINED)}")
    return options


def main() -> int:
    """Measure and print."""
    options = parse()
    with user_errors():
        rows = bench([TRAINED[name] for name in options.peers.split(",")], options)
        if options.rounds:
            print(render(rows))
    return int(any(row.problem for row in rows))


if __name__ == "__main__":
    sys.exit(main())
