"""Updates, micro-batches and padded batches of an epoch."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.data.batching import PairLengths, Pairs, epoch_updates, even_batches
from nmt.data.corpus import Corpus, lines_of
from nmt.data.lines import Joined, Lines
from nmt.layout import DataDir
from nmt.text.ids import BOS, EOS, PAD, SEPARATOR
from nmt.training.objectives.translation import one_sequence


def lengths_of(src: list[int], tgt: list[int]) -> PairLengths:
    return PairLengths(np.array(src, dtype=np.int32), np.array(tgt, dtype=np.int32))


def rows_of(updates) -> list[list[int]]:
    return [update.rows.tolist() for update in updates]


some_pairs = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=80)


@given(some_pairs, st.integers(1, 100))
def test_splits_keep_budget(pairs, max_tokens):
    lengths = lengths_of(*map(list, zip(*pairs, strict=True)))
    rows = np.random.default_rng(0).permutation(len(pairs))
    batches = list(lengths.split(rows, max_tokens))
    assert np.concatenate(batches).tolist() == rows.tolist()
    for batch, after in itertools.pairwise(batches):  # no batch is cut short
        assert (len(batch) + 1) * max(1 + max(pairs[row]) for row in [*batch, after[0]]) > max_tokens
    even = even_batches(lengths, max_tokens)
    assert sorted(np.concatenate(even).tolist()) == sorted(rows)
    for batch in (*batches, *even):  # a single pair may have more
        assert len(batch) == 1 or len(batch) * max(1 + max(pairs[row]) for row in batch) <= max_tokens


@given(some_pairs, st.integers(1, 200), st.integers(1, 9))
def test_rank_shares_partition_update(pairs, update_tokens, size):
    lengths = lengths_of(*map(list, zip(*pairs, strict=True)))
    for update in epoch_updates(lengths, update_tokens, 1, epoch=0):
        shares = [update.share(rank, size) for rank in range(size)]
        assert sorted(np.concatenate(shares)) == sorted(update.rows)
        counts = [len(share) for share in shares]
        assert max(counts) - min(counts) <= 1  # none, where an update has fewer rows than there are processes
        assert update.share(0, 1).tolist() == update.rows.tolist()


def varied_lengths(n: int, longest: int = 200) -> PairLengths:
    """Return lengths like those of text: many short and some long ones, with sides that differ by a fifth."""
    rng = np.random.default_rng(0)
    src = 1 + rng.gamma(2.2, 6, n)
    tgt = src * rng.normal(1.05, 0.2, n)
    return PairLengths(*(np.clip(side, 1, longest).astype(np.int64) for side in (src, tgt)))


def plain_updates(lengths: PairLengths, update_tokens: int, seed: int, epoch: int) -> list[list[int]]:
    """Return the updates by their definition, without optimization."""
    tgt = lengths.tgt[:].tolist()
    total = sum(tgt)
    n_updates = -(-total // update_tokens)
    updates: list[list[int]] = [[] for _ in range(n_updates)]
    n_tokens = 0
    for row in np.random.default_rng([seed, epoch]).permutation(len(tgt)).tolist():
        n_tokens += tgt[row]
        number = sum(total * i // n_updates < n_tokens for i in range(1, n_updates))
        updates[number].append(row)
    return [update for update in updates if update]


@given(some_pairs | st.just([]), st.integers(1, 200), st.integers(1, 9), st.integers(0, 5))
def test_updates_equal_definition(pairs, update_tokens, seed, epoch):
    lengths = lengths_of([src for src, _ in pairs], [tgt for _, tgt in pairs])
    updates = epoch_updates(lengths, update_tokens, seed, epoch)
    assert rows_of(updates) == plain_updates(lengths, update_tokens, seed, epoch)
    assert sorted(row for rows in rows_of(updates) for row in rows) == list(range(len(pairs)))
    for update in updates:
        assert update.n_tokens == sum(pairs[row][1] + 1 for row in update.rows)
        assert 0 < update.n_tokens <= update_tokens + 2 * lengths.tgt.max()


@pytest.mark.parametrize(("n", "longest"), [(255, 254), (256, 255), (300, 256), (70_000, 200)])
def test_updates_equal_definition_for_all_integer_sizes(n, longest):
    """Rows and lengths are stored in one, two or four bytes."""
    lengths = varied_lengths(n, longest)
    assert rows_of(epoch_updates(lengths, 4096, 1, 1)) == plain_updates(lengths, 4096, 1, 1)


def test_small_integer_lengths_do_not_overflow():
    """255 ids and the end of sentence do not fit into the byte that holds 255, nor sums into what holds the numbers."""
    lengths = lengths_of([255, 0, 255], [70_000, 65_535, 7])
    assert (lengths.src[:].tolist(), lengths.tgt[:].tolist()) == ([256, 1, 256], [70_001, 65_536, 8])
    assert (lengths.src.max(), lengths.src.sum(), lengths.tgt.max(), lengths.tgt.sum()) == (256, 513, 70_001, 135_545)
    assert (-lengths.src[np.array([0])]).tolist() == [-256]
    assert len(lengths) == 3


def test_longest_selection_matches_full_sort(monkeypatch):
    lengths = varied_lengths(1000)
    sides = np.maximum(lengths.src[:], lengths.tgt[:])
    expected = sorted(range(1000), key=lambda row: (-sides[row], row))
    for block in (7, 1000, 4096):
        monkeypatch.setattr("nmt.data.batching._BLOCK", block)
        assert lengths.longest(50).tolist() == expected[:50]
    assert lengths.longest(5000).tolist() == expected


def test_batch_adds_special_ids(tiny_data):
    corpus = Corpus.open(DataDir(tiny_data))
    pairs = Pairs(lines_of(corpus.split("train"), "bb"), lines_of(corpus.split("train"), "aa"))
    texts = {language: corpus.split("train").text(language) for language in ("aa", "bb")}
    rows = np.array([0, 7, len(pairs) - 1])
    batch = pairs.batch(rows)
    for i, row in enumerate(rows):
        src = corpus.tokenizers["bb"].encode(texts["bb"][row])
        tgt = corpus.tokenizers["aa"].encode(texts["aa"][row])
        sides = [[x for x in side[i].tolist() if x != PAD] for side in (batch.src, batch.tgt_in, batch.tgt_out)]
        assert sides == [[*src, EOS], [BOS, *tgt], [*tgt, EOS]]
        assert batch.src_mask[i].tolist() == [True] * (len(src) + 1) + [False] * (batch.src.size(1) - len(src) - 1)
    assert batch.n_tokens == int(batch.tgt_mask.sum()) == int((batch.tgt_in != PAD).sum())


def test_joined_sides_double_pairs(tiny_data):
    """Row P + i is row i with source and target swapped; a batch may mix both."""
    split = Corpus.open(DataDir(tiny_data)).split("train")
    src, tgt = lines_of(split, "aa"), lines_of(split, "bb")
    there, back, both = Pairs(src, tgt), Pairs(tgt, src), Pairs(Joined(src, tgt), Joined(tgt, src))
    n = len(there)
    for side in ("src", "tgt"):
        lengths = [getattr(pairs.lengths, side)[:].tolist() for pairs in (there, back, both)]
        assert lengths[2] == lengths[0] + lengths[1] and len(both) == 2 * n == len(lengths[2])
    rows = np.array([n + 3, 0, 2 * n - 1, n - 1, n])
    batch = both.batch(rows)
    assert batch.n_tokens == int(batch.tgt_mask.sum()) == both.lengths.tgt[rows].sum()
    for i, row in enumerate(rows):
        alone = (there if row < n else back).batch(np.array([row % n]))
        for name in ("src", "tgt_in", "tgt_out"):
            ids = getattr(batch, name)[i]
            assert ids[ids != PAD].tolist() == getattr(alone, name)[0].tolist()


# --- Decoder-only translation ---


SRC = Lines.of([np.array(ids) for ids in ([20, 21], [22, 23, 24], [25])])
TGT = Lines.of([np.array(ids) for ids in ([30], [31, 32], [33, 34, 35])])


def test_one_sequence_equals_example_by_hand() -> None:
    pairs = one_sequence(Pairs(SRC, TGT), np.array([2, 0]), 5)
    batch = pairs.batch(np.array([0, 1]))
    assert [side.tolist() for side in (batch.src, batch.tgt_in, batch.tgt_out)] == [
        [[25, EOS, PAD], [20, 21, EOS]],
        [[BOS, 25, SEPARATOR, 33, 34, 35], [BOS, 20, 21, SEPARATOR, 30, PAD]],
        [[25, SEPARATOR, 33, 34, 35, EOS], [20, 21, SEPARATOR, 30, EOS, PAD]],
    ]
    assert batch.tgt_out.flatten()[batch.token_indices].tolist() == [33, 34, 35, EOS, 30, EOS]
    assert (batch.n_tokens, pairs.n_scored) == (6, 6)
    assert pairs.corpus_rows(np.array([0, 1])).tolist() == [2, 0]
