"""Print the results of runs, and means over runs that differ only in their seed: NAME-1, NAME-2 …

    python scripts/experiments/table.py runs/multi30k/*

BLEU on the development set, the best validation of the weights as they learned, of their moving average, and of the
mean of the last checkpoints.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from nmt.layout import RunDir
from nmt.recipes.sweep_plan import shown_score
from nmt.recipes.sweep_report import mean
from nmt.runs.info import Weights, read_selected
from nmt.runs.listing import summarise
from nmt.runs.log import best_scores

KINDS: tuple[Weights, ...] = ("raw", "ema", "average")


def main(paths: Sequence[Path]) -> None:
    """Print both tables as Markdown; means are over runs that are finished."""
    arms: dict[str, list[dict[Weights, float]]] = {}
    print(
        "| run | updates | minutes | raw | moving average | mean of the last | taken |\n|---|---|---|---|---|---|---|"
    )
    for path in paths:
        run = RunDir(path)
        found, best = summarise(run), best_scores(run, "bleu") if run.log.is_file() else {}
        scores = " | ".join(map(shown_score, map(best.get, KINDS)))
        minutes = "-" if found.minutes is None else f"{found.minutes:.0f}"
        taken = read_selected(run).weights if found.state == "finished" else found.state
        print(f"| {path.name} | {found.step or 0:,} | {minutes} | {scores} | {taken} |")
        if found.state == "finished":
            arms.setdefault(path.name.rpartition("-")[0], []).append(best)
    print("\n| arm | seeds | raw | moving average | mean of the last |\n|---|---|---|---|---|")
    for arm, runs in arms.items():
        means = " | ".join(mean([best[kind] for best in runs if kind in best]) for kind in KINDS)
        print(f"| {arm} | {len(runs)} | {means} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Print what became of some runs, and means over seeds.")
    parser.add_argument("run", type=Path, nargs="+", help="a run directory, NAME-SEED")
    main(parser.parse_args().run)
