"""Hypotheses that do not compete: each grows by itself, a piece at a time. Greedy search takes the likeliest piece.

Legend: B sentences, N hypotheses of each, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from nmt.config import SearchConfig
from nmt.search.rules import Rules
from nmt.search.step import Hypothesis, StepModel, length_penalty, no_translation
from nmt.text.tokenizer import BOS, EOS

Choose = Callable[[Tensor, Tensor, int], Tensor]
"""Logits (B, N, V), the sentences' places in the result (B,) and the number of pieces so far -> the next pieces (B, N).
What it takes for a hypothesis that has ended is ignored."""


def greedy_search(model: StepModel, rules: Rules, config: SearchConfig) -> list[Hypothesis]:
    """One hypothesis for each sentence of `model`: the likeliest next piece, again and again, of equals the lower id.

    Raises CheckpointError if the model's scores are not numbers.
    """
    return [hypothesis for [hypothesis] in grow(model, rules, config, lambda logits, _, __: _likeliest(logits))]


def _likeliest(logits: Tensor) -> Tensor:
    """Where the largest of logits (..., V) is, the first of equals: (...)."""
    if logits.device.type == "cpu":  # NumPy finds it in a tenth of the time
        return torch.from_numpy(logits.detach().float().numpy().argmax(-1))
    return logits.argmax(-1)


@dataclass
class _Rows:
    """The sentences that grow still: every tensor's first dimension is B, so that one `keep` serves all."""

    sentence: Tensor  # (B,) the sentence's place in the result
    limits: Tensor  # (B,)
    ids: Tensor  # (B, N, longest), whatever it is after the first `</s>`
    log_prob: Tensor  # (B, N) float64
    alive: Tensor  # (B, N) bool

    def keep(self, rows: Tensor) -> _Rows:
        """Only the rows (B',)."""
        return _Rows(*(getattr(self, field.name)[rows] for field in fields(self)))


def grow(model: StepModel, rules: Rules, config: SearchConfig, choose: Choose, n: int = 1) -> list[list[Hypothesis]]:
    """`n` hypotheses for each sentence of `model`, of pieces that `choose` takes, in the order of its columns.

    Raises CheckpointError if the model's scores are not numbers.
    """
    longest = rules.longest
    found: dict[int, list[Hypothesis]] = {}
    rows = _start(rules.limits, n, longest)
    tokens = rules.limits.new_full((len(rules.limits), n), BOS)
    for length in range(1, longest + 1):
        logits, log_z = model.step(tokens)
        rules.apply(logits, rows.ids[..., : length - 1])
        tokens = choose(logits, rows.sentence, length - 1)
        gained = logits.gather(-1, tokens[..., None])[..., 0] - log_z
        rows.log_prob = torch.where(rows.alive, rows.log_prob + gained.clamp(max=0.0), rows.log_prob)
        rows.ids[..., length - 1] = tokens
        rows.alive = rows.alive & (tokens != EOS) & (length < rows.limits)[:, None]
        if (parted := rules.leaving(~rows.alive.any(1), length)) is not None:
            kept, ended = parted
            found |= _results(rows.keep(ended), config)
            if not len(kept):
                break
            rows, rules, tokens = rows.keep(kept), rules.keep(kept), tokens[kept]
            model.select(kept, torch.arange(n, device=kept.device).expand(len(kept), -1))
    return [found[i] for i in range(len(found))]


def _start(limits: Tensor, n: int, longest: int) -> _Rows:
    shape = (len(limits), n)
    return _Rows(
        sentence=torch.arange(len(limits), device=limits.device),
        limits=limits,
        ids=limits.new_full((*shape, longest), EOS),
        log_prob=limits.new_zeros(shape, dtype=torch.float64),
        alive=limits.new_ones(shape, dtype=torch.bool),
    )


def _results(rows: _Rows, config: SearchConfig) -> dict[int, list[Hypothesis]]:
    """Sentence -> its hypotheses, all of which have ended."""
    found: dict[int, list[Hypothesis]] = {}
    columns = (rows.sentence, rows.limits, rows.ids, rows.log_prob)
    for sentence, limit, ids_of_all, log_probs in zip(*(x.tolist() for x in columns), strict=True):
        if not all(map(math.isfinite, log_probs)):
            raise no_translation()
        found[sentence] = []
        for ids, log_prob in zip(ids_of_all, log_probs, strict=True):
            length = ids.index(EOS) + 1
            score = log_prob / length_penalty(length, config)
            found[sentence].append(Hypothesis(ids[: length - 1], log_prob, score, finished=length < limit))
    return found
