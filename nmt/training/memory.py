"""`training.max_tokens: auto`: the largest micro-batch that fits into memory."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from nmt.config import TrainingConfig
from nmt.data.batching import Indices, PairLengths, Pairs
from nmt.model.device import free_memory, out_of_memory
from nmt.model.precision import autocast
from nmt.model.transformer import Model
from nmt.training.objective import objective

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
