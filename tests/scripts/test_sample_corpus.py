"""The embedded corpus and the grammar that wrote it."""

from __future__ import annotations

from places import ROOT
from scripts.sample_corpus import make

DATA = ROOT / "data" / "sample"


def lines(name: str) -> list[str]:
    return (DATA / name).read_text(encoding="utf-8").splitlines()


def test_grammar_writes_training_pairs_in_their_order() -> None:
    """The whole corpus, byte by byte, and its figures: `python -m scripts.sample_corpus.check`."""
    train = list(zip(lines("train.de"), lines("train.en"), strict=True))
    drawn = [(pair.de, pair.en) for pair in make.draw_pool(make.SEED, 1000)]
    known = set(train)
    kept = [pair for pair in drawn if pair in known]
    assert len(kept) > 200 and kept == train[: len(kept)]


def test_german_sentence_has_one_translation() -> None:
    pairs = {
        pair for name in ("train", "dev", "test") for pair in zip(lines(f"{name}.de"), lines(f"{name}.en"), strict=True)
    }
    assert len(pairs) == len({german for german, _ in pairs})
