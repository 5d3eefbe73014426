"""Marian, a C++ program, as the Python package pymarian has it. It reports its updates in its log."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from scripts.bench import task
from scripts.bench.peer import NOTHING, Counts, Peer, Training

UPDATE = re.compile(r"Up\. [\d,]+ : Sen\. ([\d,]+) : .* after ([\d,]+) :")
"""A line of the log: pairs of the epoch so far, and target labels since the beginning."""


def arguments(text: Path, run: Path, plan: task.Plan) -> list[str]:
    """`marian train`, with the settings of the others."""
    pieces = (text / "vocabulary.txt").read_text(encoding="utf-8").split("\n")[:-1]
    rows = [f"{json.dumps(piece, ensure_ascii=False)}: {i}" for i, piece in enumerate(["</s>", "<unk>", *pieces])]
    vocabulary = run / "vocabulary.yml"
    vocabulary.write_text("\n".join(rows) + "\n", encoding="utf-8")
    sides = [str(text / f"pieces.train.{language}") for language in (task.SRC, task.TGT)]
    options = {
        "type": "transformer",
        "train-sets": sides,
        "vocabs": [vocabulary, vocabulary],
        "dim-vocabs": [len(rows), len(rows)],
        "tied-embeddings-all": [],
        "dim-emb": task.WIDTH,
        "transformer-dim-ffn": task.FFN,
        "transformer-heads": task.HEADS,
        "enc-depth": task.LAYERS,
        "dec-depth": task.LAYERS,
        "transformer-dropout": task.DROPOUT,
        "transformer-dropout-attention": task.DROPOUT,
        "transformer-dropout-ffn": task.DROPOUT,
        "label-smoothing": task.SMOOTHING,
        "mini-batch-words": plan.batch_tokens,
        "sync-sgd": [],
        "max-length": task.MAX_PIECES,
        "optimizer-params": [task.BETA1, task.BETA2, 1e-9],
        "learn-rate": plan.peak_lr,
        "lr-warmup": plan.warmup,
        "lr-decay-inv-sqrt": plan.warmup,
        "cpu-threads": task.THREADS,
        "seed": task.SEED,
        "disp-freq": "1u",
        "save-freq": f"{task.NEVER}u",
        "after": f"{plan.steps}u",
        "model": run / "model.npz",
    }
    words: list[str] = []
    for name, value in options.items():
        words += [f"--{name}", *map(str, value if isinstance(value, list) else [value])]
    return words


def train() -> None:
    """Run it in a child process, whose log this one reads; sys.argv has its arguments."""
    program = Path(sys.executable).with_name("pymarian")
    # a thread for each of its workers
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    command = [str(program), "train", *sys.argv[1:]]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, bufsize=1) as child:
        assert child.stderr is not None
        pairs, labels = 0, 0
        for line in child.stderr:
            print(line, end="", file=sys.stderr)
            if match := UPDATE.search(line):
                seen, after = (int(number.replace(",", "")) for number in match.groups())
                learned(Counts(seen - pairs if seen > pairs else seen, after - labels, *NOTHING[2:]), child)
                pairs, labels = seen, after


def learned(update: Counts, child: subprocess.Popen[str]) -> None:
    """The program has made an update; what the probe watches."""


def count(update: Counts, _: Any) -> Counts:
    """As the log has it, which says nothing of padding and source tokens."""
    return update


PEER = Peer(
    name="marian",
    title="Marian 1.12.42",
    training=Training(
        entry="scripts.bench.peers.marian:train",
        step="scripts.bench.peers.marian:learned",
        count=count,
        arguments=arguments,
        is_program=True,
    ),
    environment="marian",
    requirements=("pymarian==1.12.42",),
    torch=False,
)
