"""Compare our classifier with the one in a Keras tutorial: equality of outputs, quality and speed.

    python -m scripts.bench.classifiers equal [--dir DIR]
    python -m scripts.bench.classifiers quality --data FOLDER [--task TASK] [--seeds N] [--dir DIR]
    python -m scripts.bench.classifiers speed --data FOLDER [--task TASK] [--rounds N] [--dir DIR]

equal: both have the same weights, and what Keras's lacks is off in ours; the largest difference of probabilities in
several batches is printed, and the exit status is 1 if it is above 1e-5. quality: both learn the corpora that sentences
are of (domains), or whether a line is the translation of another (pairs); FOLDER has a folder for each corpus, with
train.de and train.en in it (`classifier_text.py`). speed: both learn in turn, one process at a time with one thread.
Keras is installed into an environment of its own on first use (1 GB). 10 minutes of CPU time for the quality of a task,
4 for speed. Runs are kept in DIR: quality trains only what is not there.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from nmt.cli.exits import user_errors
from nmt.evaluate.metrics import class_scores
from nmt.files.write import write_file
from scripts.bench.classifier_text import SIZES, TASKS, write_task
from scripts.bench.install import FailedError, bin_of, install
from scripts.bench.keras_classifier.words import read
from scripts.bench.once import once
from scripts.bench.peer import Peer
from scripts.bench.process import environment

KERAS = Peer(
    name="keras",
    title="Keras 3.15.1",
    environment="keras",
    requirements=("keras==3.15.1", "numpy", "pydantic>=2.7", "pyyaml>=6.0"),
)
EPOCHS = 5
UPDATES = {"domains": 208, "pairs": 361}
"""Of an epoch of ours."""
SPEED_ARMS = {
    "nmt, bf16": ["--set", "training.precision=bf16"],
    "nmt, float32": ["--set", "training.precision=float32"],
    "Keras": [],
    "Keras, rows as long as the longest of the batch": ["--trim"],
}


def settings(home: Path, task: str) -> dict[str, object]:
    """Our configuration: the tutorial's width, heads and depth, with a mask, positions and an output projection."""
    source = {split: {"files": {"en": f"{split}.txt", "label": f"{split}.label"}} for split in SIZES}
    return {
        "data": {
            "direction": "en-label",
            "dir": str(home / "data"),
            "root": str(home / "text"),
            "train": [source["train"]],
            "valid": source["valid"],
            "test": {"test": source["test"]},
        },
        "tokenizer": {"vocab_size": 8000},
        "model": {
            "kind": "encoder", "d_model": 128, "n_heads": 8, "d_ff": 128, "encoder_layers": 1, "residual_dropout": 0.1,
        },
        "training": {
            "objective": "classification",
            "device": "cpu",
            "update_tokens": 512,
            "schedule": "linear",
            "peak_lr": 0.002,
            "warmup_steps": 100,
            "max_steps": EPOCHS * UPDATES[task],
            "validate_every_steps": UPDATES[task],
            "save_every_steps": UPDATES[task],
        },
    }  # fmt: skip


def command(program: Sequence[object], home: Path) -> str:
    """Run with one thread and return the standard output; the rest is in a log. Raises FailedError."""
    log = home / "log.txt"
    variables = environment({"KERAS_BACKEND": "torch"}) | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    with log.open("a", encoding="utf-8") as file:
        done = subprocess.run(
            [*map(str, program)], env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=file,
            text=True, check=False,
        )  # fmt: skip
    if done.returncode:
        raise FailedError(f"{' '.join(map(str, program))} failed: {log}")
    return done.stdout


def in_keras(module: str, options: argparse.Namespace) -> list[object]:
    """The beginning of a command that runs in the environment with Keras, made if it is not there."""
    install(KERAS, options.dir)
    return [bin_of(KERAS, options.dir) / "python", "-m", f"scripts.bench.keras_classifier.{module}"]


def prepare(options: argparse.Namespace) -> Path:
    """Make the folder of text, configuration and data directory on first use; what is measured is kept in it, too."""
    home: Path = options.dir / "classifiers" / options.task
    config, content = home / "config.json", settings(home, options.task)
    recipe = json.dumps([str(options.data), SIZES, content])

    def make() -> None:
        (home / "text").mkdir()
        write_task(options.task, options.data, home / "text")
        write_file(config, json.dumps(content).encode())  # JSON is YAML
        command([sys.executable, "-m", "nmt", "prepare", "--config", config], home)

    once(home, recipe, make)
    return home


def ours(home: Path, seed: int) -> tuple[float, float]:
    """Train and evaluate; returns accuracy and macro F1 on the test set."""
    run, scores = home / "runs" / f"{seed}", home / f"nmt-{seed}.json"
    if not scores.is_file():
        shutil.rmtree(run, ignore_errors=True)
        nmt = [sys.executable, "-m", "nmt"]
        command([*nmt, "train", "--config", home / "config.json", "--run", run, "--set", f"training.seed={seed}"], home)
        write_file(scores, command([*nmt, "evaluate", "--run", run, "--split", "test", "--format=json"], home).encode())
    report = json.loads(scores.read_bytes())
    values = {score["metric"]: score["value"] for score in report["scores"]}
    return values["accuracy"], values["macro_f1"]


def scored(folder: Path, split: str, predicted: Sequence[str]) -> tuple[float, float]:
    """Return accuracy and macro F1 of predicted labels of a split."""
    _, labels = read(folder, split)
    classes = sorted(set(labels))
    chosen = np.eye(len(classes))[[classes.index(label) for label in predicted]]
    scores = class_scores(chosen, np.array([classes.index(label) for label in labels]))
    return scores.accuracy, scores.macro_f1


