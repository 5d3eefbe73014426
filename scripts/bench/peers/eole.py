"""Eole."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from scripts.bench import task
from scripts.bench.peer import NOTHING, Counts, Decoding, Loaded, Output, Peer, Search, Training, spelled

TITLE = "Eole 0.6.4"
REQUIREMENTS = ("eole==0.6.4", "aiohttp")  # its command line imports aiohttp and does not ask for it


def count(trainer: Any, batches: Any, *_: Any, **__: Any) -> Counts:
    """All batches of a step. Their targets begin with a start of sentence, which is no label."""
    padding = trainer.batch_processor.train_loss.padding_idx
    total = NOTHING
    for batch in batches:
        tgt, src = batch["tgt"], batch["src"]
        n = tgt.size(0)
        real = int((tgt != padding).sum()) - n
        total = total.plus(Counts(n, real, tgt.numel() - n, int(batch["srclen"].sum()), src.numel()))
    return total


def corpora(text: Path) -> dict[str, object]:
    """Training and development set, in pieces already."""
    return {
        name: {
            "path_src": str(text / f"pieces.{split}.{task.SRC}"),
            "path_tgt": str(text / f"pieces.{split}.{task.TGT}"),
            "transforms": [],
        }
        for name, split in (("corpus_1", "train"), ("valid", "val"))
    }


def arguments(kind: str, text: Path, run: Path, plan: task.Plan) -> list[str]:
    """`eole train` in a number format, with automatic mixed precision for bf16 as by default."""
    config = {
        "save_data": str(run / "data"),
        "overwrite": True,
        "seed": task.SEED,
        "report_every": task.LOG_EVERY,
        "src_vocab": str(text / "vocabulary.tsv"),
        "tgt_vocab": str(text / "vocabulary.tsv"),
        "src_vocab_size": task.VOCABULARY,
        "tgt_vocab_size": task.VOCABULARY,
        "share_vocab": True,
        "n_sample": 0,
        "data": corpora(text),
        "transforms": [],
        "training": {
            "model_path": str(run / "model"),
            "save_checkpoint_steps": plan.steps,
            "train_steps": plan.steps,
            "valid_steps": task.NEVER,
            "world_size": 1,
            "gpu_ranks": [],
            "batch_type": "tokens",
            "batch_size": plan.batch_tokens,
            "batch_size_multiple": 1,
            "valid_batch_size": plan.batch_tokens,
            "accum_count": [1],
            "accum_steps": [0],
            "compute_dtype": kind,
            "optim": "adam",
            "adam_beta1": task.BETA1,
            "adam_beta2": task.BETA2,
            "learning_rate": plan.factor,
            "warmup_steps": plan.warmup,
            "decay_method": "noam",
            "bucket_size": 32768,
            "num_workers": 0,
            "dropout_steps": [0],
            "dropout": [task.DROPOUT],
            "attention_dropout": [task.DROPOUT],
            "max_grad_norm": 0,
            "label_smoothing": task.SMOOTHING,
            "param_init_method": "xavier_uniform",
            "normalization": "tokens",
        },
        "model": {
            "architecture": "transformer",
            "layers": task.LAYERS,
            "hidden_size": task.WIDTH,
            "heads": task.HEADS,
            "transformer_ff": task.FFN,
            "share_embeddings": True,
            "share_decoder_embeddings": True,
            "embeddings": {"word_vec_size": task.WIDTH, "position_encoding_type": "SinusoidalInterleaved"},
        },
    }
    (run / "config.yaml").write_text(json.dumps(config), encoding="utf-8")  # JSON is YAML
    return ["train", "-c", str(run / "config.yaml")]


def loader(kind: str) -> Callable[[Path, Path, Search], Loaded]:
    """Do what `eole predict` does, without files. It sorts the lines by length."""

    def load(run: Path, text: Path, search: Search) -> Loaded:
        predict: Any = import_module("eole.config.run")
        engine: Any = import_module("eole.inference_engine")
        settings = predict.PredictConfig(
            model_path=str(run / "model"),
            src=str(text / f"pieces.test.{task.SRC}"),
            beam_size=search.beam,
            batch_size=search.batch,
            batch_type="sents",
            min_length=search.pieces,
            max_length=search.longest,
            max_length_ratio=0,
            compute_dtype=kind,
            gpu_ranks=[],
        )
        translator = engine.InferenceEnginePY(settings)

        def translate(lines: Sequence[str]) -> list[Output]:
            _, _, found = translator.infer_list(list(lines))
            return [spelled(best.split()) for best, *_ in found]

        return Loaded(translate)

    return load


def arm(name: str, title: str, kind: str) -> Peer:
    """A number format, in training and in translation; the model is that of float32."""
    return Peer(
        name=name,
        title=title,
        training=Training(
            entry="eole.bin.main:main",
            step="eole.trainer:Trainer._process_accumulated_batches",
            count=count,
            arguments=partial(arguments, kind),
        ),
        decoding=Decoding(loader(kind), model="eole", kind="float32" if kind == "fp32" else kind),
        environment="eole",
        requirements=REQUIREMENTS,
    )


ARMS = (arm("eole", TITLE, "fp32"), arm("eole-bf16", f"{TITLE} bf16", "bf16"))
