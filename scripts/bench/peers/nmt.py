"""nmt itself: `nmt train`, in one arm or several."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import task
from bench.peer import Counts, Peer, Training


def count(pairs: Any, rows: Any) -> Counts:
    """`rows` (B,) of the corpus, of which a batch is made; its lengths have the end of sentence in them."""
    src, tgt = pairs.lengths.src[rows], pairs.lengths.tgt[rows]
    n = len(rows)
    return Counts(n, int(tgt.sum()), n * int(tgt.max()), int(src.sum()), n * int(src.max()))


def convert(text: Path, folder: Path) -> list[str]:
    """`nmt prepare`: as many rows of vocabulary as the others, 256 bytes among them, so its pieces are its own."""
    config = folder / "config.yaml"
    config.write_text(json.dumps(settings(text)), encoding="utf-8")  # JSON is YAML
    return ["python", "-m", "nmt", "prepare", "--config", str(config), "--data", str(folder / "data")]


def settings(text: Path) -> dict[str, object]:
    """Its configuration file."""
    files = {
        split: {"files": {language: f"raw.{split}.{language}" for language in (task.SRC, task.TGT)}}
        for split in ("train", "val")
    }
    return {
        "data": {
            "direction": f"{task.SRC}-{task.TGT}",
            "root": str(text),
            "train": [files["train"]],
            "valid": files["val"],
            "max_pieces": task.MAX_PIECES,
        },
        "tokenizer": {"vocab_size": task.VOCABULARY},
        "model": {
            "d_model": task.WIDTH,
            "n_heads": task.HEADS,
            "d_ff": task.FFN,
            "encoder_layers": task.LAYERS,
            "decoder_layers": task.LAYERS,
            "norm": "pre",
            "tie_embeddings": "all",
            "embedding_dropout": task.DROPOUT,
            "residual_dropout": task.DROPOUT,
            "attention_dropout": task.DROPOUT,
            "activation_dropout": task.DROPOUT,
        },
        "training": {
            "seed": task.SEED,
            "device": "cpu",
            "update_tokens": task.BATCH_TOKENS,
            "label_smoothing": task.SMOOTHING,
            "optimizer": "adam",
            "beta1": task.BETA1,
            "beta2": task.BETA2,
            "schedule": "noam",
            "warmup_steps": task.WARMUP,
            "clip_norm": 0.0,
            "log_every_steps": task.LOG_EVERY,
            "max_steps": task.NEVER,
            "validate_every_steps": task.NEVER,
            "save_every_steps": task.NEVER,
        },
    }


def variables() -> dict[str, str]:
    """What `nmt` sets unless it is set."""
    from nmt.process import ENVIRONMENT

    return {name: os.environ.get(name, value) for name, value in ENVIRONMENT.items()}


def arm(name: str, overrides: Sequence[str]) -> Peer:
    """`nmt train` with settings of its own."""

    def arguments(text: Path, run: Path) -> list[str]:
        config = run / "bench.yaml"
        config.write_text(json.dumps(settings(text)), encoding="utf-8")
        places = ["--config", str(config), "--data", str(text / "nmt" / "data"), "--run", str(run / "run")]
        return ["train", *places, *(f"--set={override}" for override in overrides)]

    return Peer(
        name=f"nmt-{name}",
        title=f"nmt {name}",
        training=Training(
            variables=variables,
            entry="nmt.cli:main",
            step="nmt.data.batching:Pairs.batch",
            count=count,
            arguments=arguments,
        ),
        convert=convert,
        converted="nmt",
    )


# To measure another setting: a name and what --set changes.
ARMS = (arm("float32", ["training.precision=float32"]), arm("auto", ["training.precision=auto"]))
