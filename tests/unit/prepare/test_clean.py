"""Cleaning: every reason at its boundary, their order, and what is counted."""

from __future__ import annotations

import pytest

from nmt.config import DataConfig, Source
from nmt.prepare.clean import REASONS, Cleaner, counted
from nmt.prepare.pairs import SentencePair

FILES = Source(files={"de": "a.de", "en": "a.en"})
CONFIG = DataConfig(direction="de-en", train=[FILES], valid=FILES, max_chars=50, max_ratio=2.0)
DEV_SRC, DEV_TGT = ["Guten Tag. ", "Ja."], ["Good day.", " Yes."]


def reason(*pairs: tuple[str, str]) -> str | None:
    """Why the last pair is dropped; None if it is kept."""
    cleaner = Cleaner(CONFIG, DEV_SRC, DEV_TGT)
    for src, tgt in pairs[:-1]:
        cleaner.clean(SentencePair(src, tgt, "c"))
    before = dict(cleaner.report.dropped)
    kept = cleaner.clean(SentencePair(*pairs[-1], "c"))
    dropped = [name for name, n in cleaner.report.dropped.items() if n > before.get(name, 0)]
    assert (kept is None) == (len(dropped) == 1)
    return dropped[0] if dropped else None


@pytest.mark.parametrize(
    ("src", "tgt", "expected"),
    [
        ("Hund", "dog", None),
        ("", "dog", "empty"),
        ("Hund", " \t\u00a0\u2028", "empty"),
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
    ],
)
def test_each_reason_at_its_boundary(src: str, tgt: str, expected: str | None) -> None:
    assert reason((src, tgt)) == expected


def test_duplicates_are_pairs_seen_before() -> None:
    assert reason(("Hund", "dog"), ("Hund", "dog")) == "duplicate"
    assert reason(("Hund", "dog"), (" Hund", "dog\t")) == "duplicate"
    assert reason(("Hund", "dog"), ("Hund", "hound")) is None
    assert reason(("Hund", "dog"), ("Köter", "dog")) is None
    assert reason(("ab", "c"), ("a", "bc")) is None


@pytest.mark.parametrize(
    ("src", "tgt", "expected"),
    [
        ("", "a\x00b", "empty"),
        ("a\x00" + "x" * 60, "y", "control"),
        ("x" * 60, "y", "long"),
        ("x" * 60, "x" * 60, "long"),
    ],
)
def test_a_pair_is_counted_under_the_first_reason(src: str, tgt: str, expected: str) -> None:
    assert reason((src, tgt)) == expected


def test_an_overlap_is_counted_before_other_reasons() -> None:
    cleaner = Cleaner(CONFIG, ["z" * 60, "same"], ["z" * 60, "same"])
    for text in ("z" * 60, "same", "same"):
        assert cleaner.clean(SentencePair(text, text, "c")) is None
    assert cleaner.report.dropped == {"overlap": 3}


def test_the_report() -> None:
    cleaner = Cleaner(CONFIG, DEV_SRC, DEV_TGT)
    assert cleaner.clean(SentencePair(" Hund  und Katze\u00a0", "dog  and cat\n", "c")) == SentencePair(
        "Hund  und Katze", "dog  and cat", "c"
    )
    for i in range(5):
        cleaner.clean(SentencePair(f"{i}", "", "c"))
    cleaner.clean(SentencePair("x" * 1000, "y", "c"))
    cleaner.clean(SentencePair("Ja.", "Yes.", "c"))
    assert (cleaner.report.read, cleaner.report.kept) == (8, 1)
    assert list(cleaner.report.dropped_in_order.items()) == [("empty", 5), ("overlap", 1), ("long", 1)]
    assert cleaner.report.samples["empty"] == [(2, "0", ""), (3, "1", ""), (4, "2", "")]
    assert cleaner.report.samples["long"] == [(7, "x" * 120, "y")]
    assert counted(cleaner.report.dropped_in_order) == "empty side 5, in a dev or test set 1, too long (characters) 1"
    assert set(cleaner.report.dropped) <= set(REASONS)
