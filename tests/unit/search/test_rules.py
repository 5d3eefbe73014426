"""Rules of search, compared with a plain implementation for every id."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nmt.search.greedy import greedy_search
from nmt.search.rules import GIVEN, Rules
from nmt.search.settings import SearchConfig
from nmt.search.step import length_penalty
from nmt.text.ids import EOS, PAD, SEPARATOR
from tables import BANNED, Prefix, Table, TableModel, forced_log_prob, random_table

VOCAB = 9
FIRST = 4  # of the ordinary ids


def may_follow(rules: Rules, sentence: int, ids: list[int], token: int) -> bool:
    """Return whether `token` may follow `ids` in a sentence."""
    if len(ids) + 1 == int(rules.limits[sentence]):
        return token == EOS
    prefix = [] if rules.prefix is None else [i for i in rules.prefix[sentence].tolist() if i != PAD]
    if len(ids) < len(prefix):
        return token == prefix[len(ids)]
    if token in rules.banned.tolist():
        return False
    if token == EOS:
        return len(ids) >= rules.min_length
    if token == SEPARATOR and rules.n_separators is not None and ids.count(SEPARATOR) >= rules.n_separators[sentence]:
        return False
    n = rules.no_repeat_ngram
    longer = [*ids, token]
    ngrams = [tuple(longer[i : i + n]) for i in range(len(longer) - n + 1)]
    return n == 0 or ngrams[-1:] == [] or ngrams.count(ngrams[-1]) == 1


@st.composite
def batches(draw: st.DrawFn) -> tuple[Rules, Tensor, Tensor]:
    """Generate rules, logits and ids of some sentences."""
    n_sentences, n_hypotheses, length = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(0, 7))
    piece = st.sampled_from([FIRST, FIRST + 1, SEPARATOR])
    ids = draw(
        st.lists(piece, min_size=n_sentences * n_hypotheses * length, max_size=n_sentences * n_hypotheses * length)
    )
    longest_prefix = draw(st.integers(0, 9))
    prefixes = draw(
        st.lists(
            st.lists(st.integers(1, VOCAB - 1).filter(lambda i: i != EOS), max_size=longest_prefix),
            min_size=n_sentences,
            max_size=n_sentences,
        )
    )
    n_separators = draw(st.none() | st.lists(st.integers(0, 3), min_size=n_sentences, max_size=n_sentences))
    rules = Rules(
        banned=torch.tensor([*BANNED.tolist(), *draw(st.lists(st.integers(FIRST, VOCAB - 1), max_size=2))]),
        limits=torch.tensor(draw(st.lists(st.integers(1, 9), min_size=n_sentences, max_size=n_sentences))),
        min_length=draw(st.integers(0, 9)),
        no_repeat_ngram=draw(st.integers(0, 4)),
        prefix=draw(
            st.none()
            | st.just(torch.tensor([prefix + [PAD] * (longest_prefix - len(prefix)) for prefix in prefixes]).long())
        ),
        n_separators=None if n_separators is None else torch.tensor(n_separators),
    )
    logits = torch.randn(n_sentences, n_hypotheses, VOCAB, generator=torch.Generator().manual_seed(len(ids)))
    return rules, logits, torch.tensor(ids, dtype=torch.int64).view(n_sentences, n_hypotheses, length)


@settings(max_examples=50)
@given(batch=batches())
def test_allowed_ids_follow_rules(batch: tuple[Rules, Tensor, Tensor]) -> None:
    rules, logits, ids = batch
    ruled = logits.clone()
    rules.apply(ruled, ids)
    for sentence, of_sentence in enumerate(ids.tolist()):
        for hypothesis, so_far in enumerate(of_sentence):
            for token, before in enumerate(logits[sentence, hypothesis].tolist()):
                expected = GIVEN if token in rules.banned else before  # a prefix may have what is banned
                allowed = may_follow(rules, sentence, so_far, token)
                assert ruled[sentence, hypothesis, token] == (expected if allowed else -math.inf)


@settings(max_examples=50)
@given(batch=batches(), chosen=st.sets(st.integers(0, 3)))
def test_finished_sentences_keep_rules(batch: tuple[Rules, Tensor, Tensor], chosen: set[int]) -> None:
    rules, logits, ids = batch
    rows = torch.tensor([row for row in sorted(chosen) if row < len(ids)], dtype=torch.int64)
    kept = rules.keep(rows)
    expected, found = logits.clone(), logits[rows].clone()
    rules.apply(expected, ids)
    kept.apply(found, ids[rows])
    assert torch.equal(found, expected[rows])
    assert kept.longest >= max(rules.limits[rows].tolist(), default=0)


# --- Greedy search ---


LIMITS = [1, 5, 9, 3, 12, 7]
RULES = {
    "limits": Rules(BANNED, torch.tensor(LIMITS)),
    "all": Rules(
        torch.tensor([*BANNED.tolist(), 7]),
        torch.tensor(LIMITS),
        min_length=4,
        no_repeat_ngram=2,
        prefix=torch.tensor([[5, 5], [0, 0], [7, 4], [5, 0], [0, 0], [6, 6]]),
    ),
}


def likeliest(table: Table, rules: Rules, sentence: int) -> list[int]:
    """Return the result of greedy search, computed step by step without state."""
    rules, ids = rules.keep(torch.tensor([sentence])), []
    while EOS not in ids:
        logits = table(sentence, tuple(ids))[None, None]
        rules.apply(logits, torch.tensor(ids, dtype=torch.int64).view(1, 1, -1))
        ids.append(int(logits.argmax()))
    return ids[:-1]


@pytest.mark.parametrize("kind", RULES)
@pytest.mark.parametrize("seed", range(5))
def test_greedy_chooses_likeliest_allowed_piece(seed: int, kind: str) -> None:
    table, config = random_table(seed, vocab=9), SearchConfig(length_penalty=0.7)
    found = greedy_search(TableModel(table, range(6)), RULES[kind], config)
    for sentence, hypothesis in enumerate(found):
        assert hypothesis.ids == likeliest(table, RULES[kind], sentence)
        log_prob = forced_log_prob(table, sentence, tuple(hypothesis.ids))
        if kind == "all" and sentence == 2:  # its prefix begins with a banned id, which is given, not predicted
            log_prob -= float(table(sentence, ()).log_softmax(-1)[7])
        expected = log_prob, log_prob / length_penalty(len(hypothesis.ids) + 1, config)
        assert (hypothesis.log_prob, hypothesis.score) == pytest.approx(expected, abs=1e-5)
        assert hypothesis.finished is (len(hypothesis.ids) + 1 < LIMITS[sentence])


def ends_after(sentence: int, prefix: Prefix) -> Tensor:
    """As many pieces as the sentence's number."""
    logits = torch.arange(20.0)
    logits[EOS] = 99.0 if len(prefix) >= sentence else -99.0
    return logits


def test_finished_sentences_are_removed_in_groups_of_eight() -> None:
    model = TableModel(ends_after, range(24))
    found = greedy_search(model, Rules(BANNED, torch.tensor([30] * 24)), SearchConfig())
    assert model.rows_seen == [24] * 8 + [16] * 8 + [8, 7, 6, 5, 4, 3, 2, 1]
    assert [len(hypothesis.ids) for hypothesis in found] == list(range(24))
