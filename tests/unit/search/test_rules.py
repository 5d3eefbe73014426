"""The rules of search against what they say in words, tried on every id one by one."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from nmt.search.rules import Rules
from nmt.text.tokenizer import EOS, PAD
from tables import BANNED

VOCAB = 9
FIRST = 4  # of the ordinary ids


def may_follow(rules: Rules, sentence: int, ids: list[int], token: int) -> bool:
    """Whether `token` may follow `ids` in a sentence."""
    if len(ids) + 1 == int(rules.limits[sentence]):
        return token == EOS
    prefix = [] if rules.prefix is None else [i for i in rules.prefix[sentence].tolist() if i != PAD]
    if len(ids) < len(prefix):
        return token == prefix[len(ids)]
    if token in rules.banned.tolist():
        return False
    if token == EOS:
        return len(ids) >= rules.min_length
    n = rules.no_repeat_ngram
    longer = [*ids, token]
    ngrams = [tuple(longer[i : i + n]) for i in range(len(longer) - n + 1)]
    return n == 0 or ngrams[-1:] == [] or ngrams.count(ngrams[-1]) == 1


@st.composite
def batches(draw: st.DrawFn) -> tuple[Rules, Tensor, Tensor]:
    """Rules, logits and ids of some sentences."""
    n_sentences, n_hypotheses, length = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(0, 7))
    piece = st.integers(FIRST, FIRST + 2)
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
    rules = Rules(
        banned=torch.tensor([*BANNED.tolist(), *draw(st.lists(st.integers(FIRST, VOCAB - 1), max_size=2))]),
        limits=torch.tensor(draw(st.lists(st.integers(1, 9), min_size=n_sentences, max_size=n_sentences))),
        min_length=draw(st.integers(0, 9)),
        no_repeat_ngram=draw(st.integers(0, 4)),
        prefix=draw(
            st.none()
            | st.just(torch.tensor([prefix + [PAD] * (longest_prefix - len(prefix)) for prefix in prefixes]).long())
        ),
    )
    logits = torch.randn(n_sentences, n_hypotheses, VOCAB, generator=torch.Generator().manual_seed(len(ids)))
    return rules, logits, torch.tensor(ids, dtype=torch.int64).view(n_sentences, n_hypotheses, length)


def check(rules: Rules, logits: Tensor, ids: Tensor) -> None:
    ruled = logits.clone()
    rules.apply(ruled, ids)
    for sentence, of_sentence in enumerate(ids.tolist()):
        for hypothesis, so_far in enumerate(of_sentence):
            for token, before in enumerate(logits[sentence, hypothesis].tolist()):
                allowed = may_follow(rules, sentence, so_far, token)
                assert ruled[sentence, hypothesis, token] == (before if allowed else -math.inf)


@given(batch=batches())
def test_each_id_is_allowed_or_not_as_the_rules_say(batch: tuple[Rules, Tensor, Tensor]) -> None:
    check(*batch)


@given(batch=batches(), chosen=st.sets(st.integers(0, 3)))
def test_sentences_that_are_kept_keep_their_rules(batch: tuple[Rules, Tensor, Tensor], chosen: set[int]) -> None:
    rules, logits, ids = batch
    rows = torch.tensor([row for row in sorted(chosen) if row < len(ids)], dtype=torch.int64)
    kept = rules.keep(rows)
    expected, found = logits.clone(), logits[rows].clone()
    rules.apply(expected, ids)
    kept.apply(found, ids[rows])
    assert torch.equal(found, expected[rows])
    assert kept.longest >= max(rules.limits[rows].tolist(), default=0)


LONG = list(range(FIRST, FIRST + 5))
CASES = {
    "a limit goes before the least length": (Rules(BANNED, torch.tensor([3]), min_length=5), LONG[:2], {EOS}),
    "the least length goes before the end": (
        Rules(BANNED, torch.tensor([8]), min_length=3),
        LONG[:2],
        set(range(FIRST, VOCAB)),
    ),
    "a limit goes before the prefix": (
        Rules(BANNED, torch.tensor([2]), prefix=torch.tensor([[5, 6, 7]])),
        [5],
        {EOS},
    ),
    "a prefix may repeat itself": (
        Rules(BANNED, torch.tensor([9]), no_repeat_ngram=1, prefix=torch.tensor([[5, 5, 5]])),
        [5, 5],
        {5},
    ),
    "a prefix may hold what is banned": (Rules(BANNED, torch.tensor([9]), prefix=torch.tensor([[5, 1]])), [5], {1}),
    "what follows a prefix may not repeat it": (
        Rules(BANNED, torch.tensor([9]), no_repeat_ngram=2, prefix=torch.tensor([[5, 6, 5]])),
        [5, 6, 5],
        {EOS, 4, 5, 7, 8},
    ),
    "one id of a repeated pair is no repetition": (
        Rules(BANNED, torch.tensor([9]), no_repeat_ngram=3),
        [5, 6, 7, 5, 6],
        {EOS, 4, 5, 6, 8},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_which_rule_goes_before_which(case: str) -> None:
    rules, ids, expected = CASES[case]
    logits = torch.zeros(1, 1, VOCAB)
    rules.apply(logits, torch.tensor([[ids]]))
    assert {i for i, logit in enumerate(logits[0, 0].tolist()) if logit > -math.inf} == expected
    check(rules, torch.zeros(1, 1, VOCAB), torch.tensor([[ids]]))
