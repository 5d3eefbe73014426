"""Measure how damaged training text and cleaning affect the quality of models trained on Multi30k.

    python -m scripts.experiments.damaged FOLDER ARM... [--out runs/damaged] [--steps N] [--seed N]
    python -m scripts.experiments.damaged FOLDER --scores [--out runs/damaged]

FOLDER has the files (data/README.md). Arms: clean, the text as it is; damaged, a share of the pairs damaged as in
`scripts.measure.damage` and prepared with the default settings; cleaned, the same text with the settings that are
recommended for text from the web. The model is that of multi30k.yaml without consistency training. One arm takes about
15 minutes of one core (OMP_NUM_THREADS=1); an arm that is in the folder is not trained again. `--scores`
scores the arms on the test set.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from nmt import api
from nmt.cli.app import user_errors
from nmt.data.corpus import Corpus
from nmt.files.write import open_output
from nmt.layout import DataDir, RunDir
from nmt.runs.info import read_info
from scripts.measure.damage import NOISY, damaged, read

LANGUAGES = ("de", "en")
ARMS = ("clean", "damaged", "cleaned")
RATE = 0.3
SETTINGS: dict[str, object] = {
    "training.consistency": "none", "training.consistency_weight": 0, "training.max_minutes": None,
    "training.optimizer": "adamw",
    "model.embedding_dropout": 0.3, "model.residual_dropout": 0.3,
}  # fmt: skip


def main() -> int:
    """Train the arms, or print their scores."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("arm", nargs="*", choices=ARMS, default=[])
    parser.add_argument("--out", type=Path, default=Path("runs/damaged"))
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scores", action="store_true")
    options = parser.parse_args()
    if not options.scores:
        text = write_texts(options.folder.resolve(), options.out.resolve() / "text")
        for arm in options.arm:
            train(arm, text, options.out, options.steps, options.seed)
        return 0
    print("| training text | pairs | updates | BLEU | chrF | TER |\n|---|---|---|---|---|---|")
    for run in sorted(options.out.glob("*-[0-9]*"), key=lambda run: (ARMS.index(run.name.split("-")[0]), run.name)):
        report = api.evaluate(run).report
        values = " | ".join(f"{score.value:.2f}" for score in report.scores)
        print(f"| {run.name} | {n_pairs(run):,} | {report.subject.step:,} | {values} |", flush=True)
    for score in report.scores:
        print(score.signature)
    return 0


def n_pairs(run: Path) -> int:
    """Return the number of training pairs of a run."""
    return Corpus.open(DataDir(Path(read_info(RunDir(run)).data_dir))).manifest.splits["train"].pairs


def write_texts(source: Path, folder: Path) -> Path:
    """Write the training text as it is and damaged, and link the other sets."""
    folder.mkdir(parents=True, exist_ok=True)
    pairs = read(source, LANGUAGES, 0)
    texts = {"clean": pairs, "damaged": [made.pair for made in damaged(pairs, RATE)]}
    for i, language in enumerate(LANGUAGES):
        for name, text in texts.items():
            with open_output(folder / f"{name}.{language}") as file:  # complete at once: two arms may begin together
                file.writelines(f"{pair[i]}\n".encode() for pair in text)
        for name in ("val", "test_2016_flickr"):
            with open_output(folder / f"{name}.{language}") as file:
                file.write((source / f"{name}.{language}").read_bytes())
    return folder


def train(arm: str, text: Path, out: Path, steps: int, seed: int) -> None:
    """Prepare the text of an arm and train on it, unless that is done."""
    run = out / f"{arm}-{seed}"
    name = "clean" if arm == "clean" else "damaged"
    clean = NOISY.model_dump(exclude_none=True) if arm == "cleaned" else {}
    data = {
        "data.root": str(text),
        "data.train": [{"files": {language: f"{name}.{language}" for language in LANGUAGES}}],
        **{f"data.clean.{key}": value for key, value in clean.items()},
    }
    limits = {
        "training.max_steps": steps, "training.warmup_steps": steps // 5, "training.seed": seed,
        "training.validate_every_steps": steps // 10, "training.save_every_steps": steps // 20,
    }  # fmt: skip
    settings = {**SETTINGS, **data, **limits}
    directory = api.prepare("multi30k.yaml", settings, data=out / f"data-{arm}")
    if not RunDir(run).selected.exists():
        api.train("multi30k.yaml", settings, data=directory, run=run)


if __name__ == "__main__":
    with user_errors():
        raise SystemExit(main())
