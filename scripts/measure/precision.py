"""Compare training in float32 with training in the number format that `auto` chooses, by equal epochs and seeds.

    python -m scripts.measure.precision [--config multi30k.yaml] [--data DIR] [--epochs 10] [--seeds 1,2] [--set K=V]

Runs go to a temporary directory. Scores are of the development set: nothing is chosen here, so no test set is needed.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from statistics import mean

from nmt.config.load import load_config
from nmt.data.corpus import Corpus, lines_of
from nmt.layout import DataDir, RunDir
from nmt.process import set_up
from nmt.runs.info import read_info
from nmt.training.plan import TrainingPlan
from nmt.training.start import fit

PRECISIONS = ("float32", "auto")
Results = dict[tuple[str, int], dict[str, float | str]]


def main() -> None:
    """Train every arm, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", default="multi30k.yaml")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seeds", default="1,2")
    parser.add_argument("--set", action="append", default=[], dest="overrides")
    options = parser.parse_args()
    results: Results = {}
    with tempfile.TemporaryDirectory() as scratch:
        for seed in map(int, options.seeds.split(",")):
            for precision in PRECISIONS:
                run = RunDir(Path(scratch) / f"{precision}-{seed}")
                train(options, precision, seed, run)
                results[precision, seed] = outcome(run)
                print(table(results, options.epochs), flush=True)


def train(options: argparse.Namespace, precision: str, seed: int, run: RunDir) -> None:
    """One run of whole epochs, with the schedule ending where it ends and one validation there."""
    data = options.data or load_config(options.config, options.overrides).data.directory
    overrides = [f"training.precision={precision}", f"training.seed={seed}", "training.average_last=1"]
    settings = load_config(options.config, overrides + options.overrides)
    n_tokens = int((lines_of(Corpus.open(DataDir(data)).split("train"), settings.data.tgt).n_ids() + 1).sum())
    n_steps = options.epochs * -(-n_tokens // settings.training.update_tokens)
    overrides += [f"training.max_steps={n_steps}", f"training.validate_every_steps={n_steps}"]
    fit(TrainingPlan.of(load_config(options.config, overrides + options.overrides), data, run.path))


def outcome(run: RunDir) -> dict[str, float | str]:
    """The last validation of a run, what it was trained in, and how long it took."""
    records = [json.loads(line) for line in run.log.read_text(encoding="utf-8").splitlines()]
    last = [record for record in records if record["kind"] == "valid"][-1]
    return {**{key: last[key] for key in ("loss", "bleu", "chrf", "step")}, "format": read_info(run).precision}


def table(results: Results, epochs: int) -> str:
    """Markdown: a row for each run, and the means."""
    lines = [f"| after {epochs} epochs | seed | dev loss | dev BLEU | dev chrF |", "|---|---|---|---|---|"]
    for (precision, seed), result in results.items():
        name = f"{precision} ({result['format']})"
        lines.append(f"| {name} | {seed} | {result['loss']:.4f} | {result['bleu']:.2f} | {result['chrf']:.2f} |")
    for precision in PRECISIONS:
        own = [result for (name, _), result in results.items() if name == precision]
        if len(own) > 1:
            loss, bleu, chrf = (mean(float(result[key]) for result in own) for key in ("loss", "bleu", "chrf"))
            lines.append(f"| {precision}, mean | | {loss:.4f} | {bleu:.2f} | {chrf:.2f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    set_up()
    main()
