"""Search over tables of probabilities, compared with enumeration of all outputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from nmt.errors import CheckpointError
from nmt.search import beam as beam_module
from nmt.search.beam import beam_search
from nmt.search.greedy import greedy_search
from nmt.search.methods import find_hypotheses
from nmt.search.rules import Rules, SearchStopped, largest
from nmt.search.settings import SearchConfig
from nmt.search.step import Ensemble, Fusion, Hypothesis, StepModel, length_penalty
from nmt.text.ids import BOS, EOS, PAD, UNK
from nmt.translate.segment import n_candidates
from tables import BANNED, A, B, Prefix, Table, TableModel, every_output, forced_log_prob, random_table, waiting


def rules(limits: Sequence[int]) -> Rules:
    return Rules(BANNED, torch.tensor(limits))


def run(
    table: Table, sentences: Sequence[int], limits: Sequence[int], config: SearchConfig, n_best: int = 1
) -> list[list[Hypothesis]]:
    return find_hypotheses(TableModel(table, sentences), rules(limits), config, sentences, n_best)


PENALTIES = [(kind, a) for kind in ("power", "gnmt") for a in (0.0, 0.6, 1.0, 2.5, -0.7)]


@pytest.mark.parametrize("coverage", [0.0, 0.4])
@pytest.mark.parametrize(("kind", "a"), PENALTIES)
@pytest.mark.parametrize("seed", range(2))
def test_wide_beam_equals_enumeration(seed: int, kind: str, a: float, coverage: float) -> None:
    table = random_table(seed, sharpness=(0.5, 3.0)[seed % 2])
    limits = [4, 1, 5, 2]
    config = SearchConfig(beam=32, length_penalty=a, length_penalty_kind=kind, coverage_penalty=coverage)
    found = run(table, range(4), limits, config, n_best=3)
    for sentence, limit in enumerate(limits):
        expected = every_output(table, sentence, (A, B), limit, config)[:3]
        assert [(tuple(one.ids), one.finished) for one in found[sentence]] == [
            (one.ids, one.finished) for one in expected
        ]
        scores = ([(one.log_prob, one.score) for one in outputs] for outputs in (found[sentence], expected))
        torch.testing.assert_close(*map(torch.tensor, scores), atol=1e-5, rtol=0)


def from_probabilities(tables: dict[Prefix, dict[int, float]]) -> Table:
    """Return a table with these probabilities; after any other prefix, `</s>` is certain."""

    def table(_: int, prefix: Prefix) -> Tensor:
        logits = torch.full((6,), -math.inf)
        for token, probability in tables.get(prefix, {EOS: 1.0}).items():
            logits[token] = math.log(probability)
        return logits

    return table


LOWER_HALF = {
    "of one hypothesis": ({(): {A: 0.4, B: 0.35, EOS: 0.25}}, []),
    "of all": (
        {
            (): {A: 0.5, B: 0.5},
            (A,): {A: 0.6, EOS: 0.4},  # 0.3, 0.2
            (B,): {A: 0.55, B: 0.45},  # 0.275, 0.225
            (A, A): {A: 0.5, B: 0.5},
            (B, A): {A: 0.5, B: 0.5},
        },
        [A],
    ),
}


@pytest.mark.parametrize("case", LOWER_HALF)
def test_end_outside_best_k_does_not_finish(case: str) -> None:
    probabilities, ended = LOWER_HALF[case]
    table = from_probabilities(probabilities)
    for beam, is_found in ((2, False), (4, True)):
        [found] = run(table, [0], [4], SearchConfig(beam=beam, length_penalty=0.0), n_best=beam)
        assert (ended in [hypothesis.ids for hypothesis in found]) is is_found


@pytest.mark.parametrize("seed", range(8))
def test_beam_of_one_equals_greedy(seed: int) -> None:
    table, limits = random_table(seed, vocab=9), rules([1, 5, 8, 3, 8])
    config = SearchConfig(beam=1, length_penalty=0.7, patience=1.0)
    greedy = greedy_search(TableModel(table, range(5)), limits, config)
    beam = beam_search(TableModel(table, range(5)), limits, config)
    assert [[hypothesis] for hypothesis in greedy] == beam


def flat(_: int, __: Prefix) -> Tensor:
    """Return equal logits, so that all outputs are ties."""
    return torch.zeros(40)


def test_ties_are_independent_of_batch() -> None:
    [[greedy]] = run(flat, [0], [4], SearchConfig(beam=1))
    assert greedy.ids == [], "greedy search takes the lowest id"
    for beam in (7, 37):
        config = SearchConfig(beam=beam)
        first, second = run(flat, range(2), [4, 4], config, n_best=beam)
        assert first == second == run(flat, [5], [4], config, n_best=beam)[0]
        assert len({tuple(hypothesis.ids) for hypothesis in first}) == beam


@pytest.mark.parametrize(("kind", "a"), PENALTIES)
def test_early_stop_does_not_change_result(kind: str, a: float, monkeypatch: pytest.MonkeyPatch) -> None:
    def when_nothing_lives(rows: beam_module._BeamRows, *_: object) -> Tensor:
        return rows.log_prob.amax(1) == -math.inf

    found, steps = {}, {}
    for early in (True, False):
        if not early:
            monkeypatch.setattr(beam_module, "_done", when_nothing_lives)
        found[early], steps[early] = [], 0
        for seed in range(4):
            model = TableModel(random_table(seed, vocab=8, sharpness=3.0), range(4))
            config = SearchConfig(beam=3, length_penalty=a, length_penalty_kind=kind, patience=0)
            found[early].append(beam_search(model, rules([9, 4, 12, 7]), config, n_best=2))
            steps[early] += sum(model.rows_seen)
    assert found[True] == found[False]
    assert steps[True] < steps[False] or a > 2, "a strong reward of length leaves little to stop"


def test_patience_sets_finished_hypotheses() -> None:
    def table(_: int, prefix: Prefix) -> Tensor:  # the end becomes likelier step by step
        logits = torch.zeros(6)
        logits[EOS] = len(prefix) - 2.0
        return logits

    lengths = {}
    for patience in (0.5, 1.0, 2.0, 0.0):
        model = TableModel(table, [0])
        beam_search(model, rules([30]), SearchConfig(beam=4, patience=patience, length_penalty=2.0))
        lengths[patience] = len(model.rows_seen)
    assert lengths[0.5] < lengths[1.0] < lengths[2.0] < lengths[0.0]


def test_finished_sentences_are_removed_from_batch() -> None:
    def short_and_long(sentence: int, prefix: Prefix) -> Tensor:
        logits = torch.zeros(6)
        logits[EOS] = 20.0 if len(prefix) >= sentence else -20.0
        return logits

    for beam in (1, 3):
        model = TableModel(short_and_long, range(4))
        find_hypotheses(model, rules([9] * 4), SearchConfig(beam=beam), range(4))
        assert model.rows_seen == [4, 3, 2, 1]


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("patience", [0.0, 0.4, 1.0, 1.5])
def test_best_are_same_among_more_hypotheses(groups: int, patience: float) -> None:
    config = SearchConfig(beam=8, patience=patience, diversity_groups=groups)
    table, limits = random_table(6, vocab=12), [8, 2, 5, 9, 7, 12]
    for n_best in (2, 3):
        more = run(table, range(6), limits, config, n_candidates(config, n_best))
        assert [found[:n_best] for found in more] == run(table, range(6), limits, config, n_best)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("coverage", [0.0, 0.3])
def test_delayed_removal_of_finished_sentences_does_not_change_result(
    groups: int, coverage: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU, finished sentences stay until the next check."""
    config = SearchConfig(beam=4, diversity_groups=groups, coverage_penalty=coverage)
    limits = [8, 2, 5, 9, 1, 7, 12, 12]
    at_once = run(random_table(6, vocab=12), range(8), limits, config, n_best=2)
    monkeypatch.setattr(Rules, "leaving", waiting(8))
    assert run(random_table(6, vocab=12), range(8), limits, config, n_best=2) == at_once


