"""Count the kernel launches and waits of each search method for one batch.

    python -m scripts.gpu.null.search [PART OF A NAME …]

One JSON line for each way: kernels launched per step, milliseconds of the host (CPU time of all threads), and the lines
of nmt that waited for the GPU, with how often in the whole search. The exit status is 1 if one fails or waits but where
a search has to. All sentences are searched to the longest limit.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any
from unittest import mock

import numpy as np
import torch

from nmt.config import SearchConfig
from nmt.model.inference import InferenceModel
from scripts.gpu import machine
from scripts.gpu.machine import SEARCHES, noted
from scripts.gpu.null.counts import launches, reset
from scripts.gpu.null.made_up import make_up
from scripts.gpu.setting import Check, Mode
from scripts.gpu.speed import decode

MAX_LENGTH = 26


def count(check: Check, name: str) -> dict[str, Any]:
    """Count what one way to search launches."""
    model = check.session(Mode("padded")).model.eval()
    rows = check.pairs.lengths.sort(np.arange(2048))
    rows = list(check.pairs.lengths.split(rows, 4096))[4]
    settings = SearchConfig(max_length_ratio=0, max_length_offset=MAX_LENGTH, **SEARCHES[name])
    decode(check, model, rows, settings)
    with noted(check.device) as places:
        decode(check, model, rows, settings)
    reset()
    start = time.process_time()
    with mock.patch.object(InferenceModel, "step", autospec=True, side_effect=InferenceModel.step) as step:
        decode(check, model, rows, settings)
    seconds, n_steps = time.process_time() - start, step.call_count
    return {
        "search": name,
        "sentences": len(rows),
        "steps": n_steps,
        "launches": round(launches() / n_steps, 1),
        "host_ms": round(1000 * seconds / n_steps, 2),
        "waits": {f"{file}:{line} {function}": n for (file, function, line), n in places.items()},
        "ok": all(place[:2] in machine.INHERENT for place in places),
    }


def main(names: list[str]) -> int:
    """Count in the ways whose names have one of these parts, or in all."""
    make_up()
    check, status = Check("cuda", small=False), 0
    torch.set_num_threads(1)
    for name in SEARCHES:
        if names and not any(part in name for part in names):
            continue
        try:
            found = count(check, name)
        except Exception as error:  # the next may go
            found = {"search": name, "error": " ".join(f"{type(error).__name__}: {error}".split())[:500], "ok": False}
        print(json.dumps(found), flush=True)
        status |= not found["ok"]
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
