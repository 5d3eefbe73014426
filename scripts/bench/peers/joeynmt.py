"""JoeyNMT."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from scripts.bench import task
from scripts.bench.peer import Counts, Decoding, Loaded, Output, Peer, Search, Training

END = "</s>"


def count(_: Any, batch: Any) -> Counts:
    """Its batch knows its target tokens."""
    n_src = int(batch.src_length.sum())
    return Counts(int(batch.nseqs), int(batch.ntokens), batch.trg.numel(), n_src, batch.src.numel())


def side(language: str, text: Path) -> dict[str, object]:
    """Configuration of one language: lines, which it segments itself."""
    return {
        "lang": language,
        "max_length": task.MAX_PIECES,
        "level": "bpe",
        "voc_file": str(text / "vocabulary.txt"),
        "tokenizer_type": "sentencepiece",
        "tokenizer_cfg": {"model_file": str(text / "bpe.model")},
    }


def arguments(text: Path, run: Path, plan: task.Plan) -> list[str]:
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
            "learning_rate_factor": plan.factor,
            "learning_rate_warmup": plan.warmup,
            "scheduling": "noam",
            "loss": "crossentropy",
            "label_smoothing": task.SMOOTHING,
            "batch_size": plan.batch_tokens,
            "batch_type": "token",
            "normalization": "tokens",
            "epochs": task.NEVER,
            "updates": plan.steps,
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


def load(run: Path, _: Path, search: Search) -> Loaded:
    """Do what `joeynmt translate` does, without files and reordering."""
    prediction: Any = import_module("joeynmt.prediction")
    if search.pieces:  # it reads the setting min_output_length and does not hand it on
        prediction.search = partial(prediction.search, min_output_length=search.pieces)
    config = json.loads((run / "config.yaml").read_text(encoding="utf-8"))
    config["testing"] = {
        "load_model": str(run / "model" / "latest.ckpt"),
        "beam_size": search.beam,
        "beam_alpha": 1.0,
        "batch_size": search.batch,
        "batch_type": "sentence",
        "max_output_length": search.longest,
    }
    known = import_module("joeynmt.config").parse_global_args(config, rank=0, mode="translate")
    model, _, _, stream = prediction.prepare(known, rank=0, mode="translate")

    def translate(lines: Sequence[str]) -> list[Output]:
        order = sorted(range(len(lines)), key=lambda i: -len(lines[i]))
        stream.reset_cache()
        for i in order:
            stream.set_item(lines[i])
        *_, texts, pieces, _, _ = prediction.predict(
            model=model, data=stream, device=known.device, n_gpu=0, normalization="none", args=known.test,
            autocast=known.autocast,
        )  # fmt: skip
        found = {}
        for i, text, words in zip(order, texts, pieces, strict=True):
            found[i] = Output(text, sum(word != END for word in words))
        return [found[i] for i in range(len(lines))]

    return Loaded(translate)


PEER = Peer(
    name="joeynmt",
    title="JoeyNMT 2.3.0",
    training=Training(
        entry="joeynmt.__main__:main",
        step="joeynmt.training:TrainManager._train_step",
        count=count,
        arguments=arguments,
    ),
    decoding=Decoding(
        load,
        model="joeynmt",
        source="raw.test",
        pieces="",
        remark="its own command does not hand the minimum length on; here it is",
    ),
    environment="joeynmt",
    # importlib_metadata is missing among its dependencies; newer sentencepieces have no SetVocabulary
    requirements=("joeynmt==2.3.0", "importlib_metadata", "sentencepiece==0.2.0"),
)
