"""Search with translation models, language models and decoder-only translators equals teacher forcing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
import torch
from torch import Tensor

from models import VOCAB, decisive, forced_log_probs, pad, sentences
from nmt.errors import DataError
from nmt.model.inference import InferenceModel
from nmt.model.transformer import DecoderModel, Transformer
from nmt.search.methods import find_hypotheses
from nmt.search.rules import Rules
from nmt.search.settings import SearchConfig
from nmt.search.step import Scores, TransformerStep, length_penalty, padded
from nmt.text.ids import BOS, EOS, N_SPECIAL, PAD

VARIANTS: dict[str, dict[str, object]] = {
    "pre": {},
    "post": {"norm": "post", "tie_embeddings": "none"},
    "learned": {"positions": "learned", "max_positions": 40, "decoder_layers": 1},
}
BANNED = torch.tensor([i for i in range(N_SPECIAL) if i != EOS])
SOURCES = [ids.tolist() for ids in sentences([7, 2, 12, 1, 5])]
TARGETS = sentences([9] * len(SOURCES), seed=2)

Model = Transformer | DecoderModel


@pytest.fixture(params=["translation", "language model", "source"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=VARIANTS)
def model(request: pytest.FixtureRequest, kind: str) -> Model:
    return decisive(kind, **VARIANTS[request.param])


def started(
    model: Model, sources: Sequence[Sequence[int]], precision: str = "float32", **options: object
) -> TransformerStep:
    src = padded([[*ids, EOS] for ids in sources])
    return TransformerStep(InferenceModel(model, precision), src, src != PAD, **options)  # type: ignore[arg-type]


def whole(parts: Iterator[Scores]) -> Tensor:
    """Return the log-probabilities of all sentences."""
    found = torch.cat([logits - log_z[..., None] for logits, log_z in parts])
    assert found.dtype == torch.float32
    return found


@torch.inference_mode()
def test_steps_with_a_cache_equal_teacher_forcing(model: Model) -> None:
    step = started(model, SOURCES)
    rows = torch.arange(len(SOURCES))
    tgt_in = torch.cat((torch.full((len(SOURCES), 1), BOS), pad(TARGETS)), 1)
    for t in range(tgt_in.size(1)):
        found = whole(step.step(tgt_in[rows, t : t + 1]))
        for i, row in enumerate(rows.tolist()):
            expected = forced_log_probs(model, SOURCES[row], TARGETS[row][:t].tolist())[-1]
            torch.testing.assert_close(found[i, 0], expected, atol=5e-5, rtol=0)
        if t == 4:  # the longest leaves, and another
            rows = torch.tensor([0, 1, 4])
            step.select(rows, torch.zeros(3, 1, dtype=torch.int64))


@torch.inference_mode()
@pytest.mark.parametrize("at_once", [1, 2])
def test_hypotheses_attend_to_given_tokens_and_their_own_history(model: Model, at_once: int) -> None:
    """Whether the first step starts one hypothesis of each sentence or several."""
    last, given = at_once - 1, [[31, 32, 33], [], [34]]
    step = started(model, SOURCES[:3], given=padded(given))
    rows, pasts, new = [0, 1, 2], [[ids] * at_once for ids in given], torch.full((3, at_once), BOS)
    for chosen, beams in (
        ([0, 1, 2], [[0, last, 0], [last, 0, 0], [0, 0, last]]), ([0, 2], [[2, 0, 2], [1, 1, 0]]), ([0], [[1]]),
    ):  # fmt: skip
        found = whole(step.step(new))
        for i, row in enumerate(rows):
            for beam, past in enumerate(pasts[i]):
                expected = forced_log_probs(model, SOURCES[row], past)[-1]
                torch.testing.assert_close(found[i, beam], expected, atol=1e-4, rtol=0)
        step.select(torch.tensor(chosen), torch.tensor(beams))
        new = torch.arange(20, 20 + len(chosen) * len(beams[0])).view(len(chosen), -1)
        of_chosen = zip(chosen, beams, new.tolist(), strict=True)
        pasts = [[[*pasts[i][beam], token] for beam, token in zip(*both, strict=True)] for i, *both in of_chosen]
        rows = [rows[i] for i in chosen]


@torch.inference_mode()
@pytest.mark.parametrize("variant", VARIANTS)
def test_attention_of_given_tokens_is_that_of_steps(variant: str) -> None:
    model, given = decisive("translation", **VARIANTS[variant]), [[30, 31, 32, 33], [], [34, 35]]
    begin, tokens = torch.full((3, 1), BOS), padded(given)
    together = started(model, SOURCES[:3], given=tokens, keep_attention=True)
    whole(together.step(begin))
    one_by_one = started(model, SOURCES[:3], keep_attention=True)
    places = []
    for column in torch.cat((begin, tokens), 1).T:
        whole(one_by_one.step(column[:, None]))
        places.append(one_by_one.attention()[:, 0])
    expected = torch.stack([sum(each[row] for each in places[: len(ids) + 1]) for row, ids in enumerate(given)])
    torch.testing.assert_close(together.attention()[:, 0], expected, atol=2e-5, rtol=0)


@torch.inference_mode()
@pytest.mark.parametrize("variant", VARIANTS)
def test_groups_after_given_tokens_have_own_coverage(variant: str) -> None:
    found = []
    for groups in (1, 3):  # without a penalty, all groups are the same
        config = SearchConfig(beam=2 * groups, diversity_groups=groups, diversity=0.0, coverage_penalty=0.3)
        model, given = decisive("translation", **VARIANTS[variant]), torch.full((len(SOURCES), 2), 30)
        step = started(model, SOURCES, given=given, keep_attention=True)
        hypotheses = find_hypotheses(step, Rules(BANNED, torch.tensor([20] * len(SOURCES))), config, SOURCES, 2)
        found.append([[each.ids for each in of_source] for of_source in hypotheses])
    assert found[0] == found[1]


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("variant", VARIANTS)
@torch.inference_mode()
def test_half_precision_is_close(variant: str, precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.model.inference.FEW_PRODUCTS", 0)  # these few rows would be multiplied in float32
    model = decisive("translation", **VARIANTS[variant])
    exact, half = started(model, SOURCES), started(model, SOURCES, precision=precision)
    for tokens in torch.randint(N_SPECIAL, VOCAB, (6, len(SOURCES), 1), generator=torch.Generator().manual_seed(3)):
        wanted, found = whole(exact.step(tokens)), whole(half.step(tokens))
        torch.testing.assert_close(found, wanted, atol=0.25, rtol=0)
        assert not torch.equal(found, wanted)


@torch.inference_mode()
@pytest.mark.parametrize("has_prefix", [False, True])
@pytest.mark.parametrize("method", [{"beam": 1}, {"beam": 4}, {"sample": True, "temperature": 1.5}], ids=str)
def test_search_scores_equal_forced_scores(model: Model, method: dict[str, object], has_prefix: bool) -> None:
    config = SearchConfig(length_penalty=0.9, **method)  # type: ignore[arg-type]
    beginnings = [ids[: (1 + i) * has_prefix].tolist() for i, ids in enumerate(TARGETS)]
    rules = Rules(BANNED, torch.tensor([15] * len(SOURCES)), prefix=padded(beginnings) if has_prefix else None)
    found = find_hypotheses(started(model, SOURCES), rules, config, range(len(SOURCES)), config.beam)
    for source, beginning, hypotheses in zip(SOURCES, beginnings, found, strict=True):
        assert len(hypotheses) == config.beam
        for hypothesis in hypotheses:
            ended = [*hypothesis.ids, EOS]
            total = float(forced_log_probs(model, source, hypothesis.ids).gather(1, torch.tensor([ended]).T).sum())
            assert hypothesis.log_prob == pytest.approx(total, abs=1e-4)
            assert hypothesis.score == pytest.approx(total / length_penalty(len(ended), config), abs=1e-4)
            assert hypothesis.ids[: len(beginning)] == beginning and min(hypothesis.ids, default=VOCAB) >= N_SPECIAL


class Endless(TransformerStep):
    """A Transformer with the lowest possible probability of `</s>`."""

    def step(self, tokens: Tensor) -> Iterator[Scores]:
        for logits, log_z in super().step(tokens):
            logits[..., EOS] = -50.0
            yield logits, log_z


@torch.inference_mode()
def test_learned_positions_suffice_for_maximum_length() -> None:
    model, src = decisive("translation", **VARIANTS["learned"]), padded([[*ids, EOS] for ids in SOURCES])
    step, rules = Endless(InferenceModel(model, "float32"), src, src != PAD), Rules(BANNED, torch.tensor([40] * 5))
    found = find_hypotheses(step, rules, SearchConfig(beam=2), range(5))
    assert [len(hypothesis.ids) for [hypothesis] in found] == [39] * 5


@torch.inference_mode()
def test_source_beyond_positions_raises() -> None:
    model = decisive("source", positions="learned", max_positions=10)
    with pytest.raises(DataError, match="a sequence of 14 pieces is longer than the 10 learned positions"):
        started(model, SOURCES)
    short = started(model, SOURCES[:2])  # 9 and 4 tokens with `<s>` and separator
    target = TARGETS[1][:6].tolist()
    for token in (BOS, *target):
        found = whole(short.step(torch.full((2, 1), token)))  # the first has no position left from the third on
    torch.testing.assert_close(found[1, 0], forced_log_probs(model, SOURCES[1], target)[-1], atol=1e-4, rtol=0)
