"""What denoising masks: how much, which pieces stay, what is learned, and that it depends on nothing but the place in
the run."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from models import VOCAB, tiny_model
from nmt.config.training import DenoisingConfig
from nmt.data.batching import Packing, Pairs, unpadded
from nmt.data.corpus import Lines
from nmt.data.masking import Infilling, OneSpan, infill, mask_one_span
from nmt.model.masks import Padded
from nmt.text.tokenizer import BOS, EOS, FIRST_LEARNED, MASK, N_SPECIAL, PAD
from nmt.training.objective import cross_entropy

SETTINGS = DenoisingConfig()
ONE_SPAN = DenoisingConfig(noise="span")
N_PIECES = FIRST_LEARNED + 40


def noise_of(kind: str, seed: int) -> Infilling | OneSpan:
    return Infilling(SETTINGS, seed) if kind == "infilling" else OneSpan(ONE_SPAN, N_PIECES, seed)


def lines(n: int, length: int = 12) -> Lines:
    rng = np.random.default_rng(n)
    return Lines.of([rng.integers(N_SPECIAL, 300, rng.integers(1, length)) for _ in range(n)])


def test_by_hand() -> None:
    ids = np.arange(100, 110)
    noised = infill(ids, 0.5, 2.0, np.random.default_rng(3)).tolist()
    kept = [i for i in noised if i != MASK]
    assert len(kept) == 5 and kept == sorted(kept)
    # where no mask stands, nothing is missing
    for one, other in pairwise(noised):
        assert MASK in (one, other) or other == one + 1


@given(
    st.lists(st.integers(N_SPECIAL, 400), max_size=40), st.floats(0.01, 0.99), st.floats(1.0, 8.0), st.integers(0, 99)
)
def test_no_line_becomes_longer_and_the_rest_is_in_order(ids: list[int], share: float, span: float, seed: int) -> None:
    noised = infill(np.array(ids, np.int64), share, span, np.random.default_rng(seed)).tolist()
    kept = [i for i in noised if i != MASK]
    assert len(noised) <= len(ids)
    assert abs(len(ids) - len(kept) - share * len(ids)) < 1
    rest = iter(ids)
    assert all(i in rest for i in kept), "a subsequence"


@pytest.mark.parametrize(("share", "span"), [(0.35, 3.5), (0.5, 6.0)])
def test_the_mean_share_and_span(share: float, span: float) -> None:
    rng, ids = np.random.default_rng(1), np.arange(N_SPECIAL, N_SPECIAL + 41)
    noised = [infill(ids, share, span, rng) for _ in range(2500)]
    n_masked = sum(len(ids) - int((line != MASK).sum()) for line in noised)
    n_spans = sum(int((line == MASK).sum()) for line in noised)
    assert n_masked / (2500 * len(ids)) == pytest.approx(share, abs=0.002)
    # the last span of a line is cut short
    assert 0.75 * span < n_masked / n_spans < span


@given(st.lists(st.integers(N_SPECIAL, 400), max_size=40), st.floats(0.01, 0.99), st.integers(0, 99))
def test_one_span_is_masked_piece_by_piece(ids: list[int], share: float, seed: int) -> None:
    noised, start, end = mask_one_span(np.array(ids, np.int64), share, 500, np.random.default_rng(seed))
    assert len(noised) == len(ids) and 0 <= start <= end <= len(ids)
    assert noised[:start].tolist() == ids[:start] and noised[end:].tolist() == ids[end:]
    assert end - start >= min(1, len(ids)) and (end - start == 1 or abs(end - start - share * len(ids)) < 1)


def test_the_pieces_and_the_places_of_one_span() -> None:
    rng, ids = np.random.default_rng(1), np.arange(N_SPECIAL, N_SPECIAL + 21)
    spans = [mask_one_span(ids, 0.5, N_PIECES, rng) for _ in range(4000)]
    lengths, starts = np.array([end - start for _, start, end in spans]), np.array([start for _, start, _ in spans])
    assert set(lengths) == {10, 11} and lengths.mean() == pytest.approx(10.5, abs=0.05)
    assert starts.min() == 0 and starts.mean() == pytest.approx(5.25, abs=0.15)
    assert max(end for _, _, end in spans) == 21
    before = np.concatenate([ids[start:end] for _, start, end in spans])
    after = np.concatenate([noised[start:end] for noised, start, end in spans])
    is_mask, is_same = after == MASK, after == before
    assert is_mask.mean() == pytest.approx(0.8, abs=0.008)
    assert is_same.mean() == pytest.approx(0.1, abs=0.006)
    assert set(after[~is_mask & ~is_same]) == set(range(FIRST_LEARNED, N_PIECES))


@pytest.mark.parametrize("kind", ["infilling", "span"])
def test_it_depends_on_seed_epoch_and_row_alone(kind: str) -> None:
    side = lines(50)
    pairs, noise = Pairs.of_sides(side, side), noise_of(kind, 1)
    rows = np.arange(50)
    whole = unpadded(noise.modified(pairs, rows, 1).batch(rows).src)
    part = noise.modified(pairs, np.arange(30, 20, -1), 1)
    assert [ids.tolist() for ids in unpadded(part.batch(np.arange(10)).src)] == [
        ids.tolist() for ids in reversed(whole[21:31])
    ]
    other_seed = noise_of(kind, 9)
    for changed in (
        noise.modified(pairs, rows, 2),
        other_seed.modified(pairs, rows, 1),
    ):
        found = unpadded(changed.batch(rows).src)
        assert sum(a.tolist() != b.tolist() for a, b in zip(found, whole, strict=True)) > 25


def test_the_target_is_the_line_itself() -> None:
    side = lines(20)
    pairs, rows = Pairs.of_sides(side, side), np.array([7, 3, 19])
    modified = Infilling(SETTINGS, 1).modified(pairs, rows, 0)
    assert modified.batch(np.arange(3)).tgt_out.tolist() == pairs.batch(rows).tgt_out.tolist()
    assert modified.corpus_rows(np.arange(3)).tolist() == rows.tolist()
    assert (modified.batch(np.arange(3)).src == MASK).any()


def test_the_decoder_learns_the_span_and_reads_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    side = Lines.of([np.arange(20, 28), np.arange(30, 34)])
    drawn = iter([(np.full(8, MASK), 2, 6), (np.full(4, MASK), 0, 2)])
    monkeypatch.setattr("nmt.data.masking.mask_one_span", lambda *_: next(drawn))
    modified = noise_of("span", 1).modified(Pairs.of_sides(side, side), np.array([0, 1]), 0)
    batch = modified.batch(np.arange(2))
    assert batch.tgt_in.tolist() == [[BOS, MASK, MASK, 22, 23, 24, 25], [BOS, 30, 31, *[PAD] * 4]]
    assert batch.tgt_out.tolist() == [[20, 21, 22, 23, 24, 25, EOS], [30, 31, EOS, *[PAD] * 4]]
    assert batch.tgt_out.flatten()[batch.token_indices].tolist() == [22, 23, 24, 25, 30, 31]
    assert modified.n_scored == batch.n_tokens == 6
    packed = Packing(modified, step=16).batch(np.arange(2))
    assert packed.tgt_in[0, :11].tolist() == [*batch.tgt_in[0].tolist(), BOS, 30, 31, BOS]
    assert packed.tgt_out[0, packed.token_indices].tolist() == [22, 23, 24, 25, 30, 31]


def test_one_span_padded_packed_and_single_is_learned_the_same(
    calls: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And as in the paper, where the decoder goes through the whole line."""
    monkeypatch.setattr("nmt.data.masking.FIRST_LEARNED", N_SPECIAL)
    model, rng = tiny_model(), np.random.default_rng(4)
    side = Lines.of([rng.integers(N_SPECIAL, VOCAB, n) for n in (9, 1, 4, 12, 2)])
    modified = OneSpan(ONE_SPAN, VOCAB, 3).modified(Pairs.of_sides(side, side), rows := np.arange(5), 2)

    def learned(batches: list[Any]) -> tuple[float, dict[str, torch.Tensor]]:
        model.zero_grad()
        loss = sum((cross_entropy(model, batch, 0.1).loss for batch in batches), torch.zeros(()))
        loss.backward()  # type: ignore[no-untyped-call]
        return float(loss.detach()), {
            name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None
        }

    padded, grads = learned([modified.batch(rows)])
    for batches in ([Packing(modified, step=16).batch(rows)], [modified.batch(rows[i : i + 1]) for i in rows]):
        found, others = learned(batches)
        assert found == pytest.approx(padded, rel=1e-5) and calls
        for name, grad in grads.items():
            torch.testing.assert_close(others[name], grad, atol=1e-5, rtol=1e-4, msg=name)

    expected = 0.0
    whole, scored = Pairs.of_sides(side, side), modified.batch(rows).token_indices
    width = modified.batch(rows).tgt_out.shape[1]
    for row in rows:
        batch, source = whole.batch(rows[row : row + 1]), modified.batch(rows[row : row + 1]).src
        places = [int(i) - row * width for i in scored if row * width <= i < (row + 1) * width]
        read = torch.full_like(batch.tgt_in, MASK)
        read[0, 0] = BOS
        read[0, [place + 1 for place in places]] = batch.tgt_out[0, places]
        with torch.no_grad():
            layout = Padded(batch.src_mask)
            logits = model(source, layout, read, Padded(batch.tgt_mask))[0, places] @ model.output_weight.T
            expected += float(F.cross_entropy(logits, batch.tgt_out[0, places], label_smoothing=0.1, reduction="sum"))
    assert padded == pytest.approx(expected, rel=1e-5)
