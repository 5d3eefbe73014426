"""Masked language modelling and the pair task: masks, wrong pairs and labels."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from nmt.data.batching import Pairs, joined, unpadded
from nmt.data.lines import Lines
from nmt.data.random_numbers import hashed, key_of
from nmt.text.ids import EOS, MASK, N_SPECIAL, SEPARATOR
from nmt.text.tokenizer import Tokenizer, train_tokenizer
from nmt.training.facts import MaskedConfig, PairNegative
from nmt.training.objectives.masked import Masking, PairExamples, PairSequences, divided
from sentences import sentence_pairs

Ids = npt.NDArray[np.int64]
PAIRS = [(f"{de} {i % 7}", f"{en} {i % 7}") for i, (de, en) in enumerate(sentence_pairs(200))]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(list(itertools.chain(*PAIRS)), 500)


@pytest.fixture(scope="module")
def pairs(tokenizer: Tokenizer) -> Pairs:
    sides = (Lines.of(encoded(tokenizer, side)) for side in zip(*PAIRS, strict=True))
    return Pairs(*sides)


def encoded(tokenizer: Tokenizer, lines: Any) -> list[Ids]:
    return [np.array(ids, np.int64) for ids in tokenizer.encode_all(list(lines))]


def masking(tokenizer: Tokenizer, seed: int = 1, **settings: Any) -> Masking:
    return Masking(MaskedConfig(**settings), tokenizer, 250, seed)


def made(masking: Masking, pairs: Pairs, rows: Ids, epoch: int = 1) -> list[tuple[list[int], list[int], list[bool]]]:
    """Return for each row the ids, the masked ids and the mask of scored ids."""
    batch = masking.masked(pairs, rows, epoch).batch(np.arange(len(rows)))
    is_scored = np.zeros(batch.tgt_out.numel(), np.bool_)
    is_scored[batch.token_indices.numpy()] = True
    scored = is_scored.reshape(batch.tgt_out.shape).tolist()
    ids, masked = unpadded(batch.tgt_out), unpadded(batch.src)
    return [(one.tolist(), other.tolist(), each) for one, other, each in zip(ids, masked, scored, strict=True)]


def test_masking_shares_of_100_000_pieces_are_as_configured(tokenizer: Tokenizer, pairs: Pairs) -> None:
    masks, rows, lines = masking(tokenizer), np.arange(len(pairs)), []
    n = pairs.lengths.tgt.sum() - len(pairs)
    for epoch in range(100_000 // n + 1):
        lines += made(masks, pairs, rows, epoch)
    ids, masked = (np.concatenate([line[i] for line in lines]) for i in (0, 1))
    scored = np.concatenate([each[: len(line)] for line, _, each in lines])
    assert len(ids) >= 100_000
    assert scored.mean() == pytest.approx(0.15, abs=0.002)
    assert (masked == ids)[~scored].all()
    before, after = ids[scored], masked[scored]
    is_mask, is_same = after == MASK, after == before
    shares = [is_mask.mean(), (~is_mask & ~is_same).mean(), is_same.mean()]
    assert shares == pytest.approx([0.8, 0.1, 0.1], abs=0.006)
    drawn = after[~is_mask & ~is_same]
    assert drawn.min() >= tokenizer.first_learned and len(np.unique(drawn)) > 0.9 * (
        len(tokenizer) - tokenizer.first_learned
    )
    # the end of a sentence never is, and each line has one at least
    assert all(not any(each[len(line) :]) and any(each) for line, _, each in lines)


def test_special_ids_are_never_masked(tokenizer: Tokenizer) -> None:
    lines = [np.array([4, 300, 5, 301, SEPARATOR, 302]), np.array([SEPARATOR]), np.array([30, 31])]
    side = Lines.of(lines)
    found = made(masking(tokenizer, mask_share=0.9), Pairs(side, side), np.arange(3))
    chosen = [i for ids, _, each in found for i, is_scored in zip([*ids, EOS], each, strict=False) if is_scored]
    assert min(chosen) >= N_SPECIAL
    assert [any(each) for _, _, each in found] == [True, False, True], "bytes are"


def test_noise_depends_on_seed_epoch_and_row(tokenizer: Tokenizer, pairs: Pairs) -> None:
    masks, rows = masking(tokenizer), np.arange(50)
    whole = made(masks, pairs, rows)
    part = made(masking(tokenizer), pairs, np.arange(30, 20, -1))
    assert [line[:2] for line in part] == [line[:2] for line in reversed(whole[21:31])]
    for changed in (made(masks, pairs, rows, epoch=2), made(masking(tokenizer, seed=2), pairs, rows)):
        assert sum(a[1] != b[1] for a, b in zip(changed, whole, strict=True)) > 25


def test_pairs_are_one_sequence_with_a_label(tokenizer: Tokenizer, pairs: Pairs) -> None:
    masks, rows = masking(tokenizer, pair_task=["shuffled"]), np.arange(150, 20, -1)
    true = pairs.batch(rows)
    sequences = PairSequences(*(Lines.of(encoded(tokenizer, side)) for side in zip(*PAIRS, strict=True)))
    pairs = Pairs(sequences, sequences)
    modified = masks.masked(pairs, rows, 3)
    batch = modified.batch(np.arange(len(rows)))
    assert batch.labels is not None and modified.corpus_rows(np.arange(2)).tolist() == [150, 149]
    src, tgt = ([line.tolist() for line in unpadded(side)] for side in (true.src, true.tgt_out))
    wrong = []
    for i, (sequence, label) in enumerate(zip(unpadded(batch.tgt_out), batch.labels.tolist(), strict=True)):
        middle = sequence.tolist().index(SEPARATOR)
        sides = (sequence[:middle].tolist(), sequence[middle + 1 :].tolist())
        is_right = (sides[0] == src[i], sides[1] == tgt[i])
        wrong.append(is_right)
        assert all(is_right) == bool(label) and any(is_right)
        assert sides[0] in src and sides[1] in tgt
    assert 0.4 < batch.labels.float().mean() < 0.6
    assert len(set(wrong)) == 3, "either side is wrong"
    scored = made(masks, pairs, rows, 3)
    sides = [(any(each[: ids.index(SEPARATOR)]), any(each[ids.index(SEPARATOR) :])) for ids, _, each in scored]
    assert len(set(sides)) == 3, "both sides are masked"
    shares = [sum(map(sum, (each for _, _, each in scored))) / sum(len(ids) - 1 for ids, _, _ in scored)]
    assert shares == [pytest.approx(0.15, abs=0.01)]
    again = masking(tokenizer, pair_task=["shuffled"]).masked(pairs, rows, 3).batch(np.arange(len(rows)))
    assert (again.src == batch.src).all() and (again.labels == batch.labels).all()
    # another order of the update gives the same pairs
    turned = masks.masked(pairs, rows[::-1].copy(), 3).batch(np.arange(len(rows)))
    assert (turned.src.flip(0) == batch.src).all()


def wrong_lines(tokenizer: Tokenizer, kind: PairNegative, n: int = 160) -> list[tuple[int, list[int], list[int], Any]]:
    """Yield side, line, translation and wrong line of the pairs that are made wrong."""
    sides = [encoded(tokenizer, side[:n]) for side in zip(*PAIRS, strict=True)]
    examples = PairExamples([kind], tokenizer, 250)
    sequences, labels = examples.made(list(map(joined, *sides)), hashed(key_of(5), np.arange(n)))
    assert 0.3 * n < labels.sum() < 0.7 * n
    found = []
    for i in np.flatnonzero(labels == 0).tolist():
        right, wrong = ([ids.tolist() for ids in pair] for pair in ((sides[0][i], sides[1][i]), divided(sequences[i])))
        [side] = [side for side in (0, 1) if right[side] != wrong[side]]
        found.append((side, right[side], right[1 - side], wrong[side]))
    assert 0.3 < np.mean([side for side, *_ in found]) < 0.7, "either side is wrong as often"
    return found


def test_wrong_lines_match_their_kind(tokenizer: Tokenizer) -> None:
    sides = [[ids.tolist() for ids in encoded(tokenizer, side[:160])] for side in zip(*PAIRS, strict=True)]
    lengths = [sorted(map(len, side)) for side in sides]
    for side, line, _, wrong in wrong_lines(tokenizer, "shuffled"):
        assert wrong in sides[side]
        assert sum(min(len(wrong), len(line)) < n < max(len(wrong), len(line)) for n in lengths[side]) < 8
    for _, line, _, wrong in wrong_lines(tokenizer, "cut"):
        assert wrong == line[: len(line) // 2]
    for _, line, _, wrong in wrong_lines(tokenizer, "replaced"):
        words = [tokenizer.decode(ids).split(" ") for ids in (line, wrong)]
        assert sum(a != b for a, b in zip(*words, strict=True)) == 1
    for _, line, _, wrong in wrong_lines(tokenizer, "number"):
        changed = [b for a, b in zip(tokenizer.decode(line), tokenizer.decode(wrong), strict=True) if a != b]
        assert len(changed) == 1 and changed[0].isdecimal()
    for _, _, translation, wrong in wrong_lines(tokenizer, "copied"):
        assert wrong == translation


def test_impossible_negative_stays_positive(tokenizer: Tokenizer) -> None:
    numbers = np.array([1], np.uint64)
    ids = np.array(tokenizer.encode("Hund"), np.int64)
    for kinds in (["shuffled"], ["number"], ["replaced"], ["copied"], ["shuffled", "number", "copied"]):
        _, labels = PairExamples(kinds, tokenizer, 250).made([joined(ids, ids)], numbers)  # type: ignore[arg-type]
        assert labels.tolist() == [1], kinds
    # of several kinds another one is taken
    src, tgt = (encoded(tokenizer, [line]) for line in PAIRS[0])
    [sequence], labels = PairExamples(["shuffled", "cut"], tokenizer, 250).made([joined(*src, *tgt)], numbers)
    cut = [(len(src[0]) // 2, len(tgt[0])), (len(src[0]), len(tgt[0]) // 2)]
    assert labels.tolist() == [0] and tuple(map(len, divided(sequence))) in cut
    # only one side has a digit
    src, tgt = (
        encoded(tokenizer, [line.rstrip("0123456789 ") if side else line]) for side, line in enumerate(PAIRS[0])
    )
    for number in range(1, 20, 2):
        made = PairExamples(["number"], tokenizer, 250).made([joined(*src, *tgt)], np.array([number], np.uint64))
        assert made[1].tolist() == [0] and divided(made[0][0])[1].tolist() == tgt[0].tolist()
    _, labels = PairExamples(["copied"], tokenizer, min(len(src[0]), len(tgt[0])) - 1).made(
        [joined(*src, *tgt)], numbers
    )
    assert labels.tolist() == [1], "no side is longer than the longest that is learned"
