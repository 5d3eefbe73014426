"""Features computed by tiny models equal what `nmt score` says of the same pairs."""

from __future__ import annotations

import math

import pytest

from nmt.config import SearchConfig
from nmt.recipes.rerank import Candidate, channel, direct, length, rescored
from nmt.text.tokenizer import Tokenizer
from nmt.translate.translator import Translator
from tiny_run import PLAIN

PAIRS = [(PLAIN[0], Candidate(PLAIN[1], -0.5)), (PLAIN[0], Candidate(PLAIN[3], -0.75)), ("", Candidate("", 0.0))]
MEANS, SUMS = SearchConfig(), SearchConfig(length_penalty=0.0)


@pytest.mark.parametrize("search", [MEANS, SUMS])
def test_both_directions_are_scored(translator: Translator, search: SearchConfig) -> None:
    *there, blank = rescored("other", translator, search).values(PAIRS)
    assert there == [one.score for one in translator.score([(PLAIN[0], PLAIN[1]), (PLAIN[0], PLAIN[3])], search)]
    *back, blank_too = channel(translator, search).values(PAIRS)
    assert back == [one.score for one in translator.score([(PLAIN[1], PLAIN[0]), (PLAIN[3], PLAIN[0])], search)]
    assert there != back and math.isnan(blank) and math.isnan(blank_too)


def test_the_length_is_counted_in_pieces(translator: Translator, tokenizer: Tokenizer) -> None:
    source, *targets = (len(tokenizer.encode(PLAIN[number])) + 1 for number in (0, 1, 3))
    assert length(translator, SUMS).values(PAIRS) == [*targets, 1]
    assert length(translator, MEANS).values(PAIRS) == [*(target / source for target in targets), 1]


def test_the_score_of_search_is_taken_as_it_is() -> None:
    assert direct().values(PAIRS) == [-0.5, -0.75, 0.0]


def test_pairs_that_are_cut_are_counted(translator: Translator, capsys: pytest.CaptureFixture[str]) -> None:
    long = " ".join(PLAIN * 200)
    [score] = channel(translator, MEANS).values([(long, Candidate("mali", -1.0))])
    assert score < 0
    assert capsys.readouterr().err == (
        "nmt: channel: candidates scored as far as the model takes, since they or their lines are longer: 1\n"
    )
