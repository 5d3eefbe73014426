"""Tests of `nmt score` and `PairScorer`: one line per pair, and scores equal to the training loss and to search."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from command import Command
from nmt.search.settings import SearchConfig
from nmt.text.tokenizer import Tokenizer
from nmt.translate.loading import Translator
from nmt.translate.score import PairScorer, Scored
from tiny_run import PLAIN, STRANGE, words, write_run

SEARCH = SearchConfig(beam=3, length_penalty=0.6, max_length_ratio=1.0)
REFS = [" ".join(words(n, seed=100 + n)) for n in (4, 1, 9, 2, 13, 6, 5, 3)]


def score(
    translator: Translator,
    pairs: list[tuple[str, str]] | Iterator[tuple[str, str]],
    search: SearchConfig = SEARCH,
    longest: int = 1000,
    window: int = 4096,
) -> Iterator[Scored]:
    src, tgt = (
        translator.tokenizers[language] for language in (translator.config.data.src, translator.config.data.tgt)
    )
    return PairScorer(translator.forced_decoder(search), src, tgt, search, longest).score(pairs, window)


def test_scores_are_in_order(translator: Translator, tokenizer: Tokenizer) -> None:
    pairs = [(line, ref) for line in PLAIN + STRANGE for ref in REFS[:3]]
    pairs += [(line, ref) for line in (PLAIN[0], STRANGE[0]) for ref in STRANGE] + [(line, line) for line in STRANGE]
    found = list(score(translator, pairs))
    assert len(found) == len(pairs)
    tight = SEARCH.model_copy(update={"batch_tokens": 30})
    for others in (list(score(translator, pairs, tight, window=7)), [*score(translator, pairs[::-1])][::-1]):
        for one, other in zip(found, others, strict=True):
            assert other.pieces == one.pieces
            assert other.log_probs == pytest.approx(one.log_probs, abs=1e-4)
    for (_, ref), one in zip(pairs, found, strict=True):
        if one.pieces:
            assert one.pieces == (*tokenizer.pieces(tokenizer.encode(ref)), "</s>")
            assert one.log_prob == math.fsum(one.log_probs) < 0
            assert one.score == pytest.approx(one.log_prob / len(one.pieces) ** 0.6)
    assert len({round(one.log_prob, 3) for one in found[:3]}) == 3


def test_recomputed_scores_equal_search(translator: Translator) -> None:
    for search in (SEARCH, SEARCH.model_copy(update={"beam": 1})):
        by_line = list(translator.translate_lines(PLAIN, search, n_best=search.beam))
        finished = [
            (line, each)
            for line, translations in zip(PLAIN, by_line, strict=True)
            for each in translations
            if [*map(tuple, [part.tgt_ids for part in each.parts])]
            == [
                tuple(translator.tokenizers[translator.config.data.tgt].encode(each.text))
            ]  # otherwise different pieces spell the same text
        ]
        assert finished
        for scored, (_, each) in zip(
            score(translator, [(line, each.text) for line, each in finished], search), finished, strict=True
        ):
            assert scored.log_prob == pytest.approx(each.log_prob, abs=1e-4)
            assert scored.score == pytest.approx(each.score, abs=1e-4)


def test_blank_side_is_not_scored(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    for model in translator.searcher.models:
        monkeypatch.setattr(model, "forward", None)  # calling it would fail
    blank = ["", " ", "\t \u3000", "\u2028", "\x00", "\x1f\x85\r", "\u200b", "\ufeff \u00ad\u200c\u200d"]
    found = list(score(translator, [*((line, "ta go") for line in blank), *(("ta go", line) for line in blank)]))
    assert len(found) == 2 * len(blank)
    assert all((one.pieces, one.log_probs, one.n_words) == ((), (), 0) for one in found)
    assert all(math.isnan(one.score) and math.isnan(one.log_prob) for one in found)
    assert list(score(translator, [])) == []


def test_long_pair_is_truncated_and_scored(translator: Translator, tokenizer: Tokenizer) -> None:
    long = " ".join(words(40, seed=3))
    start = tokenizer.decode(tokenizer.encode(long)[:20])
    cut_src, cut_tgt, whole = score(translator, [(long, "ta go"), ("ta go", long), ("ta go", "ta go")], longest=20)
    assert (cut_src.cut, cut_tgt.cut, whole.cut) == (True, True, False)
    short, of_start = score(translator, [(start, "ta go"), ("ta go", start)])
    assert cut_src.log_probs == pytest.approx(short.log_probs, abs=1e-4)
    assert (cut_tgt.pieces, cut_tgt.log_probs) == (
        of_start.pieces[:-1],
        pytest.approx(of_start.log_probs[:-1], abs=1e-4),
    )
    assert (cut_tgt.n_words, of_start.n_words) == (len(start.split()), len(start.split()) + 1)


# --- the command --------------------------------------------------------------------------------


def test_score_command_writes_line_per_pair(
    nmt: Command, tokenizer: Tokenizer, translator: Translator, tmp_path: Path
) -> None:
    run = write_run(tmp_path / "run", translator.config, tokenizer, translator.searcher.models[0])
    pairs = [*zip(PLAIN, REFS, strict=True), ("", "ta"), ("mali", "go")]
    for name, lines in zip(("a.src", "a.ref"), zip(*pairs, strict=True), strict=True):
        Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    options = ("--length-penalty", "0.6", "--output", "scores")
    result = nmt("score", "--run", run, "--src", "a.src", "--ref", "a.ref", *options)
    assert (result.status, result.out) == (0, ""), result.err
    rows = [line.split("\t") for line in Path("scores").read_text().splitlines()]
    expected = list(score(translator, pairs))
    assert rows[8] == ["9", "nan", "nan", "ta"]
    assert [(row[0], row[3]) for row in rows] == [(f"{n}", ref) for n, (_, ref) in enumerate(pairs, start=1)]
    for row, one in zip(rows, expected, strict=True):
        if one.pieces:
            assert [float(row[1]), float(row[2])] == pytest.approx([one.score, one.log_prob], abs=1e-4)
    total = math.fsum(float(row[2]) for row in rows if row[2] != "nan")
    n_pieces = sum(len(one.pieces) for one in expected)
    assert "nmt: 1 pair with a blank side, not scored: 9\n" in result.err
    assert f"nmt: log-probability {total:,.2f}, perplexity {math.exp(-total / n_pieces):.4g} per piece, " in result.err
    assert f"(9 pairs, {n_pieces} pieces, {sum(len(ref.split()) for ref in REFS) + 1 + 9} words, " in result.err
