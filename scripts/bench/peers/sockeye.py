"""Sockeye."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench import task
from bench.peer import Counts, Peer, Training

PADDING = 0


def count(_: Any, batch: Any) -> Counts:
    """Its sources are (B, S, 1): the last axis has a factor for each kind of annotation."""
    labels, src = batch.labels["target_label"], batch.source[:, :, 0]
    n_tgt, n_src = int((labels != PADDING).sum()), int((src != PADDING).sum())
    return Counts(int(batch.samples), n_tgt, labels.numel(), n_src, src.numel())


def convert(text: Path, folder: Path) -> list[str]:
    """Its shards; its vocabulary is a JSON object."""
    pieces = (text / "vocabulary.txt").read_text(encoding="utf-8").split("\n")[:-1]
    ids = {piece: i for i, piece in enumerate(["<pad>", "<unk>", "<s>", "</s>", *pieces])}
    vocabulary = folder / "vocabulary.json"
    vocabulary.write_text(json.dumps(ids, ensure_ascii=False), encoding="utf-8")
    return [
        "sockeye-prepare-data", "-s", str(text / f"pieces.train.{task.SRC}"), "-t",
        str(text / f"pieces.train.{task.TGT}"), "--source-vocab", str(vocabulary), "--target-vocab", str(vocabulary),
        "--shared-vocab", "--max-seq-len", str(task.MAX_PIECES), "-o", str(folder / "shards"),
    ]  # fmt: skip


def arguments(text: Path, run: Path) -> list[str]:
    """`sockeye-train`."""
    options: dict[str, object] = {
        "prepared-data": text / "sockeye" / "shards",
        "validation-source": text / f"pieces.val.{task.SRC}",
        "validation-target": text / f"pieces.val.{task.TGT}",
        "output": run / "model",
        "dtype": "float32",
        "seed": task.SEED,
        "encoder": "transformer",
        "decoder": "transformer",
        "num-layers": f"{task.LAYERS}:{task.LAYERS}",
        "transformer-model-size": task.WIDTH,
        "transformer-attention-heads": task.HEADS,
        "transformer-feed-forward-num-hidden": task.FFN,
        "transformer-preprocess": "n",
        "transformer-postprocess": "dr",
        "transformer-positional-embedding-type": "fixed",
        "transformer-dropout-attention": task.DROPOUT,
        "transformer-dropout-act": task.DROPOUT,
        "transformer-dropout-prepost": task.DROPOUT,
        "embed-dropout": task.DROPOUT,
        "weight-tying-type": "src_trg_softmax",
        "label-smoothing": task.SMOOTHING,
        "batch-type": "word",
        "batch-size": task.BATCH_TOKENS,
        "update-interval": 1,
        "optimizer": "adam",
        "optimizer-betas": f"{task.BETA1}:{task.BETA2}",
        "initial-learning-rate": f"{task.WIDTH**-0.5:.5f}",
        "learning-rate-scheduler-type": "inv-sqrt-decay",
        "learning-rate-warmup": task.WARMUP,
        "gradient-clipping-type": "none",
        "checkpoint-interval": task.NEVER,
        "max-updates": task.NEVER,
        "decode-and-evaluate": 0,
    }
    pairs = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    return [*pairs, "--use-cpu", "--shared-vocab"]


PEER = Peer(
    name="sockeye",
    title="Sockeye 3.1.34",
    training=Training(
        entry="sockeye.train:main",
        step="sockeye.training:EarlyStoppingTrainer._step",
        count=count,
        arguments=arguments,
    ),
    environment="sockeye",
    requirements=("pyyaml>=5.1", "numpy<2", "sacrebleu>=2.3"),
    alone=("sockeye==3.1.34",),  # asks for torch < 1.14
    convert=convert,
    converted="sockeye",
)
