"""Updates partition the epoch, batches keep to their budget, and a batch is what the model must see."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.data.batching import BatchPlan, PairLengths, Pairs, epoch_updates, even_batches
from nmt.data.corpus import Corpus
from nmt.layout import DataDir
from nmt.tokenizer import BOS, EOS, PAD


def lengths_of(src: list[int], tgt: list[int]) -> PairLengths:
    return PairLengths(np.array(src, dtype=np.int32), np.array(tgt, dtype=np.int32))


def plan(update_tokens: int = 60, max_tokens: int = 40, pool_pairs: int = 30_000, seed: int = 1) -> BatchPlan:
    return BatchPlan(update_tokens, max_tokens, pool_pairs, seed)


def rows_of(updates) -> list[list[int]]:
    return [[int(row) for rows in update.micro_batches for row in rows] for update in updates]


some_pairs = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=80)


@given(some_pairs, st.integers(1, 200), st.integers(31, 100), st.integers(5, 50))
def test_every_pair_once_and_no_batch_over_its_budget(pairs, update_tokens, max_tokens, pool_pairs):
    lengths = lengths_of(*map(list, zip(*pairs, strict=True)))
    updates = epoch_updates(lengths, plan(update_tokens, max_tokens, pool_pairs), epoch=0)
    assert sorted(row for rows in rows_of(updates) for row in rows) == list(range(len(pairs)))
    longest = int(lengths.tgt.max())
    for update in updates:
        assert update.n_tokens == sum(int(lengths.tgt[rows].sum()) for rows in update.micro_batches)
        assert update.n_tokens <= update_tokens + 2 * longest
        for rows in update.micro_batches:
            assert len(rows) * max(lengths.src[rows].max(), lengths.tgt[rows].max()) <= max_tokens


@given(some_pairs)
def test_memory_does_not_decide_what_is_learned(pairs):
    """Another max_tokens splits an update otherwise, but it is the same update of the same pairs."""
    lengths = lengths_of(*map(list, zip(*pairs, strict=True)))
    small, large = (epoch_updates(lengths, plan(max_tokens=tokens), epoch=3) for tokens in (31, 10_000))
    assert [sorted(rows) for rows in rows_of(small)] == [sorted(rows) for rows in rows_of(large)]
    assert all(len(update.micro_batches) == 1 for update in large)


def random_lengths(n: int) -> PairLengths:
    rng = np.random.default_rng(0)
    src = rng.poisson(11, n)
    return PairLengths(src, np.maximum(1, src + rng.integers(-3, 4, n)))


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
    updates = epoch_updates(lengths, plan(update_tokens=4096, max_tokens=8192), epoch=0)
    slots = sum(
        len(rows) * int(lengths.src[rows].max() + lengths.tgt[rows].max()) for u in updates for rows in u.micro_batches
    )
    assert 1 - int(lengths.src.sum() + lengths.tgt.sum()) / slots < 0.05
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
    assert there.lengths.src.tolist() == back.lengths.tgt.tolist()


@pytest.mark.parametrize("n_parts", [1, 2, 3, 7, 50])
def test_cutting_gives_about_equal_parts(n_parts):
    lengths = random_lengths(1000)
    parts = lengths.cut(np.arange(1000), n_parts)
    assert len(parts) == n_parts
    tokens = [int(lengths.tgt[part].sum()) for part in parts]
    assert max(tokens) - min(tokens) < 200
