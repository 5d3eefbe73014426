"""`StepModel`, the interface of a model to search; its implementations by a Transformer and by an ensemble.

Legend: B sentences, M hypotheses of each, S source length, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from nmt.config import SearchConfig
from nmt.errors import CheckpointError
from nmt.model.transformer import Transformer
from nmt.search.topk import few_rows
from nmt.text.tokenizer import PAD

Pair = tuple[Sequence[int], Sequence[int]]
"""Ids of a source and of its translation, both without special tokens."""


class StepModel(Protocol):
    """Scores the next token of many hypotheses at once: a model, an ensemble, a table.

    It keeps the state of the hypotheses itself; before the first step there are none, and the first step may start one
    or several for each sentence.
    """

    def step(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Append tokens (B, M) int64 and score the next.

        Returns logits (B, M, V) in any dtype, which the caller may overwrite, and log_z (B, M) float32, their logsumexp
        over the whole vocabulary: `logits - log_z` are log-probabilities in nats.
        """

    def select(self, sentences: Tensor, beams: Tensor) -> None:
        """Keep only `sentences` (B',), ascending, and of each the hypotheses `beams` (B', M'), repeats allowed."""

    def attention(self) -> Tensor:
        """Return the last step's attention to the source, (B, M, S) float32; rows sum to 1, padding has 0."""


@dataclass(frozen=True)
class Hypothesis:
    """A translation found by search."""

    ids: Sequence[int]
    """Without `<s>` and `</s>`."""
    log_prob: float
    """Sum over all tokens and `</s>` (nats)."""
    score: float
    """The ranking criterion: log_prob divided by the length penalty, plus the coverage penalty."""
    finished: bool
    """False if it reached the maximum length, where only `</s>` may follow."""


class TransformerStep:
    """A Transformer and its state for a batch of encoded source sentences."""

    def __init__(self, model: Transformer, memory: Tensor, src_mask: Tensor, keep_attention: bool = False) -> None:
        """Start decoding from the encoder's output `memory` (B, S, D); `src_mask` (B, S) is True at tokens.

        `attention` is only available with `keep_attention`.
        """
        self._model = model
        self._state = model.start(memory, src_mask)
        self._weights: list[Tensor] | None = [] if keep_attention else None

    def step(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        if self._weights is not None:
            self._weights.clear()
        hidden = self._model.step(tokens, self._state, self._weights)
        logits = F.linear(hidden, self._model.output_weight)
        return logits, torch.cat([_log_z(rows) for rows in few_rows(logits.flatten(0, 1))]).view(tokens.shape)

    def select(self, sentences: Tensor, beams: Tensor) -> None:
        self._state.select(sentences, beams)

    def attention(self) -> Tensor:
        assert self._weights, "attention was not kept"
        return self._weights[0].float().mean(1)


def _log_z(logits: Tensor) -> Tensor:
    """Return the logsumexp (R,) float32 of logits (R, V), by log_softmax: it reads them once, logsumexp four times."""
    logits = logits.float()
    return logits[:, 0] - logits.log_softmax(-1)[:, 0]


class Ensemble:
    """An ensemble of models with the same vocabulary: the mean of their probabilities."""

    def __init__(self, models: Sequence[StepModel]) -> None:
        """`models`, at least one, have encoded the same sentences."""
        self._models = models

    def step(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        log_probs = [logits - log_z[..., None] for logits, log_z in (model.step(tokens) for model in self._models)]
        mean = torch.stack(log_probs).logsumexp(0) - math.log(len(log_probs))
        return mean, torch.zeros_like(mean[..., 0])

    def select(self, sentences: Tensor, beams: Tensor) -> None:
        for model in self._models:
            model.select(sentences, beams)

    def attention(self) -> Tensor:
        return torch.stack([model.attention() for model in self._models]).mean(0)


def padded(rows: Sequence[Sequence[int]]) -> Tensor:
    """Pad sequences of ids with PAD on the right, to (B, longest) int64."""
    return pad_sequence([torch.tensor(row, dtype=torch.int64) for row in rows], batch_first=True, padding_value=PAD)


def length_penalty(length: int, config: SearchConfig) -> float:
    """Return the divisor of the log-probability of a hypothesis of `length` tokens, `</s>` counted.

    `power` is length^A; `gnmt` is ((5 + length) / 6)^A (Wu et al., 2016, equation 14). The same A differs between the
    two: with 10 tokens and A = 1 they are 10 and 2.5.
    """
    match config.length_penalty_kind:
        case "power":
            return math.pow(length, config.length_penalty)
        case "gnmt":
            return math.pow((5.0 + length) / 6.0, config.length_penalty)


def no_translation() -> CheckpointError:
    """Return the error for a sentence without any hypothesis of finite probability."""
    return CheckpointError(
        "search found no translation: the model's scores are not finite: the checkpoint is damaged, its training "
        "diverged, or values overflow in this precision; try another checkpoint, or float32"
    )
