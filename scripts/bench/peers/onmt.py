"""OpenNMT-py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench import task
from bench.peer import Counts, Peer, Training
from bench.peers.opennmt import corpora, count_batches


def count(trainer: Any, batches: Any, *_: Any, **__: Any) -> Counts:
    """All batches of a step."""
    return count_batches(batches, trainer.train_loss.padding_idx)


def arguments(text: Path, run: Path) -> list[str]:
    """`onmt_train`."""
    config = {
        "save_data": str(run / "data"),
        "save_model": str(run / "model"),
        "overwrite": True,
        "src_vocab": str(text / "vocabulary.tsv"),
        "tgt_vocab": str(text / "vocabulary.tsv"),
        "share_vocab": True,
        "src_vocab_size": task.VOCABULARY,
        "tgt_vocab_size": task.VOCABULARY,
        "data": corpora(text),
        "encoder_type": "transformer",
        "decoder_type": "transformer",
        "position_encoding": True,
        "enc_layers": task.LAYERS,
        "dec_layers": task.LAYERS,
        "heads": task.HEADS,
        "hidden_size": task.WIDTH,
        "word_vec_size": task.WIDTH,
        "transformer_ff": task.FFN,
        "dropout_steps": [0],
        "dropout": [task.DROPOUT],
        "attention_dropout": [task.DROPOUT],
        "share_embeddings": True,
        "share_decoder_embeddings": True,
        "label_smoothing": task.SMOOTHING,
        "optim": "adam",
        "adam_beta1": task.BETA1,
        "adam_beta2": task.BETA2,
        "decay_method": "noam",
        "learning_rate": 1,
        "warmup_steps": task.WARMUP,
        "max_grad_norm": 0,
        "param_init": 0,
        "param_init_glorot": True,
        "normalization": "tokens",
        "batch_type": "tokens",
        "batch_size": task.BATCH_TOKENS,
        "batch_size_multiple": 1,
        "bucket_size": 32768,
        "num_workers": 0,
        "model_dtype": "fp32",
        "seed": task.SEED,
        "train_steps": task.NEVER,
        "valid_steps": task.NEVER,
        "valid_batch_size": task.BATCH_TOKENS,
        "save_checkpoint_steps": task.NEVER,
        "report_every": task.LOG_EVERY,
    }
    (run / "config.yaml").write_text(json.dumps(config), encoding="utf-8")  # JSON is YAML
    return ["-config", str(run / "config.yaml")]


PEER = Peer(
    name="onmt",
    title="OpenNMT-py 3.5.1",
    training=Training(
        entry="onmt.bin.train:main",
        step="onmt.trainer:Trainer._gradient_accumulation",
        count=count,
        arguments=arguments,
    ),
    environment="onmt",
    requirements=(
        "configargparse", "ctranslate2>=4,<5", "tensorboard>=2.3", "flask", "waitress", "pyonmttok>=1.37,<2", "pyyaml",
        "sacrebleu", "rapidfuzz", "pyahocorasick", "six", "sentencepiece", "numpy", "fasttext-wheel", "spacy",
    ),
    alone=("OpenNMT-py==3.5.1",),  # asks for torch < 2.3
)  # fmt: skip
