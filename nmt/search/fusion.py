"""Shallow fusion: a language model of the target language has a say in each step (Gulcehre et al., 2015)."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from nmt.search.step import Scores, StepModel


class Fusion:
    """Adds `weight` times a language model's log-probabilities to those of a translator.

    Both have the same vocabulary. The sums are no log-probabilities: search ranks by them, and samples from what they
    are after a softmax.
    """

    def __init__(self, translator: StepModel, language_model: StepModel, weight: float) -> None:
        """Both have read the same number of sentences; `weight` is not negative."""
        self._translator, self._language_model, self._weight = translator, language_model, weight

    def step(self, tokens: Tensor) -> Iterator[Scores]:
        parts = zip(self._translator.step(tokens), self._language_model.step(tokens), strict=True)
        for (logits, log_z), (lm_logits, lm_log_z) in parts:
            yield logits.add_(lm_logits, alpha=self._weight), log_z + self._weight * lm_log_z

    def select(self, sentences: Tensor, beams: Tensor) -> None:
        self._translator.select(sentences, beams)
        self._language_model.select(sentences, beams)

    def attention(self) -> Tensor:
        return self._translator.attention()
