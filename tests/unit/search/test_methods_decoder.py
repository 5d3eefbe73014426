"""Search with language models and decoder-only translators equals teacher forcing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
import torch
from torch import Tensor

from models import VOCAB, model_config, pad, sentences, tiny_model
from nmt.errors import DataError
from nmt.model.inference import InferenceModel
from nmt.model.masks import Padded
from nmt.model.transformer import DecoderModel
from nmt.search.forced import ForcedDecoder, Pair
from nmt.search.methods import find_hypotheses
from nmt.search.rules import Rules
from nmt.search.settings import SearchConfig
from nmt.search.step import Ensemble, Hypothesis, Scores, TransformerStep, padded
from nmt.text.ids import BOS, EOS, N_SPECIAL, PAD, SEPARATOR

VARIANTS: dict[str, dict[str, object]] = {
    "pre": {},
    "post": {"norm": "post", "tie_embeddings": "none"},
    "learned": {"positions": "learned", "max_positions": 40},
}
BANNED = torch.tensor([i for i in range(N_SPECIAL) if i != EOS])
SOURCES = [ids.tolist() for ids in sentences([7, 2, 12, 1, 5])]
TARGETS = sentences([9] * len(SOURCES), seed=2)


def decoder_model(sees_source: bool, seed: int = 0, **changes: object) -> DecoderModel:
    torch.manual_seed(seed)
    model = DecoderModel(model_config(**changes), VOCAB, sees_source=sees_source).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # far from uniform probabilities
            parameter.mul_(1.0 if parameter.dim() == 1 else 2.0)
    return model


@pytest.fixture(params=[False, True], ids=["language model", "prefix"])
def sees_source(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(params=VARIANTS)
def model(request: pytest.FixtureRequest, sees_source: bool) -> DecoderModel:
    return decoder_model(sees_source, **VARIANTS[request.param])


def started(
    model: DecoderModel, sources: Sequence[Sequence[int]], precision: str = "float32", given: Tensor | None = None
) -> TransformerStep:
    src = padded([[*ids, EOS] for ids in sources])
    return TransformerStep(InferenceModel(model, precision), src, src != PAD, given)


def whole(parts: Iterator[Scores]) -> Tensor:
    """Return the log-probabilities of all sentences."""
    return torch.cat([logits - log_z[..., None] for logits, log_z in parts])


@torch.inference_mode()
def forced(model: DecoderModel, source: Sequence[int], target: Sequence[int]) -> Tensor:
    """Return the log-probabilities (T + 1, V) of a single target and its end, computed by `forward`."""
    src = torch.tensor([[*source, EOS]])
    before = [*source, SEPARATOR] if model.sees_source else []
    tgt_in = torch.tensor([[BOS, *before, *target]])
    layouts = [Padded(torch.ones(ids.shape, dtype=torch.bool)) for ids in (src, tgt_in)]
    hidden = model(src, layouts[0], tgt_in, layouts[1])[0, len(before) :]
    return (hidden @ model.output_weight.T).log_softmax(-1)


@torch.inference_mode()
def test_steps_with_a_cache_equal_teacher_forcing(model: DecoderModel) -> None:
    step = started(model, SOURCES)
    rows = torch.arange(len(SOURCES))
    tgt_in = torch.cat((torch.full((len(SOURCES), 1), BOS), pad(TARGETS)), 1)
    for t in range(tgt_in.size(1)):
        found = whole(step.step(tgt_in[rows, t : t + 1]))
        for i, row in enumerate(rows.tolist()):
            expected = forced(model, SOURCES[row], TARGETS[row][:t].tolist())[-1]
            torch.testing.assert_close(found[i, 0], expected, atol=1e-4, rtol=0)
        if t == 4:  # the longest leaves, and another
            rows = torch.tensor([0, 1, 4])
            step.select(rows, torch.zeros(3, 1, dtype=torch.int64))


@torch.inference_mode()
def test_given_tokens_come_before_the_first_step(model: DecoderModel) -> None:
    given = [[], [30], [31, 32, 33], [34, 35], []]
    step = started(model, SOURCES, given=padded(given))
    own = [[], [36], [36, 37]]
    for new in own:
        found = whole(step.step(torch.tensor([[*new[-1:], BOS][:1]] * len(SOURCES))))
        for row, source in enumerate(SOURCES):
            expected = forced(model, source, [*given[row], *new])[-1]
            torch.testing.assert_close(found[row, 0], expected, atol=1e-4, rtol=0)


@torch.inference_mode()
@pytest.mark.parametrize("at_once", [1, 2])
def test_hypotheses_attend_to_their_own_history(model: DecoderModel, at_once: int) -> None:
    """Whether the first step starts one hypothesis of each sentence or several."""
    step = started(model, SOURCES[:2])
    whole(step.step(torch.full((2, at_once), BOS)))
    last = at_once - 1
    step.select(torch.tensor([0, 1]), torch.tensor([[0, last, 0], [last, 0, 0]]))
    whole(step.step(torch.tensor([[30, 31, 32], [33, 34, 35]])))
    step.select(torch.tensor([0, 1]), torch.tensor([[2, 0, 2], [1, 1, 0]]))
    found = whole(step.step(torch.tensor([[36, 37, 38], [36, 37, 38]])))
    for sentence, pasts in enumerate([[(32, 36), (30, 37), (32, 38)], [(34, 36), (34, 37), (33, 38)]]):
        for beam, past in enumerate(pasts):
            expected = forced(model, SOURCES[sentence], past)[-1]
            torch.testing.assert_close(found[sentence, beam], expected, atol=1e-4, rtol=0)


@torch.inference_mode()
def find(
    models: Sequence[DecoderModel], config: SearchConfig, n_best: int, prefix: Tensor | None = None
) -> list[list[Hypothesis]]:
    rules = Rules(BANNED, torch.tensor([15] * len(SOURCES)), prefix=prefix)
    steps = [started(model, SOURCES) for model in models]
    step = steps[0] if len(steps) == 1 else Ensemble(steps)
    return find_hypotheses(step, rules, config, range(len(SOURCES)), n_best)


def log_probs(models: Sequence[DecoderModel], pairs: Sequence[Pair], max_tokens: int = 1000) -> list[list[float]]:
    return ForcedDecoder(models, torch.device("cpu"), "float32", max_tokens).log_probs(pairs)


@pytest.mark.parametrize("config", [SearchConfig(beam=1), SearchConfig(beam=3), SearchConfig(sample=True)])
def test_decoder_completes_prefixes(config: SearchConfig, sees_source: bool) -> None:
    beginnings = [ids[: 1 + i] for i, ids in enumerate(TARGETS)]
    models = [decoder_model(sees_source)]
    found = find(models, config, 1, prefix=padded([ids.tolist() for ids in beginnings]))
    for source, beginning, [hypothesis] in zip(SOURCES, beginnings, found, strict=True):
        assert hypothesis.ids[: len(beginning)] == beginning.tolist()
        [values] = log_probs(models, [(source, hypothesis.ids)])
        assert hypothesis.log_prob == pytest.approx(sum(values), abs=1e-4)


@pytest.mark.parametrize("max_tokens", [1, 30, 1000])
def test_forced_scores_equal_forward_pass(model: DecoderModel, max_tokens: int) -> None:
    pairs = [
        (source, target[: 2 * i].tolist()) for i, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True))
    ]
    for (source, target), values in zip(pairs, log_probs([model], pairs, max_tokens), strict=True):
        expected = forced(model, source, target).gather(1, torch.tensor([[*target, EOS]]).T)[:, 0]
        torch.testing.assert_close(torch.tensor(values), expected, atol=1e-5, rtol=0)


def test_ensemble_of_decoder_only_and_encoder_decoder() -> None:
    decoder, transformer = decoder_model(sees_source=True), tiny_model().eval()
    pairs = [(source, target.tolist()) for source, target in zip(SOURCES, TARGETS, strict=True)]
    alone = [
        ForcedDecoder([each], torch.device("cpu"), "float32", 1000).log_probs(pairs) for each in (decoder, transformer)
    ]
    both = ForcedDecoder([decoder, transformer], torch.device("cpu"), "float32", 1000).log_probs(pairs)
    for values, *each in zip(both, *alone, strict=True):
        mean = torch.tensor(each, dtype=torch.float64).exp().mean(0)
        torch.testing.assert_close(torch.tensor(values, dtype=torch.float64).exp(), mean, rtol=1e-4, atol=0)


@torch.inference_mode()
def test_source_beyond_positions_raises() -> None:
    model = decoder_model(sees_source=True, positions="learned", max_positions=10)
    with pytest.raises(DataError, match="a sequence of 14 pieces is longer than the 10 learned positions"):
        started(model, SOURCES)
    short = started(model, [SOURCES[0], SOURCES[1]])  # 9 and 4 tokens with `<s>` and separator
    for token in (BOS, *TARGETS[1][:6].tolist()):
        found = whole(short.step(torch.full((2, 1), token)))  # the first has no position left from the third on
    torch.testing.assert_close(found[1, 0], forced(model, SOURCES[1], TARGETS[1][:6].tolist())[-1], atol=1e-4, rtol=0)
