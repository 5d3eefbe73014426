"""Sampling from tables of probabilities: frequencies equal probabilities."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from models import VOCAB, model_config, pad, sentences, tiny_model
from nmt.model import inference
from nmt.model.inference import InferenceModel
from nmt.model.transformer import DecoderModel
from nmt.search import greedy
from nmt.search.greedy import draw, greedy_search, sample_search, uniform
from nmt.search.rules import Rules
from nmt.search.settings import SearchConfig
from nmt.search.step import Hypothesis, TransformerStep, length_penalty
from nmt.text.ids import EOS, PAD
from tables import BANNED, Prefix, Table, TableModel, forced_log_prob, random_table

N_DRAWS = 20_000
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "cold": {"temperature": 0.6},
    "hot": {"temperature": 1.7},
    "top_k": {"top_k": 3},
    "top_p": {"top_p": 0.8},
    "all": {"temperature": 1.3, "top_k": 4, "top_p": 0.9, "seed": 2**70},
}


def run(
    table: Table, sentences: Sequence[int], limits: Sequence[int], config: SearchConfig, n: int, **rules: Any
) -> list[list[Hypothesis]]:
    """Return draws with the sentence as key."""
    model = TableModel(table, sentences)
    return sample_search(model, Rules(BANNED, torch.tensor(limits), **rules), config, sentences, n)


def chances(logits: Sequence[float], config: SearchConfig) -> dict[int, float]:
    """Return the probability of every id that may be drawn with the settings."""
    top = max(logits)
    weights = {i: math.exp((logit - top) / config.temperature) for i, logit in enumerate(logits)}
    likeliest = sorted((i for i in weights if weights[i]), key=lambda i: -weights[i])
    if config.top_k:
        likeliest = likeliest[: config.top_k]
    total = sum(weights[i] for i in likeliest)
    kept, mass = [], 0.0
    for i in likeliest:
        if config.top_p < 1.0 and mass >= config.top_p * total:
            break
        kept.append(i)
        mass += weights[i]
    return {i: weights[i] / mass for i in kept}


def outputs(table: Table, config: SearchConfig, limit: int, prefix: Prefix = ()) -> dict[Prefix, float]:
    """Return the probability of every output without its `</s>`."""
    if len(prefix) == limit - 1:
        return {prefix: 1.0}
    logits = table(0, prefix).clone()
    logits[BANNED] = -math.inf
    found = {}
    for token, chance in chances(logits.tolist(), config).items():
        longer = {prefix: 1.0} if token == EOS else outputs(table, config, limit, (*prefix, token))
        found |= {output: chance * probability for output, probability in longer.items()}
    return found


def check_fit(counts: Mapping[Any, int], probabilities: Mapping[Any, float]) -> None:
    """Fail if a chi-squared test says that so many draws come from another distribution (one in 1,000 true ones)."""
    assert set(counts) <= set(probabilities), "something was drawn that cannot be"
    n_draws = sum(counts.values())
    rare = [x for x in probabilities if probabilities[x] * n_draws < 5]
    cells = [(counts.get(x, 0), probabilities[x] * n_draws) for x in probabilities if x not in rare]
    if sum(probabilities[x] for x in rare) * n_draws >= 5:
        cells.append((sum(counts.get(x, 0) for x in rare), sum(probabilities[x] for x in rare) * n_draws))
    freedom = len(cells) - 1
    assert freedom >= 2
    statistic = sum((observed - expected) ** 2 / expected for observed, expected in cells)
    spread = 2 / (9 * freedom)  # Wilson and Hilferty's approximation of the quantile
    assert statistic < freedom * (1 - spread + 3.09 * math.sqrt(spread)) ** 3


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_are_drawn_as_often_as_they_are_probable(kind: str) -> None:
    config = SearchConfig(**KINDS[kind])
    table = random_table(5, vocab=10, sharpness=1.0)
    keys, limit = range(20), 3
    model = TableModel(lambda _, prefix: table(0, prefix), keys)
    rules = Rules(BANNED, torch.full((20,), limit))
    drawn = sample_search(model, rules, config, keys, N_DRAWS // 20)
    assert [len(draws) for draws in drawn] == [N_DRAWS // 20] * 20
    check_fit(Counter(tuple(each.ids) for draws in drawn for each in draws), outputs(table, config, limit))


def test_random_numbers_equal_stored_values() -> None:
    assert uniform(1, [0], 1, 1).item() == 0.3035680343067587, "earlier samples cannot be drawn again"


def test_draw_depends_on_seed_and_key() -> None:
    table, config = random_table(7, vocab=12), SearchConfig(seed=3, temperature=1.2, top_p=0.95)
    limits = [8, 2, 5, 9, 1, 7]
    together = run(table, range(6), limits, config, 9)
    assert together == run(table, range(6), limits, config, 9), "the seed repeats"
    for order in ([5, 4, 3, 2, 1, 0], [3, 0], [2]):
        assert run(table, order, [limits[i] for i in order], config, 9) == [together[i] for i in order]
    assert run(table, range(6), limits, config, 4) == [draws[:4] for draws in together]
    assert run(table, range(6), limits, config.model_copy(update={"seed": 4}), 9) != together
    model = TableModel(table, range(6))
    other_keys = sample_search(model, Rules(BANNED, torch.tensor(limits)), config, [6, 7, 8, 9, 10, 11], 9)
    assert all(a != b for a, b, limit in zip(other_keys, together, limits, strict=True) if limit > 2)


@pytest.mark.parametrize("kind", KINDS)
def test_sample_score_is_model_log_probability(kind: str) -> None:
    table = random_table(9, vocab=15)
    config = SearchConfig(**KINDS[kind], length_penalty=0.8, length_penalty_kind="gnmt")
    limits = [7, 1, 9, 4]
    for sentence, draws in enumerate(run(table, range(4), limits, config, 8)):
        for drawn in draws:
            log_prob = forced_log_prob(table, sentence, tuple(drawn.ids))
            expected = log_prob, log_prob / length_penalty(len(drawn.ids) + 1, config)
            assert (drawn.log_prob, drawn.score) == pytest.approx(expected, abs=1e-5)
            assert drawn.finished is (len(drawn.ids) + 1 < limits[sentence])


@pytest.mark.parametrize(
    "settings",
    ({"temperature": 1e-3}, {"temperature": 1e-300}, {"top_k": 1}, {"top_p": 1e-9}, {"top_k": 1, "temperature": 9.0}),
    ids=str,
)
def test_sampling_top_1_equals_greedy(settings: dict[str, Any]) -> None:
    table, limits = random_table(11, vocab=70), [9, 4, 1, 9]
    config = SearchConfig(**settings)
    rules = Rules(BANNED, torch.tensor(limits), no_repeat_ngram=2)
    best = greedy_search(TableModel(table, range(4)), rules, config)
    assert run(table, range(4), limits, config, 3, no_repeat_ngram=2) == [[each] * 3 for each in best]


@pytest.mark.parametrize("kind", KINDS)
def test_samples_obey_the_rules(kind: str) -> None:
    table, n = random_table(12, vocab=12), 32
    limits = [5 + sentence % 8 for sentence in range(n)]
    prefix = torch.tensor(
        [[4 + sentence % 8, 4][: 1 + sentence % 2] + [0] * (1 - sentence % 2) for sentence in range(n)]
    )
    rules = {"min_length": 6, "no_repeat_ngram": 2, "prefix": prefix}
    for sentence, draws in enumerate(run(table, range(n), limits, SearchConfig(**KINDS[kind]), 5, **rules)):
        begin = [i for i in prefix[sentence].tolist() if i != PAD]
        for drawn in draws:
            ids = list(drawn.ids)
            assert ids[: len(begin)] == begin
            assert min(6, limits[sentence] - 1) <= len(ids) < limits[sentence]
            assert len(set(itertools.pairwise(ids))) == len(ids) - 1
            assert not set(ids) & {*BANNED.tolist(), EOS}
            assert math.isfinite(drawn.log_prob)


@settings(max_examples=40)
@given(
    logits=st.lists(st.floats(-12, 12, width=32) | st.just(-math.inf), min_size=1, max_size=200),
    temperature=st.sampled_from([0.3, 1.0, 4.0]),
    top_k=st.integers(0, 9),
    top_p=st.sampled_from([0.1, 0.5, 0.9, 0.999, 1.0]),
)
def test_drawn_pieces_are_allowed(logits: list[float], temperature: float, top_k: int, top_p: float) -> None:
    values = [x for x in logits if x > -math.inf]
    assume(values and min(b - a for a, b in itertools.pairwise([*sorted(values), math.inf])) > 1e-3)
    config = SearchConfig(temperature=temperature, top_k=top_k, top_p=top_p)
    expected = chances(logits, config)
    mass = list(itertools.accumulate(chances(logits, config.model_copy(update={"top_p": 1.0})).values()))
    assume(all(abs(x - top_p) > 1e-5 for x in mass[:-1]))
    grid = torch.cat((torch.linspace(2.0**-9, 1, 2**9), torch.tensor([2.0**-53]))).double()
    drawn = draw(torch.tensor(logits).expand(len(grid), -1), grid, config).tolist()
    assert set(drawn) <= set(expected)
    for i, chance in expected.items():
        assert drawn.count(i) / 2**9 == pytest.approx(chance, abs=2.1 / 2**9)


def test_top_p_is_independent_of_candidate_width(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = torch.linspace(0.0, 1.0, 700).repeat(1000, 1)
    logits[::3, 7] = 30.0  # where a single piece is enough
    logits[1::3, :600] -= 8.0  # where 64 are not, and 8 times as many are
    numbers = torch.from_numpy(uniform(1, [1], 1000, 1))[0, 0]
    drawn = draw(logits, numbers, SearchConfig(top_p=0.95))
    monkeypatch.setattr(greedy, "WIDTH", 700)
    assert torch.equal(draw(logits, numbers, SearchConfig(top_p=0.95)), drawn)
    for row in range(3):
        assert set(drawn[row::3].tolist()) <= set(chances(logits[row].tolist(), SearchConfig(top_p=0.95)))


@torch.inference_mode()
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("kind", ["translation", "decoder"])
def test_attention_of_draws_is_linear_in_their_number(kind: str, given: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    model = tiny_model(seed=2).eval()
    prepared = InferenceModel(
        model if kind == "translation" else DecoderModel(model_config(), VOCAB, 0, True), "float32"
    )
    src, limits = pad(sentences([7, 2, 12])), torch.tensor([9, 30, 5])
    tags = torch.tensor([[20, 21], [22, PAD], [PAD, PAD]]) if given else None
    n_scores, attend = Counter[int](), inference.attend

    def counted(query: Tensor, keys: Tensor, *rest: Any, **options: Any) -> tuple[Tensor, Tensor | None]:
        n_scores[n] += query.size(0) * query.size(2) * keys.size(3)
        return attend(query, keys, *rest, **options)

    monkeypatch.setattr(inference, "attend", counted)
    drawn = {}
    for n in (2, 24):
        step = TransformerStep(prepared, src, src != PAD, tags)
        drawn[n] = sample_search(step, Rules(BANNED, limits), SearchConfig(), range(3), n)
    assert [[draw.ids for draw in draws[:2]] for draws in drawn[24]] == [
        [draw.ids for draw in draws] for draws in drawn[2]
    ]
    assert len({tuple(draw.ids) for draw in drawn[24][1]}) > 12
    assert n_scores[24] < 30 * n_scores[2]  # 12 times the draws, of which some are longer; 144 would be quadratic
