"""Cleaning of monolingual text: reasons, repairs, and duplicates."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.data.settings import DataConfig
from nmt.data.sources import TrainFiles
from nmt.prepare.cleaning.cleaner import LineCleaner, SeenLines
from nmt.prepare.cleaning.settings import CleanConfig

HELD_OUT = ["Good day, world.", " Oil. ", "salt &amp; pepper"]


def cleaner(clean: CleanConfig | None = None, language: str = "en") -> LineCleaner:
    files = TrainFiles(files={"de": "a", "en": "a"})
    data = DataConfig(direction="de-en", train=[files], max_chars=30, clean=clean or CleanConfig())
    return LineCleaner(data, language, HELD_OUT)


@pytest.mark.parametrize(
    ("line", "reason", "clean"),
    [
        ("A dog.", None, None),
        (" \t ", "blank", None),
        ("\ufeff \u200b\u00ad\u200d", "blank", None),
        ("Good day, world.  ", "overlap", None),
        ("good day world", None, None),
        ("good day world 2", "overlap", CleanConfig(overlap="normal")),
        ("good day world 2", "overlap", CleanConfig(overlap="either")),
        ("Oil.", "overlap", None),
        ("salt &amp; pepper", "overlap", None),
        ("salt &amp; pepper", "overlap", CleanConfig(repair=["entities"])),
        ("salt & pepper", "overlap", CleanConfig(repair=["entities"])),
        ("SALT & pepper", "overlap", CleanConfig(repair=["entities"], overlap="normal")),
        ("salt & pepper", None, None),
        ("a\x00b", "control", None),
        ("a\x00b", None, CleanConfig(repair=["control"])),
        ("\x00", "blank", CleanConfig(repair=["control"])),
        ("x" * 30, None, None),
        ("x" * 31, "long", None),
        ("one two three", "words", CleanConfig(max_words=2)),
        ("one antidisestablish", "word", CleanConfig(max_word_chars=9)),
        ("ALL THESE ARE CAPITALS", "shouted", CleanConfig(drop=["shouted"])),
        ("вгдежзийкл", "script", CleanConfig(min_script=0.5)),
        ("www.a.example 77 <b>", None, CleanConfig(drop=["links", "tags", "numbers", "truncated"])),
        ("same", None, CleanConfig(drop=["copied"], misaligned=0.1)),
    ],
)
def test_line_is_dropped_for_expected_reason(line: str, reason: str | None, clean: CleanConfig | None) -> None:
    lines = cleaner(clean)
    text = lines.clean(line)
    assert lines.report.dropped == ({reason: 1} if reason else {})
    assert (lines.report.read, lines.report.kept) == (1, 0 if reason else 1)
    assert text == ("" if reason == "blank" else None if reason else line.replace("\x00", ""))


def test_only_settings_of_same_language_are_applied() -> None:
    # the list of the other language is not read
    assert cleaner(CleanConfig(block_lists={"de": "absent"})).clean("A word.") == "A word."
    assert cleaner(CleanConfig(min_script=0.5), "de").clean("вгдежзийкл") is None


def test_repairs_are_counted_with_their_samples() -> None:
    lines = cleaner(CleanConfig(repair=["entities", "spaces"]))
    assert lines.clean(" fish &amp;  chips") == "fish & chips"
    assert lines.clean("chips") == "chips"
    assert lines.report.repaired == {"entities": 1, "spaces": 1}
    assert lines.report.repaired_samples["entities"] == [(1, "fish &amp;  chips", "fish &  chips")]


@given(st.lists(st.lists(st.sampled_from("abcdefghij"), max_size=12), max_size=12))
def test_seen_lines_are_not_new(blocks: list[list[str]]) -> None:
    seen, known = SeenLines(), set[str]()
    for block in blocks:
        expected = []
        for line in block:
            expected.append(line not in known)
            known.add(line)
        assert seen.add(block).tolist() == expected


def test_seen_lines_use_eight_bytes_per_line() -> None:
    lines, seen = [f"line {n}" for n in range(5000)], SeenLines()
    random.Random(1).shuffle(lines)
    for start in range(0, len(lines), 50):
        assert seen.add(lines[start : start + 50]).all()
    assert len(seen._runs) <= 8
    assert (sum(map(len, seen._runs)), {run.dtype for run in seen._runs}) == (5000, {np.dtype(np.uint64)})
    assert not seen.add(lines).any()
