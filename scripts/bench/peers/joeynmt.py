"""JoeyNMT."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench import task
from bench.peer import Counts, Peer, Training


def count(_: Any, batch: Any) -> Counts:
    """Its batch knows its target tokens."""
    n_src = int(batch.src_length.sum())
    return Counts(int(batch.nseqs), int(batch.ntokens), batch.trg.numel(), n_src, batch.src.numel())


def side(language: str, text: Path) -> dict[str, object]:
    """How it reads one language: lines, which it cuts into pieces itself."""
    return {
        "lang": language,
        "max_length": task.MAX_PIECES,
        "level": "bpe",
        "voc_file": str(text / "vocabulary.txt"),
        "tokenizer_type": "sentencepiece",
        "tokenizer_cfg": {"model_file": str(text / "bpe.model")},
    }


def arguments(text: Path, run: Path) -> list[str]:
    """`joeynmt train`."""
    stack = {
        "type": "transformer",
        "num_layers": task.LAYERS,
        "num_heads": task.HEADS,
        "embeddings": {"embedding_dim": task.WIDTH, "scale": True, "dropout": task.DROPOUT},
        "hidden_size": task.WIDTH,
        "ff_size": task.FFN,
        "dropout": task.DROPOUT,
        "layer_norm": "pre",
        "activation": "relu",
    }
    config = {
        "name": "bench",
        "joeynmt_version": "2.3.0",
        "model_dir": str(run / "model"),
        "use_cuda": False,
        "fp16": False,
        "random_seed": task.SEED,
        "data": {
            "train": str(text / "raw.train"),
            "dev": str(text / "raw.val"),
            "dataset_type": "plain",
            "src": side(task.SRC, text),
            "trg": side(task.TGT, text),
        },
        "testing": {"beam_size": 5, "batch_size": 64, "batch_type": "sentence", "eval_metrics": ["bleu"]},
        "training": {
            "optimizer": "adam",
            "adam_betas": [task.BETA1, task.BETA2],
            "learning_rate": 0.001,
            "learning_rate_factor": 1,
            "learning_rate_warmup": task.WARMUP,
            "scheduling": "noam",
            "loss": "crossentropy",
            "label_smoothing": task.SMOOTHING,
            "batch_size": task.BATCH_TOKENS,
            "batch_type": "token",
            "normalization": "tokens",
            "epochs": task.NEVER,
            "updates": task.NEVER,
            "validation_freq": task.NEVER,
            "logging_freq": task.LOG_EVERY,
            "early_stopping_metric": "bleu",
            "overwrite": True,
            "keep_best_ckpts": 3,
        },
        "model": {
            "initializer": "xavier_uniform",
            "embed_initializer": "normal",
            "embed_init_weight": task.WIDTH**-0.5,
            "tied_embeddings": True,
            "tied_softmax": True,
            "encoder": stack,
            "decoder": stack,
        },
    }
    (run / "config.yaml").write_text(json.dumps(config), encoding="utf-8")  # JSON is YAML
    return ["train", str(run / "config.yaml"), "-t"]  # -t: no translation of a test set at the end


PEER = Peer(
    name="joeynmt",
    title="JoeyNMT 2.3.0",
    training=Training(
        entry="joeynmt.__main__:main",
        step="joeynmt.training:TrainManager._train_step",
        count=count,
        arguments=arguments,
    ),
    environment="joeynmt",
    # importlib_metadata is missing among its dependencies; newer sentencepieces have no SetVocabulary
    requirements=("joeynmt==2.3.0", "importlib_metadata", "sentencepiece==0.2.0"),
)
