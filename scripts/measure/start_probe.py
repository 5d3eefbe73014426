"""Run `nmt ARGUMENTS…` until the end of its first update, and write the time of each phase for start_time.py.

    python -m scripts.measure.start_probe STARTED OUT ARGUMENTS…

STARTED is when this process was started (time.monotonic of the caller); OUT gets a JSON object of seconds.
Everything is measured from outside: imports, and the functions named below, are timed by wrappers.
"""

from __future__ import annotations

import builtins
import json
import os
import sys
import time
from collections import defaultdict
from importlib import import_module
from typing import Any

PHASES = (
    ("nmt.data.corpus", "Corpus.open", "corpus"),
    ("nmt.data.corpus", "Corpus.verify", "corpus"),
    ("nmt.training.setup.inputs", "Windows", "corpus"),
    ("nmt.data.corpus", "Tokenizers.load", "tokenizer"),
    ("nmt.training.setup.start", "TextValidator", "development set"),
    ("nmt.training.setup.inputs", "make_model", "model and optimizer"),
    ("nmt.training.setup.start", "make_optimizer", "model and optimizer"),
    ("nmt.training.setup.start", "make_scaler", "model and optimizer"),
    ("nmt.training.setup.choices", "pick_precision", "probes"),
    ("nmt.training.setup.choices", "pick_float32_library", "probes"),
    ("nmt.training.setup.choices", "pick_max_tokens", "probes"),
    ("nmt.training.setup.start", "write_run", "writing the run"),
    ("nmt.training.report.meter", "TrainingLog", "writing the run"),
    ("nmt.data.windows", "epoch_updates", "batches of the epoch"),
    ("nmt.training.loop", "train_step", "first update"),
)
"""Module of each function, its name there, and the label of its time."""

GROUPS = {
    "torch": "import torch",
    "torch._dynamo": "import torch._dynamo",
    "pydantic": "import typer, pydantic, yaml",
    "typer": "import typer, pydantic, yaml",
    "yaml": "import typer, pydantic, yaml",
    "sentencepiece": "import sentencepiece",
    "sacrebleu": "import sacrebleu",
    "tensorboard": "import tensorboard",
    "torch.utils.tensorboard": "import tensorboard",
    "matplotlib": "import matplotlib",
    "nmt": "import nmt itself",
}
OTHERS = "import others"


def group(name: str) -> str:
    """Return the label of a module's import."""
    parts = name.split(".")
    return next((GROUPS[p] for n in range(len(parts), 0, -1) if (p := ".".join(parts[:n])) in GROUPS), OTHERS)


class Clock:
    """Seconds by what goes on; of things within each other the innermost, but of imports the first of another library:
    what a library imports is its own time."""

    def __init__(self, started: float) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._now, self._inside = started, ["interpreter"]

    def enter(self, what: str) -> None:
        """Something begins."""
        self._charge()
        self._inside.append(what)

    def leave(self) -> None:
        """End what began last."""
        self._charge()
        self._inside.pop()

    @property
    def in_library(self) -> bool:
        """Whether a library that is not nmt is being imported."""
        return self._inside[-1].startswith("import ") and self._inside[-1] != GROUPS["nmt"]

    def begin(self) -> None:
        """The interpreter runs: all that is not named from here on is the rest."""
        self._charge()
        self._inside = ["the rest"]

    def _charge(self) -> None:
        now = time.monotonic()
        self.seconds[self._inside[-1]] += now - self._now
        self._now = now


def time_imports(clock: Clock) -> None:
    """Time every import."""
    real = builtins.__import__

    def timed(name: str, *rest: Any, **named: Any) -> Any:
        level = rest[3] if len(rest) > 3 else named.get("level", 0)
        if level or name in sys.modules or clock.in_library:
            return real(name, *rest, **named)
        clock.enter(group(name))
        try:
            return real(name, *rest, **named)
        finally:
            clock.leave()

    builtins.__import__ = timed


def time_phases(clock: Clock, out: str) -> None:
    """Time the functions of `PHASES`; the end of `train_step` is the end of this process."""
    for module, path, what in PHASES:
        *owners, name = path.split(".")
        owner: Any = import_module(module)
        for attribute in owners:
            owner = getattr(owner, attribute)
        setattr(owner, name, _timed(clock, getattr(owner, name), what, out if name == "train_step" else None))


def _timed(clock: Clock, function: Any, what: str, out: str | None) -> Any:
    def timed(*arguments: Any, **named: Any) -> Any:
        clock.enter(what)
        try:
            return function(*arguments, **named)
        finally:
            clock.leave()
            if out is not None:
                with open(out, "w", encoding="utf-8") as file:  # noqa: PTH123 (pathlib is one more import)
                    json.dump(clock.seconds, file)
                os._exit(0)

    return timed


def main() -> None:
    """See above."""
    started, out, *arguments = sys.argv[1:]
    clock = Clock(float(started))
    clock.begin()
    time_imports(clock)
    import nmt.cli

    nmt.process.set_up()  # before torch is imported
    import nmt.training.loop  # to be timed as an import

    time_phases(clock, out)
    nmt.cli.main(arguments)


if __name__ == "__main__":
    main()
