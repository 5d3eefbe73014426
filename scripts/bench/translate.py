"""Measure the translation of nmt and of other toolkits: the same text and machine, and a
model of the same shape.

    python -m scripts.bench.translate [--peers NAME,NAME] [--parts force,free] [--rounds N] [--seconds S]
                                      [--steps N] [--data FOLDER] [--dir DIR]

Each toolkit is installed into an environment of its own on first use, and trains a model briefly (--steps updates of
about 512 target tokens, all together a quarter of an hour); CTranslate2 gets nmt's. Then they translate Multi30k's
test_2016_flickr, one process at a time with two threads:

    force  every translation is made exactly 15 pieces long, so that the work is the same whatever a model has learned:
           beam 5 and greedy, the text in batches of 64 sentences and its first 50 lines one by one; in turn, and again
           in the next round. Compare toolkits by this.
    free   the search decides on the length: beam 5 and greedy, batches of 64 sentences. BLEU shows whether the models
           translate; they are weak and of different lengths, so compare speeds only between arms of one model.

The pieces of the output are counted, without the end of sentence. Start-up, loading and a warm-up are not in the
rates; start-up is from the start of the process to the translation of the first line. The medians are over windows of
at least five seconds in which no other process was busy: leave the machine alone. A toolkit that cannot be installed
or run, or makes translations of another length than it was told, is in the table as failed, with its log; the exit
status is then 1. Every result is appended to translate.jsonl in DIR. Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from nmt.cli.app import user_errors
from nmt.evaluate.metrics import corpus_score
from scripts.bench.install import FailedError, install
from scripts.bench.model import brief, model_of
from scripts.bench.peer import Decoding, Peer, Search
from scripts.bench.peers import PEERS
from scripts.bench.process import run_python
from scripts.bench.task import TGT
from scripts.bench.testset import find_test, plain, prepare_own, prepare_test
from scripts.bench.text import prepare_text
from scripts.bench.translate_table import FORCED, FREE, Row, render
from scripts.bench.windows import WINDOW

ROOT = Path(__file__).resolve().parents[2]
DECODERS = {name: peer for name, peer in PEERS.items() if peer.decoding is not None}
PARTS = {"force": tuple(FORCED.values()), "free": FREE}
FEW = 50
"""Lines that are translated one by one."""
LIMIT = 900.0
"""Seconds for a process beside those that are asked for."""


class Bench:
    """One run of the benchmark."""

    def __init__(self, options: argparse.Namespace) -> None:
        """Prepares the text. Raises DataError without Multi30k."""
        data = options.data.resolve()
        find_test(data)
        self.options = options
        self.home = options.dir.expanduser().resolve()
        self.text = prepare_text(data, self.home)
        self.reference = prepare_test(data, self.text)
        self.rows = [Row(DECODERS[name]) for name in options.peers.split(",")]
        self.signature = ""
        self._models: dict[str, Path] = {}
        self._began = time.strftime("%Y-%m-%dT%H:%M:%S")

    def prepare(self) -> None:
        """Install, train and export, where that was not done before."""
        plan = brief(self.options.steps)
        for row in self.rows:
            try:
                install(row.peer, self.home)
                self._models[row.peer.name] = model_of(_decoding(row.peer), self.text, self.home, plan)
            except FailedError as error:
                row.problem = str(error)
                say(f"{row.peer.title}: {error}")
        if (self.text / "nmt" / "data").is_dir():
            prepare_own(self.text)

    def measure(self) -> None:
        """Measure the requested parts: equal work in rounds, free lengths once."""
        for part in self.options.parts.split(","):
            for number in range(1, (self.options.rounds if part == "force" else 1) + 1):
                for search in PARTS[part]:
                    for row in self.rows:
                        if not search.pieces or _decoding(row.peer).forces:
                            self._measure(row, search, number)

    def _measure(self, row: Row, search: Search, number: int) -> None:
        """Measure one search with one toolkit; the result goes into its row and into the file."""
        result = None
        if row.peer.name in self._models:
            try:
                result = self._run(row.peer, search, number)
            except FailedError as error:
                row.problem = str(error)
        translations = result.pop("translations") if result else []
        if result and not search.pieces and len(translations) == len(self.reference):
            score = corpus_score("bleu", plain(_decoding(row.peer), self.text, translations), self.reference, TGT)
            row.bleu[search], self.signature = score.value, score.signature
        row.rounds.setdefault(search, []).append(result)
        record = {
            "bench": self._began, "round": number, "peer": row.peer.name, "problem": row.problem,
            "steps": self.options.steps, "beam": search.beam, "batch": search.batch, "pieces": search.pieces,
            "bleu": row.bleu.get(search), **(result or {}),
        }  # fmt: skip
        with (self.home / "translate.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        report = (
            f"{result['tgt_per_s']:,.0f} pieces/s, {result['pairs_per_s']:,.1f} sentences/s" if result else row.problem
        )
        length = f"{search.pieces} pieces" if search.pieces else "free"
        say(f"round {number}, beam {search.beam}, batch {search.batch}, {length}, {row.peer.title}: {report}")

    def _run(self, peer: Peer, search: Search, number: int) -> dict[str, Any]:
        """Translate in a process of its own. Raises FailedError."""
        name = f"{peer.name}-{search.beam}-{search.batch}-{search.pieces}"
        run, log = self.home / "runs" / peer.name, self.home / "logs" / f"translate-{name}-{number}.log"
        run.mkdir(parents=True, exist_ok=True)
        out = run / "result.json"
        out.unlink(missing_ok=True)
        seconds = self.options.seconds if search.pieces else WINDOW
        options = {
            "model": self._models[peer.name], "text": self.text, "out": out,
            "beam": search.beam, "batch": search.batch, "pieces": search.pieces,
            "lines": FEW if search.batch == 1 else len(self.reference),
            "seconds": seconds, "started": time.time(),
        }  # fmt: skip
        words = [word for option, value in options.items() for word in (f"--{option}", value)]
        run_python(
            peer, self.home, ["-m", "scripts.bench.rate", peer.name, *words],
            log=log, run=run, variables={}, seconds=LIMIT + seconds,
        )  # fmt: skip
        if not out.is_file():
            raise FailedError(f"was not measured: {log}")
        result: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
        least, most = result["pieces_least"], result["pieces_most"]
        if search.pieces and not least == most == search.pieces:
            raise FailedError(f"made translations of {least} to {most} pieces, not {search.pieces}: {log}")
        return result


def _decoding(peer: Peer) -> Decoding:
    assert peer.decoding is not None
    return peer.decoding


def say(line: str) -> None:
    """Report progress."""
    print(f"bench: {line}", file=sys.stderr, flush=True)


def parse() -> argparse.Namespace:
    """The command line."""
    home = os.environ.get("PEERS") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "nmt-peers"
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n\n")[0],
        epilog=(__doc__ or "").partition("[--dir DIR]\n\n")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--peers", default=",".join(DECODERS), help=f"of {','.join(DECODERS)}; default: all")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"of {','.join(PARTS)}; default: all")
    parser.add_argument("--rounds", type=int, default=2, help="of force; 0: only install, train and export")
    parser.add_argument("--seconds", type=float, default=10.0, help="measured for each toolkit in a round of force")
    parser.add_argument("--steps", type=int, default=600, help="updates of the models")
    parser.add_argument("--data", type=Path, default=ROOT / "data" / "multi30k", help="folder of Multi30k")
    parser.add_argument("--dir", type=Path, default=Path(home), help=f"of what is installed and kept; default: {home}")
    options = parser.parse_args()
    for option, known in (("peers", DECODERS), ("parts", PARTS)):
        unknown = [name for name in getattr(options, option).split(",") if name not in known]
        if unknown:
            parser.error(f"--{option}: no {', '.join(unknown)}; there are {', '.join(known)}")
    if options.seconds < WINDOW:
        parser.error(f"--seconds: a window has {WINDOW:g}")
    return options


def main() -> int:
    """Measure and print."""
    options = parse()
    with user_errors():
        bench = Bench(options)
        bench.prepare()
        if options.rounds:
            bench.measure()
            print(render(bench.rows, bench.signature))
    return int(any(row.problem for row in bench.rows))


if __name__ == "__main__":
    sys.exit(main())
