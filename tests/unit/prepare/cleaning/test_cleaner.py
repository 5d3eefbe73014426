"""Cleaning: every reason at its boundary, the order of reasons, and the counts."""

from __future__ import annotations

import re

import pytest

from held_out import held_out_of
from nmt.data.settings import DataConfig
from nmt.data.sources import TrainFiles
from nmt.prepare.cleaning import cleaner as cleaner_module
from nmt.prepare.cleaning.cleaner import Cleaner
from nmt.prepare.cleaning.counts import REASONS, counted
from nmt.prepare.cleaning.grouping import pair_hash
from nmt.prepare.pairs import SentencePair
from places import ROOT

FILES = TrainFiles(files={"de": "a.de", "en": "a.en"})
CONFIG = DataConfig(direction="de-en", train=[FILES], valid=FILES, max_chars=50, max_ratio=2.0)
HELD_OUT = held_out_of([SentencePair("Guten Tag. ", "Good day.", ""), SentencePair("Ja.", " Yes.", "")])


def reason(src: str, tgt: str) -> str | None:
    """Return why a pair is dropped, or None if it is kept."""
    cleaner = Cleaner(CONFIG, "train.0", HELD_OUT)
    kept = cleaner.clean(SentencePair(src, tgt, "c"))
    dropped = list(cleaner.report.dropped)
    assert (kept is None) == (len(dropped) == 1)
    return dropped[0] if dropped else None


@pytest.mark.parametrize(
    ("src", "tgt", "expected"),
    [
        ("Hund", "dog", None),
        ("", "dog", "empty"),
        ("Hund", " \t\u00a0\u2028", "empty"),
        ("\u200b \ufeff", "dog", "empty"),
        ("", "", "empty"),
        ("Guten Tag.", "Good day.", "overlap"),
        (" Guten Tag.", "Good day. ", "overlap"),
        ("Guten Tag.", "Yes.", "overlap"),
        ("Guten Tag.", "Hello.", None),
        ("Hallo.", "Good day.", None),
        ("Good day.", "Guten Tag.", None),
        ("a\x00b", "ab", "control"),
        ("ab", "a\x0cb", "control"),
        ("ab", "a\u0085b", "control"),
        ("a\rb", "ab", "control"),
        ("a\tb", "a b", None),
        ("a\u2028b", "ab", None),
        ("x" * 50, "y" * 50, None),
        ("x" * 51, "y" * 50, "long"),
        ("x" * 50, "y" * 51, "long"),
        ("x" * 5, "y" * 25, None),
        ("x" * 5, "y" * 26, "ratio"),
        ("x" * 26, "y" * 5, "ratio"),
        ("x", "y" * 17, None),
        ("Berlin", "Berlin ", "copied"),
        ("Berlin", "berlin", None),
        ("\U0001f600" * 50, "x" * 50, None),
        # the first of several reasons
        ("", "a\x00b", "empty"),
        ("a\x00" + "x" * 60, "y", "control"),
        ("x" * 60, "y", "long"),
        ("x" * 60, "x" * 60, "long"),
    ],
)
def test_drop_reason_changes_at_boundary(src: str, tgt: str, expected: str | None) -> None:
    assert reason(src, tgt) == expected


NATO = (
    "The foreign ministers of the member states of the North Atlantic Treaty Organization are going to discuss the "
    "situation in Afghanistan on Thursday."
)


@pytest.mark.parametrize(
    ("english", "language", "tgt", "expected"),
    [
        (NATO, "zh", "北约外长周四讨论阿富汗局势。", None),
        (NATO, "jpn", "北大西洋条約機構の外相は木曜日にアフガン情勢を協議する。", None),
        (NATO, "ko", "북대서양조약기구 외무장관들이 목요일 아프간 정세를 논의한다.", None),
        (NATO, "zh", "北约外长周四讨论阿富汗局势。" * 15, "ratio"),
        (NATO, "de", "x" * 14, "ratio"),
        # Latin letters in the other text count once
        ("A/1/2", "zh", "A/1/2 (Report of the Committee, second session, first part)", None),
        (
            "Example Desk 3 Home Edition (x64)",
            "zh",
            "Example Desk 3 Home Edition (x64, Simplified Chinese), 下载",
            None,
        ),
        ("Report of the Committee, second session, first part (A/1/2)", "zh", "报告", None),
        ("Yes.", "zh", "委员会第二届会议第一部分的报告，第三部分", "ratio"),
    ],
)
def test_length_ratio_allows_for_dense_scripts(english: str, language: str, tgt: str, expected: str | None) -> None:
    files = TrainFiles(files={"en": "a.en", language: "a.x"})
    cleaner = Cleaner(DataConfig(direction=f"en-{language}", train=[files], valid=files), "train.0", HELD_OUT)
    pair = (english, tgt) if language > "en" else (tgt, english)  # in alphabetical order
    cleaner.clean(SentencePair(*pair, "c"))
    assert next(iter(cleaner.report.dropped), None) == expected


def test_drop_reasons_are_documented() -> None:
    table = (ROOT / "docs" / "your-data.md").read_text(encoding="utf-8").partition("| reason | meaning")[2]
    first_cells = [line.split("|")[1] for line in table.partition("\n\n")[0].splitlines()[2:]]
    assert re.findall(r"`(\w+)`", " ".join(first_cells)) == list(REASONS)
    assert re.findall(r"^(\w+)  +\S", cleaner_module.__doc__ or "", re.MULTILINE) == list(REASONS)


def test_pair_hash_differs_for_different_pairs() -> None:
    assert pair_hash("Hund", "dog") == pair_hash("Hund", "dog")
    others = [("Hund", "hound"), ("Köter", "dog"), ("Hun", "ddog"), ("dog", "Hund")]
    assert len({pair_hash(*pair) for pair in [("Hund", "dog"), *others]}) == 5


def test_overlap_is_counted_before_other_reasons() -> None:
    held_out = held_out_of(SentencePair(text, text, "") for text in ("z" * 60, "same"))
    cleaner = Cleaner(CONFIG, "train.0", held_out)
    for text in ("z" * 60, "same", "same"):
        assert cleaner.clean(SentencePair(text, text, "c")) is None
    assert cleaner.report.dropped == {"overlap": 3}


def test_report_has_counts_and_samples() -> None:
    cleaner = Cleaner(CONFIG, "train.0", HELD_OUT)
    assert cleaner.clean(SentencePair(" Hund  und Katze\u00a0", "dog  and cat\n", "c")) == SentencePair(
        "Hund  und Katze", "dog  and cat", "c"
    )
    for pair in [*((f"{i}", "") for i in range(5)), ("x" * 1000, "y"), ("Ja.", "Yes.")]:
        cleaner.clean(SentencePair(*pair, "c"))
    assert (cleaner.report.read, cleaner.report.kept) == (8, 1)
    assert list(cleaner.report.dropped_in_order.items()) == [("empty", 5), ("overlap", 1), ("long", 1)]
    assert cleaner.report.samples["empty"] == [(2, "0", ""), (3, "1", ""), (4, "2", "")]
    assert cleaner.report.samples["long"] == [(7, "x" * 120, "y")]
    assert counted(cleaner.report.dropped_in_order) == "empty side 5, in a dev or test set 1, too long (characters) 1"
    assert set(cleaner.report.dropped) <= set(REASONS)
