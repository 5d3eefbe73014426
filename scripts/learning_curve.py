"""Print the validations of a run as a table: minutes, steps, BLEU and chrF on the development set.

python scripts/learning_curve.py runs/multi30k-de-en
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from nmt.layout import RunDir
from nmt.runs import KINDS


def table(run: RunDir) -> str:
    """The curve as Markdown: at each validation, BLEU of the weights as they learned, of their moving average and of
    the mean of the last checkpoints, if there are any; chrF and perplexity are those of the kind with the highest BLEU.
    """
    validations: dict[int, dict[str, dict[str, float]]] = {}
    for line in run.log.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if record["kind"] in KINDS:
            validations.setdefault(record["step"], {})[record["kind"]] = record
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
    print(table(RunDir(Path(sys.argv[1]))))
