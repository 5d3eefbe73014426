"""`StepModel`, the interface between search and models, for one model, an ensemble, or fusion with a language model.

Legend: B sentences, M hypotheses of each, S source length, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from nmt.errors import CheckpointError
from nmt.model.inference import InferenceModel, Prefix
from nmt.search.settings import SearchConfig
from nmt.text.ids import BOS, EOS, PAD, SEPARATOR


class Fusion:
    """Shallow fusion: a translator whose log-probabilities are added to `weight` times a language model's.

    Both have the same vocabulary. The sums are not log-probabilities: search ranks by them, and samples from their
    softmax.
    """

    def __init__(self, translator: StepModel, language_model: StepModel, weight: float) -> None:
        """Both models must have encoded the same number of sentences; `weight` must not be negative."""
        self._translator = translator
        self._language_model = language_model
        self._weight = weight

    def step(self, tokens: Tensor) -> Iterator[Scores]:
        parts = zip(self._translator.step(tokens), self._language_model.step(tokens), strict=True)
        for (logits, log_z), (lm_logits, lm_log_z) in parts:
            yield logits.add_(lm_logits, alpha=self._weight), log_z + self._weight * lm_log_z

    def select(self, sentences: Tensor, beams: Tensor) -> None:
        self._translator.select(sentences, beams)
        self._language_model.select(sentences, beams)

    def attention(self) -> Tensor:
        return self._translator.attention()


Scores = tuple[Tensor, Tensor]
"""Logits (B, M, V) float32, and log_z (B, M) float32, their logsumexp over the whole vocabulary: `logits - log_z` are
log-probabilities in nats. The receiver may overwrite the logits, and the next part does."""

PART = 2**21
"""Number of logits of a part on a CPU, which bounds their memory; a batch of the usual size has one part or two."""

Pair = tuple[Sequence[int], Sequence[int]]
"""Ids of a source and of its translation, both without special tokens."""


class StepModel(Protocol):
    """A model that scores the next token of many hypotheses at once.

    It keeps the state of the hypotheses; before the first step there are none, and the first step may start one or
    several for each sentence.
    """

    def step(self, tokens: Tensor) -> Iterator[Scores]:
        """Append tokens (B, M) int64 and yield the scores of the next token, for some consecutive sentences at a time.

        All parts, which are computed lazily, must be consumed before the next call of any method.
        """

    def select(self, sentences: Tensor, beams: Tensor) -> None:
        """Keep only `sentences` (B',), in ascending order, and the hypotheses `beams` (B', M') of each; repeats are
        allowed, of sentences only before the first step, when `beams` are 0."""

    def attention(self) -> Tensor:
        """Return the last step's attention to the source, (B, M, S) float32; rows sum to 1, padding has 0.

        After the first step, (B, 1, S), it includes the attention of given tokens.
        """


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
    """Whether it ended before the maximum length, where only `</s>` may follow."""


class TransformerStep:
    """A Transformer, or a decoder with or without a source, and its state for a batch of sentences."""

    def __init__(
        self,
        model: InferenceModel,
        src: Tensor,
        mask: Tensor,
        given: Tensor | None = None,
        keep_attention: bool = False,
    ) -> None:
        """Read src (B, S) int64, each sentence ending in `</s>`; mask (B, S) is True at tokens.

        For a language model, only B is used. Tokens `given` (B, G), padded on the right, come before the tokens
        of all hypotheses. `attention` is only available with `keep_attention`, from a decoder with cross-attention.
        """
        self._model = model
        first = src.new_full((len(src), 1), BOS)
        n_first = src.new_ones(len(src), 1)
        if model.sees_source:
            first = torch.cat((first, torch.where(src == EOS, SEPARATOR, src)), 1)
            n_first = 1 + mask.sum(1, keepdim=True)
        prefix = Prefix(first, n_first, n_first) if model.sees_source else None
        if given is not None:
            prefix = _prefix(first, n_first, given)
        self._weights: list[Tensor] | None = [] if keep_attention else None
        self._state = model.start(src, mask, prefix, self._weights)
        self._buffers: Tensor | None = None

    def step(self, tokens: Tensor) -> Iterator[Scores]:
        if self._weights is not None and self._state.after_prefix is None:
            self._weights.clear()
        hidden = self._model.step(tokens, self._state, self._weights)  # (B, M, D)
        return self._parts(hidden) if hidden.device.type == "cpu" else self._whole(hidden)

    def _whole(self, hidden: Tensor) -> Iterator[Scores]:
        logits = self._model.logits(hidden).float()
        yield logits, logits.logsumexp(-1)

    def _parts(self, hidden: Tensor) -> Iterator[Scores]:
        n_logits = hidden.size(1) * self._model.vocab_size
        n_sentences = max(1, PART // n_logits)
        if self._buffers is None or self._buffers[0].numel() < n_sentences * n_logits:
            self._buffers = torch.empty(2, n_sentences * n_logits)  # new memory is slower
        for of_part in torch.split(hidden, n_sentences):
            part = self._model.logits(of_part)
            copied, exps = (buffer[: part.numel()].view(part.shape) for buffer in self._buffers)
            copied.copy_(part)
            z = torch.exp(copied, out=exps).sum(-1)
            # without looking for the maximum first, unless something overflows or vanishes
            is_safe = bool(((z > 1e-30) & (z < 1e30)).all())
            yield copied, z.log() if is_safe else copied.logsumexp(-1)

    def select(self, sentences: Tensor, beams: Tensor) -> None:
        self._state.select(sentences, beams)

    def attention(self) -> Tensor:
        assert self._weights, "attention was not kept"
        return self._weights[0].mean(1)


def _prefix(first: Tensor, n_first: Tensor, given: Tensor) -> Prefix:
    """Return a prefix of `given` (B, G) directly after `first` (B, S), of which `n_first` (B, 1) are tokens."""
    tokens = torch.cat((first, given), 1)
    lengths = n_first + (given != PAD).sum(1, keepdim=True)
    index = torch.arange(int(lengths.max()), device=tokens.device).expand(len(tokens), -1)
    index = torch.where(index < n_first, index, index + first.size(1) - n_first).clamp(max=tokens.size(1) - 1)
    return Prefix(tokens.gather(1, index), lengths, n_first)


def by_sentence(parts: Iterable[Scores]) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """Yield the sentences of each part as a slice, and the logits and log_z of the part."""
    first = 0
    for logits, log_z in parts:
        part = slice(first, first + len(logits))
        yield part, logits, log_z
        first = part.stop


class Ensemble:
    """An ensemble of models with the same vocabulary: the mean of their probabilities."""

    def __init__(self, models: Sequence[StepModel]) -> None:
        """`models`: one or more models that have encoded the same sentences."""
        self._models = models

    def step(self, tokens: Tensor) -> Iterator[Scores]:
        for parts in zip(*(model.step(tokens) for model in self._models), strict=True):
            log_probs = torch.stack([logits - log_z[..., None] for logits, log_z in parts])
            mean = log_probs.logsumexp(0) - math.log(len(parts))
            yield mean, torch.zeros_like(mean[..., 0])

    def select(self, sentences: Tensor, beams: Tensor) -> None:
        for model in self._models:
            model.select(sentences, beams)

    def attention(self) -> Tensor:
        return torch.stack([model.attention() for model in self._models]).mean(0)


def padded(rows: Sequence[Sequence[int]]) -> Tensor:
    """Pad sequences of ids with PAD on the right, to (B, longest) int64."""
    return pad_sequence([torch.tensor(row, dtype=torch.int64) for row in rows], batch_first=True, padding_value=PAD)


def length_penalty(length: int, config: SearchConfig) -> float:
    """Return the divisor of the log-probability of a hypothesis of `length` tokens, including `</s>`.

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
