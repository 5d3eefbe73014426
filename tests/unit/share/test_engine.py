"""Tests that CTranslate2 finds the same translations as the native search."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

from engines import Pair, check_equal, ids, translations
from export_run import LINES, both
from nmt.errors import ConfigError, DataError
from nmt.search.rules import SearchStopped
from nmt.search.settings import SearchConfig
from nmt.search.step import length_penalty
from nmt.share.formats import check_supported
from nmt.text.constraints import Glossary, marked
from nmt.text.ids import N_SPECIAL
from nmt.translate.configured import conventions_of
from nmt.translate.types import Line, Options, Sentence


def at_most(n: int) -> dict[str, object]:
    """Return settings that limit translations to `n` pieces, the end of sentence included."""
    return {"max_length_ratio": 0.0, "max_length_offset": n}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """Return a model with equal probabilities for special and other pieces."""
    return both(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """Return a model with low probabilities for special pieces, as after training."""
    return both(tmp_path_factory.mktemp("quiet"), specials=-20.0, tie_embeddings="none", encoder_layers=2)


@pytest.fixture(scope="module")
def eager(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """Return a model with high probabilities for special pieces."""
    return both(tmp_path_factory.mktemp("eager"), specials=0.6, tie_embeddings="none", encoder_layers=2)


def sentences(sources: Sequence[Sequence[int]], limits: Sequence[int]) -> list[Sentence]:
    """Return sentences with these ids and maximum lengths."""
    return [Sentence("", "", source, 0, limit) for source, limit in zip(sources, limits, strict=True)]


# --- search -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "search",
    [
        {"beam": 3},
        {"beam": 5, "patience": 2.0},
        {"beam": 4, "patience": 0.6},
        {"beam": 4, "length_penalty": 0.0},
        {"beam": 4, "length_penalty": 0.3},
        {"beam": 4, "length_penalty": -0.5, "length_penalty_kind": "power"},
        {"beam": 4, "length_penalty": 0.0, "length_penalty_kind": "gnmt"},
    ],
    ids=str,
)
@pytest.mark.parametrize("n_best", [1, 3])
def test_beam_search_finds_native_n_best(quiet: Pair, search: dict[str, object], n_best: int) -> None:
    found = check_equal(quiet, LINES, n_best, **search)
    assert all(len(of_line) == n_best for of_line in found)


def test_engine_stops_before_next_batch(plain: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    other = plain[1]
    model = Mock(wraps=other.searcher._model)  # type: ignore[attr-defined]
    monkeypatch.setattr(other.searcher, "_model", model)
    batches = model.translate_batch.call_args_list
    search = SearchConfig(beam=2, **at_most(4), batch_tokens=1)  # at the limit each batch is translated again
    for most in (1, 2, 3):
        batches.clear()
        with pytest.raises(SearchStopped):
            list(other.translate_window(LINES[:6], Options(search), should_stop=lambda most=most: len(batches) >= most))
        assert [len(batch.args[0]) for batch in batches] == [1] * most
    found = other.translate_window(LINES[:6], Options(search), should_stop=lambda: False)
    assert list(found) == list(other.translate_window(LINES[:6], Options(search)))


def test_special_pieces_are_not_generated(eager: Pair) -> None:
    found = check_equal(eager, LINES, beam=1)
    assert {of_line[0].finished for of_line in found} == {True, False}
    for of_line in ids(translations(eager[1], LINES, 3, beam=3, **at_most(10))):
        assert len(of_line) == 3
        assert all(i >= N_SPECIAL for each in of_line for i in each)


@pytest.mark.parametrize("search", [at_most(4), at_most(1)])
def test_only_eos_is_allowed_at_max_length(plain: Pair, search: dict[str, object]) -> None:
    found = check_equal(plain, LINES, beam=1, **search)
    assert not all(of_line[0].finished for of_line in found)


def test_hypotheses_respect_length_limits_and_have_native_scores(plain: Pair) -> None:
    native, other = plain
    sources = [native.tokenizers["de"].encode(line) for line in LINES]
    limits = [1 + i for i in range(len(sources))]
    search = SearchConfig(beam=3)
    found = other.searcher.search_batch(sentences(sources, limits), search, n_best=2)
    forced = native.forced_decoder()
    for source, limit, hypotheses in zip(sources, limits, found, strict=True):
        assert len({tuple(each.ids) for each in hypotheses}) == len(hypotheses) == (1 if limit == 1 else 2)
        assert hypotheses[0].score >= hypotheses[-1].score
        for each in hypotheses:
            assert len(each.ids) < limit
            assert each.finished == (len(each.ids) + 1 < limit)
            [values] = forced.log_probs([(source, each.ids)])
            assert each.log_prob == pytest.approx(math.fsum(values), abs=1e-3)
            assert each.score == pytest.approx(each.log_prob / length_penalty(len(each.ids) + 1, search))


def test_minimum_length_and_no_repeat_ngram_are_applied(quiet: Pair) -> None:
    found = check_equal(quiet, LINES, beam=1, min_length=12, **at_most(17))
    assert all(len(of_line[0]) >= 12 for of_line in ids(found))
    found = check_equal(quiet, LINES, beam=1, no_repeat_ngram=1, **at_most(17))
    assert all(len(set(of_line[0])) == len(of_line[0]) for of_line in ids(found))
    assert ids(found) != ids(check_equal(quiet, LINES, beam=1, **at_most(17))), "there was something to forbid"


def test_translation_starts_with_prefix(quiet: Pair) -> None:
    starts = ["", "mali", "bo re ta", "gusi"]
    lines = [Line(line, prefix=start) for line, start in zip(LINES, starts, strict=False)]
    for beam in (1, 3):
        found = check_equal(quiet, lines, beam=beam)
        for of_line, start in zip(found, starts, strict=True):
            assert of_line[0].text.startswith(start)


@pytest.mark.parametrize("limit", [4, 30])
@pytest.mark.parametrize("beam", [1, 3])
def test_given_tokens_are_not_part_of_translation(quiet: Pair, beam: int, limit: int) -> None:
    asked = [
        Sentence("", "", list(range(300, 300 + n)), 0, limit, given=list(range(310, 310 + n_given)))
        for n, n_given in [(4, 0), (7, 3), (2, 5), (9, 9)]
    ]
    native, other = (
        dict(
            pair
            for batch in each.searcher.search(asked, SearchConfig(beam=beam), 1)
            for pair in zip(*batch, strict=True)
        )
        for each in quiet  # type: ignore[attr-defined]
    )
    for number, [hypothesis] in native.items():
        [found] = other[number]
        assert (list(found.ids), found.finished) == (list(hypothesis.ids), hypothesis.finished)
        assert found.log_prob == pytest.approx(hypothesis.log_prob, abs=1e-3)
        assert found.score == pytest.approx(hypothesis.score, abs=1e-3)
        assert hypothesis.finished or len(hypothesis.ids) + 1 == limit


@pytest.mark.parametrize("kind", ["quiet", "eager"])
def test_samples_depend_on_seed_and_have_model_probabilities(kind: str, request: pytest.FixtureRequest) -> None:
    native, translator = request.getfixturevalue(kind)
    sample = {"sample": True, "temperature": 1.3, **at_most(41)}
    first = translations(translator, LINES, 4, **sample, seed=5)
    assert all(len(of_line) == 4 for of_line in first)
    assert len({str(each) for each in ids(first)[3:6]}) == 3
    assert ids(translations(translator, LINES, 4, **sample, seed=5)) == ids(first)
    assert ids(translations(translator, LINES, 4, **sample, seed=6)) != ids(first)
    ended = translations(translator, LINES, sample=True, temperature=0.5, max_length_offset=80)
    assert any(of_line[0].finished for of_line in ended)
    samples = [each for of_line in (*first, *ended) for each in of_line]
    values = native.forced_decoder().log_probs([(each.parts[0].src_ids, each.parts[0].tgt_ids) for each in samples])
    assert [each.log_prob for each in samples] == pytest.approx([math.fsum(each) for each in values], abs=1e-3)
    # of one piece, or of those that make up the least probability, there is nothing to draw
    greedy = ids(translations(translator, LINES, beam=1, **at_most(41)))
    assert ids(translations(translator, LINES, **sample, top_k=1)) == greedy
    assert ids(translations(translator, LINES, **sample, top_p=1e-4)) == greedy
    assert [len(of_line) for of_line in translations(translator, LINES, 3, **sample, top_k=1)] == [3] * len(LINES)


def test_forced_scores_equal_native_scores(plain: Pair) -> None:
    native, other = plain
    src, tgt = native.tokenizers["de"], native.tokenizers["en"]
    pairs = [(src.encode(line), tgt.encode(line[::-1])) for line in LINES]
    pairs.append((src.encode("mali"), []))
    wanted = native.forced_decoder().log_probs(pairs)
    for found, expected in zip(other.searcher.log_probs(pairs), wanted, strict=True):
        assert found == pytest.approx(expected, abs=1e-4)


def test_inline_terms_are_marked_in_sources(quiet: Pair) -> None:
    config = quiet[0].config
    changes = {"modifiers": {"terms": 0.1}, "glossary": "g.tsv"}
    trained = config.model_copy(update={"training": config.training.model_copy(update=changes)})
    conventions = conventions_of(trained.data, trained.training)
    native, engine = (replace(translator, config=trained, conventions=conventions) for translator in quiet)
    lines = [Line(line, glossary=Glossary({line.split()[0]: "re tago"})) for line in LINES if line.strip()]
    found = check_equal((native, engine), lines, inline_terms=True, beam=3)
    assert all(marked(best.parts[0].src_ids) for best, *_ in found)
    assert engine.translate(["mali bo"], glossary={"bo": "x"}, inline_terms=True)


# --- what it refuses ----------------------------------------------------------------------------------


def test_terms_and_attention_are_rejected(quiet: Pair) -> None:
    refused = "^terms are not supported by CTranslate2; use --engine native with a run or a folder export of it$"
    with pytest.raises(ConfigError, match=refused):
        translations(quiet[1], [Line("mali bo", terms=("re",))])
    with pytest.raises(ConfigError, match=refused):
        quiet[1].translate(["mali bo"], glossary={"re": "x"})
    with pytest.raises(ConfigError, match=r"^alignments, attention and scores .* need --engine native$"):
        quiet[1].forced_decoder()


@pytest.mark.parametrize(
    "setting",
    [
        {"length_penalty_kind": "gnmt"},
        {"coverage_penalty": 0.2},
        {"diversity_groups": 5},
        {"patience": 0.0},
        {"lm": "runs/lm"},
        {"protect": True},
    ],
    ids=lambda setting: next(iter(setting)),
)
def test_unsupported_setting_raises(setting: dict[str, object]) -> None:
    [name] = setting
    with pytest.raises(ConfigError, match=rf"^search\.{name}: .* not supported by CTranslate2; use --engine native$"):
        check_supported(SearchConfig(**setting))  # type: ignore[arg-type]


def test_source_beyond_positions_raises(tmp_path: Path) -> None:
    pair = both(tmp_path, positions="learned", max_positions=260)
    engine = pair[1].searcher
    assert engine.positions == 260
    assert len(engine.search_batch(sentences([[30] * 259], [9]), SearchConfig(beam=1), 1)[0][0].ids) <= 8
    [[found]] = engine.search_batch(sentences([[30] * 9], [1000]), SearchConfig(beam=1, min_length=400), 1)
    assert (len(found.ids), found.finished) == (259, False)
    with pytest.raises(DataError, match=r"^a line of 260 pieces is too long: .*exported accepts at most 259$"):
        engine.search_batch(sentences([[30] * 260], [9]), SearchConfig(), 1)
    long = " ".join(["mali"] * 400)
    check_equal(pair, [long], beam=1, **at_most(21), split="never")
