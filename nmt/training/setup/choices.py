"""What a run chooses automatically: number format, float32 library, layout, compilation and size of micro-batches."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch

from nmt.config import Config, TrainingConfig
from nmt.console import say
from nmt.data.batching import Indices, PairLengths, Pairs
from nmt.model.device import device_name, free_memory, out_of_memory
from nmt.model.precision import autocast, pick_float32_library, pick_precision, pick_threads, use_float32_library
from nmt.model.transformer import Model
from nmt.runs.info import RunInfo
from nmt.training.objective import objective
from nmt.training.parallel import World
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
    """Resolve the settings that are `auto`, by probes if necessary.

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
        nmt=_nmt_version(),
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


@cache
def _nmt_version() -> str:
    return version()


def _pick_threads(
    config: Config, kept: RunInfo | None, inputs: Inputs, world: World, precision: str, max_tokens: int
) -> int:
    """Return the CPU threads of this process: those set by the user, those of the resumed run, or the fastest."""
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
    """Return a sample of pairs that includes the longest, at the length at which they are learned."""
    pairs = inputs.windows.sample()
    if config.joins_sides and inputs.modifiers is not None:
        return inputs.modifiers.modified(pairs, pairs.lengths.longest(max(PROBE_TOKENS)), epoch=0)
    return pairs


def _report_changes(before: RunInfo, choices: Choices) -> None:
    """Print the choices and the environment that differ from those before the run was resumed."""
    was = before.model_dump(exclude_unset=True)
    changes = [
        f"{key} {value} instead of {was[key]}"
        for key, value in asdict(choices).items()
        if key != "max_tokens" and value is not None and was.get(key, value) != value
    ]
    if changes:
        say(f"the run continues with {', '.join(changes)}: same data, same order, but results are not bit-identical")


SAFE_SHARE = {"cpu": 0.5, "cuda": 0.85}  # of free memory; a CPU's is shared with everything else
PROBE_TOKENS = (1024, 4096)


def padded_tokens(lengths: PairLengths, rows: Indices) -> int:
    """Return rows x longest side, the quantity that `training.max_tokens` bounds."""
    return len(rows) * int(max(lengths.src[rows].max(), lengths.tgt[rows].max()))


def pick_max_tokens(
    model: Model, pairs: Pairs, settings: TrainingConfig, precision: str, device: torch.device, useful: int
) -> int:
    """Return the largest micro-batch that fits into memory, with a margin: at least one pair, at most `useful` tokens.

    Measures two micro-batches of the longest pairs and extrapolates, leaving space for gradients and optimizer.
    Processes on one machine share its CPU memory, but not GPUs.
    """
    longest_first = pairs.lengths.longest(max(PROBE_TOKENS))
    longest = padded_tokens(pairs.lengths, longest_first[:1])
    small, large = (
        next(pairs.lengths.split(longest_first, max(n, k * longest))) for k, n in enumerate(PROBE_TOKENS, 1)
    )
    n_small, n_large = (padded_tokens(pairs.lengths, rows) for rows in (small, large))
    if n_small == n_large:  # a corpus of one batch
        return n_small
    try:
        used = [pass_bytes(model, pairs, rows, settings, precision, device) for rows in (small, large)]
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        used = []
    model.zero_grad(set_to_none=True)
    if not used:
        free_memory()
        return longest
    per_token = max(1.0, (used[1] - used[0]) / (n_large - n_small))
    # gradients and two moments; plus the moving average and the copy that validates it
    n_copies = 5 if settings.ema else 3
    fixed = max(0.0, used[0] - per_token * n_small) + n_copies * 4 * sum(p.numel() for p in model.parameters())
    free = SAFE_SHARE[device.type] * free_bytes(device) - fixed
    return int(max(longest, min(useful, free / per_token)))


def pass_bytes(
    model: Model, pairs: Pairs, rows: Indices, settings: TrainingConfig, precision: str, device: torch.device
) -> float:
    """Measure the memory of a forward and backward pass (bytes).

    On a GPU it is the peak, on a CPU twice what is saved for the backward pass, to allow for temporary tensors.
    """
    saved: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        with autocast(precision, device):
            loss = objective(model, pairs.batch(rows).to(device), settings).loss
        loss.backward()  # type: ignore[no-untyped-call]
    if device.type == "cuda":
        return float(torch.cuda.max_memory_allocated(device))
    return 2.0 * sum(saved.values())


def free_bytes(device: torch.device) -> float:
    """Return the memory that this process may still allocate (bytes)."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return float(free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device))
    limits = [2.0**33]  # where nothing can be read: 8 GiB
    try:
        fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        limits = [1024.0 * int(fields["MemAvailable"].split()[0])]
        group = Path("/sys/fs/cgroup")  # a container's limit, if any; cached files can be dropped
        cached = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())["inactive_file"]
        used = float((group / "memory.current").read_text()) - float(cached)
        limits.append(float((group / "memory.max").read_text()) - used)
    except (OSError, ValueError, KeyError):
        pass
    return min(limits) / int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
