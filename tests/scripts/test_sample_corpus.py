"""The embedded corpus: its grammar, its files and its figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from places import ROOT
from scripts.sample_corpus import check, make
from scripts.sample_corpus.grammar import NP, Clause, Part, clock_time, number, tidy, with_preposition
from scripts.sample_corpus.lexicon import ADJECTIVE, NOUN, VERB, VERBS
from untraced import untraced

DATA = ROOT / "data" / "sample"


@pytest.fixture(scope="module")
def corpus() -> make.Corpus:
    with untraced():
        return make.make_corpus()


def test_same_bytes(corpus: make.Corpus, tmp_path: Path) -> None:
    make.write_corpus(corpus, tmp_path)
    for name in ("train", "dev", "test"):
        for language in ("de", "en"):
            file = f"{name}.{language}"
            assert (tmp_path / file).read_bytes() == (DATA / file).read_bytes(), file


def test_figures(corpus: make.Corpus) -> None:
    missed = [figure for figure in check.figures(corpus, DATA) if not figure.passed]
    assert missed == []


def test_one_translation(corpus: make.Corpus) -> None:
    """The same German sentence never has two English ones."""
    pairs = {(pair.de, pair.en) for pair in [*corpus.train, *corpus.dev, *corpus.test]}
    assert len(pairs) == len({german for german, _ in pairs})


@pytest.mark.parametrize(
    ("noun", "det", "adjective", "plural", "forms"),
    [
        ("Mann", "der", "alt", False, ["der alte Mann", "den alten Mann", "dem alten Mann", "des alten Mannes"]),
        ("Frau", "ein", "jung", False, ["eine junge Frau"] * 2 + ["einer jungen Frau"] * 2),
        ("Haus", "ein", "neu", False, ["ein neues Haus", "ein neues Haus", "einem neuen Haus", "eines neuen Hauses"]),
        ("Kind", "der", "müde", True, ["die müden Kinder"] * 2 + ["den müden Kindern", "der müden Kinder"]),
        (
            "Nachbar", "mein", "nett", False,
            ["mein netter Nachbar", "meinen netten Nachbarn", "meinem netten Nachbarn", "meines netten Nachbarn"],
        ),
        (
            "Student", "dieser", "faul", False,
            ["dieser faule Student", "diesen faulen Studenten", "diesem faulen Studenten", "dieses faulen Studenten"],
        ),
        ("Apfel", "", "rot", True, ["rote Äpfel", "rote Äpfel", "roten Äpfeln", "roter Äpfel"]),
        ("Tee", "", "warm", False, ["warmer Tee", "warmen Tee", "warmem Tee", "warmen Tees"]),
        ("Uhr", "kein", "teuer", True, ["keine teuren Uhren", "keine teuren Uhren", "keinen teuren Uhren",
                                       "keiner teuren Uhren"]),
        ("Zimmer", "unser", "dunkel", False, ["unser dunkles Zimmer", "unser dunkles Zimmer", "unserem dunklen Zimmer",
                                              "unseres dunklen Zimmers"]),
    ],
)  # fmt: skip
def test_declension(noun: str, det: str, adjective: str, plural: bool, forms: list[str]) -> None:
    phrase = NP(noun=NOUN[noun], det=det, adjective=ADJECTIVE[adjective], plural=plural)
    assert [phrase.de(case) for case in "NADG"] == forms


@pytest.mark.parametrize(
    ("hour", "minute", "german", "english"),
    [
        (8, 30, "halb neun", "half past eight"),
        (12, 30, "halb eins", "half past twelve"),
        (3, 15, "Viertel nach drei", "a quarter past three"),
        (3, 45, "Viertel vor vier", "a quarter to four"),
        (7, 0, "sieben Uhr", "seven o'clock"),
        (5, 20, "zwanzig nach fünf", "twenty past five"),
        (5, 50, "zehn vor sechs", "ten to six"),
    ],
)
def test_clock(hour: int, minute: int, german: str, english: str) -> None:
    assert clock_time(hour, minute) == (german, english)


@pytest.mark.parametrize(
    ("value", "german", "english"),
    [
        (7, "sieben", "seven"),
        (16, "sechzehn", "sixteen"),
        (21, "einundzwanzig", "twenty-one"),
        (30, "dreißig", "thirty"),
        (76, "sechsundsiebzig", "seventy-six"),
    ],
)
def test_number(value: int, german: str, english: str) -> None:
    assert number(value) == (german, english)


@pytest.mark.parametrize(
    ("preposition", "german", "expected"),
    [
        ("in", "dem Garten", "im Garten"),
        ("in", "das Kino", "ins Kino"),
        ("zu", "der Schule", "zur Schule"),
        ("von", "dem Arzt", "vom Arzt"),
        ("mit", "dem Zug", "mit dem Zug"),
        ("in", "dem", "im"),
    ],
)
def test_contraction(preposition: str, german: str, expected: str) -> None:
    assert with_preposition(preposition, german) == expected


def invite(tense: str, negated: bool = False, modal: str = "") -> Clause:
    anna = NP(name="Anna", gender="f")
    parts = [Part("T", "morgen", "tomorrow"), Part("A", "ihren Bruder", "her brother", definite=True)]
    if tense == "past":
        parts[0] = Part("T", "gestern", "yesterday")
    return Clause(anna, VERB["einladen"], tense, parts, modal, negated)


def test_word_order() -> None:
    future = invite("future")
    assert future.de_main() == "Anna lädt morgen ihren Bruder ein"
    assert future.de_main(future.parts[0]) == "morgen lädt Anna ihren Bruder ein"
    assert future.de_main("") == "lädt Anna morgen ihren Bruder ein"
    assert future.de_final() == "Anna morgen ihren Bruder einlädt"
    assert future.de_zu() == "morgen ihren Bruder einzuladen"
    assert invite("past").de_final() == "Anna gestern ihren Bruder eingeladen hat"
    assert invite("present", modal="müssen").de_main() == "Anna muss morgen ihren Bruder einladen"
    assert invite("past", modal="können").de_final() == "Anna gestern ihren Bruder einladen konnte"
    assert invite("past", negated=True).de_main() == "Anna hat ihren Bruder gestern nicht eingeladen"


def test_english_order() -> None:
    assert invite("future").en_main() == "Anna will invite her brother tomorrow"
    assert invite("past").en_question() == "did Anna invite her brother yesterday"
    assert invite("past", negated=True).en_main() == "Anna did not invite her brother yesterday"
    assert invite("present", modal="müssen").en_question() == "does Anna have to invite her brother tomorrow"
    assert invite("present", modal="müssen", negated=True).en_main() == (
        "Anna does not have to invite her brother tomorrow"
    )
    assert invite("present", modal="dürfen").en_main() == "Anna is allowed to invite her brother tomorrow"
    assert invite("pluperfect").en_main() == "Anna had invited her brother tomorrow"


def test_kein_becomes_not() -> None:
    subject = NP(name="Paul", gender="m")
    car = NP(noun=NOUN["Auto"], det="kein", adjective=ADJECTIVE["alt"])
    clause = Clause(subject, VERB["haben"], "present", [Part("A", car.de("A"), car.en())], negated=True, kein=True)
    assert tidy(clause.de_main(), ".") == "Paul hat kein altes Auto."
    assert tidy(clause.en_main(), ".") == "Paul does not have an old car."


def test_genitive_and_relative_clause() -> None:
    brother = NP(noun=NOUN["Bruder"], det="mein")
    assert NP(noun=NOUN["Auto"], owner=brother).de("N") == "das Auto meines Bruders"
    assert NP(noun=NOUN["Auto"], owner=brother).en() == "my brother's car"
    roof = NP(noun=NOUN["Dach"], owner=NP(noun=NOUN["Haus"]))
    assert (roof.de("A"), roof.en()) == ("das Dach des Hauses", "the roof of the house")
    guest = NP(noun=NOUN["Gast"], relative=("den Anna kennt", "whom Anna knows"))
    assert tidy(guest.de("N") + " schläft", ".") == "Der Gast, den Anna kennt, schläft."


@pytest.mark.parametrize(
    ("lemma", "person", "plural", "form"),
    [
        ("lesen", 2, False, "liest"),
        ("arbeiten", 2, False, "arbeitest"),
        ("fahren", 2, False, "fährst"),
        ("einladen", 2, False, "lädst"),
        ("sehen", 1, False, "sehe"),
        ("wandern", 1, False, "wandere"),
        ("haben", 2, False, "hast"),
        ("mögen", 1, False, "mag"),
    ],
)
def test_present(lemma: str, person: int, plural: bool, form: str) -> None:
    assert VERB[lemma].present(person, plural) == form


def test_separable_participles_agree_with_their_prefix() -> None:
    for verb in VERBS:
        if verb.prefix and verb.lemma != "vorbereiten":  # its stem has a prefix of its own
            assert verb.participle.startswith(verb.prefix + "ge"), verb.lemma
