"""What search needs of a model: a `StepModel`; the Transformer as one, and several of them as one.

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
"""The ids of a source and of its translation, both without special ids."""


class StepModel(Protocol):
    """Anything that gives the next token's scores for many hypotheses at once: a model, an ensemble, a table.

    It remembers the hypotheses itself; before the first step each sentence has none, and the first step may give it
    one or several.
    """

    def step(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Append tokens (B, M) int64 and score what may follow.

        Returns logits (B, M, V) in any number format, which the caller may overwrite, and log_z (B, M) float32, their
        logsumexp over the whole vocabulary: `logits - log_z` are log-probabilities in nats.
        """

    def select(self, sentences: Tensor, beams: Tensor) -> None:
        """Keep `sentences` (B',), ascending, and of each the hypotheses `beams` (B', M'), repeats allowed."""

    def attention(self) -> Tensor:
        """What the last step attended to in the source: (B, M, S) float32, each row sums to 1 and padding has 0."""


@dataclass(frozen=True)
class Hypothesis:
    """A translation that search has found."""

    ids: Sequence[int]
    """Without `<s>` and `</s>`."""
    log_prob: float
    """The sum over all pieces and `</s>` (nats)."""
    score: float
    """What is ranked: log_prob divided by the length penalty, and the coverage penalty."""
    finished: bool
    """False if the longest length allowed was reached, where only `</s>` may follow."""


class TransformerStep:
    """A Transformer that has read its source sentences."""

    def __init__(self, model: Transformer, memory: Tensor, src_mask: Tensor, keep_attention: bool = False) -> None:
        """memory (B, S, D) is the encoder's output, src_mask (B, S) is True at tokens. Unless `keep_attention` there
        is no `attention`."""
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
    """The logsumexp of each row of logits (R, V), float32: log_softmax goes over them once, logsumexp four times."""
    logits = logits.float()
    return logits[:, 0] - logits.log_softmax(-1)[:, 0]


class Ensemble:
    """Several models of one vocabulary: the mean of their probabilities."""

    def __init__(self, models: Sequence[StepModel]) -> None:
        """`models` have read the same sentences; there is at least one."""
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
    """Ids of different number as (B, longest) int64, filled up with PAD on the right."""
    return pad_sequence([torch.tensor(row, dtype=torch.int64) for row in rows], batch_first=True, padding_value=PAD)


def length_penalty(length: int, config: SearchConfig) -> float:
    """What the log-probability of a hypothesis of `length` pieces, `</s>` counted, is divided by.

    `power` is length^A; `gnmt` is ((5 + length) / 6)^A (Wu et al., 2016, equation 14). The same A is another penalty in
    each: at 10 pieces and A = 1, 10 and 2.5.
    """
    match config.length_penalty_kind:
        case "power":
            return math.pow(length, config.length_penalty)
        case "gnmt":
            return math.pow((5.0 + length) / 6.0, config.length_penalty)


def no_translation() -> CheckpointError:
    """The error for a sentence of which no hypothesis has a probability."""
    return CheckpointError(
        "search found no translation: the model's scores are not numbers; the checkpoint is damaged or diverged, or "
        "its numbers overflow in this precision (take another checkpoint, or float32)"
    )
