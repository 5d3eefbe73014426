"""A translation model for each toolkit, trained by the toolkit itself for the same number of updates, and kept."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from scripts.bench.install import FailedError, bin_of, convert, install, logged
from scripts.bench.once import once
from scripts.bench.peer import Decoding, Peer
from scripts.bench.peers import PEERS
from scripts.bench.process import run_python
from scripts.bench.task import Plan


def brief(steps: int) -> Plan:
    """A training of minutes, after which translations have sensible lengths."""
    return Plan(steps=steps, batch_tokens=512, warmup=max(1, steps // 3), factor=0.3)


def train(peer: Peer, text: Path, home: Path, plan: Plan) -> Path:
    """The folder of its run, made on first use. Raises FailedError."""
    training = peer.training
    if training is None:
        raise FailedError(f"{peer.title} does not train")
    run, log = text / "models" / f"{peer.name}-{plan.steps}", home / "logs" / f"learn-{peer.name}.log"

    def learn() -> None:
        began = time.time()
        print(f"bench: {peer.title} learns for {plan.steps:,} updates, once", file=sys.stderr, flush=True)
        words = ["-m", "scripts.bench.learn", peer.name, *training.arguments(text, run, plan)]
        if run_python(peer, home, words, log=log, run=run, variables=training.variables()):
            raise FailedError(f"its training failed: {log}")
        print(f"bench: {peer.title} took {(time.time() - began) / 60:.1f} minutes", file=sys.stderr, flush=True)

    install(peer, home)
    convert(peer, text, home)
    once(run, "\n".join((*map(str, plan), *peer.requirements, *peer.alone)), learn)
    return run


def model_of(decoding: Decoding, text: Path, home: Path, plan: Plan) -> Path:
    """Return the folder of the model to translate with, made on first use. Raises FailedError."""
    trainer = PEERS[decoding.model]
    run = train(trainer, text, home, plan)
    export = decoding.export
    if export is None:
        return run
    folder, log = run / decoding.exported, home / "logs" / f"export-{decoding.exported}.log"

    def write() -> None:
        log.unlink(missing_ok=True)
        logged([str(bin_of(trainer, home) / "python"), "-m", "nmt", *export(run, folder / "model")], log)

    once(folder, decoding.exported, write)
    return folder / "model"
