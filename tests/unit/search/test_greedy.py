"""Greedy search over tables of probabilities: at each step the likeliest piece that the rules allow."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from nmt.config import SearchConfig
from nmt.errors import CheckpointError
from nmt.search.greedy import greedy_search
from nmt.search.rules import Rules
from nmt.search.step import length_penalty
from nmt.text.tokenizer import EOS
from tables import BANNED, Prefix, Table, TableModel, forced_log_prob, random_table, waiting

LIMITS = [1, 5, 9, 3, 12, 7]
RULES = {
    "limits": Rules(BANNED, torch.tensor(LIMITS)),
    "all": Rules(
        torch.tensor([*BANNED.tolist(), 7]),
        torch.tensor(LIMITS),
        min_length=4,
        no_repeat_ngram=2,
        prefix=torch.tensor([[5, 5], [0, 0], [7, 4], [5, 0], [0, 0], [6, 6]]),
    ),
}


def likeliest(table: Table, rules: Rules, sentence: int) -> list[int]:
    """One step after the other, with nothing remembered."""
    rules, ids = rules.keep(torch.tensor([sentence])), []
    while EOS not in ids:
        logits = table(sentence, tuple(ids))[None, None]
        rules.apply(logits, torch.tensor(ids, dtype=torch.int64).view(1, 1, -1))
        ids.append(int(logits.argmax()))
    return ids[:-1]


@pytest.mark.parametrize("kind", RULES)
@pytest.mark.parametrize("seed", range(10))
def test_each_piece_is_the_likeliest_that_is_allowed(seed: int, kind: str) -> None:
    table, config = random_table(seed, vocab=9), SearchConfig(length_penalty=0.7)
    found = greedy_search(TableModel(table, range(6)), RULES[kind], config)
    for sentence, hypothesis in enumerate(found):
        assert hypothesis.ids == likeliest(table, RULES[kind], sentence)
        log_prob = forced_log_prob(table, sentence, tuple(hypothesis.ids))
        assert hypothesis.log_prob == pytest.approx(log_prob, abs=1e-5)
        assert hypothesis.score == pytest.approx(log_prob / length_penalty(len(hypothesis.ids) + 1, config), abs=1e-5)
        assert hypothesis.finished is (len(hypothesis.ids) + 1 < LIMITS[sentence])


def test_of_equals_the_lower_id_is_taken() -> None:
    def flat(_: int, prefix: Prefix) -> Tensor:
        logits = torch.zeros(300)
        logits[EOS] = -1.0
        logits[4 : 4 + len(prefix)] = -1.0
        return logits

    [hypothesis] = greedy_search(TableModel(flat, [0]), Rules(BANNED, torch.tensor([6])), SearchConfig())
    assert hypothesis.ids == [4, 5, 6, 7, 8]


@pytest.mark.parametrize("order", [[5, 4, 3, 2, 1, 0], [2, 0, 4], [3]], ids=str)
def test_results_do_not_depend_on_the_batch(order: list[int]) -> None:
    table, config = random_table(7, vocab=12), SearchConfig()
    together = greedy_search(TableModel(table, range(6)), RULES["all"], config)
    rules = RULES["all"].keep(torch.tensor(order))
    assert greedy_search(TableModel(table, order), rules, config) == [together[i] for i in order]


def ends_after(sentence: int, prefix: Prefix) -> Tensor:
    """As many pieces as the sentence's number."""
    logits = torch.arange(20.0)
    logits[EOS] = 99.0 if len(prefix) >= sentence else -99.0
    return logits


def test_sentences_leave_eight_by_eight_and_the_last_one_by_one() -> None:
    model = TableModel(ends_after, range(24))
    found = greedy_search(model, Rules(BANNED, torch.tensor([30] * 24)), SearchConfig())
    assert model.rows_seen == [24] * 8 + [16] * 8 + [8, 7, 6, 5, 4, 3, 2, 1]
    assert [len(hypothesis.ids) for hypothesis in found] == list(range(24))


@pytest.mark.parametrize("every", [2, 5, 100])
def test_it_does_not_matter_when_sentences_leave(every: int, monkeypatch: pytest.MonkeyPatch) -> None:
    table, rules = random_table(8, vocab=9), RULES["all"]
    at_once = greedy_search(TableModel(table, range(6)), rules, SearchConfig())
    monkeypatch.setattr(Rules, "leaving", waiting(every))
    assert greedy_search(TableModel(table, range(6)), rules, SearchConfig()) == at_once


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_scores_that_are_no_numbers_are_an_error(value: float) -> None:
    def broken(sentence: int, _: Prefix) -> Tensor:
        return torch.full((6,), value if sentence == 1 else 0.0)

    with pytest.raises(CheckpointError, match="the model's scores are not finite"):
        greedy_search(TableModel(broken, range(3)), Rules(BANNED, torch.tensor([4] * 3)), SearchConfig())


def test_a_batch_without_sentences() -> None:
    no_limits = torch.tensor([], dtype=torch.int64)
    assert greedy_search(TableModel(random_table(1), []), Rules(BANNED, no_limits), SearchConfig()) == []
