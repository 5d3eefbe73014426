"""Terms inline: marks in text and in ids."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.config import SearchConfig
from nmt.text.constraints import Glossary, constraint_spans
from nmt.text.inline import encode_marked, mark_terms, marked, shown, without_translations
from nmt.text.tokenizer import CONTROL, Tokenizer
from nmt.translate.align import src_word_shares
from tiny_run import tiny_tokenizer

OFF = SearchConfig()
GLOSSARY = Glossary({"Hund": "dog", "rote Katze": "red cat", "我": "\x01I"})

PARTS = ["Hund", "rote Katze", "我", " ", "a", ".", "\u2581", "é", "\x02"]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return tiny_tokenizer()


def of(text: str) -> str:
    return mark_terms(text, constraint_spans(text, OFF, GLOSSARY))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Hund", "\x01Hund\x02 dog\x03"),
        ("Der Hund.", "Der\x01 Hund\x02 dog\x03."),
        ("(Hund) rote Katze", "(\x01Hund\x02 dog\x03)\x01 rote Katze\x02 red cat\x03"),
        ("\x01a\x02 Hund\x03", " a \x01 Hund\x02 dog\x03 "),
        ("不我不", "不\x01我\x02  I\x03不"),
        ("Katze", "Katze"),
    ],
)
def test_marks_are_around_terms(text: str, wanted: str) -> None:
    assert of(text) == wanted


@pytest.mark.parametrize("text", ["ta bore.", "bore, ta?", "(bore)"])
def test_words_have_the_pieces_that_they_have_in_other_lines(tokenizer: Tokenizer, text: str) -> None:
    ids = encode_marked(tokenizer, mark_terms(text, Glossary({"bore": "dog"}).spans(text)))
    [(_, translation)] = marked(ids)
    assert [i for i in without_translations(ids) if i not in (4, 6)] == tokenizer.encode(text)
    assert [*ids[translation]] == [5, *tokenizer.encode("dog")]


def test_marks_can_be_shown() -> None:
    assert shown(of("Der Hund.")) == "Der <reserved_0> Hund <reserved_1> dog <reserved_2>."
    assert shown(of("Hund")) == "<reserved_0>Hund <reserved_1> dog <reserved_2>"


def test_what_is_cut_off_is_still_a_translation() -> None:
    assert marked([4, 30, 31, 5, 32, 33]) == [(slice(0, 3), slice(3, 6))]
    assert marked([20, 4, 30]) == []
    assert without_translations([20, 4, 30, 5, 31, 6, 21, 4, 32, 5, 33]) == [20, 4, 30, 6, 21, 4, 32]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(PARTS), max_size=8).map("".join))
def test_ids_are_those_of_the_line_with_translations_between_marks(tokenizer: Tokenizer, text: str) -> None:
    ids = encode_marked(tokenizer, of(text))
    plain = CONTROL.sub(" ", text)
    assert tokenizer.decode(without_translations(ids)) == plain
    places = marked(ids)
    assert len(places) == len(list(constraint_spans(text, OFF, GLOSSARY)))
    for term, translation in places:
        assert tokenizer.decode(ids[term]).strip() + "=" + tokenizer.decode(ids[translation]).strip() in (
            "Hund=dog", "rote Katze=red cat", "我=I",
        )  # fmt: skip
    assert len(src_word_shares(tokenizer, ids)) == len(plain.split())
