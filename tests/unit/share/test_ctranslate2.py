"""Shortlists of made-up training text, in which the order of words and the most frequent words are no help."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from nmt.data.lines import Indices
from nmt.share.ctranslate2 import write_shortlist
from nmt.text.ids import N_SPECIAL
from tiny_run import tiny_tokenizer

TOKENIZER = tiny_tokenizer()
WORDS = np.arange(TOKENIZER.n_pieces - 40, TOKENIZER.n_pieces)


class Text:
    """A split whose target lines have the words of the source lines, cyclically shifted by seven, in another order."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self._src = [rng.choice(40, rng.integers(1, 9)) for _ in range(300)]
        self._tgt = [rng.permutation((line + 7) % 40) for line in self._src]

    def _lines(self, language: str) -> list[Indices]:
        return self._src if language == "aa" else self._tgt

    def ids(self, language: str) -> Indices:
        return WORDS[np.concatenate(self._lines(language))]

    def ends(self, language: str) -> Indices:
        return np.cumsum([len(line) for line in self._lines(language)])


@pytest.mark.parametrize("max_links", [20_000_000, 5_000], ids=["all pairs", "a sample"])
def test_likely_translations_are_found_in_all_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, max_links: int
) -> None:
    monkeypatch.setattr("nmt.share.ctranslate2.N_PER_PIECE", 2)
    monkeypatch.setattr("nmt.share.ctranslate2.N_FREQUENT", 3)
    monkeypatch.setattr("nmt.share.ctranslate2.MAX_LINKS", max_links)
    corpus = SimpleNamespace(train_splits=[Text(1), Text(2)])
    write_shortlist(tmp_path, [(corpus, "aa", "bb"), (corpus, "bb", "aa")], (TOKENIZER, TOKENIZER))  # type: ignore[list-item]
    rows = dict(line.split("\t") for line in (tmp_path / "vmap.txt").read_text(encoding="utf-8").splitlines())
    pieces = TOKENIZER.pieces(range(TOKENIZER.n_pieces))
    assert [*rows] == ["", *pieces[N_SPECIAL:]]
    assert 1 <= len(rows[""].split()) <= 6
    for i, word in enumerate(WORDS.tolist()):
        found = rows[pieces[word]].split()
        assert {pieces[WORDS[(i + 7) % 40]], pieces[WORDS[(i - 7) % 40]], pieces[word]} <= {*found}
        assert len(found) <= 5
