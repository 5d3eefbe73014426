"""Reports on cleaning: the reports on the parts of a corpus add up to the report on the whole."""

from __future__ import annotations

import json
import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from held_out import held_out_of
from nmt.data.settings import DataConfig
from nmt.data.sources import TrainFiles
from nmt.prepare.cleaning.cleaner import Cleaner
from nmt.prepare.cleaning.counts import CHARS, CleanReport, LengthCounts
from nmt.prepare.pairs import SentencePair

FILES = TrainFiles(files={"de": "a.de", "en": "a.en"})
CONFIG = DataConfig(direction="de-en", train=[FILES], valid=FILES, max_chars=12, max_ratio=2.0)
TEXTS = st.text(st.sampled_from("ab \x00ß"), max_size=14)
PAIRS = st.lists(st.tuples(TEXTS, TEXTS), max_size=60)


def report_on(pairs: list[tuple[str, str]], first: int = 0) -> CleanReport:
    """Return the report on a part of a corpus; `first` lines are before it."""
    cleaner = Cleaner(CONFIG, "train.0", held_out_of([]))
    cleaned = [(line, cleaner.clean(SentencePair(*pair, "c"))) for line, pair in enumerate(pairs, start=first + 1)]
    report = cleaner.finish()
    for line, (src, _) in enumerate(pairs, start=1):
        if "ß" in src:
            report.repair("encoding", line, src, "")
    report.renumber(lambda line: line + first)
    kept = [(line, pair) for line, pair in cleaned if pair is not None]
    lines = np.array([line for line, _ in kept], np.int64)
    report.keep(lines, [pair.src for _, pair in kept], [pair.tgt for _, pair in kept])
    report.mix = {"de": {"de": len(pairs)}, "en": {"en": sum("a" in tgt for _, tgt in pairs)}}
    return report


@settings(max_examples=60)
@given(PAIRS, st.integers(0, 60), st.integers(0, 60))
def test_counts_of_parts_add_up(pairs: list[tuple[str, str]], one: int, other: int) -> None:
    cuts = [0, *sorted(min(cut, len(pairs)) for cut in (one, other)), len(pairs)]
    parts = [report_on(pairs[start:end], start) for start, end in pairwise(cuts)]
    added, copied = CleanReport(), CleanReport()
    for part in parts:
        added.add(part)
        copied.add(CleanReport.from_json(json.loads(json.dumps(part.to_json()))))
    whole = report_on(pairs)
    assert added.to_json() == copied.to_json() == whole.to_json()
    assert sum(whole.read_lengths.src) == sum(whole.read_lengths.tgt) == len(pairs)
    assert sum(whole.kept_lengths.src) == sum(whole.kept_lengths.ratio) == whole.kept


def test_lengths_fall_into_their_bins() -> None:
    lengths = LengthCounts()
    lengths.count(range(5000), [1] * 5000)
    assert lengths.src == [later - edge for edge, later in zip([0, *CHARS], [*CHARS, 5000], strict=True)]
    assert lengths.tgt == [0, 5000] + [0] * (len(CHARS) - 1)


@pytest.mark.parametrize("n", [100, 10_007])
def test_kept_samples_are_spread(n: int) -> None:
    report = CleanReport()
    order = list(range(1, n + 1))
    random.Random(1).shuffle(order)
    for start in range(0, n, 1000):
        own = order[start : start + 1000]
        report.keep(np.array(own), ["x" * 500] * len(own), list(map(str, own)))
    lines = sorted(line for _, line, *_ in report.kept_samples)
    assert len(lines) == 10
    assert max(b - a for a, b in zip([0, *lines], [*lines, n], strict=True)) < n / 4
    assert all(len(src) == 120 and tgt == str(line) for _, line, src, tgt in report.kept_samples)
