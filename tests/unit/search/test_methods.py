"""Search with a Transformer in float32 equals teacher forcing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from nmt.model.inference import InferenceModel
from nmt.model.masks import Padded
from nmt.model.settings import ModelConfig
from nmt.model.transformer import Transformer
from nmt.search.methods import find_hypotheses
from nmt.search.rules import Rules
from nmt.search.settings import SearchConfig
from nmt.search.step import Hypothesis, Scores, TransformerStep, length_penalty
from nmt.text.ids import BOS, EOS, N_SPECIAL, PAD, UNK

VOCAB = 48
BANNED = torch.tensor([i for i in range(N_SPECIAL) if i != EOS])
PLAIN = ModelConfig(d_model=32, n_heads=4, d_ff=64, encoder_layers=2, decoder_layers=2)
VARIANTS = {
    "pre": PLAIN,
    "post": PLAIN.model_copy(update={"norm": "post", "tie_embeddings": "none"}),
    "learned": PLAIN.model_copy(update={"positions": "learned", "max_positions": 40, "decoder_layers": 1}),
}


@pytest.fixture(params=VARIANTS)
def model(request: pytest.FixtureRequest) -> Transformer:
    torch.manual_seed(4)
    made = Transformer(VARIANTS[request.param], VOCAB, VOCAB).eval()
    with torch.no_grad():
        for parameter in made.parameters():  # far from uniform probabilities
            parameter.mul_(1.0 if parameter.dim() == 1 else 2.0)
    return made


SOURCES = [torch.tensor([*range(20, 20 + n), EOS]) for n in (7, 2, 12, 1, 5, 12, 9)]


def read(model: Transformer, sources: list[Tensor]) -> tuple[Tensor, Tensor]:
    src = pad_sequence(sources, batch_first=True, padding_value=PAD)
    return model.encoder(src, Padded(src != PAD)), src != PAD


def started(
    model: Transformer,
    sources: list[Tensor],
    kind: type[TransformerStep] = TransformerStep,
    precision: str = "float32",
    **options: object,
) -> TransformerStep:
    src = pad_sequence(sources, batch_first=True, padding_value=PAD)
    return kind(InferenceModel(model, precision), src, src != PAD, **options)  # type: ignore[arg-type]


def whole(parts: Iterator[Scores]) -> Scores:
    """Return the scores of all sentences."""
    logits, log_z = zip(*((logits.clone(), log_z) for logits, log_z in parts), strict=True)
    return torch.cat(logits), torch.cat(log_z)


@torch.inference_mode()
def find(model: Transformer, sources: list[Tensor], config: SearchConfig, n_best: int) -> list[list[Hypothesis]]:
    step = started(model, sources)
    return find_hypotheses(step, Rules(BANNED, torch.tensor([20] * len(sources))), config, range(len(sources)), n_best)


@torch.inference_mode()
def forced(model: Transformer, source: Tensor, tgt_in: Tensor) -> Tensor:
    """Return the log-probabilities (T, V) after each token of tgt_in (T,), by teacher forcing."""
    memory, mask = read(model, [source])
    hidden = model.decoder(tgt_in[None], Padded(torch.ones(1, len(tgt_in), dtype=torch.bool)), memory, Padded(mask))
    return (hidden[0] @ model.output_weight.T).log_softmax(-1)


@torch.inference_mode()
def test_steps_with_a_cache_equal_teacher_forcing(model: Transformer) -> None:
    torch.manual_seed(1)
    tgt_in = torch.randint(N_SPECIAL, VOCAB, (3, 9))
    tgt_in[:, 0] = BOS
    sources = SOURCES[:3]
    step = started(model, sources)
    rows = torch.arange(3)
    for t in range(9):
        logits, log_z = whole(step.step(tgt_in[rows, t : t + 1]))
        assert logits.dtype == log_z.dtype == torch.float32
        for i, row in enumerate(rows.tolist()):
            expected = forced(model, sources[row], tgt_in[row, : t + 1])[-1]
            torch.testing.assert_close(logits[i, 0] - log_z[i, 0], expected, atol=2e-5, rtol=0)
        if t == 4:  # the middle sentence leaves
            rows = torch.tensor([0, 2])
            step.select(rows, torch.zeros(2, 1, dtype=torch.int64))


@torch.inference_mode()
def test_given_tokens_come_before_those_of_all_hypotheses(model: Transformer) -> None:
    sources, lengths = SOURCES[:3], (4, 0, 7)
    given = [torch.arange(30, 30 + n) for n in lengths]
    tokens = pad_sequence(given, batch_first=True, padding_value=PAD)
    whole_step = started(model, sources, given=tokens, keep_attention=True)
    beginnings = [[torch.tensor([BOS, *ids])] for ids in given]
    rows = torch.arange(3)
    for t in range(4):
        new = torch.full((3, 1), BOS) if t == 0 else torch.randint(N_SPECIAL, VOCAB, (len(rows), 2))
        logits, log_z = whole(whole_step.step(new))
        if t:
            beginnings = [
                [torch.cat((ids[i % len(ids)], new[row, i : i + 1])) for i in range(2)]
                for row, ids in enumerate(beginnings)
            ]
        for i, row in enumerate(rows.tolist()):
            for beam, ids in enumerate(beginnings[i]):
                expected = forced(model, sources[row], ids)[-1]
                torch.testing.assert_close(logits[i, beam] - log_z[i, beam], expected, atol=2e-5, rtol=0)
        if t == 0:  # the attention of all given tokens is that of steps
            one_by_one = started(model, sources, keep_attention=True)
            total = torch.zeros(3, tokens.size(1) + 1, 13)
            for place, column in enumerate(torch.cat((new, tokens), 1).T):
                whole(one_by_one.step(column[:, None]))
                total[:, place] = one_by_one.attention()[:, 0]
            expected = torch.stack([of_row[: n + 1].sum(0) for of_row, n in zip(total, lengths, strict=True)])
            torch.testing.assert_close(whole_step.attention()[:, 0], expected, atol=2e-5, rtol=0)
        if t == 2:
            rows, beginnings = torch.tensor([0, 2]), [beginnings[0], beginnings[2]]
            whole_step.select(rows, torch.tensor([[0, 1], [0, 1]]))


@torch.inference_mode()
def test_groups_after_given_tokens_have_own_coverage(model: Transformer) -> None:
    found = []
    for groups in (1, 3):  # without a penalty, all groups are the same
        config = SearchConfig(beam=2 * groups, diversity_groups=groups, diversity=0.0, coverage_penalty=0.3)
        step = started(model, SOURCES, given=torch.full((len(SOURCES), 2), 30), keep_attention=True)
        rules = Rules(BANNED, torch.tensor([20] * len(SOURCES)))
        found.append(
            [[each.ids for each in of_source] for of_source in find_hypotheses(step, rules, config, SOURCES, 2)]
        )
    assert found[0] == found[1]


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@torch.inference_mode()
def test_half_precision_is_close(model: Transformer, precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.model.inference.FEW_PRODUCTS", 0)  # these few rows would be multiplied in float32
    exact, half = started(model, SOURCES), started(model, SOURCES, precision=precision)
    for tokens in torch.randint(N_SPECIAL, VOCAB, (6, len(SOURCES), 1), generator=torch.Generator().manual_seed(3)):
        (wanted, wanted_z), (found, found_z) = whole(exact.step(tokens)), whole(half.step(tokens))
        assert found.dtype == found_z.dtype == torch.float32
        torch.testing.assert_close(found - found_z[..., None], wanted - wanted_z[..., None], atol=0.25, rtol=0)
        assert not torch.equal(found, wanted)


@pytest.mark.parametrize("beam", [1, 4])
def test_search_score_equals_forced_score(model: Transformer, beam: int) -> None:
    config = SearchConfig(beam=beam, length_penalty=0.9)
    for source, hypotheses in zip(SOURCES, find(model, SOURCES, config, n_best=beam), strict=True):
        assert len(hypotheses) == beam
        for hypothesis in hypotheses:
            log_probs = forced(model, source, torch.tensor([BOS, *hypothesis.ids]))
            total = float(log_probs.gather(1, torch.tensor([[*hypothesis.ids, EOS]]).T).sum())
            assert hypothesis.log_prob == pytest.approx(total, abs=1e-4)
            length = len(hypothesis.ids) + 1
            assert hypothesis.score == pytest.approx(total / length_penalty(length, config), abs=1e-4)
            assert not {PAD, UNK, BOS, EOS, *range(4, N_SPECIAL)} & set(hypothesis.ids)


class Endless(TransformerStep):
    """A Transformer with the lowest possible probability of `</s>`."""

    def step(self, tokens: Tensor) -> Iterator[Scores]:
        for logits, log_z in super().step(tokens):
            logits[..., EOS] = -50.0
            yield logits, log_z


@torch.inference_mode()
def test_learned_positions_suffice_for_maximum_length() -> None:
    torch.manual_seed(0)
    made = Transformer(VARIANTS["learned"], VOCAB, VOCAB).eval()
    step = started(made, SOURCES, Endless)
    rules = Rules(BANNED, torch.tensor([40] * len(SOURCES)))
    found = find_hypotheses(step, rules, SearchConfig(beam=2), range(len(SOURCES)))
    assert [len(hypothesis.ids) for [hypothesis] in found] == [39] * len(SOURCES)
