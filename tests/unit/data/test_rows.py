"""Updates of mixed lengths, and batches whose rows hold several sentences."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nmt.config import ModelConfig
from nmt.data.batching import Indices, PairLengths, Pairs, epoch_updates
from nmt.data.corpus import Lines
from nmt.data.rows import ROW_LENGTH, TOGETHER, RowPacking, fill
from nmt.model.masks import NO_SENTENCE
from nmt.model.transformer import Transformer
from nmt.text.tokenizer import N_SPECIAL, PAD
from nmt.training.loss import cross_entropy

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
    batch = RowPacking(pairs_of([2, 3, 0], [1, 3, 1])).batch(np.arange(3))
    assert batch.src.shape == batch.tgt_in.shape == (1, ROW_LENGTH)
    assert batch.src_numbers[0, :8].tolist() == [0, 0, 0, 1, 1, 1, 1, 2]
    assert batch.tgt_numbers[0, :8].tolist() == [0, 0, 1, 1, 1, 1, 2, 2]
    assert set(batch.src_numbers[0, 8:].tolist()) == {NO_SENTENCE}
    assert batch.src_positions[0, :8].tolist() == [0, 1, 2, 0, 1, 2, 3, 0]
    assert batch.tgt_positions[0, :8].tolist() == [0, 1, 0, 1, 2, 3, 0, 1]
    assert batch.n_tokens == len(batch.token_indices) == 8
    assert (batch.tgt_out.flatten()[batch.token_indices] != PAD).all()


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_loss_and_gradients_equal_those_of_padded_sentences(norm: str) -> None:
    pairs = random_pairs(30, 40)
    rows = np.arange(30)
    torch.manual_seed(0)
    sizes = {"d_model": 16, "d_ff": 32, "n_heads": 2, "encoder_layers": 2, "decoder_layers": 2}
    no_dropout = {"embedding_dropout": 0.0, "residual_dropout": 0.0}
    model = Transformer(ModelConfig.model_validate({**sizes, **no_dropout, "norm": norm}), VOCABULARY, VOCABULARY)
    results = []
    for batch in (pairs.batch(rows), RowPacking(pairs).batch(rows)):
        model.zero_grad()
        sums = cross_entropy(model, batch, 0.1)
        sums.loss.backward()  # type: ignore[no-untyped-call]
        results.append((sums, {name: weight.grad for name, weight in model.named_parameters()}))
    (padded, padded_grads), (in_rows, grads) = results
    assert in_rows.n_tokens == padded.n_tokens and int(in_rows.n_correct) == int(padded.n_correct)
    torch.testing.assert_close(in_rows.loss, padded.loss)
    for name, grad in grads.items():
        torch.testing.assert_close(grad, padded_grads[name], atol=1e-3, rtol=1e-3, msg=name)


def test_every_pair_has_room_in_its_row() -> None:
    rng = np.random.default_rng(2)
    src, tgt = rng.integers(1, 33, 200), rng.integers(1, 33, 200)
    row_of = fill(src, tgt, 32)
    assert sorted({*row_of.tolist()}) == [*range(row_of.max() + 1)]
    for side in (src, tgt):
        assert np.bincount(row_of, side).max() <= 32
    assert (row_of.max() + 1) * 32 < 1.35 * max(src.sum(), tgt.sum())


def test_large_batches_have_few_sizes() -> None:
    pairs = random_pairs(600, 60)
    shapes = set()
    for n in range(300, 600):
        batch = RowPacking(pairs).batch(np.arange(n))
        shapes.add(batch.src.shape)
        for numbers in (batch.src_numbers, batch.tgt_numbers):
            assert (numbers == 0).any(1).all()  # also in rows that fill up the batch, so that all queries have keys
        assert batch.n_tokens == len(batch.token_indices) == pairs.lengths.tgt[:n].sum()
    assert 1 < len(shapes) < 30


def parts_of(lengths: list[int], max_tokens: int) -> list[list[int]]:
    packing = RowPacking(pairs_of([n - 1 for n in lengths], [0] * len(lengths)))
    return [part.tolist() for part in packing.split(np.arange(len(lengths)), max_tokens)]


def test_long_pairs_are_apart_from_short_ones() -> None:
    assert parts_of([5, ROW_LENGTH, TOGETHER, TOGETHER + 1, 2 * TOGETHER, 2 * TOGETHER + 1, 5], 10_000) == [
        [0, 1, 2, 6],
        [3, 4],
        [5],
    ]
    assert parts_of([5, 5, 5], 10) == [[0, 1], [2]]
    batch = RowPacking(pairs_of([TOGETHER], [3])).batch(np.arange(1))
    assert batch.src.shape == (1, TOGETHER + ROW_LENGTH)


def rows_of(pairs: Pairs, update_tokens: int, seed: int = 1, epoch: int = 0) -> list[Indices]:
    updates = epoch_updates(pairs.lengths, update_tokens, seed, epoch, mixed=True)
    for update in updates:
        assert update.n_tokens == pairs.lengths.tgt[update.rows].sum()
    return [update.rows for update in updates]


def test_updates_of_mixed_lengths_have_every_pair_once() -> None:
    pairs = random_pairs(2_000, 60)
    updates = rows_of(pairs, 500)
    assert sorted(np.concatenate(updates).tolist()) == [*range(2_000)]
    tokens = [int(pairs.lengths.tgt[rows].sum()) for rows in updates]
    assert min(tokens) > 400 and max(tokens) < 600
    spreads = [pairs.lengths.tgt[rows].std() for rows in updates]
    assert min(spreads) > 8  # those of similar lengths: 1
    assert [rows.tolist() for rows in rows_of(pairs, 500)] == [rows.tolist() for rows in updates]
    for others in (rows_of(pairs, 500, seed=2), rows_of(pairs, 500, epoch=1)):
        assert others[0].tolist() != updates[0].tolist()


def test_few_pairs_make_updates_of_mixed_lengths() -> None:
    assert [rows.tolist() for rows in rows_of(random_pairs(1, 9), 4)] == [[0]]
    assert sorted(np.concatenate(rows_of(random_pairs(3, 9), 4)).tolist()) == [0, 1, 2]
    nothing = np.zeros(0, np.int64)
    assert epoch_updates(PairLengths(nothing, nothing), 4, 1, 0, mixed=True) == []
