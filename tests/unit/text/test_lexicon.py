"""Lexicons: words, links, and the translations that model 1 learns."""

from __future__ import annotations

import numpy as np
import pytest

from nmt.text.lexicon import Lexicon, Tokens, expected_counts, links, make_cells, read_words, split_words
from sentences import translated


def test_words_are_linked_within_their_pair_only() -> None:
    first, second = links(np.array([2, 0, 1]), np.array([1, 2, 3]))
    assert list(zip(first.tolist(), second.tolist(), strict=True)) == [(0, 0), (1, 0), (2, 3), (2, 4), (2, 5)]


def test_word_alone_with_its_translation_explains_the_other_words() -> None:
    # sources 0 and 1 with targets 0 and 1, and source 0 with target 0 alone
    src_words, tgt_words = np.array([0, 1, 0]), np.array([0, 1, 0])
    tgt_index, src_index = links(np.array([2, 1]), np.array([2, 1]))
    keys, kinds = np.unique(src_words[src_index] * 2 + tgt_words[tgt_index], return_inverse=True)
    counts, totals = expected_counts(kinds, tgt_index, keys // 2, 10)
    assert np.isclose(counts.sum(), len(tgt_words))
    forward = dict(zip(keys.tolist(), (counts / totals).tolist(), strict=True))
    assert forward[0] > 0.9  # source 0, target 0
    assert forward[3] > 0.9  # source 1, target 1


@pytest.mark.parametrize(
    ("lines", "words", "ends"),
    [
        (["Der „Hund“ schläft?", "", "世界。かわいい", "ÄRGER, 7:30"],
         ["der", "„", "hund", "“", "schläft", "?", "世", "界", "。", "かわい", "い", "ärger", "7", "30"],
         [6, 6, 11, 14]),
        # marks of all scripts are words
        (["है। क्या", "هل؟ نعم، لا", "ነው። ቡና፣", "コーヒーですゞ・"],
         ["है", "।", "क्या", "هل", "؟", "نعم", "،", "لا", "ነው", "።", "ቡና", "፣", "コーヒ", "ーです", "ゞ", "・"],
         [3, 8, 12, 16]),
    ],
)  # fmt: skip
def test_words_are_split_with_and_without_spaces(lines: list[str], words: list[str], ends: list[int]) -> None:
    found, found_ends = split_words(lines)
    assert (found, found_ends.tolist()) == (words, ends)


def test_rarest_words_keep_order() -> None:
    tokens = Tokens(np.array([5, 9, 2, 9, 7, 4, 4, 4]), np.array([5, 5, 8]))
    rarest = tokens.rarest(3)
    assert (rarest.ids.tolist(), rarest.ends.tolist()) == ([5, 2, 7, 4], [3, 3, 4])
    for rows, ids in (([1, 2], [4, 4, 4]), ([2, 0], [4, 4, 4, 5, 9, 2, 9, 7])):
        assert tokens.take(np.array(rows)).ids.tolist() == ids


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
