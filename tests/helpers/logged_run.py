"""A run directory with a log and hollow checkpoints: what listing and drawing look at."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from nmt.layout import RunDir
from places import GOLDEN as GOLDEN_DIR

GOLDEN = RunDir(GOLDEN_DIR / "run")  # its training.max_steps is 400


def train(step: int, loss: float = 3.0) -> dict[str, Any]:
    """Return a training record, at 100 steps per minute."""
    record = {"kind": "train", "step": step, "epoch": 0, "minutes": step / 100, "loss": loss + 0.5}
    return record | {"perplexity": math.exp(loss), "accuracy": 0.3, "lr": step / 1e6, "gradient_norm": 1.0}


def valid(step: int, bleu: float, kind: str = "valid", **changes: Any) -> dict[str, Any]:
    """Return a validation record."""
    record = {"kind": kind, "step": step, "epoch": 0, "minutes": step / 100, "loss": 2.5, "perplexity": math.exp(2.5)}
    return record | {"accuracy": 0.4, "bleu": bleu, "chrf": 2 * bleu} | changes


def make_run(
    path: Path, records: Iterable[dict[str, Any]] = (), steps: Sequence[int] = (), finished: int | None = None
) -> RunDir:
    """A run with these records in its log and checkpoints at `steps`, which came to its end at step `finished`."""
    run = RunDir(path)
    path.mkdir(parents=True)
    for folder in (run.checkpoints, run.tokenizer.path):
        folder.mkdir()
    for source in (GOLDEN.config, GOLDEN.info):
        shutil.copy(source, path)
    run.log.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    for step in steps:
        checkpoint = run.step(step)
        checkpoint.path.mkdir(parents=True)
        checkpoint.weights.touch()
        checkpoint.state.touch()
    if finished is not None:
        run.selected.write_text(json.dumps({"best_step": finished, "weights": "raw", "finished_step": finished}))
    return run
