"""What a run chooses automatically: number format, float32 library, layout, compilation and size of micro-batches."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass

import numpy as np
import torch

from nmt.config import Config
from nmt.console import say
from nmt.data.batching import Pairs
from nmt.model.device import device_name
from nmt.model.precision import pick_float32_library, pick_precision, pick_threads, use_float32_library
from nmt.runs.info import RunInfo
from nmt.training.memory import PROBE_TOKENS, pass_bytes, pick_max_tokens
from nmt.training.parallel.world import World
from nmt.training.setup.compiled import pick_compile, pick_layout
from nmt.training.setup.inputs import Inputs
from nmt.version import version

SMALL_MODEL, FEW_TOKENS = 4_000_000, 1024
"""Parameters and padded tokens that are timed to choose the threads; larger models have enough work for all."""


@dataclass(frozen=True)
class Choices:
    """The choices of rank 0 and the environment in which they were made, as run.json keeps them (see `RunInfo`)."""

    precision: str
    device: str
    device_name: str
    nmt: str
    torch: str
    threads: int
    processes: int
    float32_library: str
    layout: str
    compiled: bool
    auto_max_tokens: int | None
    max_tokens: int


def choose(config: Config, before: RunInfo | None, inputs: Inputs, world: World) -> Choices:
    """Choose what the settings leave to `auto`, by probes where that takes one.

    `before` is the run.json of a resumed run, which keeps its choices unless it has moved to another device. There, and
    with other software or other numbers of threads and processes, results are as good but not the same bits: a message
    says so.
    """
    settings, device = config.training, inputs.device
    name, kept = device_name(device), before
    if before is not None and (before.device, before.device_name) != (device.type, name):
        kept = None
    precision = pick_precision(settings.precision, device) if kept is None else kept.precision
    # runs of versions without this choice have used mkl
    library = pick_float32_library(precision, device) if kept is None else kept.float32_library or "mkl"
    use_float32_library(library)
    layout = pick_layout(config, device, precision)
    is_compiled = pick_compile(config, device, inputs.to_shard)
    max_tokens, auto_max_tokens = settings.max_tokens, None
    if max_tokens == "auto":
        kept_tokens = kept.auto_max_tokens if kept is not None and kept.processes == world.size else None
        useful = 4 * settings.update_tokens // world.size
        max_tokens = auto_max_tokens = kept_tokens or pick_max_tokens(
            inputs.model, _sample(config, inputs), settings, precision, device, useful
        )
    choices = Choices(
        precision=precision,
        device=device.type,
        device_name=name,
        nmt=version(),
        torch=torch.__version__,
        threads=_pick_threads(config, kept, inputs, world, precision, max_tokens),
        processes=world.size,
        float32_library=library,
        layout=layout,
        compiled=is_compiled,
        auto_max_tokens=auto_max_tokens,
        max_tokens=max_tokens,
    )
    if before is not None:
        _report_changes(before, choices)
    return choices


def _pick_threads(
    config: Config, kept: RunInfo | None, inputs: Inputs, world: World, precision: str, max_tokens: int
) -> int:
    """Return the CPU threads of this process: as the user has set them, as before, or as a micro-batch is fastest."""
    n_threads, model = torch.get_num_threads(), inputs.model
    is_chosen = {"OMP_NUM_THREADS", "MKL_NUM_THREADS"} & {*os.environ}
    if n_threads == 1 or is_chosen or world.size > 1 or inputs.device.type != "cpu":
        return n_threads
    before = kept.threads if kept is not None and kept.processes in (None, world.size) else None
    if before or sum(parameter.numel() for parameter in model.parameters()) > SMALL_MODEL:
        return min(n_threads, before or n_threads)
    pairs, n_tokens = _sample(config, inputs), min(max_tokens, config.training.update_tokens, FEW_TOKENS)
    rows = next(pairs.lengths.split(np.arange(len(pairs)), n_tokens))

    def work() -> None:
        pass_bytes(model, pairs, rows, config.training, precision, inputs.device)
        model.zero_grad()

    return pick_threads(work, n_threads)


def _sample(config: Config, inputs: Inputs) -> Pairs:
    """Return pairs among which are the longest, as long as they are learned."""
    pairs = inputs.windows.sample()
    if config.joins_sides and inputs.modifiers is not None:
        return inputs.modifiers.modified(pairs, pairs.lengths.longest(max(PROBE_TOKENS)), epoch=0)
    return pairs


def _report_changes(before: RunInfo, choices: Choices) -> None:
    """Say with which other choices and environment a run is resumed."""
    was = before.model_dump(exclude_unset=True)
    changes = [
        f"{key} {value} instead of {was[key]}"
        for key, value in asdict(choices).items()
        if key != "max_tokens" and value is not None and was.get(key, value) != value
    ]
    if changes:
        say(f"the run continues with {', '.join(changes)}: the same data in the same order, but not the same bits")
