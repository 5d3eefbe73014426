"""Links between the words of sentences and their translations, and the counts that model 1 expects of them."""

from __future__ import annotations

import numpy as np

from nmt.text.lexicon import expected_counts, links


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
