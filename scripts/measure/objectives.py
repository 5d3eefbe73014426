"""Measure the speed of training with each objective, in CPU seconds: tokens learned from, of the same text.

    python -m scripts.measure.objectives CONFIG [--data DIR] [--rounds N] [--updates N]

CONFIG is of a translation run with a joint vocabulary whose data is prepared. Each round makes the same number of
updates with every objective in turn, after two to warm up; a decoder alone has as many layers more as make up for the
encoder. Printed: tokens that the stacks of the model read in a CPU second, separators and ends of sentence counted,
updates in a CPU second, and quartiles of the ratio to translation, round by round. On one thread (OMP_NUM_THREADS=1).
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.config import Config
from nmt.config.load import load_config
from nmt.process import set_up
from nmt.training.loop import train_step
from nmt.training.session import Session
from nmt.training.setup.start import start

ARMS: dict[str, dict[str, Any]] = {
    "translation": {},
    "denoising": {"training.objective": "denoising"},
    "masked": {"model.kind": "encoder", "training.objective": "masked"},
    "masked, pair task": {
        "model.kind": "encoder",
        "training.objective": "masked",
        "training.masked.pair_task": ["shuffled"],
    },
    "causal": {"model.kind": "decoder", "training.objective": "causal"},
    "translation, decoder alone": {"model.kind": "decoder"},
}


@dataclass
class Cost:
    """Time and text of a number of updates."""

    seconds: float
    tokens: int
    updates: int


def settings(config: str, arm: str) -> Config:
    """Return the configuration with the changes of an arm."""
    overrides = [f"{key}={value}" for key, value in ARMS[arm].items()]
    plain = load_config(config, overrides)
    if arm != "translation, decoder alone":
        return plain
    model = plain.model  # without cross-attention, which is as large as self-attention
    of_attention, of_layer = 4 * model.d_model**2, 4 * model.d_model**2 + 2 * model.d_model * model.d_ff
    n = (model.encoder_layers + model.decoder_layers) * of_layer + model.decoder_layers * of_attention
    return load_config(config, [*overrides, f"model.decoder_layers={round(n / of_layer)}"])


def updates_of(session: Session) -> Iterator[Any]:
    """Yield updates without end."""
    while True:
        yield from session.updates()


def measured(session: Session, updates: Iterator[Any], n: int) -> Cost:
    """Make some updates."""
    start_time, tokens = time.process_time(), 0
    for _ in range(n):
        update = next(updates)
        n_tokens = train_step(session, update).n_tokens
        if session.config.model.kind != "translation":  # one stack reads the sequences that are learned
            lengths = session.pairs.lengths.tgt
            n_tokens = int(lengths.sum() if session.changed is not None else lengths[update.rows].sum())
        tokens += n_tokens
    return Cost(time.process_time() - start_time, tokens, n)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each objective."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config")
    parser.add_argument("--data", type=Path, help="default: the config's data.dir")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--updates", type=int, default=10, help="of each objective in a round")
    options = parser.parse_args(arguments)
    set_up()
    with tempfile.TemporaryDirectory() as folder:
        sessions = {}
        for i, arm in enumerate(ARMS):
            config = settings(options.config, arm)
            data = options.data or config.data.directory
            session = start(config, data, Path(folder) / str(i), resume=False)
            sessions[arm] = session, updates_of(session)
            measured(*sessions[arm], 2)
        rounds = [{arm: measured(*sessions[arm], options.updates) for arm in ARMS} for _ in range(options.rounds)]
    print("| objective | parameters | tokens/s | updates/s | tokens/s / translation's |")
    print("|---|---|---|---|---|")
    for arm, (session, _) in sessions.items():
        n_parameters = sum(parameter.numel() for parameter in session.model.parameters())
        rates = [each[arm].tokens / each[arm].seconds for each in rounds]
        ratios = [rate * each["translation"].seconds / each["translation"].tokens
                  for rate, each in zip(rates, rounds, strict=True)]  # fmt: skip
        low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else 3 * ratios
        per_second = statistics.median(each[arm].updates / each[arm].seconds for each in rounds)
        print(
            f"| {arm} | {n_parameters:,} | {statistics.median(rates):,.0f} | {per_second:.2f} | "
            f"{middle:.2f} ({low:.2f}-{high:.2f}) |"
        )


if __name__ == "__main__":
    main()
