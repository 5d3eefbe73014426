"""Contrasts: edits of each kind, and their dependence on the seed and the line only."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.evaluate.contrasts import (
    Contrast,
    ContrastLanguage,
    clauses,
    digits,
    kinds_of,
    language_of,
    make_contrasts,
    names,
)

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
@given(TEXT, TEXT, st.sampled_from(("de", "en", "xx")))
def test_contrasts_differ_from_reference(source: str, reference: str, code: str) -> None:
    kinds = []
    for contrast in made([(source, reference)], code):
        assert contrast.changed != (reference,)
        assert (contrast.source, contrast.reference, contrast.origin) == (source, reference, "test.1")
        kinds.append(contrast.kind)
    assert kinds == [kind for kind in kinds_of(language_of(code)) if kind in kinds], "at most one of each kind"


def test_contrasts_depend_only_on_seed_and_line() -> None:
    assert made(LINES) == made(LINES)
    of_last = [(each.kind, each.changed) for each in made(LINES) if each.origin == "test.4"]
    assert [(each.kind, each.changed) for each in made(LINES[3:])] == of_last
    digits = {made([("12345678", "12345678")], seed=seed)[0].changed for seed in range(9)}
    assert len(digits) > 3, "the seed determines the choice"


@pytest.mark.parametrize(
    ("code", "known"), [("de", 8), ("de-CH", 8), ("DE_AT", 8), ("deu_Latn", 8), ("en", 6), ("sv", 3)]
)
def test_number_of_kinds_depends_on_language(code: str, known: int) -> None:
    assert len(kinds_of(language_of(code))) == known
    assert (language_of(code) == ContrastLanguage()) == (code == "sv")


# --- Each kind of change ---


def changed(language: str, kind: str, line: str) -> list[str]:
    return [edit.apply(line) for edit in language_of(language).edits(line)[kind]]


# --- without knowledge of the language ----------------------------------------------------------


def test_number_change_alters_only_one_digit() -> None:
    found = {edit.apply("um 12.05 Uhr") for edit in digits("um 12.05 Uhr")}
    assert {"um 13.05 Uhr", "um 92.05 Uhr", "um 12.95 Uhr", "um 12.00 Uhr"} <= found
    assert "um 02.05 Uhr" not in found
    assert all(len(line) == len("um 12.05 Uhr") for line in found)
    assert {edit.apply("2 men") for edit in digits("2 men")} == {f"{n} men" for n in range(3, 10)}
    assert [*digits("1 man, no digit")] == []
    assert {edit.apply("٣") for edit in digits("٣")} == {*"٢٤٥٦٧٨٩"}


def test_name_change_swaps_letters_of_words_in_source() -> None:
    source, reference = "Maria wohnt in Köln.", "Maria lives in Cologne."
    assert [edit.apply(reference) for edit in names(source, reference)] == [
        f"{name} lives in Cologne." for name in ("Mraia", "Maira", "Marai")
    ]
    assert [*names("in Maria", "in maria Mariana")] == []
    assert [edit.apply("Anna") for edit in names("Anna", "Anna")] == ["Anan"]


@pytest.mark.parametrize(
    ("line", "conjunctions", "dropped"),
    [
        *((f"a b c{comma}d e f.", "", ["a b c."]) for comma in ["፣", "፤", "၊", "،", "；", ", "]),
        ("a b 1,000 e f.", "", []),
        ("He was very tired, because it was late. He left.", "and|because", ["He was very tired. He left."]),
        ("He was very tired and he went home", "and|because", ["He was very tired"]),
        ("One two three, four five six, seven eight nine!", "and|because",
         ["One two three!", "One two three, four five six!"]),
        ("Yes, he came home.", "and|because", []),  # too little would be left
        ("He came home late, yes.", "and|because", []),  # too little would be dropped
        ('He said it aloud, "I am so tired."', "and|because", []),  # a quotation mark would lose its partner
        ("Es kostet 3,50 Euro bei uns hier heute.", "and|because", []),
        ("他今天很累，所以他回家了。", "", ["他今天很累。"]),
    ],
)  # fmt: skip
def test_clause_is_dropped_to_end_of_sentence(line: str, conjunctions: str, dropped: list[str]) -> None:
    assert [edit.apply(line) for edit in clauses(line, conjunctions)] == dropped


# --- numbers in words ---------------------------------------------------------------------------


def test_changed_number_words_keep_case_and_magnitude() -> None:
    assert "Three men and a dog" in changed("en", "number", "Two men and a dog")
    assert "A three-year-old" in changed("en", "number", "A two-year-old")
    found = changed("en", "number", "ten million")
    assert {"eleven million", "ten billion"} <= {*found} and "twenty million" not in found and len(found) == 11
    assert changed("de", "number", "Millionen Menschen") == ["Milliarden Menschen"]
    assert "Drei Hunde" in changed("de", "number", "Zwei Hunde")
    assert changed("nl", "number", "twee katten") == []


# --- negation, agreement: a line with several forms of an error, or with none because it is ambiguous ---


CHANGES = {
    "negation removed": [
        ("en", "He does not sleep.", ["He does sleep."]),
        ("en", "He doesn't sleep.", ["He does sleep."]),
        ("en", "He doesn’t sleep.", ["He does sleep."]),
        ("en", "He cannot sleep.", ["He can sleep."]),
        ("en", "I can't sleep.", ["I can sleep."]),
        ("en", "They won't come.", ["They will come."]),
        ("en", "Not all dogs sleep.", ["All dogs sleep."]),
        ("en", "I never said that.", ["I said that."]),
        ("en", "He no longer works here.", ["He still works here."]),
        ("en", "There is no milk.", ["There is some milk."]),
        ("en", "No one came.", ["Someone came."]),
        ("de", "Er schläft nicht.", ["Er schläft."]),
        ("de", "Nicht alle Hunde schlafen.", ["Alle Hunde schlafen."]),
        ("de", "- Nicht unbedingt.", ["- Unbedingt."]),
        ("de", "„nicht so schnell“", ["„so schnell“"]),
        ("de", "Er ist noch nicht da.", ["Er ist schon da."]),
        ("de", "Er arbeitet nicht mehr.", ["Er arbeitet noch."]),
        ("de", "Es sind nicht mehr als zehn.", ["Es sind mehr als zehn."]),
        ("de", "Ich habe keinen Hund.", ["Ich habe einen Hund."]),
        ("de", "Kein Hund bellt.", ["Ein Hund bellt."]),
        ("de", "Ich habe keine Zeit.", ["Ich habe Zeit."]),
        ("de", "Keine guten Leute kommen.", ["Guten Leute kommen."]),
        ("de", "Auf keinen Fall gehe ich.", ["Auf jeden Fall gehe ich."]),
        ("de", "Er kommt nie.", ["Er kommt immer."]),
        ("de", "Ich sehe niemanden.", ["Ich sehe jemanden."]),
        ("de", "Nichts ist gut.", ["Etwas ist gut."]),
        ("en", "Don't you like it?", []),
        ("en", "Whether or not he comes", []),
        ("en", "He is not only old.", []),
        ("en", "No, thanks.", []),
        ("en", "He is here.", []),
        ("de", "Kommst du nicht?", []),
        ("de", "Ob er kommt oder nicht, ist egal.", []),
        ("de", "Es ist nicht nur alt.", []),
        ("de", "nicht-lineare Modelle", []),
    ],
    "negation inserted": [
        ("en", "He is old.", ["He is not old."]),
        ("en", "They will come home.", ["They will not come home."]),
        ("de", "Er ist alt.", ["Er ist nicht alt."]),
        ("de", "Gestern ist er gekommen.", ["Gestern ist er nicht gekommen."]),
        ("de", "Das kann er.", ["Das kann er nicht."]),
        ("de", "Ein Hund bellt.", ["Kein Hund bellt."]),
        ("de", "Sie hat eine kleine rote Jacke.", ["Sie hat keine kleine rote Jacke."]),
        ("en", "Is he old?", []),
        ("en", "He is not old and she is young.", []),
        ("en", "the will of the people", []),
        ("en", "I know who he is.", []),
        ("en", "May comes after April.", []),
        ("de", "Ist er alt?", []),
        ("de", "Er ist nie alt.", []),
        ("de", "Ich weiß, dass er alt ist.", []),
        ("de", "Er steigt ein und fährt.", []),
        ("de", "Eines Tages kam er.", []),
        ("de", "Ein bisschen Wasser reicht.", []),
        ("de", "Was für ein Hund!", []),
    ],
    "article": [
        ("de", "Der Hund bellt.", ["Das Hund bellt."]),
        ("de", "Ich sehe die alte Frau.", ["Ich sehe das alte Frau."]),
        ("de", "Das kleine rote Haus brennt.", ["Der kleine rote Haus brennt.", "Die kleine rote Haus brennt."]),
        ("de", "mit dem Hund", ["mit der Hund"]),
        ("de", "eine Katze und ein Hund", ["ein Katze und ein Hund", "eine Katze und eine Hund"]),
        ("de", "Er steigt in den Zug ein.", ["Er steigt in das Zug ein."]),
        ("de", "Das ist gut, die singen.", []),
        ("de", "Er sagt, dass er das macht.", []),
        ("de", "Der Teil fehlt, das Virus auch.", []),
        ("de", "einer der Männer", ["einer das Männer"]),
    ],
    "verb number": [
        ("de", "Die Hunde sind müde.", ["Die Hunde ist müde."]),
        ("de", "Er wird kommen und hat Zeit.", ["Er werden kommen und hat Zeit.", "Er wird kommen und haben Zeit."]),
        ("de", "Eine Gruppe von Leuten ist da.", []),
        ("en", "The dogs are tired.", ["The dogs is tired."]),
        ("en", "Was he there?", ["Were he there?"]),
        ("en", "The team is there.", []),
        ("en", "If he was there", []),
    ],
}


@pytest.mark.parametrize(
    ("kind", "language", "line", "expected"), [(kind, *row) for kind, rows in CHANGES.items() for row in rows]
)
def test_change_makes_line_wrong(kind: str, language: str, line: str, expected: list[str]) -> None:
    assert changed(language, kind, line) == expected
