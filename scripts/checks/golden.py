"""Write the golden files of the tests again, after a change that is meant to change results.

    python -m scripts.checks.golden losses     # tests/golden/losses.json: the first losses of the sample run
    python -m scripts.checks.golden translations   # tests/golden/translations.json: by the kept run
    python -m scripts.checks.golden examples RUN   # tests/golden/examples.json: the examples of the documentation
    python -m scripts.checks.golden run        # tests/golden/run: a tiny trained run, and what it translates
    python -m scripts.checks.golden kinds      # tests/golden/kinds: data directories, runs and exports of several kinds

Keep the run and the kinds for as long as their format is supported: a newer nmt must still work with them.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml
from safetensors.torch import load_file

TESTS = Path(__file__).parents[2] / "tests"
GOLDEN = TESTS / "golden"
sys.path.insert(0, str(TESTS / "helpers"))

from command import run_command  # noqa: E402
from labelled import TEST, TRAIN, VALID, write_reviews  # noqa: E402
from nmt.config.load import load_config  # noqa: E402
from nmt.layout import RunDir  # noqa: E402
from nmt.prepare.pipeline.work import Sizes  # noqa: E402
from nmt.prepare.prepare import prepare  # noqa: E402
from nmt.training.plan import TrainingPlan  # noqa: E402
from nmt.training.start import fit  # noqa: E402
from nmt.translate.loading import Translator  # noqa: E402
from tiny_corpus import tiny_settings, tiny_text  # noqa: E402

LOSSES = [
    "training.max_steps=20", "training.warmup_steps=10", "training.log_every_steps=1", "training.average_last=1",
    "training.precision=float32", "training.device=cpu", "training.optimizer=adam", "training.peak_lr=3e-3",
    "model.d_model=64", "model.d_ff=128", "model.embedding_dropout=0.1", "model.residual_dropout=0.1",
    "model.encoder_layers=1", "model.decoder_layers=1", "search.beam=1", "search.max_length_ratio=0",
]  # fmt: skip


def losses(folder: Path) -> list[float]:
    """Train 20 steps on the embedded corpus in `folder`; the loss of each."""
    config = load_config("sample.yaml", LOSSES)
    prepare(config, folder / "data", echo=lambda _: None)
    fit(TrainingPlan.of(config, folder / "data", folder / "run"))
    records = [json.loads(line) for line in RunDir(folder / "run").log.read_text(encoding="utf-8").splitlines()]
    return [record["loss"] for record in records if record["kind"] == "train"]


def run(folder: Path) -> None:
    """Train the tiny run until it knows a little, and keep what translating needs."""
    tiny_text(folder / "text", n_train=400)
    config = tiny_settings(
        folder / "text",
        training={"max_steps": 400, "schedule": "cosine", "peak_lr": 5e-3, "validate_every_steps": 400,
                  "save_every_steps": 400, "log_every_steps": 100, "update_tokens": 1000, "max_tokens": 2000},
        model={"embedding_dropout": 0.0, "residual_dropout": 0.0, "attention_dropout": 0.0},
    )  # fmt: skip
    prepare(config, folder / "data", echo=lambda _: None)
    fit(TrainingPlan.of(config, folder / "data", folder / "run"))
    made, kept = RunDir(folder / "run"), RunDir(GOLDEN / "run")
    shutil.rmtree(kept.path, ignore_errors=True)
    unneeded = shutil.ignore_patterns("optimizer.safetensors", "tensorboard", "dev", "log.jsonl")
    shutil.copytree(made.path, kept.path, ignore=unneeded)
    kept.info.write_text(kept.info.read_text().replace(str(folder), "somewhere"), encoding="utf-8")
    kept.config.write_text(kept.config.read_text().replace(str(folder), "somewhere"), encoding="utf-8")
    lines = (folder / "text" / "test.aa").read_text(encoding="utf-8").splitlines()
    translations(lines)


def translations(lines: list[str]) -> None:
    """Translate lines with the kept run."""
    translated = {"source": lines, "translation": Translator.load(GOLDEN / "run").translate(lines)}
    (GOLDEN / "translations.json").write_text(json.dumps(translated, indent=1) + "\n", encoding="utf-8")


def examples(run: Path) -> None:
    """Translate the examples of the documentation with the run of `make demo`."""
    path = GOLDEN / "examples.json"
    sources = list(json.loads(path.read_text(encoding="utf-8")))
    translated = dict(zip(sources, Translator.load(run).translate(sources), strict=True))
    path.write_text(json.dumps(translated, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _files(first: str, second: str, name: str) -> dict[str, object]:
    return {"files": {first: f"{name}.{first}", second: f"{name}.{second}"}}


PAIRS = {
    "direction": "aa-bb", "dir": "pairs", "root": "text", "train": [_files("aa", "bb", "train")],
    "valid": _files("aa", "bb", "dev"), "test": {"test": _files("aa", "bb", "test")}, "max_pieces": 100,
}  # fmt: skip
LABELS = {
    "direction": "en-label", "dir": "labels", "root": "labelled", "train": [_files("en", "label", "train")],
    "valid": _files("en", "label", "valid"), "test": {"test": _files("en", "label", "test")}, "max_pieces": 100,
}  # fmt: skip
SMALL = {"d_model": 32, "n_heads": 2, "d_ff": 64}
ENCODER, DECODER = {"encoder_layers": 1}, {"decoder_layers": 1}
LEARNED = {**ENCODER, **DECODER, "positions": "learned", "tie_embeddings": "none", "max_positions": 128}
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "learned": (PAIRS, LEARNED, {}),
    "decoder": (PAIRS, {**DECODER, "kind": "decoder"}, {}),
    "classifier": (LABELS, {**ENCODER, "kind": "encoder"}, {"objective": "classification"}),
}
"""Sections `data`, `model` and `training` of the configs of the kinds of runs."""
MORE = ["--set", "training.max_steps=3", "--set", "training.warmup_steps=1"]


def kinds(folder: Path) -> None:
    """Make the data directories, runs and exports of several kinds in `folder`, and keep what they are read for."""
    tiny_text(folder / "text")
    for name, pairs in (("train", TRAIN), ("valid", VALID), ("test", TEST)):
        write_reviews(folder / "labelled", name, pairs)
        (folder / "labelled" / f"{name}.txt").rename(folder / "labelled" / f"{name}.en")
    os.chdir(folder)
    training = {
        "device": "cpu", "precision": "float32", "update_tokens": 400, "max_tokens": 400, "schedule": "constant",
        "peak_lr": 1e-2, "warmup_steps": 10, "log_every_steps": 1, "max_steps": 60, "validate_every_steps": 60,
        "save_every_steps": 60, "keep_last": 2, "average_last": 1,
    }  # fmt: skip
    for name, (data, model, changes) in KINDS.items():
        tree = {
            "data": data, "tokenizer": {"vocab_size": 330}, "model": {**SMALL, **model},
            "training": {**training, **changes, "run_dir": f"runs/{name}"},
        }  # fmt: skip
        Path(f"{name}.yaml").write_text(yaml.safe_dump(tree, sort_keys=False), encoding="utf-8")
        _done("prepare", "--config", f"{name}.yaml")
        _done("train", "--config", f"{name}.yaml")
    prepare(load_config("learned.yaml"), Path("shards"), echo=lambda _: None, sizes=Sizes(shard_pairs=60))
    for kind in ("folder", "ctranslate2"):
        _done("export", "--run", "runs/learned", "--format", kind, "--output", f"exports/{kind}")
    for info in Path("runs").glob("*/run.json"):
        info.write_text(info.read_text().replace(str(folder), "somewhere"), encoding="utf-8")
    unneeded = shutil.ignore_patterns("optimizer.safetensors", "tensorboard", "dev", "log.jsonl", "lock", "*.html")
    shutil.rmtree(GOLDEN / "kinds", ignore_errors=True)
    shutil.copytree(folder, GOLDEN / "kinds", ignore=unneeded)
    text = json.dumps(outcomes(), indent=1, ensure_ascii=False)
    (GOLDEN / "kinds" / "outcomes.json").write_text(text + "\n", encoding="utf-8")


def outcomes() -> dict[str, Any]:
    """Use what `kinds` has made, in a copy that is the current folder; return what came of it."""
    return {
        "up to date": {
            name: "up to date" in _done("prepare", "--config", f"{config}.yaml", "--set", f"data.dir={name}")
            for name, config in (("pairs", "learned"), ("shards", "learned"), ("labels", "classifier"))
        },
        "translations": {
            path: _done("translate", *options, path, "--input", "text/test.aa").splitlines()
            for path, options in {
                "runs/learned": ["--run"], "runs/decoder": ["--run"], "exports/folder": ["--model"],
                "exports/ctranslate2": ["--engine", "ctranslate2", "--model"],
            }.items()
        },
        "labels": [
            {"label": label, "probability": float(probability)}
            for label, probability in map(str.split, _done(
                "classify", "--run", "runs/classifier", "--input", "labelled/test.en").splitlines())
        ],
        "scores": {name: _scores(name, data["dir"]) for name, (data, _, _) in KINDS.items()},
        "losses": {
            "pairs": _losses("learned"),
            "shards": _losses("learned", "--set", "data.dir=shards"),
            "labels": _losses("classifier"),
            "from learned": _losses("learned", "--init-from", "runs/learned"),
            "from decoder": _losses("decoder", "--init-from", "runs/decoder"),
        },
        "export": _exported(),
    }  # fmt: skip


def _scores(run: str, data: str) -> dict[str, float]:
    report = json.loads(_done("evaluate", "--run", f"runs/{run}", "--data", data, "--split", "test", "--format=json"))
    return {score["metric"]: score["value"] for score in report["scores"]}


def _losses(config: str, *options: str) -> list[float]:
    """Train three steps in a run of its own."""
    _done("train", "--config", f"{config}.yaml", "--set", "training.run_dir=more", *MORE, *options)
    records = map(json.loads, RunDir(Path("more")).log.read_text(encoding="utf-8").splitlines())
    losses = [record["loss"] for record in records if record["kind"] == "train"]
    shutil.rmtree("more")
    return losses


def _exported() -> dict[str, object]:
    """Export for transformers: the config, and the size and sum of each tensor."""
    _done("export", "--run", GOLDEN / "run", "--format", "transformers", "--output", "new")
    tensors = load_file("new/model.safetensors")
    config = json.loads(Path("new/config.json").read_text(encoding="utf-8"))
    shutil.rmtree("new")
    sums = {name: [*tensor.shape, round(float(tensor.double().sum()), 4)] for name, tensor in sorted(tensors.items())}
    return {"config": config, "tensors": sums}


def _done(*arguments: object) -> str:
    """Run a command of nmt in this process; return what it printed."""
    result = run_command(*arguments)
    if result.status not in (None, 0):
        raise RuntimeError(f"nmt {' '.join(map(str, arguments))}: status {result.status}: {result.err}")
    return result.out + ("up to date" if "up to date" in result.err else "")


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        if sys.argv[1:] == ["losses"]:
            text = json.dumps([round(loss, 5) for loss in losses(Path(temporary))])
            (GOLDEN / "losses.json").write_text(text + "\n", encoding="utf-8")
        elif sys.argv[1:] == ["translations"]:
            translations(json.loads((GOLDEN / "translations.json").read_text(encoding="utf-8"))["source"])
        elif sys.argv[1:2] == ["examples"] and len(sys.argv) == 3:
            examples(Path(sys.argv[2]))
        elif sys.argv[1:] == ["run"]:
            run(Path(temporary))
        elif sys.argv[1:] == ["kinds"]:
            kinds(Path(temporary).resolve())
        else:
            sys.exit(__doc__)