@pytest.mark.parametrize("beam", [1, 4])
def test_results_are_independent_of_batch(beam: int) -> None:
    table, config = random_table(7, vocab=12), SearchConfig(beam=beam)
    limits = [8, 2, 5, 9, 1, 7]
    together = run(table, range(6), limits, config, n_best=beam)
    for order in ([5, 4, 3, 2, 1, 0], [2, 0, 5, 1, 4, 3]):
        shuffled = run(table, order, [limits[i] for i in order], config, n_best=beam)
        assert shuffled == [together[i] for i in order]
    assert [run(table, [i], [limits[i]], config, n_best=beam)[0] for i in range(6)] == together


def test_banned_ids_keep_their_probability() -> None:
    def tempting(_: int, __: Prefix) -> Tensor:
        logits = torch.zeros(6)
        logits[[PAD, UNK, BOS]] = 3.0
        return logits

    for beam in (1, 4):
        [[hypothesis]] = run(tempting, [0], [1], SearchConfig(beam=beam))
        z = 3 * math.exp(3.0) + 3
        assert math.exp(hypothesis.log_prob) == pytest.approx(1 / z)
        [hypotheses] = run(tempting, [0], [5], SearchConfig(beam=beam), n_best=beam)
        assert all(set(hypothesis.ids) <= {A, B} for hypothesis in hypotheses)


