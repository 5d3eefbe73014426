"""The choice among greedy search, beam search and sampling."""

from __future__ import annotations

from collections.abc import Sequence

from nmt.search.beam import beam_search
from nmt.search.constrained import Constraints
from nmt.search.greedy import greedy_search, sample_search
from nmt.search.rules import Rules
from nmt.search.settings import SearchConfig
from nmt.search.step import Hypothesis, StepModel


def find_hypotheses(
    model: StepModel,
    rules: Rules,
    config: SearchConfig,
    keys: Sequence[int],
    n_best: int = 1,
    constraints: Constraints | None = None,
) -> list[list[Hypothesis]]:
    """Return for each sentence of `model` up to `n_best` hypotheses, best score first, or `n_best` samples.

    `keys`: a number for each sentence, which seeds its samples. `n_best` <= `config.beam`, except for sampling.
    Raises CheckpointError if the model's scores are NaN.
    """
    if config.sample:
        return sample_search(model, rules, config, keys, n_best)
    if config.beam == 1 and constraints is None and not config.coverage_penalty:
        return [[hypothesis] for hypothesis in greedy_search(model, rules, config)]
    return beam_search(model, rules, config, n_best, constraints)
