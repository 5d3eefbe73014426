"""Lexically constrained beam search: every translation contains its phrases."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor

from nmt.search.beam import beam_search
from nmt.search.constrained import Constraints, Phrases, beam_for, total_length
from nmt.search.rules import Rules
from nmt.search.settings import SearchConfig
from nmt.search.step import Hypothesis
from nmt.text.ids import EOS, N_SPECIAL, PAD
from nmt.text.phrases import term_ids, word_parts
from nmt.text.tokenizer import CONTROL, Tokenizer, train_tokenizer
from sentences import sentence_pairs
from tables import BANNED, A, B, Prefix, Table, TableModel, every_output, forced_log_prob, random_table

B_IS_PART = torch.arange(6) == B


def run(
    table: Table,
    phrases: Sequence[Phrases],
    config: SearchConfig,
    limits: Sequence[int],
    parts: Tensor | None = None,
    sentences: Sequence[int] | None = None,
    n_best: int = 1,
    prefix: Tensor | None = None,
    n_ordered: Sequence[int] | None = None,
) -> list[list[Hypothesis]]:
    limit = torch.tensor(limits)
    constraints = Constraints(phrases, limit, parts, n_ordered)
    model = TableModel(table, range(len(limits)) if sentences is None else sentences)
    return beam_search(model, Rules(BANNED, limit, prefix=prefix), config, n_best, constraints)


def count(ids: Sequence[int], phrase: Sequence[int], parts: Tensor | None = None) -> int:
    """Count the occurrences of a phrase in ids that do not overlap and are not continued by the next token."""
    place = n = 0
    while place < len(ids):
        end = place + len(phrase)
        is_whole = end >= len(ids) or parts is None or not parts[ids[end]]
        if tuple(ids[place:end]) == tuple(phrase) and is_whole:
            n, place = n + 1, end
        else:
            place += 1
    return n


def holds(ids: Sequence[int], phrases: Phrases, parts: Tensor | None = None) -> bool:
    wanted = [tuple(phrase) for phrase in phrases]
    return all(count(ids, phrase, parts) >= wanted.count(phrase) for phrase in wanted)


def best_by_enumeration(
    table: Table, sentence: int, phrases: Phrases, limit: int, config: SearchConfig, parts: Tensor | None = None
) -> list[tuple[float, Prefix]]:
    """Return score and ids of all outputs that contain the phrases, best first."""
    outputs = every_output(table, sentence, (A, B), limit, config)
    return [(output.score, tuple(output.ids)) for output in outputs if holds(output.ids, phrases, parts)]


def same(found: Sequence[Hypothesis], expected: Sequence[tuple[float, Prefix]]) -> None:
    assert [tuple(hypothesis.ids) for hypothesis in found] == [ids for _, ids in expected]
    assert [hypothesis.score for hypothesis in found] == pytest.approx([score for score, _ in expected], abs=1e-5)


SHARE_NOTHING: list[Phrases] = [[(A,)], [(B, B)], [(A, A), (A, A)], [(A, B, A)], [], [(A,), (A,), (B,)]]


@pytest.mark.parametrize("parts", [None, B_IS_PART])
@pytest.mark.parametrize("seed", range(4))
def test_exhaustive_beam_finds_best_with_phrases(seed: int, parts: Tensor | None) -> None:
    table, limit = random_table(seed, sharpness=0.5 + seed / 2), 6
    phrases = [each for each in SHARE_NOTHING if parts is None or all(phrase[0] != B for phrase in each)]
    config = SearchConfig(beam=64, length_penalty=(1.0, 0.0, 0.6, -0.5)[seed % 4])
    found = run(table, phrases, config, [limit] * len(phrases), parts, n_best=3)
    for sentence, wanted in enumerate(phrases):
        same(found[sentence], best_by_enumeration(table, sentence, wanted, limit, config, parts)[:3])


SHARE: list[Phrases] = [[(A, B), (A, A)], [(A, B), (A, B, B)], [(A,), (A, B)], [(B, A), (A, B)]]


@pytest.mark.parametrize("seed", range(4))
def test_phrases_may_share_ids(seed: int) -> None:
    table = random_table(seed)

    def brief(sentence: int, prefix: Prefix) -> Tensor:
        logits = table(sentence, prefix)
        logits[EOS] += 8.0
        return logits

    config = SearchConfig(beam=256, length_penalty=0.0)
    limits = [4 + total_length(each) for each in SHARE]
    found = run(brief, SHARE, config, limits)
    n_shared = 0
    for sentence, wanted in enumerate(SHARE):
        [best] = best_by_enumeration(brief, sentence, wanted, 6, config)[:1]
        same(found[sentence], [best])
        n_shared += len(best[1]) < total_length(wanted)
    assert n_shared


def random_phrases(rng: random.Random, vocab: int) -> list[tuple[int, ...]]:
    """Up to five phrases; some start as another does, some are repeated, and their ids are few."""
    phrases: list[tuple[int, ...]] = []
    for _ in range(rng.randint(0, 5)):
        ids = tuple(rng.choice(range(4, vocab)) for _ in range(rng.randint(1, 4)))
        if phrases and rng.random() < 0.5:
            ids = phrases[-1][: rng.randint(1, len(phrases[-1]))] + rng.choice([(), ids])
        phrases.append(ids)
    return phrases


@pytest.mark.parametrize("beam", [1, 2, 5])
@pytest.mark.parametrize("has_parts", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_hypotheses_have_all_phrases(seed: int, has_parts: bool, beam: int) -> None:
    rng, vocab = random.Random(seed), 8
    parts = torch.arange(vocab) >= 7 if has_parts else None
    phrases = [random_phrases(rng, vocab) for _ in range(8)]
    if parts is not None:  # no phrase starts with a part of a word
        phrases = [[phrase for phrase in each if not parts[phrase[0]]] for each in phrases]
    limits = [1 + total_length(each) + rng.randint(0, 6) for each in phrases]
    table = random_table(seed, vocab, sharpness=3.0)
    for sentence, hypotheses in enumerate(run(table, phrases, SearchConfig(beam=beam), limits, parts, n_best=beam)):
        assert hypotheses
        for hypothesis in hypotheses:
            assert holds(hypothesis.ids, phrases[sentence], parts)
            assert len(hypothesis.ids) < limits[sentence]
            log_prob = forced_log_prob(table, sentence, tuple(hypothesis.ids))
            assert hypothesis.log_prob == pytest.approx(log_prob, abs=1e-4)


STARTED = [(4, 5, 6), (6, 7)]  # 7 goes on with the word that 6 ends


@pytest.mark.parametrize(
    ("phrases", "spare", "allowed"),
    [
        (STARTED, 0, {6}),
        (STARTED, 1, {1, 2, 4, 5, 6, 8}),
        (STARTED, 2, {1, 2, 4, 5, 6, 7, 8}),
        ([(5, 4, 5), (5, 4, 5)], 0, {5}),  # the last id of the first occurrence does not begin the second one
    ],
    ids=str,
)
def test_only_ids_after_which_phrases_fit_follow_a_phrase(
    phrases: list[tuple[int, ...]], spare: int, allowed: set[int]
) -> None:
    limits = torch.tensor([1 + total_length(phrases) + spare])
    constraints = Constraints([phrases], limits, torch.arange(9) == 7)
    for token in phrases[0]:
        constraints.follow(torch.tensor([[0]]), torch.tensor([[token]]))
    logits = torch.zeros(1, 1, 9)
    logits[..., PAD] = -math.inf
    constraints.apply(logits, 4)
    assert {int(i) for i in logits[0, 0].isfinite().nonzero()} == allowed


@pytest.mark.parametrize("beam", [1, 4])
def test_results_do_not_depend_on_the_batch(beam: int) -> None:
    rng, table, config = random.Random(3), random_table(12, vocab=10), SearchConfig(beam=beam)
    phrases = [random_phrases(rng, 10) for _ in range(6)]
    limits = [1 + total_length(each) + rng.randint(0, 6) for each in phrases]
    together = run(table, phrases, config, limits, n_best=beam)
    for order in ([5, 4, 3, 2, 1, 0], [2], [0, 4], [3, 1]):
        some = [phrases[i] for i in order]
        assert run(table, some, config, [limits[i] for i in order], None, order, beam) == [together[i] for i in order]


def places(ids: Sequence[int], phrase: Sequence[int]) -> list[int]:
    """Return the positions at which a phrase begins in ids."""
    return [i for i in range(len(ids)) if tuple(ids[i : i + len(phrase)]) == tuple(phrase)]


TAGS = [(4, 5), (6,), (7, 8, 5), (7, 9, 5)]  # what a tag is like: it shares its first and last ids with others


@pytest.mark.parametrize(("seed", "beam"), [*enumerate([1, 2, 4, 1, 2, 4])])
def test_ordered_phrases_occur_once_in_order(seed: int, beam: int) -> None:
    rng, vocab = random.Random(seed), 12
    tags = [[rng.choice(TAGS) for _ in range(rng.randint(0, 4))] for _ in range(6)]
    others = [[(10,), (11, 10), (9, 11)][: rng.randint(0, 3)] for _ in tags]
    phrases = [[*ordered, *free] for ordered, free in zip(tags, others, strict=True)]
    limits = [1 + total_length(each) + rng.randint(0, 6) for each in phrases]
    parts = torch.arange(vocab) == 3 if seed % 2 else None
    config, table = SearchConfig(beam=beam), random_table(seed, vocab, sharpness=3.0)
    found = run(table, phrases, config, limits, parts, n_best=beam, n_ordered=[len(each) for each in tags])
    for hypotheses, wanted, ordered in zip(found, phrases, tags, strict=True):
        for hypothesis in hypotheses:
            assert holds(hypothesis.ids, wanted, parts)
            at = sorted((i, tag) for tag in set(ordered) for i in places(hypothesis.ids, tag))
            assert [tag for _, tag in at] == ordered
    free = run(table, phrases, config, limits, parts, n_best=beam)
    assert free != found, "without an order they stand in another one"


def test_exhaustive_beam_finds_best_in_order() -> None:
    table, limit, config = random_table(4, sharpness=2.0), 7, SearchConfig(beam=256)
    phrases = [(B,), (A, A), (B,)]

    def in_order(ids: Prefix) -> bool:
        b = places(ids, (B,))
        return len(b) == 2 and (A, A) in zip(ids[b[0] :], ids[b[0] + 1 : b[1]], strict=False)

    wanted = [each for each in best_by_enumeration(table, 0, phrases, limit, config) if in_order(each[1])]
    wanted = [each for each in wanted if count(each[1], (A, A)) == 1]
    [found] = run(table, [phrases], config, [limit], n_best=3, n_ordered=[3])
    same(found, wanted[:3])


def test_order_holds_with_prefix_and_unordered_phrases() -> None:
    table, limits = random_table(6, vocab=12), [12, 12]
    ordered = [(4,), (5, 6)]
    phrases: list[Phrases] = [ordered, [*ordered, (7, 5, 6, 8)]]
    prefix = torch.tensor([[5, 6, 9], [0, 0, 0]])
    [[first], [second]] = run(table, phrases, SearchConfig(beam=4), limits, prefix=prefix, n_ordered=[2, 2])
    assert first.ids[:3] == [5, 6, 9]
    [start] = places(first.ids, (4,))
    assert [i > start for i in places(first.ids, (5, 6))] == [False, True], "that of the prefix does not count"
    assert holds(second.ids, phrases[1])
    assert max(places(second.ids, (5, 6))) > places(second.ids, (4,))[0]


@pytest.mark.parametrize("n_phrases", [1, 2, 3, 4])
def test_phrases_are_placed_where_they_fit(n_phrases: int) -> None:
    usual, rare, n_pieces = list(range(10, 30)), list(range(40, 60)), 20

    def table(sentence: int, prefix: Prefix) -> Tensor:
        """Piece n is the usual one or, seldom, the rare one; elsewhere rarer still. Sentence 1 ends at once."""
        logits = torch.full((70,), math.log(1e-5))
        if sentence == 0 and len(prefix) < n_pieces:
            logits[usual[len(prefix)]] = 0.0
            logits[rare[len(prefix)]] = math.log(1e-3)
            if prefix and rare[0] <= prefix[-1] < 69:  # within a phrase the rest of it is likely
                logits[prefix[-1] + 1] = 0.0
        else:
            logits[EOS] = 0.0
        return logits

    starts = [2, 7, 11, 15][:n_phrases]
    lengths = [1, 2, 3, 4][:n_phrases]
    phrases = [tuple(rare[i : i + n]) for i, n in zip(starts, lengths, strict=True)]
    expected = list(usual)
    for start, phrase in zip(starts, phrases, strict=True):
        expected[start : start + len(phrase)] = phrase
    config = SearchConfig(beam=beam_for(phrases, 5))
    [[found], _] = run(table, [phrases, []], config, [30 + total_length(phrases)] * 2)
    assert found.ids == expected


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer([text for pair in sentence_pairs(300) for text in pair], 420)


TERMS = [
    "Hund", "in front of", "Dog", "dog", "3.5", "-5", "1,000", "%", "%s", "100 %", ",", ".", "...", "?!", "'s", "-ing",
    ":", ":-)", ")", "(c)", "https://example.org/a?b=c&d=%20#e", "me@example.org", "😀", "👩‍👩‍👧", "é", "東京", "、",
    "ไทย", "Ω ≈ ç", "<s>", "</s>", "<unk>", "<reserved_0>", "<0x41>", "▁", "a▁b", "x  y", "日本 Japan", "{name}", "<b>",
]  # fmt: skip


@pytest.mark.parametrize(
    ("term", "text"),
    [
        ("dog", "the dog"), (".5", "the .5"), ("-5", "the -5"), ("%s", "the %s"), ("(c)", "the (c)"),
        ("- x", "the - x"), (",", "the,"), (".", "the."), ("%", "the%"), ("'s", "the's"),
        ("-ing", "the-ing"), ("東京", "the東京"),
    ],
)  # fmt: skip
def test_term_ids_decode_after_another_word(tokenizer: Tokenizer, term: str, text: str) -> None:
    assert tokenizer.decode([*tokenizer.encode("the"), *term_ids(tokenizer, term)]) == text


@given(st.text(st.characters(exclude_categories=["Cs"])))
@example("１２")
@example("๑ๆ")
@example("-ing")
def test_any_text_is_accepted_as_term(tokenizer: Tokenizer, term: str) -> None:
    ids = term_ids(tokenizer, term)
    assert tokenizer.decode(ids) == CONTROL.sub(" ", term).strip()
    assert all(i >= N_SPECIAL for i in ids)
    assert not ids or not word_parts(tokenizer)[ids[0]], "nothing goes on with a word at the start of a term"


def test_word_parts_mark_word_continuations(tokenizer: Tokenizer) -> None:
    parts = word_parts(tokenizer)
    by_piece = dict(zip(tokenizer.pieces(range(len(tokenizer))), parts, strict=True))
    assert by_piece["e"]
    assert not any(by_piece[piece] for piece in ("</s>", "<unk>", "▁", ".", "<0x41>"))
    assert not any(is_part for piece, is_part in by_piece.items() if piece.startswith("▁"))
    for term in TERMS:
        assert not parts[term_ids(tokenizer, term)[0]]
