"""Contrasts of whole texts: they differ from the reference, and are a function of the seed and the line alone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.evaluate.contrasts.contrasts import Contrast, kinds_of, language_of, make_contrasts
from nmt.evaluate.contrasts.language import Language

LANGUAGES = ("de", "en", "es", "fr", "xx")
LINES = [
    ("Tom has 12 dogs, but they are not here today.", "Tom hat 12 Hunde, aber die sind heute nicht hier."),
    ("A man is sleeping.", "Ein Mann schläft."),
    ("", ""),
    ("My friends were here when it was late.", "Meine Freunde waren hier, als es schon sehr spät war."),
]
WORDS = (
    "der die Das ein Eine kein keine nicht Nicht ist sind Mann alte Frau und , . ? ! 12 1 07 zwei Tom is not isn't no "
    "never Will was I and two ne n'est pas est Il no es Se nunca dos „ “ ( ) ’ ' \u00a0 ß İ 你好， 世界 \u0663"
)
TEXT = st.one_of(st.lists(st.sampled_from(WORDS.split(" ")), max_size=12).map(" ".join), st.text(max_size=40))


def made(lines: list[tuple[str, str]], code: str = "de", seed: int = 1) -> list[Contrast]:
    return list(make_contrasts(lines, "test", language_of(code), seed))


@settings(max_examples=60)
@given(TEXT, TEXT, st.sampled_from(LANGUAGES))
def test_contrasts_differ_from_reference(source: str, reference: str, code: str) -> None:
    kinds = []
    for contrast in made([(source, reference)], code):
        assert contrast.changed != (reference,)
        assert (contrast.source, contrast.reference, contrast.origin) == (source, reference, "test.1")
        kinds.append(contrast.kind)
    assert kinds == [kind for kind in kinds_of(language_of(code)) if kind in kinds], "at most one of each kind"


@settings(max_examples=60)
@given(TEXT, st.sampled_from(LANGUAGES))
def test_edits_change_the_line(line: str, code: str) -> None:
    for change in language_of(code).changes().values():
        assert all(edit.apply(line) != line for edit in change(line))


def test_contrasts_depend_only_on_seed_and_line() -> None:
    assert made(LINES) == made(LINES)
    of_last = [(each.kind, each.changed) for each in made(LINES) if each.origin == "test.4"]
    assert [(each.kind, each.changed) for each in made(LINES[3:])] == of_last
    digits = {made([("12345678", "12345678")], seed=seed)[0].changed for seed in range(9)}
    assert len(digits) > 3, "the seed chooses"


def test_line_has_at_most_one_contrast_per_kind() -> None:
    found = made(LINES)
    assert [each.kind for each in found if each.origin == "test.1"] == [
        "name", "number", "clause dropped", "negation removed", "verb number",
    ]  # fmt: skip
    assert [each.kind for each in found if each.origin == "test.3"] == []


@pytest.mark.parametrize(("code", "known"), [("de", 7), ("de-CH", 7), ("DE_AT", 7), ("en", 6), ("fr", 5), ("sv", 3)])
def test_kinds_by_language(code: str, known: int) -> None:
    assert len(kinds_of(language_of(code))) == known
    assert (language_of(code) == Language()) == (code == "sv")