@pytest.mark.parametrize(
    "settings",
    [
        {"beam": 1},
        {"beam": 3},
        *({"sample": True, **each} for each in [{}, {"top_k": 2}, {"top_p": 0.5}, {"temperature": 0.5}]),
    ],
    ids=str,
)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_nonfinite_scores_raise(settings: dict[str, Any], value: float) -> None:
    def broken(sentence: int, _: Prefix) -> Tensor:
        return torch.full((6,), value if sentence == 1 else 0.0)

    with pytest.raises(CheckpointError, match="the model's scores are not finite"):
        run(broken, range(3), [4] * 3, SearchConfig(**settings))


@pytest.mark.parametrize(
    ("kind", "a", "length", "expected"),
    [
        ("power", 0.6, 10, 3.9810717), ("power", 0.6, 20, 6.0341763), ("gnmt", 0.6, 10, 1.7328621),
        ("gnmt", 0.6, 20, 2.3543621), ("power", 1.0, 10, 10.0), ("gnmt", 1.0, 7, 2.0), ("power", 0.0, 20, 1.0),
        ("power", -1.0, 20, 0.05),
    ],
)  # fmt: skip
def test_length_penalty_equals_formula(kind: str, a: float, length: int, expected: float) -> None:
    config = SearchConfig(length_penalty=a, length_penalty_kind=kind)  # type: ignore[arg-type]
    assert length_penalty(length, config) == pytest.approx(expected)


# --- diverse beam search ------------------------------------------------------------------------


def diverse(seed: int, groups: int, diversity: float, beam: int = 6, n_best: int = 6) -> list[list[Hypothesis]]:
    config = SearchConfig(beam=beam, diversity_groups=groups, diversity=diversity)
    return run(random_table(seed, vocab=12), range(5), [7, 3, 8, 8, 5], config, n_best)


@pytest.mark.parametrize("seed", range(6))
def test_diversity_0_equals_plain_beam(seed: int) -> None:
    plain = run(random_table(seed, vocab=12), range(5), [7, 3, 8, 8, 5], SearchConfig(beam=2), n_best=2)
    assert diverse(seed, groups=3, diversity=0.0) == plain
    assert diverse(seed, groups=1, diversity=9.0, beam=2, n_best=2) == plain


# --- ensembles ----------------------------------------------------------------------------------


def test_ensemble_averages_probabilities() -> None:
    tables = [from_probabilities({(): {A: 0.9, B: 0.1}}), from_probabilities({(): {A: 0.2, B: 0.8}})]
    [[best, second]] = find_hypotheses(
        Ensemble([TableModel(table, [0]) for table in tables]), rules([5]), SearchConfig(beam=2), [0], 2
    )
    assert (best.ids, second.ids) == ([A], [B])
    assert (math.exp(best.log_prob), math.exp(second.log_prob)) == pytest.approx((0.55, 0.45))


# --- Stopping of a search ---


