"""BPE-dropout: SentencePiece's pieces without it, the paper's with it, and every epoch the same each time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count, cycle, islice, pairwise, repeat
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nmt.config import DataConfig, Source, TrainingConfig
from nmt.data import bpe_dropout as module
from nmt.data.batching import Packing, Pairs
from nmt.data.bpe_dropout import N_CUTS, BpeDropout, Merges
from nmt.text.tokenizer import EOS, N_SPECIAL, PAD, Tokenizer, Tokenizers, train_tokenizer
from places import ROOT
from sentences import sentence_pairs

SAMPLE = ROOT / "data" / "sample"
GERMAN, ENGLISH = (list(lines) for lines in zip(*sentence_pairs(300), strict=True))
ODD = ["", " ", "  a", "a ", "\t", "a\tb", "\x00a", "\u2581", " \u2581 a\u2581b", "字", "é\u0301", "<0x41>", "aaaaa"]
NEVER = repeat(2**32 - 1)  # random numbers that leave out no merge

tricky = st.sampled_from([*" \t\u00a0\u2028\u3000\ufeff\u2581\u2585\u0301\U0001f600aeé字<>", "Hund", "<0x41>", "aaa"])
lines = st.lists(tricky | st.characters(exclude_categories=["Cs"]), max_size=30).map("".join)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer([*GERMAN, *ENGLISH, *["aaaa aaaaaaa aaa"] * 50], 500)


@pytest.fixture(scope="module")
def merges(tokenizer: Tokenizer) -> Merges:
    return Merges(tokenizer)


def sentences(pairs: Pairs) -> list[tuple[list[int], list[int]]]:
    """The ids of every pair."""
    batch = pairs.batch(np.arange(len(pairs)))
    sides = [[[i for i in row if i not in (PAD, EOS)] for row in side.tolist()] for side in (batch.src, batch.tgt_out)]
    return list(zip(*sides, strict=True))


def settings(src: float, tgt: float, max_pieces: int = 1000, **training: object) -> tuple[DataConfig, TrainingConfig]:
    files = Source(files={"de": "x.de", "en": "x.en"})
    data = DataConfig(direction="de-en", train=[files], valid=files, max_pieces=max_pieces)
    return data, TrainingConfig(src_bpe_dropout=src, tgt_bpe_dropout=tgt, **training)  # type: ignore[arg-type]


class Made:
    """A split of two languages, and its pairs with dropout."""

    def __init__(self, tokenizer: Tokenizer, de: Sequence[str] = GERMAN, en: Sequence[str] = ENGLISH) -> None:
        ids = {"de": tokenizer.encode_all(de), "en": tokenizer.encode_all(en)}
        flat = {name: np.array([i for line in side for i in line], np.uint16) for name, side in ids.items()}
        ends = {name: np.cumsum([len(line) for line in side]) for name, side in ids.items()}
        self.split = SimpleNamespace(n=len(de), ids=flat.__getitem__, ends=ends.__getitem__)
        self.plain = list(zip(ids["de"], ids["en"], strict=True))
        self.tokenizers = Tokenizers({"de": tokenizer, "en": tokenizer}, joint=True)

    def dropout(
        self, src: float = 0.2, tgt: float = 0.2, seed: int = 1, longest: int = 1000, both: bool = False
    ) -> BpeDropout:
        data, training = settings(src, tgt, max_pieces=longest, seed=seed, both_directions=both)
        return BpeDropout(self.split, self.tokenizers, data, training)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def made(tokenizer: Tokenizer) -> Made:
    return Made(tokenizer, GERMAN + ODD, ENGLISH + ODD[::-1])


# --- the merges ---------------------------------------------------------------------------------


@given(lines)
@example("aaaaaaaaaaa aaaaa a")
def test_without_dropout_the_pieces_are_those_of_sentencepiece(tokenizer: Tokenizer, merges: Merges, line: str) -> None:
    ids = tokenizer.encode(line)
    assert merges.cut(ids, 0.0, NEVER) == ids
    letters = merges.cut(ids, 0.5, repeat(0))  # from letters they are merged again
    assert merges.cut(letters, 0.0, NEVER) == ids


@pytest.mark.parametrize("line", ODD)
def test_odd_lines_are_merged_as_by_sentencepiece(tokenizer: Tokenizer, merges: Merges, line: str) -> None:
    assert merges.cut(tokenizer.encode(line), 0.0, NEVER) == tokenizer.encode(line)


def test_the_sample_corpus_is_merged_as_by_sentencepiece() -> None:
    texts = [(SAMPLE / f"train.{name}").read_text(encoding="utf-8").splitlines() for name in ("de", "en")]
    tokenizer = train_tokenizer([*texts[0][:4000], *texts[1][:4000]], 3000)
    words = sorted({word for text in texts for line in text for word in line.split()})
    assert len(words) > 5000
    merges = Merges(tokenizer)
    encoded = tokenizer.encode_all(words)
    assert [merges.cut(ids, 0.0, NEVER) for ids in encoded] == encoded


def test_no_piece_reaches_across_a_space(tokenizer: Tokenizer) -> None:
    """Which is why lines can be cut word by word."""
    assert not [piece for piece in tokenizer.pieces(range(len(tokenizer))) if "\u2581" in piece[1:]]


def plain_cut(pieces: list[str], ids: Sequence[int], rate: float, numbers: Iterator[int]) -> list[str]:
    """Algorithm 1 of the paper, letter by letter, without regard to speed; `pieces` are those of the vocabulary."""
    learned = {piece: i for i, piece in enumerate(pieces) if i >= N_SPECIAL + 256}
    word = [letter for i in ids for letter in (pieces[i] if pieces[i] in learned else [f"byte {pieces[i]}"])]
    while True:
        merges = [(learned.get(one + other), place) for place, (one, other) in enumerate(pairwise(word))]
        possible = sorted((new, place) for new, place in merges if new is not None)
        left = next((place for _, place in possible if next(numbers) >= round(rate * 2**32)), None)
        if left is None:
            return [piece.removeprefix("byte ") for piece in word]
        word[left : left + 2] = [word[left] + word[left + 1]]


@given(lines | st.sampled_from(GERMAN + ENGLISH), st.floats(0, 0.99), st.lists(st.integers(0, 2**32 - 1), min_size=1))
def test_merges_are_left_out_as_in_the_paper(
    tokenizer: Tokenizer, merges: Merges, line: str, rate: float, numbers: list[int]
) -> None:
    numbers = [*numbers, 2**32 - 1]
    ids = tokenizer.encode(line)
    found = tokenizer.pieces(merges.cut(ids, rate, cycle(numbers)))
    assert found == plain_cut(tokenizer.pieces(range(len(tokenizer))), ids, rate, cycle(numbers))
    assert tokenizer.decode(merges.cut(ids, rate, cycle(numbers))) == tokenizer.decode(ids)


@pytest.mark.parametrize("rate", [0.05, 0.1, 0.5])
def test_the_only_merge_of_a_word_is_left_out_at_the_rate(tokenizer: Tokenizer, merges: Merges, rate: float) -> None:
    word, n = tokenizer.encode("d"), 4000
    assert tokenizer.pieces(word) == ["\u2581d"]
    left_out = sum(len(merges.cut(word, rate, module._random_numbers(b"%d" % i))) == 2 for i in range(n))
    assert abs(left_out - n * rate) < 4 * math.sqrt(n * rate * (1 - rate))


def test_random_numbers() -> None:
    numbers = list(islice(module._random_numbers(b"key"), 4000))
    assert numbers == list(islice(module._random_numbers(b"key"), 4000))
    assert numbers[:16] != list(islice(module._random_numbers(b"kez"), 16))
    assert len(set(numbers)) > 3990  # no block of them twice
    assert abs(np.mean(numbers) / 2**32 - 0.5) < 0.02


# --- an epoch -----------------------------------------------------------------------------------


def test_every_sentence_decodes_to_what_it_was(made: Made, tokenizer: Tokenizer) -> None:
    found = sentences(made.dropout(0.5, 0.5).pairs(0))
    for new, plain in zip(found, made.plain, strict=True):
        assert [tokenizer.decode(side) for side in new] == [tokenizer.decode(side) for side in plain]
        assert all(i >= N_SPECIAL for side in new for i in side)
    assert sum(new != plain for new, plain in zip(found, made.plain, strict=True)) > 300


def test_hardly_any_dropout_changes_nothing(made: Made) -> None:
    assert sentences(made.dropout(1e-9, 1e-9).pairs(3)) == made.plain


def test_lengths_are_those_of_the_new_pieces(made: Made) -> None:
    pairs = made.dropout().pairs(2)
    assert len(pairs) == len(made.plain)
    for i, (src, tgt) in enumerate(sentences(pairs)):
        assert (pairs.lengths.src[i], pairs.lengths.tgt[i]) == (len(src) + 1, len(tgt) + 1)
    assert pairs._src._ids.dtype == np.uint16  # type: ignore[attr-defined]


def test_an_epoch_is_the_same_whatever_came_before(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = sentences(made.dropout().pairs(3))
    later = made.dropout()
    for epoch in (7, 0, 3, 1):
        later.pairs(epoch)
    assert sentences(later.pairs(3)) == alone
    monkeypatch.setattr(module, "_BLOCK", 7)
    assert sentences(made.dropout().pairs(3)) == alone


def test_what_is_held_is_bounded(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a script without spaces every line is a word of its own, cut anew in every epoch."""
    made = Made(tokenizer, [line.replace(" ", "") for line in GERMAN], ENGLISH)
    free, bounded, n_ids = made.dropout(0.2, 0.0), made.dropout(0.2, 0.0), len(made.split.ids("de"))
    for epoch in range(8):
        monkeypatch.setattr(module, "_MAX_CACHED_IDS", 1 << 24)
        expected = sentences(free.pairs(epoch))
        monkeypatch.setattr(module, "_MAX_CACHED_IDS", 0)
        assert sentences(bounded.pairs(epoch)) == expected
        assert len(bounded._cuts["de", 0.2]._ids) < 4 * n_ids
    assert len(free._cuts["de", 0.2]._ids) > 8 * n_ids


