"""Write the golden files of the tests again, after a change that is meant to change results.

    python -m scripts.checks.golden losses     # tests/golden/losses.json: the first losses of the sample run
    python -m scripts.checks.golden translations   # tests/golden/translations.json: by the kept run
    python -m scripts.checks.golden examples RUN   # tests/golden/examples.json: the examples of the documentation
    python -m scripts.checks.golden run        # tests/golden/run: a tiny trained run, and what it translates

Keep the run for as long as its format is supported: a newer nmt must still translate with it.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).parents[2] / "tests"
GOLDEN = TESTS / "golden"
sys.path.insert(0, str(TESTS / "helpers"))

from nmt.config.load import load_config  # noqa: E402
from nmt.layout import RunDir  # noqa: E402
from nmt.prepare.prepare import prepare  # noqa: E402
from nmt.training.loop import fit  # noqa: E402
from nmt.translate.translator import Translator  # noqa: E402
from tiny_corpus import tiny_settings, tiny_text  # noqa: E402

LOSSES = [
    "training.max_steps=20", "training.warmup_steps=10", "training.log_every_steps=1", "training.average_last=1",
    "training.precision=float32", "training.device=cpu", "model.d_model=64", "model.d_ff=128",
    "model.encoder_layers=1", "model.decoder_layers=1", "search.beam=1", "search.max_length_ratio=0",
]  # fmt: skip


def losses(folder: Path) -> list[float]:
    """Train 20 steps on the embedded corpus in `folder`; the loss of each."""
    config = load_config("sample.yaml", LOSSES)
    prepare(config, folder / "data", echo=lambda _: None)
    fit(config, folder / "data", folder / "run")
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
    fit(config, folder / "data", folder / "run")
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
        else:
            sys.exit(__doc__)
