"""The memory that training takes on a device, by counting: weights, gradients, optimizer state and activations.

Activations are the tensors that autograd keeps for the backward pass. They are listed for each kind of module;
scripts/results/memory.md compares the sums with measurements.
"""

from __future__ import annotations

import os
from pathlib import Path

import torch
from torch import nn

from nmt.console import say
from nmt.data.rows import ROW_LENGTH
from nmt.model.attention import MultiHeadAttention
from nmt.model.device import DTYPES
from nmt.model.transformer import ACTIVATIONS, FeedForward, Model, SubLayer
from nmt.training.loss import block_rows
from nmt.training.optim import parameter_groups
from nmt.training.session import Session
from nmt.training.settings import TrainingConfig

PADDING = 1.1
"""Tokens of a batch with padding, by its tokens without; see `RowPacking`."""
FLOAT = 4
"""Bytes of a weight, of its gradient and of each of its moments."""
TOO_LITTLE = (
    "memory may run out; lower training.max_tokens, set training.recompute=true or training.freeze=[embeddings], or "
    "start from an imported model with fewer pieces (nmt import --keep-pieces-of)"
)


def kept_by(module: nn.Module, width: int, is_cpu: bool) -> float:
    """Return the bytes per token that a part of a layer keeps for the backward pass; `width` is the size of the numbers
    in matrix products."""
    if not isinstance(module, SubLayer | MultiHeadAttention | FeedForward):
        return 0.0
    has_dropout = module.dropout.p > 0
    mask = has_dropout * (width if is_cpu else 1)
    match module:
        case SubLayer():  # the input of the norm, and the mask of dropout
            return (FLOAT + mask) * module.norm.weight.numel()
        case MultiHeadAttention():  # inputs, queries, keys, values and outputs; the GPU's kernel keeps no weights
            probs = ROW_LENGTH * module.n_heads * (1 + 2 * has_dropout) * is_cpu
            return width * (5 * module.d_model + probs)
    # inputs, those of the activation if its outputs do not give its gradient, and dropped outputs
    inner = width * (1 + has_dropout + (module.activation is not ACTIVATIONS["relu"])) + mask
    return width * module.inner.in_features + inner * module.inner.out_features


def activations(model: Model, width: int, is_cpu: bool) -> float:
    """Return the bytes per token of a micro-batch from the embeddings to the last hidden states; see `kept_by`."""
    kept = 0.0
    largest = 0.0
    for stack in model.stacks:
        d_model = stack.embedding.weight.size(1)
        kept += 4 * FLOAT * d_model  # dropout and norm, hidden states of the tokens in the loss, their gradient
        for layer in stack.layers:
            of_layer = sum(kept_by(module, width, is_cpu) for module in layer.modules())
            if stack.recomputes:
                largest = max(largest, of_layer)
                of_layer = (FLOAT + 2 * width) * d_model  # its input, and the keys and values of cross-attention
            kept += of_layer
    return kept + largest


def fixed_memory(model: Model, settings: TrainingConfig) -> tuple[int, int, int]:
    """Return the bytes of weights, with the moving average and the model that validates it, of gradients, and of the
    optimizer's moments."""
    n_learned = 0
    n_moments = 0
    for group in parameter_groups(model, settings):
        n = sum(parameter.numel() for parameter in group["params"])
        n_learned += n
        n_moments += n if "blocks" in group else 2 * n
    n_copies = 3 if settings.ema else 1
    return FLOAT * n_copies * model.n_parameters, FLOAT * n_learned, FLOAT * n_moments


def count_memory(
    model: Model, settings: TrainingConfig, device: torch.device, precision: str, n_tokens: int, n_shards: int = 1
) -> dict[str, float]:
    """Return the bytes of each part of the memory that training a model takes; the model may be on the meta device.

    n_tokens: those of the largest micro-batch, on its larger side. n_shards: the number of processes over which the
    model is sharded.
    """
    weights, gradients, optimizer = (part / n_shards for part in fixed_memory(model, settings))
    n_passes = 2 if settings.has_consistency else 1
    width = DTYPES[precision].itemsize
    in_pass = PADDING * n_tokens * n_passes * activations(model, width, device.type == "cpu")
    if width < FLOAT:  # the weights of matrix products are copied
        in_pass += width * model.n_parameters
    if not settings.facts.classifies:
        weight = model.output_weight
        n_rows = min(n_tokens, block_rows(len(weight), device))
        in_pass += 3 * n_passes * width * n_rows * len(weight)  # logits, probabilities, their gradients
        in_pass += 2 * FLOAT * weight.numel() * weight.requires_grad  # its gradient, and what is added to it
    return {"weights": weights, "gradients": gradients, "optimizer": optimizer, "activations and loss": in_pass}


def check_memory(session: Session) -> None:
    """Print how much memory training takes, and warn if the device has less."""
    n_processes = session.world.size
    n_sides = 1 + session.training_objective.joins_sides
    n_tokens = min(session.max_tokens, n_sides * session.settings.update_tokens // n_processes)
    n_shards = n_processes if session.is_sharded else 1
    memory = count_memory(session.model, session.settings, session.device, session.precision, n_tokens, n_shards)
    available = free_bytes(session.device) + memory["weights"]  # which are there, like the moments of a resumed run
    if session.state.step:
        available += memory["optimizer"]
    needed = sum(memory.values())
    parts = ", ".join(f"{name} {n_bytes / 1e6:,.0f}" for name, n_bytes in memory.items())
    text = f"training takes about {needed / 1e6:,.0f} MB of memory ({parts}; {n_tokens:,} tokens at a time)"
    say(f"{text}, {available / 1e6:,.0f} MB are free")
    if needed > available:
        say(f"warning: {TOO_LITTLE}")


def free_bytes(device: torch.device) -> float:
    """Return the number of bytes that this process may still allocate."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return float(free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device))
    limits = [2.0**33]  # 8 GiB, where nothing can be read
    try:
        fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        limits = [1024.0 * int(fields["MemAvailable"].split()[0])]
        group = Path("/sys/fs/cgroup")  # the limit of a container, if any; cached files can be dropped
        cached = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())["inactive_file"]
        used = float((group / "memory.current").read_text()) - float(cached)
        limits.append(float((group / "memory.max").read_text()) - used)
    except (OSError, ValueError, KeyError):
        pass
    return min(limits) / int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
