"""The length ratio that is usual in a corpus."""

from __future__ import annotations

import pytest

from nmt.config import DataConfig
from nmt.config.clean import CleanConfig, CorpusClean
from nmt.config.source import TrainFiles
from nmt.prepare.cleaning.counts import REASONS
from nmt.prepare.cleaning.filters import LengthRatio, corpus_filters

FILES = {"de": "a.de", "en": "a.en"}


def pairs(*lengths: tuple[int, int]) -> list[tuple[str, str]]:
    return [("x" * src, "y" * tgt) for src, tgt in lengths]


USUAL = pairs(*((185 + n, 85) for n in range(31))) * 4
"""200 to 230 characters to 100, with 15 added to each side."""


def test_pairs_far_from_the_median_are_dropped() -> None:
    rule = LengthRatio(4.0)
    learned = rule.learn(USUAL)
    assert learned == rule.learn(USUAL) == rule.learn(USUAL[::-1])
    # the median is 215, the spread 7.5 or so: 3.5 %
    found = rule.dropped(learned, pairs((200, 85), (220, 85), (240, 85), (180, 85), (85, 85), (85, 200)))
    assert found.tolist() == [False, False, True, False, True, True]
    assert rule.dropped(learned, []).tolist() == []


@pytest.mark.parametrize("usual", [pairs((50, 50)) * 200, USUAL[:99], []])
def test_a_corpus_without_spread_or_with_few_pairs_does_not_lose_all_others(usual: list[tuple[str, str]]) -> None:
    rule = LengthRatio(6.0)
    assert rule.dropped(rule.learn(usual), pairs((50, 50), (50, 54), (50, 120))).tolist()[:2] == [False, False]


def test_the_setting() -> None:
    train = [TrainFiles(files=FILES), TrainFiles(files=FILES, clean=CorpusClean(max_ratio_spread=0.0))]
    data = DataConfig(direction="de-en", train=train, clean=CleanConfig(max_ratio_spread=5.0))
    assert corpus_filters(data, "train.0") == [LengthRatio(5.0)]
    assert corpus_filters(data, "train.1") == []
    assert LengthRatio(5.0).reason in REASONS and LengthRatio(5.0).per_corpus
