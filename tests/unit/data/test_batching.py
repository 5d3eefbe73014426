"""Updates partition the epoch, batches keep to their budget, and a batch is what the model must see."""

import itertools
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nmt.data.batching import PairLengths, Pairs, even_batches
from nmt.data.corpus import Corpus, Joined, Lines
from nmt.data.cutting import cut
from nmt.data.updates import BatchPlan, epoch_updates
from nmt.layout import DataDir
from nmt.text.tokenizer import BOS, EOS, PAD


def lengths_of(src: list[int], tgt: list[int]) -> PairLengths:
    return PairLengths(np.array(src, dtype=np.int32), np.array(tgt, dtype=np.int32))


def plan(update_tokens: int = 60, pool_pairs: int = 30_000, seed: int = 1) -> BatchPlan:
    return BatchPlan(update_tokens, pool_pairs, seed)


def rows_of(updates) -> list[list[int]]:
    return [update.rows.tolist() for update in updates]


some_pairs = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=80)


@given(some_pairs, st.integers(1, 200), st.integers(5, 50))
def test_every_pair_once_and_about_as_many_tokens_as_asked(pairs, update_tokens, pool_pairs):
    lengths = lengths_of(*map(list, zip(*pairs, strict=True)))
    updates = epoch_updates(lengths, plan(update_tokens, pool_pairs), epoch=0)
    assert sorted(row for rows in rows_of(updates) for row in rows) == list(range(len(pairs)))
    for update in updates:
        assert update.n_tokens == sum(pairs[row][1] + 1 for row in update.rows)
        assert 0 < update.n_tokens <= update_tokens + 2 * lengths.tgt.max()


@given(some_pairs, st.integers(1, 100))
def test_micro_batches_are_the_rows_in_their_order_within_the_budget(pairs, max_tokens):
    lengths = lengths_of(*map(list, zip(*pairs, strict=True)))
    rows = np.random.default_rng(0).permutation(len(pairs))
    batches = list(lengths.split(rows, max_tokens))
    assert np.concatenate(batches).tolist() == rows.tolist()
    sides = [1 + max(pair) for pair in pairs]
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(sides[row] for row in batch) <= max_tokens
    for batch, after in itertools.pairwise(batches):  # no batch is cut short
        assert (len(batch) + 1) * max(sides[row] for row in [*batch, after[0]]) > max_tokens


@given(some_pairs, st.integers(1, 100))
def test_micro_batches_by_length_hold_every_row_within_the_budget(pairs, max_tokens):
    lengths = lengths_of(*map(list, zip(*pairs, strict=True)))
    batches = list(lengths.split_by_length(np.arange(len(pairs)), max_tokens))
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(pairs)))
    sides = [1 + max(pair) for pair in pairs]
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(sides[row] for row in batch) <= max_tokens


def test_a_few_long_pairs_do_not_pad_the_others():
    src = [40 if row % 15 == 0 else 10 for row in range(150)]
    lengths = lengths_of(src, src)
    short, long = lengths.split_by_length(np.arange(150), 100_000)
    assert long.tolist() == list(range(0, 150, 15)) and len(short) == 140
    even = lengths_of([9, 10, 11] * 50, [9, 10, 11] * 50)
    assert len(list(even.split_by_length(np.arange(150), 100_000))) == 1


@given(some_pairs, st.integers(1, 200), st.integers(1, 9))
def test_the_shares_of_all_processes_are_the_update(pairs, update_tokens, size):
    lengths = lengths_of(*map(list, zip(*pairs, strict=True)))
    for update in epoch_updates(lengths, plan(update_tokens), epoch=0):
        shares = [update.share(rank, size) for rank in range(size)]
        assert sorted(np.concatenate(shares)) == sorted(update.rows)
        counts = [len(share) for share in shares]
        assert max(counts) - min(counts) <= 1  # none, where an update has fewer rows than there are processes
        assert update.share(0, 1).tolist() == update.rows.tolist()