def keras_predictions(home: Path, seed: int, options: argparse.Namespace) -> dict[str, list[list[str]]]:
    """Train the Keras classifier; returns the labels that it predicts of each split after each epoch."""
    out = home / f"keras-{seed}.json"
    if not out.is_file():
        words = ["--text", home / "text", "--out", out, "--epochs", EPOCHS, "--seed", seed]
        command([*in_keras("fit", options), *words], home)
    predicted: dict[str, list[list[str]]] = json.loads(out.read_bytes())["predicted"]
    return predicted


def quality(options: argparse.Namespace) -> str:
    """Train all with each seed; returns the table."""
    home = prepare(options)
    rows: dict[str, list[tuple[float, float]]] = {"Keras, last epoch": [], "Keras, best epoch": [], "nmt": []}
    for seed in range(1, options.seeds + 1):
        say(f"seed {seed}")
        predicted = keras_predictions(home, seed, options)
        best = best_epoch(home / "text", predicted["valid"])
        rows["Keras, last epoch"].append(scored(home / "text", "test", predicted["test"][-1]))
        rows["Keras, best epoch"].append(scored(home / "text", "test", predicted["test"][best]))
        rows["nmt"].append(ours(home, seed))
    return "\n".join([
        "| | accuracy | macro F1 | accuracy of each seed |", "|---|---|---|---|",
        *(f"| {name} | {' | '.join(cells(values))} |" for name, values in rows.items()),
    ])  # fmt: skip


def best_epoch(text: Path, predicted: Sequence[Sequence[str]]) -> int:
    """Return the epoch with the highest accuracy on the development set, the first of several."""
    accuracies = [scored(text, "valid", labels)[0] for labels in predicted]
    return accuracies.index(max(accuracies))


def cells(values: Sequence[tuple[float, float]]) -> list[str]:
    """Return mean and standard deviation of accuracy and macro F1 in percent, and all accuracies."""
    columns = [[100 * value for value in column] for column in zip(*values, strict=True)]
    spread = [f"{statistics.mean(column):.1f} ± {statistics.stdev(column):.1f}" for column in columns]
    return [*spread, ", ".join(f"{value:.1f}" for value in columns[0])]


def speed(options: argparse.Namespace) -> str:
    """Train all in turn, one epoch each; returns the table."""
    home = prepare(options)
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in SPEED_ARMS}
    run, out = home / "speed", home / "speed.json"
    for number in range(1, options.rounds + 1):
        for name, arm in SPEED_ARMS.items():
            shutil.rmtree(run, ignore_errors=True)
            if name.startswith("Keras"):
                words = [*in_keras("fit", options), "--text", home / "text", "--epochs", 1, "--predict"]
            else:
                once_only = [
                    f"training.{key}_steps={UPDATES[options.task]}" for key in ("max", "validate_every", "save_every")
                ]
                places = ["--config", home / "config.json", "--data", home / "data", "--run", run]
                sets = [word for setting in once_only for word in ("--set", setting)]
                words = [sys.executable, "-m", "scripts.bench.classifier_speed", *places, *sets]
            command([*words, *arm, "--out", out], home)
            rounds[name].append(rate := json.loads(out.read_bytes()))
            say(f"round {number}, {name}: {rate['per_cpu_second']:.0f} a CPU second, {rate['per_second']:.0f} a second")
    shutil.rmtree(run, ignore_errors=True)
    return render_speed(rounds)


def render_speed(rounds: dict[str, list[dict[str, float]]]) -> str:
    """Return the table: medians over the rounds with the lowest and highest value, and their ratios to Keras."""
    lines = ["| | sentences a CPU second | / Keras | sentences a second | / Keras |", "|---|---|---|---|---|"]
    for name, own in rounds.items():
        words = []
        for key in ("per_cpu_second", "per_second"):
            values, base = [each[key] for each in own], statistics.median(each[key] for each in rounds["Keras"])
            median = statistics.median(values)
            words += [f"{median:.0f} ({min(values):.0f} to {max(values):.0f})", f"{median / base:.2f}"]
        lines.append(f"| {name} | {' | '.join(words)} |")
    return "\n".join(lines)


def equal(options: argparse.Namespace) -> int:
    """Compare the outputs; returns the exit status."""
    variables = environment({"KERAS_BACKEND": "torch"})
    return subprocess.run([*map(str, in_keras("equal", options))], env=variables, check=False).returncode


def say(line: str) -> None:
    """Report progress."""
    print(f"bench: {line}", file=sys.stderr, flush=True)


def parse() -> argparse.Namespace:
    """The command line."""
    home = os.environ.get("PEERS") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "nmt-peers"
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=("equal", "quality", "speed"))
    parser.add_argument("--data", type=Path, help="folder with a folder for each corpus; for quality and speed")
    parser.add_argument("--task", choices=TASKS, default="domains")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dir", type=Path, default=Path(home), help=f"of what is installed and kept; default: {home}")
    options = parser.parse_args()
    if options.what != "equal" and options.data is None:
        parser.error(f"{options.what} needs --data")
    if options.seeds < 2 or options.rounds < 1:
        parser.error("--seeds must be at least 2, --rounds at least 1")
    options.dir = options.dir.expanduser().resolve()
    options.data = options.data and options.data.resolve()
    return options


def main() -> int:
    """Measure and print."""
    options = parse()
    with user_errors():
        try:
            if options.what == "equal":
                return equal(options)
            print((quality if options.what == "quality" else speed)(options))
        except FailedError as error:
            say(str(error))
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