def test_epochs_seeds_and_sides_differ(made: Made) -> None:
    first = sentences(made.dropout().pairs(0))
    for other in (made.dropout().pairs(1), made.dropout(seed=2).pairs(0)):
        assert sum(a != b for a, b in zip(first, sentences(other), strict=True)) > 250


def test_the_two_sides_of_a_pair_are_cut_independently(tokenizer: Tokenizer) -> None:
    found = sentences(Made(tokenizer, GERMAN, GERMAN).dropout().pairs(0))
    assert sum(src == tgt for src, tgt in found) < 30


def test_a_word_is_cut_independently_wherever_it_stands(tokenizer: Tokenizer) -> None:
    """All cuts of a word are drawn about as often, whatever the epoch, the line and the place in it."""
    word, n_lines, n_epochs = "fürchtetzeichnetGroßvaterStraße", 100, 20
    dropout = Made(tokenizer, [f"{word} {word}"] * n_lines, ["x"] * n_lines).dropout(0.8, 0.0)
    drawn: Counter[tuple[int, ...]] = Counter()
    alike = {"line": 0, "epoch": 0, "next line": 0}
    before: list[list[int]] = [[]] * n_lines
    for epoch in range(n_epochs):
        now = [src for src, _ in sentences(dropout.pairs(epoch))]
        for i, line in enumerate(now):
            second = [j for j, piece in enumerate(tokenizer.pieces(line)) if piece.startswith("\u2581")][1]
            drawn.update((tuple(line[:second]), tuple(line[second:])))
            alike["line"] += line[:second] == line[second:]
            alike["epoch"] += line == before[i]
            alike["next line"] += line == now[i - 1]
        before = now
    mean = 2 * n_lines * n_epochs / N_CUTS
    assert N_CUTS - 8 < len(drawn) <= N_CUTS  # a few of the cuts are the same
    assert sorted(drawn.values())[0] > 0.5 * mean and sorted(drawn.values())[N_CUTS // 2] < 1.5 * mean
    assert 0 < alike["line"] < 4 * n_lines * n_epochs / N_CUTS
    assert max(alike["epoch"], alike["next line"]) < 10


def test_pieces_grow_with_the_rate(made: Made) -> None:
    totals = [made.dropout(rate, rate).pairs(0).lengths.tgt.sum() for rate in (1e-9, 0.05, 0.1, 0.3, 0.6, 0.99)]
    assert all(a * 1.03 < b for a, b in pairwise(totals))
    letters = sum(len(line.encode()) for line in ENGLISH)
    assert totals[-1] > 0.9 * letters


def test_cut_words_are_shared_and_made_when_they_are_drawn(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = count()
    cut = Merges.cut
    monkeypatch.setattr(Merges, "cut", lambda *args: (next(calls), cut(*args))[1])
    dropout = made.dropout()
    assert next(calls) == 0
    dropout.pairs(0)
    after_first = next(calls)
    n_words = sum(len(line.split()) for line in GERMAN + ENGLISH)
    assert 0 < after_first < n_words
    dropout.pairs(0)
    assert next(calls) == after_first + 1


def test_a_line_that_would_be_too_long_keeps_its_pieces(made: Made) -> None:
    free = sentences(made.dropout(0.3, 0.3).pairs(0))
    found = sentences(made.dropout(0.3, 0.3, longest=16).pairs(0))
    kept = 0
    for new, without_limit, plain in zip(found, free, made.plain, strict=True):
        for side in (0, 1):
            kept += len(without_limit[side]) > 16
            assert new[side] == (plain[side] if len(without_limit[side]) > 16 else without_limit[side])
    assert 100 < kept < 500


def test_a_side_without_dropout_is_not_copied(made: Made) -> None:
    pairs = made.dropout(0.3, 0.0).pairs(0)
    assert [tgt for _, tgt in sentences(pairs)] == [tgt for _, tgt in made.plain]
    assert [src for src, _ in sentences(pairs)] != [src for src, _ in made.plain]
    assert pairs._tgt._ids is made.split.ids("en")  # type: ignore[attr-defined]
    assert sentences(made.dropout(0.3, 0.0).pairs(0)) != sentences(made.dropout(0.0, 0.3).pairs(0))


def test_two_vocabularies(tokenizer: Tokenizer) -> None:
    other = train_tokenizer(ENGLISH, 330)
    made = Made(tokenizer)
    ids = other.encode_all(ENGLISH)
    split = SimpleNamespace(
        n=len(GERMAN),
        ids=lambda name: (
            made.split.ids("de") if name == "de" else np.array([i for line in ids for i in line], np.uint32)
        ),
        ends=lambda name: made.split.ends("de") if name == "de" else np.cumsum([len(line) for line in ids]),
    )
    tokenizers = Tokenizers({"de": tokenizer, "en": other}, joint=False)
    pairs = BpeDropout(split, tokenizers, *settings(0.3, 0.3)).pairs(0)  # type: ignore[arg-type]
    for (src, tgt), german, english in zip(sentences(pairs), GERMAN, ENGLISH, strict=True):
        assert (tokenizer.decode(src), other.decode(tgt)) == (german, english)
    assert pairs._tgt._ids.dtype == np.uint32  # type: ignore[attr-defined]


# --- both directions ----------------------------------------------------------------------------


@pytest.mark.parametrize(("src", "tgt"), [(0.2, 0.2), (0.2, 0.5), (0.3, 0.0), (0.0, 0.3)])
def test_both_directions(made: Made, tokenizer: Tokenizer, src: float, tgt: float) -> None:
    n = len(made.plain)
    pairs = made.dropout(src, tgt, both=True).pairs(1)
    found = sentences(pairs)
    assert len(pairs) == len(found) == 2 * n
    assert found[:n] == sentences(made.dropout(src, tgt).pairs(1))
    back = [(en, de) for de, en in made.plain]
    for new, plain in zip(found[n:], back, strict=True):
        assert [tokenizer.decode(side) for side in new] == [tokenizer.decode(side) for side in plain]
    for side, rate in enumerate((src, tgt)):  # the rates are those of the sides as they are learned from
        changed = sum(new[side] != plain[side] for new, plain in zip(found[n:], back, strict=True))
        assert changed == 0 if rate == 0 else changed > 250


def test_both_directions_of_a_pair_are_cut_independently(tokenizer: Tokenizer) -> None:
    """So they are where both sides are the same text: neither by side nor by row is one the other."""
    found = sentences(Made(tokenizer, GERMAN, GERMAN).dropout(both=True).pairs(0))
    there, back = found[: len(GERMAN)], found[len(GERMAN) :]
    for one in (0, 1):
        for other in (0, 1):
            assert sum(a[one] == b[other] for a, b in zip(there, back, strict=True)) < 30


def test_both_directions_can_be_packed(made: Made) -> None:
    pairs = made.dropout(both=True).pairs(0)
    rows = np.array([3, len(made.plain) + 3, 0, len(made.plain)])
    padded, packed = pairs.batch(rows), Packing(pairs).batch(rows)
    assert packed.tgt_out[0, : packed.n_tokens].tolist() == padded.tgt_out[padded.tgt_mask].tolist()
