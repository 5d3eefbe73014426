"""Modifiers of the pairs of an update."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from nmt.config import Config
from nmt.config.load import changed_config, load_config
from nmt.data.batching import Pairs
from nmt.data.lines import Joined, Lines, Segments
from nmt.data.modifiers import Modifiers
from nmt.errors import DataError
from nmt.text.constraints import marked
from nmt.text.ids import EOS, PAD
from nmt.text.tokenizer import Tokenizer, train_tokenizer
from nmt.text.vocabularies import Tokenizers
from sentences import sentence_pairs

GERMAN, ENGLISH = (list(lines) for lines in zip(*sentence_pairs(300), strict=True))
N = len(GERMAN)
ALL = np.arange(N)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer([*GERMAN, *ENGLISH], 500)


def lines(tokenizer: Tokenizer, texts: Sequence[str]) -> Lines:
    ids = tokenizer.encode_all(texts)
    return Lines(np.array([i for line in ids for i in line]), np.cumsum([len(line) for line in ids]))


@pytest.fixture(scope="module")
def pairs(tokenizer: Tokenizer) -> Pairs:
    return Pairs(lines(tokenizer, GERMAN), lines(tokenizer, ENGLISH))


def config_of(**modifiers: object) -> Config:
    names = (name if name == "glossary" else f"modifiers.{name}" for name in modifiers)
    return load_config("sample.yaml", [f"training.{key}={modifiers[key.rpartition('.')[2]]}" for key in names])


def make(tokenizer: Tokenizer, config: Config, n: int = N) -> Modifiers:
    tokenizers = Tokenizers({"de": tokenizer, "en": tokenizer}, joint=True)
    directions = config.data.all_directions
    corpora = SimpleNamespace(
        tokenizers=tokenizers, by_direction=dict.fromkeys(directions), starts=n * np.arange(len(directions) + 1)
    )
    return Modifiers(corpora, config.data, config.training)  # type: ignore[arg-type]


def ids_of(pairs: Pairs, rows: np.ndarray | None = None) -> list[tuple[list[int], list[int]]]:
    batch = pairs.batch(np.arange(len(pairs)) if rows is None else rows)
    sides = [[[i for i in row if i not in (PAD, EOS)] for row in side.tolist()] for side in (batch.src, batch.tgt_out)]
    return list(zip(*sides, strict=True))


def texts_of(tokenizer: Tokenizer, pairs: Pairs) -> list[tuple[str, str]]:
    return [(tokenizer.decode(src), tokenizer.decode(tgt)) for src, tgt in ids_of(pairs)]


def test_modifiers_apply_to_configured_shares(tokenizer: Tokenizer, pairs: Pairs) -> None:
    modifiers = make(tokenizer, config_of(upper_case=0.2, drop_end_punctuation=0.3))
    counts = np.zeros(3)
    for epoch in range(8):
        found = modifiers.modified(pairs, ALL, epoch)
        assert len(found) == N
        for new, new_ids, old, old_ids in zip(
            texts_of(tokenizer, found), ids_of(found), zip(GERMAN, ENGLISH, strict=True), ids_of(pairs), strict=True
        ):
            forms = (old, (old[0].upper(), old[1].upper()), (old[0].rstrip(".!?"), old[1].rstrip(".!?")))
            kind = forms.index(new)
            counts[kind] += 1
            if not kind:
                assert new_ids == old_ids
    assert counts / (8 * N) == pytest.approx([0.5, 0.2, 0.3], abs=0.03)


def test_modifier_draw_depends_on_seed_epoch_and_row(tokenizer: Tokenizer, pairs: Pairs) -> None:
    modifiers = make(tokenizer, config_of(typos=0.5, noise=0.2))
    whole = ids_of(modifiers.modified(pairs, ALL, 3))
    rows = np.random.default_rng(0).permutation(N)
    for part in (rows[:7], rows[7:200], rows[200:]):
        assert ids_of(modifiers.modified(pairs, part, 3)) == [whole[row] for row in part]
    others = [
        ids_of(modifiers.modified(pairs, ALL, 4)),
        ids_of(make(tokenizer, load_config("sample.yaml", ["training.modifiers.typos=0.5",
            "training.modifiers.noise=0.2", "training.seed=2"])).modified(pairs, ALL, 3)),
    ]  # fmt: skip
    assert all(sum(a != b for a, b in zip(whole, other, strict=True)) > 0.2 * N for other in others)
    # in a window a pair has another row, but the same one in the corpus
    window = Pairs(pairs._src, pairs._tgt, Segments([(ALL[::-1].copy(), np.ones_like(ALL))], N))
    backwards = ids_of(modifiers.modified(window, ALL, 3))
    changed, of_window = ([a != b for a, b in zip(ids_of(pairs), new, strict=True)] for new in (whole, backwards))
    assert changed == of_window[::-1] and 0.5 * N < sum(changed) < N
    assert modifiers.modified(window, rows, 3).corpus_rows(ALL).tolist() == (N - 1 - rows).tolist()


def test_overlong_modified_pair_is_kept_unmodified(tokenizer: Tokenizer, pairs: Pairs) -> None:
    upper = [tuple(tokenizer.encode(text.upper()) for text in texts) for texts in zip(GERMAN, ENGLISH, strict=True)]
    longest = sorted(max(map(len, texts)) for texts in upper)[N // 2]
    config = load_config("sample.yaml", ["training.modifiers.upper_case=1", f"data.max_pieces={longest}"])
    found = ids_of(make(tokenizer, config).modified(pairs, ALL, 0))
    for new, shouted, old in zip(found, upper, ids_of(pairs), strict=True):
        assert new == (old if max(map(len, shouted)) > longest else shouted)


def both(config: Config) -> Config:
    return changed_config(config, ["data.directions=[de-en, en-de]"])


def test_modifiers_swap_sides_in_second_direction(tokenizer: Tokenizer, tmp_path: Path) -> None:
    de, en = lines(tokenizer, GERMAN), lines(tokenizer, ENGLISH)
    pairs = Pairs(Joined(de, en), Joined(en, de))
    found = texts_of(tokenizer, make(tokenizer, both(config_of(lower_case=1.0))).modified(pairs, np.arange(2 * N), 0))
    assert found == [(a.lower(), b) for a, b in zip([*GERMAN, *ENGLISH], [*ENGLISH, *GERMAN], strict=True)]
    drawn = texts_of(tokenizer, make(tokenizer, both(config_of(typos=0.5))).modified(pairs, np.arange(2 * N), 0))
    one, other = ([new != old for (new, _), old in zip(half, texts, strict=True)]
                  for half, texts in ((drawn[:N], GERMAN), (drawn[N:], ENGLISH)))  # fmt: skip
    assert one != other, "each direction draws for itself"
    (tmp_path / "g.tsv").write_text(f"{ENGLISH[0].split()[1]}\t{GERMAN[0].split()[1]}\n", encoding="utf-8")
    terms = make(tokenizer, both(config_of(terms=1.0, glossary=tmp_path / "g.tsv")))
    assert ids_of(terms.modified(pairs, np.arange(N, 2 * N), 0)) == ids_of(pairs, np.arange(N, 2 * N))


def test_terms_are_marked_in_the_source(tokenizer: Tokenizer, pairs: Pairs, tmp_path: Path) -> None:
    word, translation = GERMAN[0].split()[1], ENGLISH[0].split()[1]
    (tmp_path / "g.tsv").write_text(f"{word}\t{translation}\n", encoding="utf-8")
    modifiers = make(tokenizer, config_of(terms=1.0, glossary=tmp_path / "g.tsv"))
    src, tgt = ids_of(modifiers.modified(pairs, ALL[:1], 0))[0]
    [(place, inline)] = marked(src)
    assert (tokenizer.decode(src[place]).strip(), tokenizer.decode(src[inline]).strip()) == (word, translation)
    assert tokenizer.decode(tgt) == ENGLISH[0]
    example = modifiers.examples(pairs, 256)["terms"]
    assert example is not None and f"<reserved_0> {word} <reserved_1> {translation} <reserved_2>" in example[0]
    (tmp_path / "g.tsv").write_text(f"{word} {translation}\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"g\.tsv, line 1: a term and its translation are needed"):
        make(tokenizer, config_of(terms=1.0, glossary=tmp_path / "g.tsv"))
