"""Print the validations of a run as a table: minutes, steps, BLEU and chrF on the development set.

python scripts/learning_curve.py runs/multi30k-de-en
"""

from __future__ import annotations

import argparse
from pathlib import Path

from nmt.cli.exits import errors_for_people
from nmt.errors import CheckpointError
from nmt.layout import RunDir
from nmt.runs.listing import KINDS, read_log


def table(run: RunDir) -> str:
    """The curve as Markdown: at each validation, BLEU of the weights as they learned, of their moving average and of
    the mean of the last checkpoints, if there are any; chrF and perplexity are those of the kind with the highest BLEU.
    Raises CheckpointError if there is no validation.
    """
    validations: dict[int, dict[str, dict[str, float]]] = {}
    for record in read_log(run.log):
        if record.get("kind") in KINDS:
            validations.setdefault(record["step"], {})[record["kind"]] = record
    if not validations:
        raise CheckpointError(f"{run.path}: no run with a validation; nmt train makes one")
    rows = [
        "| minutes | steps | BLEU raw | moving average | mean of the last | chrF | perplexity |",
        "|---|---|---|---|---|---|---|",
    ]
    for step, kinds in validations.items():
        scores = " | ".join(f"{kinds[kind]['bleu']:.1f}" if kind in kinds else "" for kind in KINDS)
        best = max(kinds.values(), key=lambda record: record["bleu"])
        minutes = max(record["minutes"] for record in kinds.values())
        rows.append(f"| {minutes:.1f} | {step:,} | {scores} | {best['chrf']:.1f} | {best['perplexity']:.2f} |")
    return "\n".join(rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Print the validations of a run as a table.")
    parser.add_argument("run", type=Path, help="a run directory")
    with errors_for_people():
        print(table(RunDir(parser.parse_args().run)))
