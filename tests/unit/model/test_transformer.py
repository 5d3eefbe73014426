"""Properties of the Transformer that hold for any weights."""

import math

import pytest
import torch

from models import VOCAB, model_config, packed, pad, padding_mask, sentences, tiny_model
from nmt.errors import CheckpointError, DataError
from nmt.model import inference, transformer
from nmt.model.embedding import (
    TABLES,
    Embedding,
    LearnedPositions,
    SinusoidalPositions,
    fairseq_table,
    sinusoidal_table,
)
from nmt.model.inference import InferenceModel
from nmt.model.masks import AttentionMask, Padded
from nmt.model.transformer import ACTIVATIONS, Activation, FeedForward, Transformer
from nmt.search.forced import check_inference
from nmt.text.ids import BOS, EOS, N_SPECIAL, PAD

VARIANTS = [
    {"norm": norm, "positions": positions, "tie_embeddings": tie, "activation": activation}
    for norm, positions, tie, activation in [
        ("pre", "sinusoidal", "all", "relu"),
        ("post", "learned", "target", "gelu"),
        ("pre", "learned", "none", "gelu"),
        ("post", "sinusoidal", "all", "silu"),
    ]
]
SRC_LENGTHS, TGT_LENGTHS = [7, 4, 1], [5, 6, 2]


def forward(model: Transformer, src: list[torch.Tensor], tgt: list[torch.Tensor], room: int = 0) -> list[torch.Tensor]:
    """Hidden states of each target sentence, from a padded batch with `room` columns to spare."""
    src_mask = padding_mask(torch.tensor([len(row) for row in src]), max(map(len, src)) + room)
    tgt_mask = padding_mask(torch.tensor([len(row) for row in tgt]), max(map(len, tgt)) + room)
    wide = [torch.nn.functional.pad(pad(rows), (0, room)) for rows in (src, tgt)]
    hidden = model(wide[0], Padded(src_mask), wide[1], Padded(tgt_mask))
    return [row[: len(ids)] for row, ids in zip(hidden, tgt, strict=True)]


def test_zero_start_embedding_is_zero_from_the_beginning():
    embedding = Embedding(model_config(start_embedding="zero"), VOCAB)
    assert not embedding.weight[[PAD, BOS]].any() and embedding.weight[EOS].any()