CONFIGS = [
    SearchConfig(beam=1),
    SearchConfig(beam=3),
    SearchConfig(beam=3, coverage_penalty=0.4),
    SearchConfig(sample=True),
]
IDS = ["greedy", "beam", "coverage", "sample"]
SENTENCES, TABLE = [0, 1, 2], random_table(1)


@pytest.mark.parametrize("config", CONFIGS, ids=IDS)
def test_searches_stop_before_next_step(config: SearchConfig) -> None:
    model = TableModel(TABLE, SENTENCES)
    # no sentence ends within the first steps
    rules = Rules(BANNED, torch.tensor([6] * len(SENTENCES)), 4, should_stop=lambda: len(model.rows_seen) == 2)
    with pytest.raises(SearchStopped):
        find_hypotheses(model, rules, config, SENTENCES)
    assert len(model.rows_seen) == 2


# --- The largest values ---


@pytest.mark.parametrize("k", [1, 2, 6, 31, 200])
@pytest.mark.parametrize("n", [300, 2047, 2048, 8000, 8003, 8015])
def test_largest_equals_topk(n: int, k: int) -> None:
    torch.manual_seed(n + k)
    x = torch.stack([torch.randperm(n) for _ in range(2 * 45)]).view(2, 45, n).float()
    x[0, :, : n // 2] = -float("inf")
    x[1, 0, -1] = 2.0 * n  # the last of those that fill no column
    values, ids = largest(x, k)
    torch.testing.assert_close(values, x.topk(k).values, rtol=0, atol=0)
    torch.testing.assert_close(x.gather(-1, ids), values, rtol=0, atol=0)
    assert all(len(set(row)) == k for row in ids.flatten(0, 1).tolist())


# --- Shallow fusion ---


LANGUAGE_MODEL = random_table(2)


def fused(weight: float) -> Fusion:
    return Fusion(TableModel(TABLE, SENTENCES), TableModel(LANGUAGE_MODEL, SENTENCES), weight)


def find(model: StepModel, config: SearchConfig, n_best: int = 1) -> list[list[Hypothesis]]:
    return find_hypotheses(model, Rules(BANNED, torch.tensor([6] * len(SENTENCES))), config, SENTENCES, n_best)


@pytest.mark.parametrize("config", CONFIGS[:3], ids=IDS[:3])
def test_fused_score_is_weighted_sum(config: SearchConfig) -> None:
    for sentence, hypotheses in enumerate(find(fused(0.5), config, config.beam)):
        assert len(hypotheses) == config.beam
        for hypothesis in hypotheses:
            total, of_other = (
                forced_log_prob(table, sentence, tuple(hypothesis.ids)) for table in (TABLE, LANGUAGE_MODEL)
            )
            assert hypothesis.log_prob == pytest.approx(total + 0.5 * of_other, abs=1e-4)
    heavy, without = ([found.ids for [found] in find(fused(weight), config)] for weight in (3.0, 0.0))
    assert heavy != without


@pytest.mark.parametrize("config", CONFIGS, ids=IDS)
def test_fusion_weight_0_changes_nothing(config: SearchConfig) -> None:
    assert find(fused(0.0), config) == find(TableModel(TABLE, SENTENCES), config)


def test_select_applies_to_both_fused_models() -> None:
    model, alone = fused(1.0), TableModel(TABLE, SENTENCES)
    for each in (model, alone):
        list(each.step(torch.full((3, 1), BOS)))
        each.select(torch.tensor([0, 2]), torch.zeros(2, 2, dtype=torch.int64))
        list(each.step(torch.tensor([[A, B], [B, A]])))
        each.select(torch.tensor([1]), torch.tensor([[1, 0]]))
    [(logits, log_z)] = model.step(torch.tensor([[A, B]]))
    list(alone.step(torch.tensor([[A, B]])))
    for beam, past in enumerate([(A, A), (B, B)]):
        expected = sum(table(2, past).log_softmax(-1) for table in (TABLE, LANGUAGE_MODEL))
        torch.testing.assert_close(logits[0, beam] - log_z[0, beam], expected)
    assert torch.equal(model.attention(), alone.attention())
