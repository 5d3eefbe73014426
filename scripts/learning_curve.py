"""Print the validations of a run as a table: minutes, steps, BLEU and chrF on the development set.

python scripts/learning_curve.py runs/multi30k-de-en
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from nmt.layout import RunDir


def table(run: RunDir) -> str:
    """The curve as Markdown; the last row may be the average of the last checkpoints."""
    rows = ["| minutes | steps | dev BLEU | dev chrF | dev perplexity |", "|---|---|---|---|---|"]
    for line in run.log.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if record["kind"] == "train":
            continue
        steps = f"{record['step']:,}" + (" (average)" if record["kind"] == "average" else "")
        scores = f"{record['bleu']:.1f} | {record['chrf']:.1f} | {record['perplexity']:.2f}"
        rows.append(f"| {record['minutes']:.1f} | {steps} | {scores} |")
    return "\n".join(rows)


if __name__ == "__main__":
    print(table(RunDir(Path(sys.argv[1]))))
