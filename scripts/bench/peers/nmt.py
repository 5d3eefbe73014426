"""nmt itself: `nmt train` and `nmt translate`, with one or more settings."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from scripts.bench import task
from scripts.bench.peer import Counts, Decoding, Loaded, Output, Peer, Search, Training
from scripts.bench.peers.ctranslate2 import exporter


def count(batch: Any, *_: Any, **__: Any) -> Counts:
    """A batch in rows of several sentences, which goes to the device."""
    from nmt.text.ids import PAD

    n = int(batch.tgt_numbers.max()) + 1
    return Counts(n, batch.n_tokens, batch.tgt_out.numel(), int((batch.src != PAD).sum()), batch.src.numel())


def convert(text: Path, folder: Path) -> list[str]:
    """`nmt prepare`: as many rows of vocabulary as the others, 256 bytes among them, so its pieces are its own."""
    config = folder / "config.yaml"
    config.write_text(json.dumps(settings(text, task.MEASURED)), encoding="utf-8")  # JSON is YAML
    return ["python", "-m", "nmt", "prepare", "--config", str(config), "--data", str(folder / "data")]


def settings(text: Path, plan: task.Plan) -> dict[str, object]:
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
            "update_tokens": plan.batch_tokens,
            "label_smoothing": task.SMOOTHING,
            "optimizer": "adam",
            "betas": [task.BETA1, task.BETA2],
            "schedule": "noam",
            "factor": plan.factor,
            "warmup_steps": plan.warmup,
            "clip_norm": 0.0,
            "log_every_steps": task.LOG_EVERY,
            "max_steps": plan.steps,
            "validate_every_steps": plan.steps,
            "save_every_steps": plan.steps,
        },
    }


def variables() -> dict[str, str]:
    """Environment variables that `nmt` sets by default."""
    from nmt.process import ENVIRONMENT

    return {name: os.environ.get(name, value) for name, value in ENVIRONMENT.items()}


def native(precision: str) -> Callable[[Path, Path, Search], Loaded]:
    """Do what `nmt translate --precision` does, without files."""

    def load(run: Path, _: Path, search: Search) -> Loaded:
        from nmt.process import set_up

        set_up()  # before torch is there
        from nmt.translate.loading import Translator

        translator = Translator.load(run / "run", device="cpu", precision=precision)
        return ready(translator, search, translator.precision)

    return load


def engine(folder: Path, _: Path, search: Search) -> Loaded:
    """Do what `nmt translate --engine ctranslate2` does, without files."""
    from nmt.process import set_up

    set_up()
    from nmt.share.export import engine_for

    return ready(engine_for([folder]), search)


def ready(translator: Any, search: Search, note: str = "") -> Loaded:
    """The time of a translation has the cutting into pieces in it."""
    from nmt.search.settings import SearchConfig

    settings = SearchConfig(
        beam=search.beam,
        batch_tokens=search.batch * task.MAX_PIECES,
        min_length=search.pieces,
        max_length_ratio=0.0,
        max_length_offset=search.longest,
    )

    def translate(lines: Sequence[str]) -> list[Output]:
        groups = [[line] for line in lines] if search.batch == 1 else [lines]
        best = [first for group in groups for first, *_ in translator.translate_lines(group, settings)]
        return [Output(each.text, sum(len(part.tgt_ids) for part in each.parts)) for each in best]

    return Loaded(translate, note)


def arm(name: str, overrides: Sequence[str]) -> Peer:
    """A number format, in training and in translation; the model is that of one arm."""

    def arguments(text: Path, run: Path, plan: task.Plan) -> list[str]:
        config = run / "bench.yaml"
        config.write_text(json.dumps(settings(text, plan)), encoding="utf-8")
        places = ["--config", str(config), "--data", str(text / "nmt" / "data"), "--run", str(run / "run")]
        return ["train", *places, *(f"--set={override}" for override in overrides)]

    return Peer(
        name=f"nmt-{name}",
        title=f"nmt {name}",
        training=Training(
            variables=variables,
            entry="nmt.cli:main",
            step="nmt.data.rows:RowBatch.to",
            count=count,
            arguments=arguments,
        ),
        decoding=Decoding(native(name), model="nmt-auto", source="raw.test", pieces=""),
        convert=convert,
        converted="nmt",
    )


# To measure another setting: a name and what --set changes.
ARMS = (arm("float32", ["training.precision=float32"]), arm("auto", ["training.precision=auto"]))


def engine_arm(kind: str) -> Peer:
    """CTranslate2 as nmt uses it."""
    return Peer(
        name=f"nmt-ct2-{kind}",
        title=f"nmt, engine CTranslate2 {kind}",
        decoding=Decoding(
            engine,
            model="nmt-auto",
            source="raw.test",
            pieces="",
            forces=False,
            remark="what ends at its limit is searched twice and scored again; compare it by free lengths",
            kind=kind,
            export=exporter(kind),
            exported=f"ctranslate2-{kind}",
        ),
    )


ENGINES = (engine_arm("float32"), engine_arm("int8"))
