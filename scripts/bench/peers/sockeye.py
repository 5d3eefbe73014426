"""Sockeye."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from scripts.bench import task
from scripts.bench.peer import Counts, Decoding, Loaded, Output, Peer, Search, Training, spelled

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


def arguments(text: Path, run: Path, plan: task.Plan) -> list[str]:
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
        "batch-size": plan.batch_tokens,
        "update-interval": 1,
        "optimizer": "adam",
        "optimizer-betas": f"{task.BETA1}:{task.BETA2}",
        "initial-learning-rate": f"{plan.factor * task.WIDTH**-0.5:.5f}",
        "learning-rate-scheduler-type": "inv-sqrt-decay",
        "learning-rate-warmup": plan.warmup,
        "gradient-clipping-type": "none",
        "checkpoint-interval": plan.steps,
        "max-updates": plan.steps,
        "decode-and-evaluate": 0,
    }
    pairs = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    return [*pairs, "--use-cpu", "--shared-vocab"]


def load(run: Path, _: Path, search: Search) -> Loaded:
    """Do what `sockeye-translate` does, without files. It sorts the lines by length."""
    arguments: Any = import_module("sockeye.arguments")
    inference: Any = import_module("sockeye.inference")
    models: Any = import_module("sockeye.model")
    device = import_module("torch").device("cpu")
    parser = argparse.ArgumentParser()
    arguments.add_translate_cli_args(parser)
    known = parser.parse_args(["--models", str(run / "model"), "--use-cpu"])
    loaded, src, tgt = models.load_models(
        device=device, model_folders=[str(run / "model")], dtype="float32", inference_only=True
    )
    for model in loaded:
        model.eval()
    scorer = inference.CandidateScorer(known.length_penalty_alpha, known.length_penalty_beta, 0.0)
    translator = inference.Translator(
        device=device,
        ensemble_mode=known.ensemble_mode,
        scorer=scorer,
        batch_size=search.batch,
        beam_size=search.beam,
        beam_search_stop=known.beam_search_stop,
        nbest_size=1,
        models=loaded,
        source_vocabs=src,
        target_vocabs=tgt,
        constant_length_ratio=-1.0,  # no brevity penalty
        max_output_length=search.longest,
        greedy=search.beam == search.batch == 1,  # faster, and only there
    )

    def translate(lines: Sequence[str]) -> list[Output]:
        words = [inference.make_input_from_plain_string(i, line) for i, line in enumerate(lines)]
        return [spelled(output.tokens) for output in translator.translate(words)]

    return Loaded(translate)


PEER = Peer(
    name="sockeye",
    title="Sockeye 3.1.34",
    training=Training(
        entry="sockeye.train:main",
        step="sockeye.training:EarlyStoppingTrainer._step",
        count=count,
        arguments=arguments,
    ),
    decoding=Decoding(load, model="sockeye", forces=False, remark="it has no minimum length"),
    environment="sockeye",
    requirements=("pyyaml>=5.1", "numpy<2", "sacrebleu>=2.3"),
    alone=("sockeye==3.1.34",),  # asks for torch < 1.14
    convert=convert,
    converted="sockeye",
)
