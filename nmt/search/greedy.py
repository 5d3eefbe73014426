"""Greedy search and sampling, in which independent hypotheses grow token by token.

In sampling, each token is drawn at random from the model's distribution of the next token. A draw depends only on the
seed, the key of the sentence, the number of the draw and the model's probabilities: random numbers come from a
counter-based generator (Salmon et al., 2011), with a stream for each draw.

Legend: B sentences, each with one hypothesis, N draws of each, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from nmt.data.on_device import sent
from nmt.search.rules import Rules, keep_rows
from nmt.search.settings import SearchConfig
from nmt.search.step import Hypothesis, Scores, StepModel, by_sentence, length_penalty, no_translation
from nmt.text.ids import BOS, EOS

Choose = Callable[[Tensor, Tensor, int], Tensor]
"""A function of logits (B, V), the indices of the sentences in the result (B,) and the number of tokens so far, which
returns the next tokens (B,). Tokens of hypotheses that have ended are ignored."""


def greedy_search(model: StepModel, rules: Rules, config: SearchConfig) -> list[Hypothesis]:
    """Return one hypothesis for each sentence of `model`, made of the likeliest tokens, with the lowest id on ties.

    Raises CheckpointError if the model's scores are NaN.
    """
    return grow(model, rules, config, lambda logits, _, __: _likeliest(logits))


def _likeliest(logits: Tensor) -> Tensor:
    """Return the argmax (...) of logits (..., V), the first on ties."""
    if logits.device.type == "cpu":  # NumPy takes a tenth of the time
        return torch.from_numpy(logits.detach().float().numpy().argmax(-1))
    return logits.argmax(-1)


@dataclass
class _GrowingRows:
    """The state of the sentences whose hypotheses still grow; see `keep_rows`."""

    sentence: Tensor  # (B,) index of the sentence in the result
    limits: Tensor  # (B,)
    ids: Tensor  # (B, longest), arbitrary after the first `</s>`
    log_prob: Tensor  # (B,) float64
    alive: Tensor  # (B,) bool


def grow(model: StepModel, rules: Rules, config: SearchConfig, choose: Choose) -> list[Hypothesis]:
    """Return a hypothesis for each sentence of `model`, made of the tokens that `choose` returns.

    Raises CheckpointError if the model's scores are NaN.
    """
    limits = rules.limits
    results = dict[int, Hypothesis]()
    rows = _GrowingRows(
        sentence=torch.arange(len(limits), device=limits.device),
        limits=limits,
        ids=limits.new_full((len(limits), rules.longest), EOS),
        log_prob=torch.zeros_like(limits, dtype=torch.float64),
        alive=torch.ones_like(limits, dtype=torch.bool),
    )
    tokens = torch.full_like(limits, BOS)
    for length in range(1, rules.longest + 1):
        tokens, log_probs = _next(model.step(tokens[:, None]), rows, rules, choose, length - 1)
        rows.log_prob = torch.where(rows.alive, rows.log_prob + log_probs, rows.log_prob)
        rows.ids[:, length - 1] = tokens
        rows.alive = rows.alive & (tokens != EOS) & (length < rows.limits)
        if (split := rules.leaving(~rows.alive, length)) is not None:
            kept, ended = split
            results |= _results(keep_rows(rows, ended), config)
            if not len(kept):
                break
            rows = keep_rows(rows, kept)
            rules = rules.keep(kept)
            tokens = tokens[kept]
            model.select(kept, torch.zeros_like(kept)[:, None])
    return [results[i] for i in range(len(results))]


def _next(
    scores: Iterable[Scores], rows: _GrowingRows, rules: Rules, choose: Choose, length: int
) -> tuple[Tensor, Tensor]:
    """Return the tokens chosen after `length` tokens and their log-probabilities, both (B,)."""
    parts = []
    for part, logits, log_z in by_sentence(scores):
        rules.keep(part).apply(logits, rows.ids[part, None, :length])
        tokens = choose(logits[:, 0], rows.sentence[part], length)
        parts.append((tokens, (logits[:, 0].gather(-1, tokens[:, None]) - log_z)[:, 0].clamp(max=0.0)))
    tokens, log_probs = map(torch.cat, zip(*parts, strict=True))
    return tokens, log_probs


def _results(rows: _GrowingRows, config: SearchConfig) -> dict[int, Hypothesis]:
    """Return the hypothesis of each sentence, all of which have ended, by the index of the sentence."""
    results = {}
    columns = (rows.sentence, rows.limits, rows.ids, rows.log_prob)
    for sentence, limit, ids, log_prob in zip(*(x.tolist() for x in columns), strict=True):
        if not math.isfinite(log_prob):
            raise no_translation()
        length = ids.index(EOS) + 1
        score = log_prob / length_penalty(length, config)
        results[sentence] = Hypothesis(ids[: length - 1], log_prob, score, finished=length < limit)
    return results


# --- sampling ----------------------------------------------------------------------------------------

AT_ONCE = {"cpu": 2**20, "cuda": 2**26}
"""Maximum number of logits processed at once, for a CPU's cache and for sorting in a GPU's memory."""
BLOCK_TOKENS = 64
"""Number of tokens of a block: cumulative sums are taken over blocks and inside one block, not over all V."""
WIDTH = 64
"""Number of likeliest tokens that are first tried for top_p on a CPU; if they do not suffice, 8 times as many."""


def sample_search(
    model: StepModel, rules: Rules, config: SearchConfig, keys: Sequence[int], n: int
) -> list[list[Hypothesis]]:
    """Return `n` independent draws for each sentence of `model`; the first ones do not depend on `n`.

    `keys`: a number below 2^64 for each sentence. The log_prob of a hypothesis does not depend on temperature, top_k
    and top_p. Raises CheckpointError if the model's scores are NaN.
    """
    device = rules.limits.device
    numbers = sent(torch.from_numpy(uniform(config.seed, keys, n, rules.longest)), device).flatten(1)
    # as rows of their own: hypotheses of one sentence would attend to the slots of all, in time quadratic in n
    rows = torch.arange(len(keys), device=device).repeat_interleave(n)
    model.select(rows, torch.zeros_like(rows)[:, None])

    def choose(logits: Tensor, row: Tensor, position: int) -> Tensor:
        return draw(logits, numbers[position, row], config)

    drawn = iter(grow(model, rules.keep(rows), config, choose))
    return [list(islice(drawn, n)) for _ in keys]


def uniform(seed: int, keys: Sequence[int], n: int, length: int) -> NDArray[np.float64]:
    """Return random numbers (length, B, n) float64 in (0, 1]: one for each token of each draw of each sentence."""
    words = np.empty((len(keys), n, length), dtype=np.uint64)
    for row, key in enumerate(keys):
        stream = np.random.Philox(key=[seed % 2**64, key])
        state = stream.state
        for number in range(n):  # setting the counter takes a quarter of the time of another generator
            state["state"]["counter"][1] = number
            stream.state = state
            words[row, number] = stream.random_raw(length)
    words = (words >> np.uint64(11)) + np.uint64(1)  # the 53 bits of float64
    return np.ascontiguousarray(words.transpose(2, 0, 1)).astype(np.float64) * 2.0**-53


def draw(logits: Tensor, numbers: Tensor, config: SearchConfig) -> Tensor:
    """Draw an id (R,) from the distribution of logits (R, V) for each random number (R,) in (0, 1].

    The result is the first id at which the cumulative probability reaches the random number, never one of probability
    0.
    """
    n_rows = max(AT_ONCE[logits.device.type] // logits.size(-1), 1)
    parts = [slice(start, start + n_rows) for start in range(0, len(logits), n_rows)]
    return torch.cat([_draw(logits[rows], numbers[rows, None], config)[:, 0] for rows in parts])


def _draw(logits: Tensor, numbers: Tensor, config: SearchConfig) -> Tensor:
    """Draw ids (R, 1) with random numbers (R, 1); see `draw`."""
    logits = logits.float()
    if config.temperature != 1.0:
        min_temperature = 1e-30  # less is 0 in float32
        logits = (logits - logits.amax(-1, keepdim=True)) / max(config.temperature, min_temperature)
    if config.top_k:
        values, ids = logits.topk(min(config.top_k, logits.size(-1)))
        return _from_sorted(values.softmax(-1), ids, numbers, config.top_p)
    probs = logits.softmax(-1)
    return _from_all(probs, numbers) if config.top_p == 1.0 else _from_likeliest(probs, numbers, config.top_p)


def _from_all(probs: Tensor, numbers: Tensor) -> Tensor:
    """Sample ids (R, 1) from probs (R, V) by inverting their cumulative sums at uniform numbers (R, 1)."""
    blocks = F.pad(probs, (0, -probs.size(-1) % BLOCK_TOKENS)).view(len(probs), -1, BLOCK_TOKENS)  # (R, C, BLOCK)
    sums = blocks.sum(-1).cumsum(-1, dtype=torch.float64)  # (R, C)
    mass = numbers * sums[:, -1:]
    block = torch.searchsorted(sums, mass).clamp(max=sums.size(1) - 1)  # beyond the last if they are NaN
    inside = blocks[torch.arange(len(blocks), device=block.device), block[:, 0]].cumsum(-1, dtype=torch.float64)
    # the target inside the block; the cumulative sums inside it are rounded differently
    mass_inside = torch.minimum(mass - F.pad(sums, (1, 0)).gather(1, block), inside[:, -1:])
    return (block * BLOCK_TOKENS + torch.searchsorted(inside, mass_inside)).clamp(max=probs.size(1) - 1)


def _from_likeliest(probs: Tensor, numbers: Tensor, top_p: float) -> Tensor:
    """Draw ids (R, 1) with random numbers (R, 1) from the smallest set of the largest probs (R, V) that sum to
    `top_p`."""
    drawn = torch.empty_like(numbers, dtype=torch.int64)
    rows = torch.arange(len(probs), device=probs.device)
    # sorting all takes several times as long; but finding rows for which a few do not suffice synchronizes with a GPU
    width = WIDTH if probs.device.type == "cpu" else probs.size(1)
    while len(rows):
        largest, ids = probs[rows].topk(min(width, probs.size(1)))
        drawn[rows] = _from_sorted(largest, ids, numbers[rows], top_p)
        if width >= probs.size(1):
            break
        rows = rows[largest.sum(-1) < top_p]  # where these do not suffice, draw again from more
        width *= 8
    return drawn


def _from_sorted(probs: Tensor, ids: Tensor, numbers: Tensor, top_p: float) -> Tensor:
    """Draw ids (R, 1) with random numbers (R, 1) from ids (R, W) with descending probs (R, W), up to the sum
    `top_p`."""
    last = probs.size(1) - 1
    sums = probs.cumsum(-1, dtype=torch.float64)
    mass = sums[:, -1:]
    if top_p < 1.0:
        mass = sums.gather(1, torch.searchsorted(sums, torch.full_like(mass, top_p)).clamp(max=last))
    return ids.gather(1, torch.searchsorted(sums, numbers * mass).clamp(max=last))
