"""OpenNMT-py."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from scripts.bench import task
from scripts.bench.peer import Counts, Decoding, Loaded, Output, Peer, Search, Training, spelled
from scripts.bench.peers.opennmt import corpora, count_batches


def count(trainer: Any, batches: Any, *_: Any, **__: Any) -> Counts:
    """All batches of a step."""
    return count_batches(batches, trainer.train_loss.padding_idx)


def arguments(text: Path, run: Path, plan: task.Plan) -> list[str]:
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
        "learning_rate": plan.factor,
        "warmup_steps": plan.warmup,
        "max_grad_norm": 0,
        "param_init": 0,
        "param_init_glorot": True,
        "normalization": "tokens",
        "batch_type": "tokens",
        "batch_size": plan.batch_tokens,
        "batch_size_multiple": 1,
        "bucket_size": 32768,
        "num_workers": 0,
        "model_dtype": "fp32",
        "seed": task.SEED,
        "train_steps": plan.steps,
        "valid_steps": task.NEVER,
        "valid_batch_size": plan.batch_tokens,
        "save_checkpoint_steps": plan.steps,
        "report_every": task.LOG_EVERY,
    }
    (run / "config.yaml").write_text(json.dumps(config), encoding="utf-8")  # JSON is YAML
    return ["-config", str(run / "config.yaml")]


def load(run: Path, text: Path, search: Search) -> Loaded:
    """Do what `onmt_translate` does, without files. It sorts the lines by length."""
    engine: Any = import_module("onmt.inference_engine")
    options: Any = import_module("onmt.opts")
    parse: Any = import_module("onmt.utils.parse")
    parser = parse.ArgumentParser()
    options.translate_opts(parser)
    settings = parser.parse_args([
        "-model", str(run / f"model_step_{run.name.rpartition('-')[2]}.pt"),
        "-src", str(text / f"pieces.test.{task.SRC}"),
        "-beam_size", str(search.beam), "-batch_size", str(search.batch), "-batch_type", "sents",
        "-min_length", str(search.pieces), "-max_length", str(search.longest), "-max_length_ratio", "0",
    ])  # fmt: skip
    parse.ArgumentParser.validate_translate_opts(settings)
    parse.ArgumentParser._get_all_transform_translate(settings)
    parse.ArgumentParser._validate_transforms_opts(settings)
    parse.ArgumentParser.validate_translate_opts_dynamic(settings)
    translator = engine.InferenceEnginePY(settings)

    def translate(lines: Sequence[str]) -> list[Output]:
        _, found = translator.infer_list(list(lines))
        return [spelled(best.split()) for best, *_ in found]

    return Loaded(translate)


PEER = Peer(
    name="onmt",
    title="OpenNMT-py 3.5.1",
    training=Training(
        entry="onmt.bin.train:main",
        step="onmt.trainer:Trainer._gradient_accumulation",
        count=count,
        arguments=arguments,
    ),
    decoding=Decoding(load, model="onmt"),
    environment="onmt",
    requirements=(
        "configargparse", "ctranslate2>=4,<5", "tensorboard>=2.3", "flask", "waitress", "pyonmttok>=1.37,<2", "pyyaml",
        "sacrebleu", "rapidfuzz", "pyahocorasick", "six", "sentencepiece", "numpy", "fasttext-wheel", "spacy",
    ),
    alone=("OpenNMT-py==3.5.1",),  # asks for torch < 2.3
)  # fmt: skip
