"""What search needs of a model: a `StepModel`, and the Transformer as one.

Legend: B sentences, K hypotheses of each, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch.nn.functional as F
from torch import Tensor

from nmt.config import SearchConfig
from nmt.errors import CheckpointError
from nmt.model.transformer import Transformer
from nmt.tokenizer import EOS


class StepModel(Protocol):
    """Anything that gives the next token's scores for many hypotheses at once: a model, an ensemble, a table.

    It remembers the hypotheses itself; before the first step each sentence has one, which is empty.
    """

    def step(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Append tokens (B, K) int64 and score what may follow.

        Returns logits (B, K, V) float32, which the caller may overwrite, and log_z (B, K) float32, their logsumexp over
        the whole vocabulary: `logits - log_z` are log-probabilities in nats.
        """

    def select(self, sentences: Tensor, beams: Tensor) -> None:
        """Keep `sentences` (B',), ascending, and of each the hypotheses `beams` (B', K'), repeats allowed."""


@dataclass(frozen=True)
class Hypothesis:
    """A translation that search has found."""

    ids: Sequence[int]
    """Without `<s>` and `</s>`."""
    log_prob: float
    """The sum over all pieces and `</s>` (nats)."""
    score: float
    """What is ranked: log_prob divided by the length penalty."""
    finished: bool
    """False if the longest length allowed was reached, where only `</s>` may follow."""


class TransformerStep:
    """A Transformer that has read its source sentences."""

    def __init__(self, model: Transformer, memory: Tensor, src_mask: Tensor) -> None:
        """memory (B, S, D) is the encoder's output, src_mask (B, S) is True at tokens."""
        self._model = model
        self._state = model.start(memory, src_mask)

    def step(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self._model.step(tokens, self._state)
        logits = F.linear(hidden, self._model.output_weight).float()
        # log_softmax goes over the vocabulary once where logsumexp makes four passes
        return logits, logits[..., 0] - logits.log_softmax(-1)[..., 0]

    def select(self, sentences: Tensor, beams: Tensor) -> None:
        self._state = self._state.select(sentences, beams)


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


def mask_forbidden(logits: Tensor, banned: Tensor, last: Tensor | None) -> None:
    """Set logits (B, K, V) to -inf, in place, at the ids `banned`, and where `last` (B,) at all but `</s>`."""
    logits.index_fill_(-1, banned, -float("inf"))
    if last is not None:
        ending = logits[..., EOS].clone()
        logits.masked_fill_(last[:, None, None], -float("inf"))
        logits[..., EOS] = ending


def no_translation() -> CheckpointError:
    """The error for a sentence of which no hypothesis has a probability."""
    return CheckpointError(
        "search found no translation: the model's scores are not numbers; the checkpoint is damaged or diverged, or "
        "its numbers overflow in this precision (take another checkpoint, or float32)"
    )
