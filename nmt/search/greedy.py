"""Greedy search, and the loop that it shares with sampling, in which independent hypotheses grow token by token.

Legend: B sentences, each with one hypothesis, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from nmt.config import SearchConfig
from nmt.search.rules import Rules, keep_rows
from nmt.search.step import Hypothesis, Scores, StepModel, by_sentence, length_penalty, no_translation
from nmt.text.tokenizer import BOS, EOS

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
    limits, results = rules.limits, dict[int, Hypothesis]()
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
            rows, rules, tokens = keep_rows(rows, kept), rules.keep(kept), tokens[kept]
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
    results: dict[int, Hypothesis] = {}
    columns = (rows.sentence, rows.limits, rows.ids, rows.log_prob)
    for sentence, limit, ids, log_prob in zip(*(x.tolist() for x in columns), strict=True):
        if not math.isfinite(log_prob):
            raise no_translation()
        length = ids.index(EOS) + 1
        score = log_prob / length_penalty(length, config)
        results[sentence] = Hypothesis(ids[: length - 1], log_prob, score, finished=length < limit)
    return results
