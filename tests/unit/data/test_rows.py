"""Updates of mixed lengths, and batches whose rows hold several sentences."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from models import loss_and_gradients
from nmt.data.batching import Pairs
from nmt.data.lines import Lines
from nmt.data.rows import LONGEST_TOGETHER, ROW_LENGTH, RowPacking, fill
from nmt.model.masks import NO_SENTENCE, Rows, attention_mask, source_prefix
from nmt.model.settings import ModelConfig
from nmt.model.transformer import DecoderModel, Model, Transformer, mean_state
from nmt.text.ids import N_SPECIAL, PAD, SEPARATOR
from nmt.training.loss import cross_entropy
from nmt.training.objectives.translation import one_sequence

VOCABULARY = 50


def pairs_of(src: list[int], tgt: list[int]) -> Pairs:
    """Pairs of random lines with these numbers of ids, without their ends."""
    rng = np.random.default_rng(0)
    sides = [Lines.of([rng.integers(N_SPECIAL, VOCABULARY, n) for n in lengths]) for lengths in (src, tgt)]
    return Pairs(*sides)


def random_pairs(n: int, longest: int) -> Pairs:
    rng = np.random.default_rng(1)
    return pairs_of(rng.integers(0, longest, n).tolist(), rng.integers(0, longest, n).tolist())


def test_row_has_sentences_one_after_the_other() -> None:
    """The example of the module."""
    batch = RowPacking(pairs_of([2, 3, 0], [1, 3, 1])).batch(np.arange(3))
    assert batch.src.shape == batch.tgt_in.shape == (1, ROW_LENGTH)
    places = (batch.src_numbers, batch.tgt_numbers, batch.src_positions, batch.tgt_positions)
    assert [side[0, :8].tolist() for side in places] == [
        [1, 1, 1, 1, 0, 0, 0, 2], [1, 1, 1, 1, 0, 0, 2, 2], [0, 1, 2, 3, 0, 1, 2, 0], [0, 1, 2, 3, 0, 1, 0, 1],
    ]  # fmt: skip
    assert set(batch.src_numbers[0, 8:].tolist()) == {NO_SENTENCE}
    assert batch.n_tokens == len(batch.token_indices) == 8
    assert (batch.tgt_out.flatten()[batch.token_indices] != PAD).all()


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("is_decoder", [False, True])
def test_loss_and_gradients_equal_those_of_padded_sentences(norm: str, is_decoder: bool) -> None:
    pairs, rows = random_pairs(30, 40), np.arange(30)
    torch.manual_seed(0)
    config = ModelConfig.model_validate(
        {
            "d_model": 16,
            "d_ff": 32,
            "n_heads": 2,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "embedding_dropout": 0.0,
            "residual_dropout": 0.0,
            "norm": norm,
        }
    )
    model: Model = Transformer(config, VOCABULARY, VOCABULARY)
    if is_decoder:
        model, pairs = DecoderModel(config, VOCABULARY, sees_source=True), one_sequence(pairs, rows, 0)
    sums, in_rows = (cross_entropy(model, layout.batch(rows), 0.1) for layout in (pairs, RowPacking(pairs)))
    assert (in_rows.n_tokens, int(in_rows.n_correct)) == (sums.n_tokens, int(sums.n_correct))
    torch.testing.assert_close(in_rows.loss, sums.loss)
    expected = loss_and_gradients(model, sums.loss)
    torch.testing.assert_close(loss_and_gradients(model, in_rows.loss), expected, atol=1e-3, rtol=1e-3)


def test_every_side_has_room_in_its_row() -> None:
    lengths = np.random.default_rng(2).integers(1, 33, (3, 200))
    starts, n_rows = fill(lengths, 32)
    rows = starts // 32
    assert (rows == rows[0]).all() and sorted({*rows[0].tolist()}) == [*range(n_rows)]
    for side in range(3):
        taken = np.concatenate(
            [np.arange(start, start + n) for start, n in zip(starts[side], lengths[side], strict=True)]
        )
        assert len({*taken.tolist()}) == len(taken) and (taken // 32 == np.repeat(rows[side], lengths[side])).all()
    assert n_rows * 32 < 1.5 * lengths.sum(1).max()


def test_large_batches_have_few_sizes() -> None:
    pairs = random_pairs(600, 60)
    shapes = set()
    for n in range(300, 600):
        batch = RowPacking(pairs).batch(np.arange(n))
        shapes.add(batch.src.shape)
        assert batch.n_tokens == len(batch.token_indices) == pairs.lengths.tgt[:n].sum()
    assert 1 < len(shapes) < 30


def test_queries_of_rows_attend_to_their_sentence_or_have_any_key() -> None:
    src = Rows(torch.tensor([[1, 1, 0, -1], [-1, -1, -1, -1]]), torch.zeros(2, 4, dtype=torch.long), 2)
    tgt = Rows(torch.tensor([[1, 0, -1, -1], [-1, -1, -1, -1]]), torch.zeros(2, 4, dtype=torch.long), 2)
    allowed = attention_mask(tgt, src).allowed
    assert allowed is not None
    assert allowed[0, 0].long().tolist() == [[1, 1, 0, 0], [0, 0, 1, 0], [1, 1, 0, 0], [1, 1, 0, 0]]
    assert allowed.any(-1).all()


def test_rows_have_classes_in_the_order_of_the_pairs() -> None:
    src = Lines.of([np.full(n, 20 + i) for i, n in enumerate([3, 60, 9, 70, 1])])
    pairs = Pairs(src, src, labels=np.arange(5))
    batch = RowPacking(pairs).batch(np.array([4, 1, 3, 0]))
    assert batch.labels is not None and batch.labels.tolist() == [4, 1, 3, 0]
    is_text = (batch.src >= N_SPECIAL)[..., None]
    means = mean_state(batch.src[..., None].float().where(is_text, 0.0), batch.src_layout)
    wanted = [24 * 1 / 2, 21 * 60 / 61, 23 * 70 / 71, 20 * 3 / 4]
    assert means[:4, 0].tolist() == pytest.approx(wanted) and not means[4:].any()


def test_prefix_in_rows_ends_with_the_separator() -> None:
    pairs = one_sequence(random_pairs(30, 40), np.arange(30), 0)
    batch = RowPacking(pairs).batch(np.arange(30))
    prefix = source_prefix(batch.src_layout, batch.tgt_layout)
    last = prefix & ~prefix.roll(-1, 1).logical_and(batch.tgt_numbers == batch.tgt_numbers.roll(-1, 1))
    is_token = batch.tgt_numbers != NO_SENTENCE
    assert (batch.tgt_in[last & is_token] == SEPARATOR).all() and int((last & is_token).sum()) == 30


def test_copies_are_targets_after_the_first_source_token() -> None:
    pairs = random_pairs(30, 70)
    rows = np.arange(30)
    plain = RowPacking(pairs, copies=True).batch(rows)
    batch = plain.from_target()
    for i in range(30):
        target = plain.tgt_out[plain.tgt_numbers == i].tolist()
        assert batch.src[batch.src_numbers == i].tolist() == [plain.src[plain.src_numbers == i][0], *target]
        assert batch.src_positions[batch.src_numbers == i].tolist() == [*range(len(target) + 1)]
        assert (batch.src_numbers == i).any(1).tolist() == (plain.tgt_numbers == i).any(1).tolist()


def parts_of(lengths: list[int], max_tokens: int) -> list[list[int]]:
    packing = RowPacking(pairs_of([n - 1 for n in lengths], [0] * len(lengths)))
    return [part.tolist() for part in packing.split(np.arange(len(lengths)), max_tokens)]


def test_few_long_pairs_are_apart_from_short_ones() -> None:
    most = LONGEST_TOGETHER
    assert parts_of([*[ROW_LENGTH] * 4, most, most + 1, most, 5], 10_000) == [[0, 1, 2, 3, 4, 6, 7], [5]]
    assert parts_of([5, most + 1, 3 * most, 5], 10_000) == [[0, 1, 2, 3]]
    assert parts_of([5, 5, 5], 10) == [[0, 1], [2]]
    batch = RowPacking(pairs_of([most], [3])).batch(np.arange(1))
    assert batch.src.shape == (1, most + ROW_LENGTH)
