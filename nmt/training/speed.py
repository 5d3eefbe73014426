"""The speed of training on this machine, measured with random text."""

from __future__ import annotations

import time

import torch

from nmt.config import Config
from nmt.config.training import DEFAULT_MAX_TOKENS
from nmt.data.batching import Batch
from nmt.model.device import pick_device
from nmt.model.precision import autocast, pick_float32_library, pick_precision, use_float32_library
from nmt.model.transformer import Transformer
from nmt.text.tokenizer import EOS, N_SPECIAL
from nmt.training.loss import objective
from nmt.training.optim import make_optimizer


def seconds_per_update(config: Config, length: int) -> float:
    """Measure how long an update takes with random sentences of `length` pieces, without reading data or compilation.

    The fastest of several counts, since other programs may use the machine. They are repeated for about a second, at
    least twice after the first. Of a large update, one micro-batch is measured.
    """
    settings, vocab_size = config.training, config.tokenizer.vocab_size
    device = pick_device(settings.device)
    precision = pick_precision(settings.precision, device)
    use_float32_library(pick_float32_library(precision, device))
    model = Transformer(config.model, vocab_size, vocab_size).to(device)
    optimizer = make_optimizer(model, settings, precision)
    n_tokens = min(settings.update_tokens, DEFAULT_MAX_TOKENS)
    ids = torch.randint(N_SPECIAL, vocab_size, (max(1, n_tokens // length), length), device=device)
    ids[:, -1] = EOS
    batch = Batch(
        ids, torch.ones_like(ids, dtype=torch.bool), ids, ids, torch.arange(ids.numel(), device=device), ids.numel()
    )
    times: list[float] = []
    while len(times) < 3 or sum(times) < 1.0:
        start = time.perf_counter()
        with autocast(precision, device):
            loss = objective(model, batch, settings).loss
        (loss / batch.n_tokens).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - start)
    return min(times[1:]) * settings.update_tokens / n_tokens
