"""The filter of misaligned pairs: words, the lexicon and the dropped pairs, in made-up languages."""

from __future__ import annotations

import random

import numpy as np
import pytest

from nmt.prepare.cleaning.misaligned import MIN_PAIRS, is_misaligned, learn_filter
from nmt.text.lexicon import Lexicon, Tokens, make_cells, read_words, split_words

PAIRS, BAD = 3000, 120


def translated(n: int, seed: int = 1) -> list[tuple[str, str]]:
    """Return sentences whose words all have a translation, in another order."""
    rng = random.Random(seed)
    sounds = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]
    words = ["".join(rng.sample(sounds, k=2)) for _ in range(400)]
    pairs = []
    for _ in range(n):
        meant = [int(400 * rng.random() ** 2) for _ in range(rng.randint(3, 9))]
        pairs.append((" ".join(words[i] for i in meant), " ".join(words[i][::-1] for i in reversed(meant))))
    return pairs


@pytest.fixture(scope="module")
def corpus() -> list[tuple[str, str]]:
    """Return a corpus whose last pairs are shifted by one."""
    pairs = translated(PAIRS)
    good, shifted = pairs[:-BAD], pairs[-BAD:]
    return good + [(src, tgt) for (src, _), (_, tgt) in zip(shifted, [*shifted[1:], shifted[0]], strict=True)]


@pytest.fixture(scope="module")
def learned(corpus: list[tuple[str, str]]) -> bytes:
    return learn_filter(corpus, 0.03)


def test_shifted_pairs_are_dropped_and_others_kept(corpus: list[tuple[str, str]], learned: bytes) -> None:
    dropped = is_misaligned(corpus, learned)
    assert dropped[-BAD:].mean() > 0.85
    assert dropped[:-BAD].mean() < 0.04
    fresh = translated(PAIRS + 300)[PAIRS:]
    crossed = [(src, tgt) for (src, _), (_, tgt) in zip(fresh, reversed(fresh), strict=True)]
    assert is_misaligned(fresh, learned).mean() < 0.05
    assert is_misaligned(crossed, learned).mean() > 0.9


def test_judging_parts_matches_judging_whole_corpus(corpus: list[tuple[str, str]], learned: bytes) -> None:
    assert learn_filter(list(corpus), 0.03) == learned
    whole = is_misaligned(corpus, learned)
    parts = [is_misaligned(corpus[i : i + 1700], learned) for i in range(0, PAIRS, 1700)]
    assert np.array_equal(np.concatenate(parts), whole)
    assert len(is_misaligned([], learned)) == 0


def test_pairs_that_cannot_be_judged_are_kept(learned: bytes, corpus: list[tuple[str, str]]) -> None:
    short, unknown = (corpus[0][0].split()[0], corpus[1][1].split()[0]), ("Quux Corge 1987", "Grault Garply 12 Fred")
    odd = [short, unknown, ("", ""), ("?!", "…"), ("你好世界", "สวัสดี"), ("\udcff", "x")]
    assert not is_misaligned(odd, learned).any()


def test_corpus_too_small_to_learn_from_loses_no_pairs(corpus: list[tuple[str, str]]) -> None:
    few = learn_filter(corpus[: MIN_PAIRS - 1], 0.03)
    assert not is_misaligned(corpus, few).any()
    assert few == b""


def test_unrelated_corpus_keeps_most_pairs(corpus: list[tuple[str, str]]) -> None:
    targets = [tgt for _, tgt in corpus]
    random.Random(1).shuffle(targets)
    pairs = [(src, tgt) for (src, _), tgt in zip(corpus[:MIN_PAIRS], targets[:MIN_PAIRS], strict=True)]
    assert is_misaligned(pairs, learn_filter(pairs, 0.03)).mean() < 0.1


def test_words_are_split_with_and_without_spaces() -> None:
    words, ends = split_words(["Der „Hund“ schläft?", "", "世界。かわいい", "ÄRGER, 7:30"])
    assert words == ["der", "„", "hund", "“", "schläft", "?", "世", "界", "。", "かわい", "い", "ärger", "7", "30"]
    assert ends.tolist() == [6, 6, 11, 14]


def test_marks_of_all_scripts_are_words() -> None:
    words, _ = split_words(["है। क्या", "هل؟ نعم، لا", "ነው። ቡና፣", "コーヒーですゞ・"])
    assert words == ["है", "।", "क्या", "هل", "؟", "نعم", "،", "لا", "ነው", "።", "ቡና", "፣", "コーヒ", "ーです", "ゞ", "・"]


def test_rarest_words_keep_order() -> None:
    tokens = Tokens(np.array([5, 9, 2, 9, 7, 4, 4, 4]), np.array([5, 5, 8]))
    rarest = tokens.rarest(3)
    assert rarest.ids.tolist() == [5, 2, 7, 4]
    assert rarest.ends.tolist() == [3, 3, 4]
    assert tokens.take(np.array([1, 2])).ids.tolist() == [4, 4, 4]
    assert tokens.take(np.array([2, 0])).ids.tolist() == [4, 4, 4, 5, 9, 2, 9, 7]


def test_lexicon_learns_translations() -> None:
    pairs = translated(600)
    (src, src_tokens), (tgt, tgt_tokens) = (read_words([pair[side] for pair in pairs]) for side in (0, 1))
    first = src_tokens.take(np.array([0]))
    assert [src.stems[i] for i in first.ids] == [word for word in pairs[0][0].split() if word in src.stems]
    lexicon = Lexicon.learn(pairs)
    best = lexicon.keys[np.argsort(lexicon.forward)[-100:]].tolist()
    assert np.mean([src.stems[key >> 16][::-1] == tgt.stems[key & 0xFFFF] for key in best]) > 0.9
    at, forward, _ = lexicon.find(lexicon.keys)
    assert len(at) > 0.99 * len(lexicon.keys)
    assert np.abs(forward - lexicon.forward[at]).max() < 0.01
    cells = make_cells(src_tokens.take(np.array([0, 1])), tgt_tokens.take(np.array([0, 1])))
    assert len(cells.keys) == (src_tokens.lengths * tgt_tokens.lengths)[:2].sum()
    assert (cells.keys >> 16).tolist() == src_tokens.ids[cells.rows].tolist()
    assert (cells.keys & 0xFFFF).tolist() == tgt_tokens.ids[cells.columns].tolist()
