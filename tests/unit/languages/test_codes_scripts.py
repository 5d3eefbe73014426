"""The table of scripts, and the scripts of letters and texts."""

from __future__ import annotations

import itertools
import sys
import unicodedata

import pytest
import regex

from nmt.languages.codes import script_of, script_of_text, scripts

SCRIPTS = {script.code: script for script in scripts().values()}


@pytest.mark.parametrize(
    ("characters", "script"),
    [
        ("aßａﬁÆ\u212b", "Latn"), ("яѣ", "Cyrl"), ("αµ", "Grek"), ("中々のァｱー", "Hani"),
        ("한", "Hang"), ("عی", "Arab"),
        ("क", "Deva"), ("ก", "Thai"), ("აᲐ", "Geor"), ("ᱚ", "Olck"), ("ꯃ", "Mtei"), ("1।😀ʼ.", None),
    ],
)  # fmt: skip
def test_character_has_expected_script(characters: str, script: str | None) -> None:
    assert {script_of(character) for character in characters} == {script}


def test_script_of_every_letter_is_that_of_unicode() -> None:
    """Few letters are shared by several scripts. Beyond the scripts of few letters, every seventh is tested."""
    names = [code for code in SCRIPTS if code != "Zyyy"]
    patterns = {name: regex.compile(rf"\p{{Script={name}}}") for name in names if name != "Hani"}
    patterns["Hani"] = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Bopomofo}]")
    wrong = []
    for code in (*range(0x1800), *range(0x1800, 0x32000, 7)):
        character = chr(code)
        is_of_one_script = regex.match(r"[\p{L}--\p{Script=Common}]", character, regex.VERSION1)
        if is_of_one_script and character.isalpha() and unicodedata.is_normalized("NFKC", character):
            script = script_of(character)
            if script is None or not patterns[script].match(character):
                wrong.append(f"{code:04x}")
    assert wrong == []


def test_ranges_of_scripts_do_not_overlap() -> None:
    ranges = sorted(limits for script in SCRIPTS.values() for limits in script.ranges)
    assert all(before[1] < after[0] for before, after in itertools.pairwise(ranges))


def test_sentence_ends_are_those_of_unicode() -> None:
    """Except for the Burmese comma; the ellipsis, sof pasuq and the Greek question marks are added."""
    ends = {mark for script in SCRIPTS.values() for mark in script.sentence_ends}
    property_ = regex.compile(r"\p{Sentence_Terminal}")
    terminal = {chr(code) for code in range(sys.maxunicode + 1) if property_.match(chr(code))}
    assert terminal - ends == {"\u104a"}
    assert ends - terminal == set("…\u05c3;\u037e")


@pytest.mark.parametrize(
    ("texts", "share", "script"),
    [(["Это", "текст, OK?"], 0.7, "Cyrl"), (["Это OK ok ok"], 0.7, None), (["12 – !", ""], 0.0, None)],
)
def test_script_of_text_is_that_of_most_letters(texts: list[str], share: float, script: str | None) -> None:
    assert script_of_text(texts, share) == script