@pytest.mark.parametrize("variant", VARIANTS)
def test_single_padded_and_packed_sentences_have_equal_states_and_gradients(variant):
    model = tiny_model(**variant)
    src, tgt = sentences(SRC_LENGTHS), sentences(TGT_LENGTHS, seed=2)
    probe = [torch.randn(length, 16) for length in TGT_LENGTHS]

    def gradients(hidden: list[torch.Tensor]) -> list[torch.Tensor]:
        loss = sum((h * p).sum() for h, p in zip(hidden, probe, strict=True))
        parameters = [p for p in model.parameters() if p is not model.output]
        return list(torch.autograd.grad(loss, parameters))

    alone = [forward(model, [s], [t])[0] for s, t in zip(src, tgt, strict=True)]
    padded = forward(model, src, tgt, room=3)
    flat = model(torch.cat(src)[None], packed(SRC_LENGTHS), torch.cat(tgt)[None], packed(TGT_LENGTHS))
    in_a_row = list(flat[0].split(TGT_LENGTHS))
    expected = gradients(alone)
    for other in (padded, in_a_row):
        torch.testing.assert_close(other, alone, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(gradients(other), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("variant", VARIANTS)
def test_decoder_positions_are_causal(variant):
    model = tiny_model(**variant).eval()
    (src,), (tgt,) = sentences([6]), sentences([7], seed=2)
    before = forward(model, [src], [tgt])[0]
    changed = tgt.clone()
    changed[3] = 20 if tgt[3] != 20 else 21
    after = forward(model, [src], [changed])[0]
    assert torch.equal(before[:3], after[:3])
    assert all(not torch.equal(before[i], after[i]) for i in range(3, 7))


def check_steps(model: Transformer, precision: str = "float32") -> None:
    """Search computes what the training's forward pass does."""
    src, tgt = sentences(SRC_LENGTHS), sentences([6, 6, 6], seed=2)
    mask = padding_mask(torch.tensor(SRC_LENGTHS))
    expected = torch.stack(forward(model, src, tgt))
    prepared = InferenceModel(model, precision)
    with torch.no_grad():
        state = prepared.start(pad(src), mask)
        steps = [prepared.step(torch.stack(tgt)[:, i : i + 1], state) for i in range(6)]
    tolerance = {"float32": 1e-5, "bf16": 0.05}[precision]
    torch.testing.assert_close(torch.cat(steps, dim=1), expected, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("variant", VARIANTS)
def test_incremental_decoding_equals_teacher_forcing(variant):
    check_steps(tiny_model(**variant).eval())


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_search_supports_new_activation(precision, monkeypatch):
    monkeypatch.setitem(ACTIVATIONS, "made up", Activation(lambda x: x.square() - x, "square", "none", "none", "none"))
    monkeypatch.setattr(inference, "packs", lambda: False)  # oneDNN has no such function
    model = Transformer(model_config().model_copy(update={"activation": "made up"}), VOCAB, VOCAB).eval()
    check_steps(model, precision)


def test_search_supports_new_norm(monkeypatch):
    monkeypatch.setattr(transformer, "make_norm", lambda config: torch.nn.RMSNorm(config.d_model))
    check_steps(tiny_model().eval())


def test_search_without_layer_of_training_is_rejected(monkeypatch):
    model = tiny_model().eval()
    check_inference(model)
    model.decoder.layers[1].feed_forward.gate = torch.nn.Linear(16, 16)
    forward = FeedForward.forward
    gated = model.decoder.layers[1].feed_forward
    gate = lambda layer, x: forward(layer, x) * (layer.gate(x).sigmoid() if layer is gated else 1)  # noqa: E731
    monkeypatch.setattr(FeedForward, "forward", gate)
    with pytest.raises(CheckpointError, match=r"-\d+\.\d{4} .* -\d+\.\d{4}"):
        check_inference(model)


def test_search_that_attends_to_padding_is_rejected(monkeypatch):
    everything = lambda _, keys: AttentionMask(torch.ones_like(keys.mask)[:, None, None])  # noqa: E731
    monkeypatch.setattr(inference, "attention_mask", everything)
    with pytest.raises(CheckpointError, match=r"-\d+\.\d{4} .* -\d+\.\d{4}"):
        check_inference(tiny_model().eval())


def test_search_is_compared_with_few_pieces():
    assert check_inference(Transformer(model_config(), N_SPECIAL + 3, N_SPECIAL + 2).eval()) < 0


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("tie", ["all", "target", "none"])
@pytest.mark.parametrize("d_model", [32, 512])
def test_initial_loss_is_close_to_log_vocabulary(norm, tie, d_model):
    """Logits of variance 1 add 1/2; with tied embeddings the token just read adds to it, in wide models no more."""
    torch.manual_seed(0)
    config = model_config(d_model=d_model, n_heads=4, d_ff=2 * d_model, norm=norm, tie_embeddings=tie)
    model = Transformer(config, 8000, 8000)
    src, tgt = torch.randint(20, 8000, (16, 9)), torch.randint(20, 8000, (16, 10))
    layout = Padded(torch.ones(16, 9, dtype=torch.bool))
    logits = model(src, layout, tgt[:, :-1], layout) @ model.output_weight.T
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tgt[:, 1:].flatten())
    gain = 1.0 if tie == "none" else min(1.0, (128 / d_model) ** 0.5)
    assert logits.std().item() == pytest.approx(gain, rel=0.1)
    assert 0 < loss.item() - math.log(8000) < 1.5


@pytest.mark.parametrize(("tie", "n_embeddings"), [("all", 1), ("target", 2), ("none", 3)])
def test_tied_embeddings_share_weights(tie, n_embeddings):
    model = tiny_model(tie_embeddings=tie)
    assert sum(tuple(p.shape) == (VOCAB, 16) for p in model.parameters()) == n_embeddings
    assert (model.encoder.embedding.weight is model.decoder.embedding.weight) == (tie == "all")
    assert (model.output_weight is model.decoder.embedding.weight) == (tie != "none")


@pytest.mark.parametrize(
    "dropout", ["embedding_dropout", "residual_dropout", "attention_dropout", "activation_dropout"]
)
def test_dropout_settings_apply_in_training_only(dropout):
    model = tiny_model(**{dropout: 0.5})
    src, tgt = sentences([6]), sentences([6], seed=2)
    model.train()
    assert not torch.equal(forward(model, src, tgt)[0], forward(model, src, tgt)[0])
    assert torch.equal(forward(model.eval(), src, tgt)[0], forward(tiny_model().eval(), src, tgt)[0])


def test_positions_of_marian_begin_at_zero_with_its_rates():
    table = TABLES["marian"](10, 8)
    assert table[0].tolist() == [0.0] * 4 + [1.0] * 4
    assert table[7, 1].item() == pytest.approx(math.sin(7 / 10_000 ** (1 / 3)))
    assert table[7, 5].item() == pytest.approx(math.cos(7 / 10_000 ** (1 / 3)))
    torch.testing.assert_close(table[2:], TABLES["fairseq"](8, 8))


@pytest.mark.parametrize("make", [sinusoidal_table, fairseq_table, torch.ones])
def test_table_of_positions_has_values_in_model_built_without_memory(make):
    with torch.device("meta"):
        positions = SinusoidalPositions(8, make)
    torch.testing.assert_close(positions(torch.arange(3), 3), make(3, 8))


def test_sinusoidal_positions_equal_paper_and_grow():
    table = sinusoidal_table(100, 8)
    assert table[7, 2].item() == pytest.approx(math.sin(7 / 10_000 ** (2 / 8)))
    assert table[7, 3].item() == pytest.approx(math.cos(7 / 10_000 ** (2 / 8)))
    positions = SinusoidalPositions(8)
    assert torch.equal(positions(torch.tensor([3000]), 3001), sinusoidal_table(3001, 8)[3000:])


def test_learned_positions_reject_longer_sequences():
    positions = LearnedPositions(8, 10)
    assert positions(torch.arange(10), 10).shape == (10, 8)
    with pytest.raises(DataError, match=r"a sequence of 11 pieces is longer than the 10 learned positions"):
        positions(torch.arange(11), 11)


def test_trained_padding_embedding_has_no_effect():
    """With tied embeddings the output layer moves the padding row too; masks keep it from mattering."""
    model, src, tgt = tiny_model(), sentences(SRC_LENGTHS), sentences(TGT_LENGTHS, seed=2)
    before = forward(model, src, tgt)
    with torch.no_grad():
        model.decoder.embedding.weight[0] = 99.0
    torch.testing.assert_close(forward(model, src, tgt), before, rtol=0.0, atol=0.0)
