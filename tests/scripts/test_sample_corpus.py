"""The embedded corpus: its grammar, its files and its figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from places import ROOT
from scripts.sample_corpus import check, make
from untraced import untraced

DATA = ROOT / "data" / "sample"


@pytest.fixture(scope="module")
def corpus() -> make.Corpus:
    with untraced():
        return make.make_corpus()


def test_same_bytes(corpus: make.Corpus, tmp_path: Path) -> None:
    make.write_corpus(corpus, tmp_path)
    for name in ("train", "dev", "test"):
        for language in ("de", "en"):
            file = f"{name}.{language}"
            assert (tmp_path / file).read_bytes() == (DATA / file).read_bytes(), file


def test_figures(corpus: make.Corpus) -> None:
    missed = [figure for figure in check.figures(corpus, DATA) if not figure.passed]
    assert missed == []


def test_sentence_has_one_translation(corpus: make.Corpus) -> None:
    """The same German sentence never has two English ones."""
    pairs = {(pair.de, pair.en) for pair in [*corpus.train, *corpus.dev, *corpus.test]}
    assert len(pairs) == len({german for german, _ in pairs})