@pytest.mark.parametrize("size", [2, 4, 8])
def test_shares_are_alike_in_tokens(size):
    lengths = varied_lengths(40_000)
    for update in epoch_updates(lengths, plan(update_tokens=4096), epoch=0):
        tokens = [int(lengths.tgt[update.share(rank, size)].sum()) for rank in range(size)]
        assert max(tokens) - min(tokens) <= 4 * lengths.tgt[update.rows].max()


def random_lengths(n: int) -> PairLengths:
    rng = np.random.default_rng(0)
    src = rng.poisson(11, n)
    return PairLengths(src, np.maximum(1, src + rng.integers(-3, 4, n)))


def varied_lengths(n: int, longest: int = 200) -> PairLengths:
    """Lengths as of text: many short ones, some long ones, the sides alike but for a fifth."""
    rng = np.random.default_rng(0)
    src = 1 + rng.gamma(2.2, 6, n)
    tgt = src * rng.normal(1.05, 0.2, n)
    return PairLengths(*(np.clip(side, 1, longest).astype(np.int64) for side in (src, tgt)))


def plain_updates(lengths: PairLengths, plan: BatchPlan, epoch: int) -> list[list[int]]:
    """The updates as their definition says, without regard to memory and speed."""
    src, tgt = lengths.src[:], lengths.tgt[:]

    def slots(rows):
        return len(rows) * (src[rows].max(initial=0) + tgt[rows].max(initial=0))

    def parts(rows, n_parts):
        if n_parts == 1 or len(rows) < 2:
            return [rows]
        halves = []
        for by, then in ((tgt, src), (src, tgt)):
            ordered = rows[np.lexsort((then[rows], by[rows]))]
            tokens = np.cumsum(tgt[ordered])
            middle = np.searchsorted(tokens, tokens[-1] * (n_parts // 2) / n_parts, side="right")
            halves.append((ordered[:middle], ordered[middle:]))
        low, high = min(halves, key=lambda both: slots(both[0]) + slots(both[1]))
        return [part for part in (*parts(low, n_parts // 2), *parts(high, n_parts - n_parts // 2)) if len(part)]

    rng = np.random.default_rng([plan.seed, epoch])
    order = rng.permutation(len(lengths))
    found = []
    for pool in np.array_split(order, max(1, len(order) // plan.pool_pairs)):
        found += parts(pool, -(-int(tgt[pool].sum()) // plan.update_tokens))
    return [found[i].tolist() for i in rng.permutation(len(found))]


@given(some_pairs, st.integers(1, 200), st.integers(5, 50), st.integers(0, 5))
def test_the_updates_are_those_of_the_definition(pairs, update_tokens, pool_pairs, epoch):
    lengths = lengths_of(*map(list, zip(*pairs, strict=True)))
    asked = plan(update_tokens, pool_pairs)
    assert rows_of(epoch_updates(lengths, asked, epoch)) == plain_updates(lengths, asked, epoch)


@pytest.mark.parametrize(("n", "longest"), [(255, 254), (256, 255), (300, 256), (70_000, 200)])
def test_the_updates_are_those_of_the_definition_whatever_the_integers(n, longest):
    """Rows and lengths are held in one, two or four bytes."""
    lengths = varied_lengths(n, longest)
    assert rows_of(epoch_updates(lengths, plan(4096), 1)) == plain_updates(lengths, plan(4096), 1)


def test_an_epoch_can_be_entered_anywhere():
    updates = epoch_updates(random_lengths(500), plan(), epoch=0)
    assert rows_of(updates[7:]) == rows_of(updates)[7:]
    assert rows_of([updates[-1]]) == rows_of(updates)[-1:]
    assert len(updates[7:]) == len(updates) - 7
    assert list(updates[len(updates) :]) == []


def test_an_epoch_takes_a_few_bytes_a_pair():
    def peak(n: int) -> int:
        lengths = varied_lengths(n)
        tracemalloc.start()
        updates = epoch_updates(lengths, plan(4096), epoch=0)
        _, highest = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(updates) > n / 500
        return highest

    assert peak(400_000) - peak(100_000) < 5 * 300_000


def test_lengths_do_not_overflow():
    """255 ids and the end of sentence do not fit into the byte that holds 255, nor sums into what holds the numbers."""
    lengths = lengths_of([255, 0, 255], [70_000, 65_535, 7])
    assert (lengths.src[:].tolist(), lengths.tgt[:].tolist()) == ([256, 1, 256], [70_001, 65_536, 8])
    assert (lengths.src.max(), lengths.src.sum(), lengths.tgt.max(), lengths.tgt.sum()) == (256, 513, 70_001, 135_545)
    assert (-lengths.src[np.array([0])]).tolist() == [-256]
    assert lengths.src[2] * lengths.tgt[0] == 256 * 70_001
    assert len(lengths) == 3


def test_the_longest_pairs(monkeypatch):
    lengths = varied_lengths(1000)
    sides = np.maximum(lengths.src[:], lengths.tgt[:])
    expected = sorted(range(1000), key=lambda row: (-sides[row], row))
    for block in (7, 1000, 4096):
        monkeypatch.setattr("nmt.data.batching._BLOCK", block)
        assert lengths.longest(50).tolist() == expected[:50]
    assert lengths.longest(5000).tolist() == expected


def test_the_order_is_a_function_of_seed_and_epoch():
    lengths = random_lengths(500)
    first = rows_of(epoch_updates(lengths, plan(), epoch=0))
    assert first == rows_of(epoch_updates(lengths, plan(), epoch=0))
    assert first != rows_of(epoch_updates(lengths, plan(), epoch=1))
    assert first != rows_of(epoch_updates(lengths, plan(seed=2), epoch=0))


def test_updates_are_shuffled_and_not_sorted_by_length():
    lengths = random_lengths(2000)
    means = [lengths.tgt[rows].mean() for rows in rows_of(epoch_updates(lengths, plan(), epoch=0))]
    assert abs(np.corrcoef(np.arange(len(means)), means)[0, 1]) < 0.3


def test_pools_are_no_smaller_than_asked():
    """With 2.5 pools' worth of pairs there are two pools: an update never mixes pairs of both."""
    lengths = random_lengths(250)
    one = {frozenset(rows) for rows in rows_of(epoch_updates(lengths, plan(pool_pairs=251), epoch=0))}
    two = {frozenset(rows) for rows in rows_of(epoch_updates(lengths, plan(pool_pairs=100), epoch=0))}
    assert one != two
    order = np.random.default_rng([1, 0]).permutation(250)
    first_pool = set(order[:125].tolist())
    assert all(rows <= first_pool or not rows & first_pool for rows in two)


def test_padding_of_a_pool_stays_small():
    lengths = random_lengths(30_000)
    updates = epoch_updates(lengths, plan(update_tokens=4096), epoch=0)
    slots = sum(len(u.rows) * int(lengths.src[u.rows].max() + lengths.tgt[u.rows].max()) for u in updates)
    assert 1 - (lengths.src.sum() + lengths.tgt.sum()) / slots < 0.05
    assert max(abs(update.n_tokens - 4096) for update in updates) < 100


@given(some_pairs, st.integers(1, 60))
def test_validation_batches_hold_every_pair_even_too_long_ones(pairs, max_tokens):
    lengths = lengths_of(*map(list, zip(*pairs, strict=True)))
    batches = even_batches(lengths, max_tokens)
    assert sorted(int(row) for rows in batches for row in rows) == list(range(len(pairs)))
    assert all(
        len(rows) == 1 or len(rows) * max(lengths.src[rows].max(), lengths.tgt[rows].max()) <= max_tokens
        for rows in batches
    )


def test_a_batch_holds_the_sentences_with_their_special_ids(tiny_data):
    corpus = Corpus.open(DataDir(tiny_data))
    pairs = Pairs(corpus.split("train"), "bb", "aa")
    texts = {language: corpus.split("train").text(language) for language in ("aa", "bb")}
    rows = np.array([0, 7, len(pairs) - 1])
    batch = pairs.batch(rows)
    for i, row in enumerate(rows):
        src = corpus.tokenizers["bb"].encode(texts["bb"][row])
        tgt = corpus.tokenizers["aa"].encode(texts["aa"][row])
        assert [x for x in batch.src[i].tolist() if x != PAD] == [*src, EOS]
        assert [x for x in batch.tgt_in[i].tolist() if x != PAD] == [BOS, *tgt]
        assert [x for x in batch.tgt_out[i].tolist() if x != PAD] == [*tgt, EOS]
        assert batch.src_mask[i].tolist() == [True] * (len(src) + 1) + [False] * (batch.src.size(1) - len(src) - 1)
    assert batch.n_tokens == int(batch.tgt_mask.sum()) == int((batch.tgt_in != PAD).sum())
    assert batch.index.tolist() == rows.tolist()


def test_either_direction_of_one_corpus(tiny_data):
    split = Corpus.open(DataDir(tiny_data)).split("train")
    there, back = Pairs(split, "aa", "bb"), Pairs(split, "bb", "aa")
    rows = np.arange(5)
    assert there.batch(rows).src.tolist() == back.batch(rows).tgt_out.tolist()
    assert there.lengths.src[:].tolist() == back.lengths.tgt[:].tolist() == (split.lengths("aa") + 1).tolist()


def test_both_directions_of_one_corpus(tiny_data):
    """Row P + i is row i the other way round; a batch may mix them, in any order."""
    split = Corpus.open(DataDir(tiny_data)).split("train")
    there, back = Pairs(split, "aa", "bb"), Pairs(split, "bb", "aa")
    one, other = (Lines(split.ids(language), split.ends(language)) for language in ("aa", "bb"))
    both = Pairs.of_sides(Joined(one, other), Joined(other, one))
    n = len(there)
    assert len(both) == 2 * n
    assert both.lengths.src[:].tolist() == [*there.lengths.src[:], *back.lengths.src[:]]
    assert both.lengths.tgt[:].tolist() == [*there.lengths.tgt[:], *back.lengths.tgt[:]]
    rows = np.array([n + 3, 0, 2 * n - 1, n - 1, n])
    batch = both.batch(rows)
    assert batch.index.tolist() == rows.tolist()
    assert batch.n_tokens == int(batch.tgt_mask.sum()) == both.lengths.tgt[rows].sum()
    for i, row in enumerate(rows):
        alone = (there if row < n else back).batch(np.array([row % n]))
        assert [x for x in batch.src[i].tolist() if x != PAD] == alone.src[0].tolist()
        assert [x for x in batch.tgt_out[i].tolist() if x != PAD] == alone.tgt_out[0].tolist()
        assert [x for x in batch.tgt_in[i].tolist() if x != PAD] == alone.tgt_in[0].tolist()
    for rows in (np.arange(5), np.arange(n, n + 5)):  # batches of one direction are those of its own pairs
        alone = (there if rows[0] < n else back).batch(rows % n)
        assert torch.equal(both.batch(rows).src, alone.src) and torch.equal(both.batch(rows).tgt_in, alone.tgt_in)


def test_both_directions_copy_no_ids():
    n = 2000
    ids = {side: np.random.default_rng(0).integers(20, 300, 500 * n).astype(np.uint16) for side in ("x", "y")}
    split = SimpleNamespace(n=n, ids=ids.__getitem__, ends=lambda _: np.arange(500, 500 * n + 1, 500))
    tracemalloc.start()
    one, other = (Lines(split.ids(side), split.ends(side)) for side in ("x", "y"))
    pairs = Pairs.of_sides(Joined(one, other), Joined(other, one))
    batch = pairs.batch(np.array([0, n]))
    _, highest = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert highest < ids["x"].nbytes / 4
    assert batch.src[:, :-1].tolist() == [ids["x"][:500].tolist(), ids["y"][:500].tolist()]


@pytest.mark.parametrize("n_parts", [1, 2, 3, 7, 50])
def test_cutting_gives_about_equal_parts(n_parts):
    lengths = random_lengths(1000)
    parts = cut(lengths.src[:], lengths.tgt[:], n_parts)
    assert len(parts) == n_parts
    assert sorted(np.concatenate(parts)) == list(range(1000))
    tokens = [int(lengths.tgt[part].sum()) for part in parts]
    assert max(tokens) - min(tokens) < 200
