"""Signs of translations that went wrong."""

from __future__ import annotations

import pytest

from nmt.evaluate.robustness import Signs, count_signs


def signs(source: str, translation: str, reference: str, languages: tuple[str, str] = ("de", "en")) -> Signs:
    return count_signs([source], [translation], [reference], languages)


NOTHING = Signs(0, 0, 0, 0)
LONG = "one two three four five six seven eight"


@pytest.mark.parametrize(
    ("source", "translation", "reference", "expected"),
    [
        ("Guten Tag", "Good day", "Good day", NOTHING),
        ("Guten Tag", " ", "Good day", Signs(1, 0, 0, 0)),
        ("Guten Tag", "Guten Tag ", "Good day", Signs(0, 1, 0, 0)),
        ("Berlin", "Berlin", "Berlin", NOTHING),
        ("Hallo", "no no no no no", "no no no no no", NOTHING),
        ("Hallo", "no no no no no no", "no no no no no", Signs(0, 0, 1, 0)),
        ("nein nein nein nein", "no no no no no no", "no no no no no", Signs(0, 0, 1, 0)),
        ("nein nein nein nein nein", "no no no no no no", "no no no no no", NOTHING),
        ("Hallo", " ".join([LONG] * 3), " ".join([LONG] * 3), Signs(0, 0, 1, 0)),
        ("Hallo", " ".join([LONG] * 2), " ".join([LONG] * 2), NOTHING),
        ("abc", "x" * 10, "y" * 20, NOTHING),
        ("abc", "x" * 9, "y" * 20, Signs(0, 0, 0, 1)),
        ("abc", "x" * 40, "y" * 20, NOTHING),
        ("abc", "x" * 41, "y" * 20, Signs(0, 0, 0, 1)),
        ("", "", "", NOTHING),
        ("abc", "abc", "", NOTHING),
        ("", "x", "y" * 9, NOTHING),
    ],
)
def test_signs_of_one_translation(source: str, translation: str, reference: str, expected: Signs) -> None:
    assert signs(source, translation, reference) == expected


def test_repetition_counts_characters_without_spaces() -> None:
    repeated = "我喜欢茶" * 3
    assert signs("Ich mag Tee", repeated, repeated, ("de", "zh")).repeated == 1
    assert signs("Ich mag Tee", repeated, repeated, ("de", "en")).repeated == 0
    assert signs("我喜欢茶", "tea " * 6, "tea " * 6, ("zh", "en")).repeated == 1
    assert signs(repeated, "tea " * 6, "tea " * 6, ("zh", "en")).repeated == 0


def test_signs_are_summed_over_lines() -> None:
    counted = count_signs(["a", "b", "c", "d"], ["", "b", "", "x"], ["w", "x", "y", "z"], ("de", "en"))
    assert counted == Signs(empty=2, copied=1, repeated=0, length=0)
