"""Modifiers of training pairs."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.text.augmentation import (
    drop_end_punctuation,
    lower_case,
    noise,
    placeholders,
    tags,
    terms,
    title_case,
    typos,
    upper_case,
)
from nmt.text.constraints import END, MARKS, TERM, TRANSLATION, Glossary, protected
from nmt.text.tokenizer import CONTROL, is_blank

GLOSSARY = Glossary({"Hund": "dog", "rote Katze": "red cat", "Maus": "mouse", "wörter": "words"})
WORDS = [
    "Hund", "rote", "Katze", "der", "läuft", "Maus", "dog", "red", "cat", "runs", "Berlin", "Zürich", "schläft", "7",
    "УТРО", "мышь", "ςερτ", "我喜欢", "的", "ひと", "नमस्ते", "שלום", "مرحبا", "e\u0301cole", "İI", "ıi", "ß", "ﬁ", "ŉ",
    "https://example.org/A_b?c=D", "me@Example.org", "{Name}", "%s", "<b>", "</b>", "&amp;", "$HOME", "don't", "...",
    "3,5", "50%", "?!", "。", "x", "\U0001f600", "\u0301", "\u200d", "\u2581", "(", "„Hund“", "-",
]  # fmt: skip
LINES = st.one_of(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=9).map(" ".join),
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=30),
).filter(lambda line: not is_blank(line))
SEEDS = st.integers(0, 2**64 - 1)
KEEPING = {
    "upper_case": upper_case,
    "upper_case_tr": partial(upper_case, languages=("tr", "az_AZ")),
    "title_case": title_case,
    "lower_case": partial(lower_case, languages=("tr", "en")),
    "typos": typos,
    "drop_end_punctuation": drop_end_punctuation,
    "tags": tags,
    "terms": partial(terms, glossary=GLOSSARY),
}
ALL = {**KEEPING, "noise": noise, "placeholders": placeholders}


@pytest.mark.parametrize("name", ALL)
@settings(max_examples=25, deadline=None)
@given(src=LINES, tgt=LINES, seed=SEEDS)
def test_modified_pair_is_deterministic(name: str, src: str, tgt: str, seed: int) -> None:
    modify = ALL[name]
    pair = modify(src, tgt, Random(seed))
    assert pair == modify(src, tgt, Random(seed))
    for old, new in zip((src, tgt), pair, strict=True):
        assert not is_blank(new)
        assert set(CONTROL.findall(new)) <= (set(MARKS) if name == "terms" and old is src else set())
        new.encode()  # no half of a surrogate pair


@pytest.mark.parametrize("name", KEEPING)
@settings(max_examples=25, deadline=None)
@given(src=LINES, tgt=LINES, seed=SEEDS)
def test_modifiers_leave_copied_text_unchanged(name: str, src: str, tgt: str, seed: int) -> None:
    for old, new in zip((src, tgt), KEEPING[name](src, tgt, Random(seed)), strict=True):
        position = 0
        for text in protected(old):
            position = new.find(text, position) + len(text)
            assert position >= len(text), (text, new)


@settings(max_examples=25, deadline=None)
@given(src=LINES, seed=SEEDS)
def test_placeholders_are_equal_on_both_sides_and_recognised(src: str, seed: int) -> None:
    both = f"ja, {src} , Potsdam", f"yes: {src} , Potsdam !"
    new_src, new_tgt = placeholders(*both, Random(seed))
    assert (new_src, new_tgt) != both
    new = [text for text in protected(new_src) if text not in protected(both[0])]
    assert set(new) <= set(protected(new_tgt))


SRC = "Der Hund von Maria aus Köln frisst 12 Mäuse, siehe www.a.de!"
TGT = "Maria's dog from Köln eats 12 mice, see www.a.de."


def draws(modify: object, src: str = SRC, tgt: str = TGT, n: int = 60) -> set[tuple[str, str]]:
    return {modify(src, tgt, Random(seed)) for seed in range(n)}


@pytest.mark.parametrize(
    ("modify", "languages", "pair", "expected"),
    [
        (upper_case, ("", ""), (SRC, TGT), ("DER HUND VON MARIA AUS KÖLN FRISST 12 MÄUSE, SIEHE www.a.de!",
                                             "MARIA'S DOG FROM KÖLN EATS 12 MICE, SEE www.a.de.")),
        (title_case, ("", ""), ("don’t e\u0301te\u0301 {name} öl iPhone 3d", "ab-cd"),
         ("Don’t E\u0301te\u0301 {name} Öl IPhone 3d", "Ab-Cd")),
        (lower_case, ("", ""), ("Der %S Hund in HTTP://A.de", "The Dog"), ("der %s hund in http://a.de", "The Dog")),
        (lower_case, ("", ""), ("Das ${Name} UND", "The Dog"), ("das ${Name} und", "The Dog")),
        (upper_case, ("", ""), ("Straße", "street"), ("STRASSE", "STREET")),
        (upper_case, ("tr_TR", "en"), ("ılık iyi", "big ice"), ("ILIK İYİ", "BIG ICE")),
        (upper_case, ("tur_Latn", "azj"), ("ılık iyi", "big ice"), ("ILIK İYİ", "BİG İCE")),
        (title_case, ("az", "tr"), ("ılık iyi", "big ice"), ("Ilık İyi", "Big İce")),
        (lower_case, ("tr", "en"), ("ILIK İYİ", "BIG"), ("ılık iyi", "BIG")),
    ],
)  # fmt: skip
def test_case_modifiers_change_case(
    modify: Callable[..., tuple[str, str]],
    languages: tuple[str, str],
    pair: tuple[str, str],
    expected: tuple[str, str],
) -> None:
    assert modify(*pair, Random(0), languages=languages) == expected


@pytest.mark.parametrize(
    ("src", "tgt", "new"),
    [
        ("Gut.", "Good.", ("Gut", "Good")),
        ("Gut !  ", "好。", ("Gut", "好")),
        ("Gut...", "Good…", ("Gut", "Good")),
        ("Gut", "Good.", ("Gut", "Good.")),
        ("Gut.", "Good", ("Gut.", "Good")),
        ("...", "Good.", ("...", "Good.")),
        ("Gut,", "Good,", ("Gut,", "Good,")),
        ("Nimm {a.b}.", "Take {a.b}.", ("Nimm {a.b}", "Take {a.b}")),
        ("Nimm https://a.de\u061f", "Take https://a.de.", ("Nimm https://a.de\u061f", "Take https://a.de.")),
    ],
)
def test_end_punctuation_is_dropped_on_both_sides(src: str, tgt: str, new: tuple[str, str]) -> None:
    assert drop_end_punctuation(src, tgt, Random(0)) == new


def test_typos_change_only_alphabetic_source_words() -> None:
    found = draws(typos)
    assert {tgt for _, tgt in found} == {TGT} and len(found) > 30
    for src, _ in found:
        assert src != SRC and {"12", "von", "aus", "www.a.de!"} <= set(src.split())
        assert all(new[0] == old[0] for new, old in zip(src.split(), SRC.split(), strict=True))
    for line in ("我喜欢 的夏天的夏天", "abc def", "नमस्ते", "https://example.org", "e\u0301cole"):
        assert draws(typos, line) == {(line, TGT)}
    kinds = draws(typos, "mond", n=200)
    assert {"mnod", "mnd", "moond", "mpnd", "mond"} - {src for src, _ in kinds} == {"mond"}
    assert ("утор", TGT) in draws(typos, "утро", n=200)


def test_noise_is_equal_on_both_sides_and_has_source_length() -> None:
    found = draws(noise)
    assert len(found) == 60 and all(src == tgt for src, tgt in found)
    assert {len(src.replace(" ", "")) for src, _ in found} == {len(SRC) // 4}
    assert {len(src.replace(" ", "")) for src, _ in draws(noise, "x" * 1000)} == {40}


def test_placeholder_modifier_replaces_shared_text() -> None:
    found = draws(placeholders, n=200)
    gone = {text for text in ("Köln", "Maria", "Hund", "12", "www.a.de") for src, _ in found if text not in src}
    assert gone == {"Köln", "12", "www.a.de"}  # Maria begins the target, where any word has a capital
    assert ("Der Hund von Maria aus Köln frisst %d Mäuse, siehe www.a.de!", TGT.replace("12", "%d")) in found
    assert draws(placeholders, "Hund 7 oder 7", "dog 7 or 7") == {("Hund 7 oder 7", "dog 7 or 7")}


def test_tags_surround_same_text_on_both_sides() -> None:
    found = draws(tags, n=500)
    assert (f"<b>{SRC}</b>", f"<b>{TGT}</b>") in found
    assert (SRC.replace("12", "<em>12</em>"), TGT.replace("12", "<em>12</em>")) in found
    assert (f"<br/>{SRC}", f"<br/>{TGT}") in found
    for src, tgt in found:
        new = set(protected(src)) - set(protected(SRC))
        assert new and new == set(protected(tgt)) - set(protected(TGT))


def test_terms_are_marked_with_their_translations() -> None:
    modify = partial(terms, glossary=GLOSSARY)
    found = draws(modify, "Der Hund schläft.", "The dog sleeps.", n=200)
    told = {
        other: (f"Der\x01 Hund\x02 {other}\x03 schläft.", f"The {other} sleeps.") for other in GLOSSARY.translations
    }
    assert found > set(told.values()) and set(told) == {"dog", "red cat", "mouse", "words"}
    letters = [sorted(word.replace(" ", "")) for word in told]
    for src, tgt in found:  # or a made-up word, the same in both
        word = tgt.removeprefix("The ").removesuffix(" sleeps.")
        assert src == f"Der\x01 Hund\x02 {word}\x03 schläft." and sorted(word.replace(" ", "")) in letters
    usual = [modify("Der Hund schläft.", "The dog sleeps.", Random(seed)) for seed in range(400)].count(told["dog"])
    assert 0.55 < usual / 400 < 0.7
    assert ("\x01Hund\x02 dog\x03!", "dog!") in draws(modify, "Hund!", "dog!")
    for tgt in ("The hound sleeps.", "The dogs sleep."):
        assert modify("Der Hund schläft.", tgt, Random(0)) == ("Der Hund schläft.", tgt)


def test_share_of_terms_is_marked() -> None:
    found = draws(partial(terms, glossary=GLOSSARY), "Hund, rote Katze und Hund", "dog and red cat", n=200)
    assert {src.count(TERM) for src, _ in found} == {1, 2}
    assert all(src.count("Hund\x02") <= 1 and src.count(TRANSLATION) == src.count(TERM) for src, _ in found)
    for src, tgt in found:
        assert all(re.search(rf"\b{part.split(END)[0].strip()}\b", tgt) for part in src.split(TRANSLATION)[1:])
    # which of the two dogs it is cannot be known
    both = draws(partial(terms, glossary=Glossary({"Hund": "dog", "Maus": "mouse"})), "Hund, Hund", "dog, dog", n=200)
    assert {tgt for _, tgt in both} == {"dog, dog"}
