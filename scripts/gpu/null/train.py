"""Count the kernel launches, waits and compilations of an update for each kind of training.

    python -m scripts.gpu.null.train [PART OF A NAME …] [--kernels N]

One JSON line for each way: kernels launched per update, copies, milliseconds of the host (CPU time of all threads), the
lines of nmt that waited for the GPU, and for compiled ways the graphs that were compiled for updates of all sizes. The
exit status is 1 if one waits, fails or is compiled more often than once (padded: twice, since an attention kernel takes
lengths that are a multiple of 8 another way). Compiled ways take minutes and run only when named.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from nmt.training.loop import train_step
from nmt.training.setup import choices as compiling
from scripts.gpu.machine import OTHER_OBJECTIVES, WAYS, noted
from scripts.gpu.null.counts import counts, launches, reset
from scripts.gpu.setting import SIMCUT, Check, Mode

COMPILED = (
    Mode("compiled, packed", layout="packed", is_compiled=True),
    Mode("compiled, packed fp16", layout="packed", precision="fp16", is_compiled=True),
    Mode("compiled, padded", is_compiled=True),
    Mode("compiled, SimCut, packed", SIMCUT, "packed", is_compiled=True),
    Mode("compiled, SimCut, padded", SIMCUT, is_compiled=True),
    *(replace(way, name=f"compiled, {way.name}", is_compiled=True) for way in OTHER_OBJECTIVES),
)
GRAPHS = (Mode("CUDA graphs, packed", layout="packed", is_compiled=True, graphs="reduce-overhead"),)
SIZES = (4096, 1024, 16_384, 32_768)
"""Target tokens of the updates for which a compiled model is run before it is counted."""
N_COUNTED = 10


def count(check: Check, mode: Mode, n_kernels: int, sizes: Sequence[int] = SIZES) -> dict[str, Any]:
    """Count what an update launches, and run one of each size before if the model is compiled."""
    session, start = check.session(mode), time.monotonic()
    pairs = check.learned(session.config)
    found: dict[str, Any] = {"way": mode.name}
    n_graphs = 0
    if mode.is_compiled:
        from torch._dynamo.utils import counters
        from torch._inductor import metrics

        torch._logging.set_logs(inductor_metrics=True)  # type: ignore[attr-defined]  # else it counts no bytes
        counters.clear()
        metrics.reset()
        for size in sizes:
            updates = check.updates(size, pairs)
            for i in range(4):
                train_step(replace(session, max_tokens=2 * size), updates[i])
                found.setdefault("model_mib", round(metrics.num_bytes_accessed / 2**20))
            found[f"graphs_until_{size}"] = n_graphs = counters["stats"]["unique_graphs"]
        found["compiling_s"] = round(time.monotonic() - start)
    updates = check.updates(mode.update_tokens, pairs)
    for i in range(3):
        train_step(session, updates[i])
    with noted(check.device) as places:
        train_step(session, updates[3])
    reset()
    n_tokens, began = 0, time.process_time()
    for i in range(4, 4 + N_COUNTED):
        n_tokens += train_step(session, updates[i]).update.n_tokens
    seconds = time.process_time() - began
    seen = counts()
    kinds = ("SYNC", "memcpy", "graph", "cudaMalloc")
    found |= {
        "launches": launches() / N_COUNTED,
        "host_ms": round(1000 * seconds / N_COUNTED, 1),
        "tokens": n_tokens // N_COUNTED,
        **{name: n / N_COUNTED for name, n in sorted(seen.items()) if name.startswith(kinds)},
        "waits": {f"{file}:{line} {name}": n for (file, name, line), n in places.items()},
        "ok": not places and n_graphs <= (1 if mode.layout == "packed" else 2),
    }
    if n_kernels:
        found["kernels"] = {name[:160]: n / N_COUNTED for name, n in seen.most_common(n_kernels)}
    return found


def main() -> int:
    """Count in the ways that are named, or all that are not compiled."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="parts of names; by default all ways that are not compiled")
    parser.add_argument("--kernels", type=int, default=0, metavar="N", help="show the N commonest kernels")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="of updates, for compiled ways")
    parser.add_argument("--layers", type=int, default=6, help="of encoder and decoder each (%(default)s)")
    parser.add_argument(
        "--backend", default=compiling.BACKEND, help="compiler (%(default)s); aot_eager only traces, which is faster"
    )
    options = parser.parse_args()
    compiling.BACKEND = options.backend
    named = [mode for mode in (*WAYS, *COMPILED, *GRAPHS) if any(name in mode.name for name in options.names)]
    check, status = Check("cuda", small=False), 0
    layers = {f"{side}_layers": options.layers for side in ("encoder", "decoder")}
    check.sizes = replace(check.sizes, model={**check.sizes.model, **layers})
    for mode in named or WAYS:
        try:
            found = count(check, mode, options.kernels, options.sizes)
        except Exception as error:  # the next may go
            found = {"way": mode.name, "error": " ".join(f"{type(error).__name__}: {error}".split())[:500], "ok": False}
        print(json.dumps(found), flush=True)
        status |= not found["ok"]
    return status


if __name__ == "__main__":
    sys.exit(main())
