"""fairseq."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from scripts.bench import task
from scripts.bench.peer import NOTHING, Counts, Decoding, Loaded, Output, Peer, Search, Training, spelled


def count(_: Any, samples: Any, *__: Any, **___: Any) -> Counts:
    """A step has a list of batches."""
    total = NOTHING
    for batch in samples:
        src = batch["net_input"]
        n_positions, n_src = src["src_tokens"].numel(), int(src["src_lengths"].sum())
        total = total.plus(
            Counts(int(batch["nsentences"]), int(batch["ntokens"]), batch["target"].numel(), n_src, n_positions)
        )
    return total


def convert(text: Path, folder: Path) -> list[str]:
    """Its binary format; its dictionary has a blank where ours has a tab."""
    vocabulary = (text / "vocabulary.tsv").read_text(encoding="utf-8")
    (folder / "dictionary.txt").write_text(vocabulary.replace("\t", " "), encoding="utf-8")
    return [
        "fairseq-preprocess", "-s", task.SRC, "-t", task.TGT,
        "--trainpref", str(text / "pieces.train"), "--validpref", str(text / "pieces.val"),
        "--srcdict", str(folder / "dictionary.txt"), "--joined-dictionary",
        "--destdir", str(folder), "--workers", "1",
    ]  # fmt: skip


def arguments(text: Path, run: Path, plan: task.Plan) -> list[str]:
    """`fairseq-train`."""
    options: dict[str, object] = {
        "seed": task.SEED,
        "arch": "transformer",
        "encoder-layers": task.LAYERS,
        "decoder-layers": task.LAYERS,
        "encoder-embed-dim": task.WIDTH,
        "decoder-embed-dim": task.WIDTH,
        "encoder-ffn-embed-dim": task.FFN,
        "decoder-ffn-embed-dim": task.FFN,
        "encoder-attention-heads": task.HEADS,
        "decoder-attention-heads": task.HEADS,
        "dropout": task.DROPOUT,
        "attention-dropout": task.DROPOUT,
        "activation-dropout": task.DROPOUT,
        "criterion": "label_smoothed_cross_entropy",
        "label-smoothing": task.SMOOTHING,
        "optimizer": "adam",
        "adam-betas": f"({task.BETA1},{task.BETA2})",
        "clip-norm": 0,
        "lr": f"{plan.peak_lr:.6f}",
        "lr-scheduler": "inverse_sqrt",
        "warmup-updates": plan.warmup,
        "max-tokens": plan.batch_tokens,
        "num-workers": 0,
        "max-update": plan.steps,
        "save-dir": run / "model",
        "save-interval": task.NEVER,
        "save-interval-updates": plan.steps,
        "log-interval": task.LOG_EVERY,
    }
    switches = (
        "cpu", "share-all-embeddings", "encoder-normalize-before", "decoder-normalize-before", "no-progress-bar",
        "disable-validation", "no-epoch-checkpoints",
    )  # fmt: skip
    pairs = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    return [str(text / "fairseq"), *pairs, *(f"--{name}" for name in switches)]


def load(run: Path, text: Path, search: Search) -> Loaded:
    """Do what `fairseq-generate` does, without files. It sorts the lines by length."""
    options: Any = import_module("fairseq.options")
    checkpoints: Any = import_module("fairseq.checkpoint_utils")
    utils: Any = import_module("fairseq.utils")
    words = [
        str(text / "fairseq"), "--cpu", "--path", str(run / "model" / "checkpoint_last.pt"),
        "--beam", str(search.beam), "--batch-size", str(search.batch), "--num-workers", "0",
        "--min-len", str(search.pieces or 1), "--max-len-a", "0", "--max-len-b", str(search.longest),
    ]  # fmt: skip
    known = options.parse_args_and_arch(options.get_generation_parser(), words)
    settings = import_module("fairseq.dataclass.utils").convert_namespace_to_omegaconf(known)
    work: Any = import_module("fairseq.tasks").setup_task(settings.task)
    models, _ = checkpoints.load_model_ensemble([settings.common_eval.path], task=work)
    for model in models:
        model.prepare_for_inference_(settings)
    generator = work.build_generator(models, settings.generation)
    limits = utils.resolve_max_positions(work.max_positions(), *(model.max_positions() for model in models))

    def translate(lines: Sequence[str]) -> list[Output]:
        src = [work.source_dictionary.encode_line(line, add_if_not_exist=False).long() for line in lines]
        batches = work.get_batch_iterator(
            work.build_dataset_for_inference(src, [len(ids) for ids in src]),
            max_sentences=search.batch,
            max_positions=limits,
        )
        found = {}
        for batch in batches.next_epoch_itr(shuffle=False):
            best = work.inference_step(generator, models, batch)
            for i, (first, *_) in zip(batch["id"].tolist(), best, strict=True):
                found[i] = spelled(work.target_dictionary.string(first["tokens"].int()).split())
        return [found[i] for i in range(len(lines))]

    return Loaded(translate)


def patch(packages: Path) -> None:
    """Python 3.11 refuses objects as defaults of a dataclass, which fairseq and the old hydra have: make factories."""
    configs = packages / "fairseq" / "dataclass" / "configs.py"
    transformer = packages / "fairseq" / "models" / "transformer" / "transformer_config.py"
    hydra = packages / "hydra" / "conf" / "__init__.py"
    for file in (configs, transformer, hydra):
        replace(file, r"^(\s+\w+: )(\w+) = \2\(\)$", r"\1\2 = field(default_factory=\2)")
    replace(hydra, r"^from dataclasses import dataclass$", "from dataclasses import dataclass, field")
    replace(transformer, r"field\(default=QuantNoiseConfig\(\)\)", "field(default_factory=QuantNoiseConfig)")
    replace(
        packages / "fairseq" / "dataclass" / "initialize.py",
        r"^( +)v = FairseqConfig\.__dataclass_fields__\[k\]\.default$",
        r"\1known = FairseqConfig.__dataclass_fields__[k]\n"
        r"\1v = known.default_factory() if callable(known.default_factory) else known.default",
    )


def replace(file: Path, pattern: str, by: str) -> None:
    """Replace a pattern in the lines of a file."""
    text = file.read_text(encoding="utf-8")
    file.write_text(re.sub(pattern, by, text, flags=re.MULTILINE), encoding="utf-8")


PEER = Peer(
    name="fairseq",
    title="fairseq 0.12.2",
    training=Training(
        entry="fairseq_cli.train:cli_main",
        step="fairseq.trainer:Trainer.train_step",
        count=count,
        arguments=arguments,
    ),
    decoding=Decoding(load, model="fairseq"),
    environment="fairseq",
    requirements=(
        "numpy", "cffi", "regex", "sacrebleu>=1.4.12", "bitarray", "tqdm", "scikit-learn", "pyyaml",
        "antlr4-python3-runtime==4.8", "tensorboardX",
    ),
    # asks for a torchaudio; is built from source, where pip must hide torch: what it would build with torch is missing
    alone=("fairseq==0.12.2", "omegaconf==2.0.6", "hydra-core==1.0.7"),
    patch=patch,
    convert=convert,
    converted="fairseq",
)  # fmt: skip
