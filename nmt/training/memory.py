"""The memory that training takes on a device, by counting: weights, gradients, optimizer state and activations.

Activations are the tensors that autograd keeps for the backward pass. They are listed for each kind of sub-layer;
scripts/results/memory.md compares the sums with measurements.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import torch

from nmt.console import say
from nmt.data.rows import ROW_LENGTH
from nmt.model.device import DTYPES
from nmt.model.settings import ModelConfig
from nmt.model.transformer import Model
from nmt.training.loss import block_rows
from nmt.training.parallel import to_local
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


def activations(config: ModelConfig, recompute: bool, width: int, is_cpu: bool) -> float:
    """Return the bytes per token of a micro-batch that are kept from the embeddings to the last hidden states.

    width: the size of the numbers in matrix products.
    """
    d_model = config.d_model
    probs = ROW_LENGTH * config.n_heads * (1 + 2 * (config.attention_dropout > 0))
    # inputs, queries, keys, values, outputs, and the mask of residual dropout; a GPU's kernel keeps no weights
    attention = 6 * d_model + probs * is_cpu
    # the activation's outputs, its inputs if those do not give its gradient, and outputs after dropout with their mask
    inner = 1 + (config.activation != "relu") + 2 * (config.activation_dropout > 0)
    feed_forward = 2 * d_model + inner * config.d_ff
    kept = 8 * FLOAT * d_model  # embeddings and last norms, hidden states of the tokens in the loss, their gradient
    layer = 0
    for n_attentions, stack in enumerate(config.stacks, 1):  # a decoder attends to the encoder as well
        layer = width * (n_attentions * attention + feed_forward) + FLOAT * d_model * (n_attentions + 1)
        # of a layer to be recomputed, only its inputs, with the keys and values of cross-attention
        kept_of_layer = (FLOAT + 2 * width) * d_model if recompute else layer
        kept += kept_of_layer * getattr(config, f"{stack}_layers")
    return kept + layer * recompute


def fixed_memory(model: Model, ema: float) -> dict[str, float]:
    """Return the bytes of weights, with the moving average and the model that validates it, of gradients, and of the
    optimizer's moments (at most; Muon has fewer). A process has only its shard of a sharded model."""
    parameters = [*map(to_local, model.parameters())]
    n_bytes = FLOAT * sum(parameter.numel() for parameter in parameters)
    learned = FLOAT * sum(parameter.numel() for parameter in parameters if parameter.requires_grad)
    return {"weights": 3 * n_bytes if ema else n_bytes, "gradients": learned, "optimizer": 2 * learned}


def count_memory(
    config: ModelConfig, settings: TrainingConfig, model: Model, device: torch.device, precision: str, n_tokens: int
) -> dict[str, float]:
    """Return the bytes of each part of the memory that training a model takes; the model may be on the meta device.

    n_tokens: the tokens of the largest micro-batch, on its larger side.
    """
    width = DTYPES[precision].itemsize
    weight = model.output_weight
    in_pass = PADDING * n_tokens * activations(config, settings.recompute, width, device.type == "cpu")
    # logits, probabilities, their gradients
    in_pass += 3 * width * min(n_tokens, block_rows(len(weight), device)) * len(weight)
    in_pass *= 1 + settings.has_consistency
    in_pass += 2 * FLOAT * weight.numel() * weight.requires_grad  # its gradient, and what is added to it
    if width < FLOAT:  # the weights of matrix products are copied
        in_pass += width * model.n_parameters
    return {**fixed_memory(model, settings.ema), "activations and loss": in_pass}


def check_memory(session: Session, config: ModelConfig) -> None:
    """Print how much memory training takes, and warn if the device has less."""
    settings = session.settings
    n_tokens = (1 + session.training_objective.joins_sides) * settings.update_tokens // session.world.size
    n_tokens = min(session.max_tokens, n_tokens)
    memory = count_memory(config, settings, session.model, session.device, session.precision, n_tokens)
    needed = sum(memory.values())
    # the weights are there, like the moments of a resumed run
    available = free_bytes(session.device) + memory["weights"] + memory["optimizer"] * (session.state.step > 0)
    parts = ", ".join(f"{name} {n_bytes / 1e6:,.0f}" for name, n_bytes in memory.items())
    say(
        f"training takes about {needed / 1e6:,.0f} MB of memory ({parts}; {n_tokens:,} tokens at a time), "
        f"{available / 1e6:,.0f} MB are free"
    )
    if needed > available:
        say(f"warning: {TOO_LITTLE}")


def free_bytes(device: torch.device) -> float:
    """Return the number of bytes that this process may still allocate."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return float(free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device))
    limits = [2.0**33]  # 8 GiB, where nothing can be read
    try:
        limits = [1024 * _number("/proc/meminfo", "MemAvailable")]
        group = "/sys/fs/cgroup/memory"  # the limit of a container, if any; cached files can be dropped
        used = _number(f"{group}.current") - _number(f"{group}.stat", "inactive_file")
        limits.append(_number(f"{group}.max") - used)
    except (OSError, IndexError):
        pass
    return min(limits) / int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def _number(path: str, field: str = "") -> float:
    """Return the number of a field in a file, or the first one. Raises IndexError if there is none, or OSError."""
    return float(re.findall(rf"{field}\D*(\d+)", Path(path).read_text())[0])
