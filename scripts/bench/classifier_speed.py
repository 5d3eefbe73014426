"""Train our classifier and measure its speed. `classifiers.py` runs this module in a separate process."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from nmt.process import set_up


def main() -> int:
    """Train once."""
    set_up()  # before torch is there
    from torch.optim.optimizer import register_optimizer_step_post_hook

    from nmt.config.load import load_config
    from nmt.data.batching import Pairs
    from nmt.training.loop import fit

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for name in ("config", "data", "run", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--set", action="append", default=[], help="setting=value")
    parser.add_argument("--warm", type=int, default=50, help="updates before the speed is measured")
    options = parser.parse_args()
    marks: list[tuple[float, float, int]] = []
    n_examples, batch = 0, Pairs.batch

    def counted(pairs: Pairs, rows: Any) -> Any:
        nonlocal n_examples
        n_examples += len(rows)
        return batch(pairs, rows)

    def mark(*_: Any) -> None:
        if n_examples:  # not a trial without a batch
            marks.append((time.monotonic(), time.process_time(), n_examples))

    Pairs.batch = counted  # type: ignore[assignment]
    register_optimizer_step_post_hook(mark)
    fit(load_config(options.config, options.set), options.data, options.run)
    begin, cpu_begin, first = marks[options.warm - 1]
    end, cpu_end, last = marks[-1]
    rates = {"per_second": (last - first) / (end - begin), "per_cpu_second": (last - first) / (cpu_end - cpu_begin)}
    options.out.write_text(json.dumps(rates), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
