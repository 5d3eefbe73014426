"""Translate with one toolkit in this process and measure its speed.

    python -m scripts.bench.rate NAME --model DIR --text DIR --beam K --batch B --pieces N --lines N --seconds S
                         --out FILE --started T

The model is loaded once; the first line is translated, which ends the start-up; a few batches warm it up. Then the
whole text is translated again and again until the seconds are full. The result is one JSON object in FILE, with the
translations of the last time. Standard library only; Linux, for what other processes use.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scripts.bench.peer import NOTHING, Counts, Loaded, Output, Search
from scripts.bench.peers import PEERS
from scripts.bench.probe import other_processes
from scripts.bench.task import SRC
from scripts.bench.windows import Step, cut, medians

WARM_BATCHES = 2
WARM_LINES = 10
"""At least."""


def measure(loaded: Loaded, lines: Sequence[str], search: Search, seconds: float) -> dict[str, Any]:
    """Rates over whole passes through the lines, and what came out."""
    loaded.translate(lines[: max(WARM_LINES, WARM_BATCHES * search.batch)])
    steps = [Step(time.time(), NOTHING, other_processes())]
    outputs: list[Output] = []
    while steps[-1].time - steps[0].time < seconds:
        outputs = loaded.translate(lines)
        pieces = sum(output.pieces for output in outputs)
        counts = Counts(len(lines), pieces, pieces, 0, 0)
        steps.append(Step(time.time(), counts, other_processes()))
    lengths = [output.pieces for output in outputs]
    return {
        **medians(cut(steps)),
        "passes": len(steps) - 1,
        "pieces_least": min(lengths),
        "pieces_most": max(lengths),
        "pieces_mean": sum(lengths) / len(lengths),
        "translations": [output.text for output in outputs],
    }


def main() -> None:
    """Measure one way to translate."""
    parser = argparse.ArgumentParser()
    parser.add_argument("peer", choices=PEERS)
    for name in ("model", "text", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    for name in ("beam", "batch", "pieces", "lines"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--started", type=float, required=True, help="when the process was started (Unix time)")
    options = parser.parse_args()
    decoding = PEERS[options.peer].decoding
    assert decoding is not None
    lines = (options.text / f"{decoding.source}.{SRC}").read_text(encoding="utf-8").split("\n")[: options.lines]
    search = Search(options.beam, options.batch, options.pieces)
    loaded = decoding.load(options.model, options.text, search)
    loaded.translate(lines[:1])
    start = time.time() - options.started
    result = measure(loaded, lines, search, options.seconds)
    torch = sys.modules.get("torch")
    more = {
        "start_s": start,
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "threads": torch.get_num_threads() if torch is not None else None,
        "note": loaded.note,
    }
    options.out.write_text(json.dumps({**result, **more}), encoding="utf-8")


if __name__ == "__main__":
    main()
