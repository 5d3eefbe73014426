"""Shallow fusion on tables: what is added can be worked out by hand."""

from __future__ import annotations

import pytest
import torch

from nmt.config import SearchConfig
from nmt.search.rules import Rules
from nmt.search.search import search
from nmt.search.step import Fusion, Hypothesis, StepModel
from nmt.text.tokenizer import BOS
from tables import BANNED, A, B, TableModel, forced_log_prob, random_table

SENTENCES = [0, 1, 2]
TRANSLATOR, LANGUAGE_MODEL = random_table(1), random_table(2)


def fused(weight: float) -> Fusion:
    return Fusion(TableModel(TRANSLATOR, SENTENCES), TableModel(LANGUAGE_MODEL, SENTENCES), weight)


def find(model: StepModel, config: SearchConfig, n_best: int = 1) -> list[list[Hypothesis]]:
    return search(model, Rules(BANNED, torch.tensor([6] * len(SENTENCES))), config, SENTENCES, n_best)


CONFIGS = [SearchConfig(beam=1), SearchConfig(beam=3), SearchConfig(beam=3, coverage_penalty=0.4)]
IDS = ["greedy", "beam", "coverage"]


@pytest.mark.parametrize("config", CONFIGS, ids=IDS)
def test_the_score_is_the_weighted_sum(config: SearchConfig) -> None:
    n_best = config.beam
    differ = 0
    for sentence, hypotheses in enumerate(find(fused(0.5), config, n_best)):
        assert len(hypotheses) == n_best
        for hypothesis in hypotheses:
            ids = tuple(hypothesis.ids)
            total = forced_log_prob(TRANSLATOR, sentence, ids) + 0.5 * forced_log_prob(LANGUAGE_MODEL, sentence, ids)
            assert hypothesis.log_prob == pytest.approx(total, abs=1e-4)
    for one, other in zip(find(fused(3.0), config), find(fused(0.0), config), strict=True):
        differ += one[0].ids != other[0].ids
    assert differ, "a heavy language model changes nothing"


@pytest.mark.parametrize("config", [*CONFIGS, SearchConfig(sample=True)], ids=[*IDS, "sample"])
def test_a_weight_of_0_changes_nothing(config: SearchConfig) -> None:
    assert find(fused(0.0), config) == find(TableModel(TRANSLATOR, SENTENCES), config)


def test_both_models_follow_a_selection_and_the_attention_is_the_translators() -> None:
    model, alone = fused(1.0), TableModel(TRANSLATOR, SENTENCES)
    for each in (model, alone):
        list(each.step(torch.full((3, 1), BOS)))
        each.select(torch.tensor([0, 2]), torch.zeros(2, 2, dtype=torch.int64))
        list(each.step(torch.tensor([[A, B], [B, A]])))
        each.select(torch.tensor([1]), torch.tensor([[1, 0]]))
    [(logits, log_z)] = model.step(torch.tensor([[A, B]]))
    list(alone.step(torch.tensor([[A, B]])))
    for beam, past in enumerate([(A, A), (B, B)]):
        expected = sum(table(2, past).log_softmax(-1) for table in (TRANSLATOR, LANGUAGE_MODEL))
        torch.testing.assert_close(logits[0, beam] - log_z[0, beam], expected)
    assert torch.equal(model.attention(), alone.attention())
