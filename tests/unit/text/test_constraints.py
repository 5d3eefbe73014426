"""Constraints: matching of terms, and terms in translations."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from command import Command
from nmt.errors import DataError
from nmt.search.constrained import beam_for, total_length
from nmt.search.settings import SearchConfig
from nmt.text import constraints
from nmt.text.constraints import (
    Applied,
    Glossary,
    constraint_spans,
    encode_marked,
    mark_terms,
    marked,
    protected,
    without_translations,
)
from nmt.text.reading import plain
from nmt.text.tokenizer import CONTROL, Tokenizer
from nmt.text.words import units
from nmt.translate.align import src_word_shares
from nmt.translate.files import TranslationFiles, translate_file
from nmt.translate.loading import Translator
from nmt.translate.segment import COPIED_COST, phrases_of
from nmt.translate.types import Line, Options
from tiny_run import BEAM, PLAIN, texts, tiny_config, write_run

OFF, ON = SearchConfig(), SearchConfig(protect=True)


def applied(text: str, terms: dict[str, str], search: SearchConfig = OFF) -> list[str]:
    return [span.wanted for span in constraint_spans(text, search, Glossary(terms))]


@pytest.mark.parametrize(
    ("glossary", "message"),
    [
        ({}, "glossary: has no terms"),
        ({"a": 1}, "glossary: 'a' with the translation 1: both must be text"),
        ({None: "a"}, "glossary: None with the translation 'a': both must be text"),
        ([("a", "b")], "glossary: must be a file or map terms to their translations, found list"),
        (3, "glossary: must be a file or map terms to their translations, found int"),
        (b"g.tsv", "glossary: must be a file or map terms to their translations, found bytes"),
        ({"x": " "}, "glossary: 'x' with the translation ' ': both must be text, and neither may be blank"),
        ({"x": "y", " x": "z"}, "glossary: 'x' has two translations, 'y' and 'z'"),
    ],
)
def test_invalid_glossary_value_raises(translator: Translator, glossary: Any, message: str) -> None:
    with pytest.raises(DataError, match=f"^{message}"):
        translator.translate(PLAIN, glossary=glossary)


@pytest.mark.parametrize(
    ("text", "term", "n"),
    [
        ("Der Hund und der Hund.", "Hund", 2), ("Hunde, Wachhund, hund, HUND", "Hund", 0),
        ("„Hund“-Hund/Hund", "Hund", 3),
        ("Müller", "M", 0), ("Cafe\u0301", "Cafe", 0), ("C++ und C", "C++", 1), ("C++ und C", "C", 2),
        (".NET", ".NET", 1),
        ("Hund_1 Hund2", "Hund", 0), ("我住在北京市", "北京", 1), ("我住在ABC市", "ABC", 1), ("ตัวอย่าง", "ตัว", 1),
        ("ที่", "ท", 0), ("ស្រី", "រី", 0), ("ស្រី ស្រីៗ", "ស្រី", 2), ("မင်္ဂလာ", "ဂလာ", 0), ("เมือง", "มือง", 0),
        ("เก่า", "เก", 0), ("ເມືອງ", "ມືອງ", 0), ("ราคา๑๒บาท", "๑", 0),
        ("собаки собака", "собака", 1), ("कुत्ते कुत्ता", "कुत्ता", 1), ("서울에서 서울", "서울", 1),
        ("👩\u200d👧 👩", "👩", 1), ("a b  c", "a b", 1), ("aaa", "a", 0), ("l'hôtel", "hôtel", 1),
    ],
)  # fmt: skip
def test_term_matches_at_word_boundaries(text: str, term: str, n: int) -> None:
    assert applied(text, {term: "x"}) == ["x"] * n


BANK = {"Bank": "bank", "Bank A": "bank A", "die Bank": "the bank", "A B C": "abc", "D": "D"}


@pytest.mark.parametrize(
    ("text", "terms", "expected", "protected"),
    [
        # of overlapping terms the longest is applied, and the first of equally long ones
        ("die Bank A B C D", BANK, ["the bank", "abc", "D"], ["the bank", "abc", "D"]),
        ("die Bank A, Bank", BANK, ["the bank", "bank"], ["the bank", "bank"]),
        # no term is applied within a number
        *((text, {term: "x"}, [], [number]) for text, term, number in (
            ("Das sind 3.5 GB", "5 GB", "3.5"), ("Die -5 Grad", "5 Grad", "-5"), ("Nr. 1,000", "Nr. 1", "1,000"),
            ("Windows 8.1", "Windows 8", "8.1"), ("Um 12:30 Uhr", "Um 12", "12:30"),
            ("www.x.org/a neue Katze", "a neue Katze", "www.x.org/a"), ("{Katze} kommt", "Katze} kommt", "{Katze}"),
        )),
    ],
)  # fmt: skip
def test_longest_of_overlapping_terms_is_applied_and_none_within_numbers(
    text: str, terms: dict[str, str], expected: list[str], protected: list[str]
) -> None:
    assert (applied(text, terms), applied(text, terms, ON)) == (expected, protected)


@pytest.mark.parametrize("search", [OFF, ON])
def test_term_inside_link_is_ignored(search: SearchConfig) -> None:
    terms = {"title": "Titel", "5": "five", "name": "Name", "100 %": "100 percent", "see x.org": "x.org"}
    text = '<p class="title">title</p> 5.5 und 5, https://title.org/name {name} name 100 % 7 see x.org'
    found = [span.wanted for span in constraint_spans(text, search, Glossary(terms)) if span.kind == "term"]
    assert found == ["Titel", "five", "Name", "100 percent", "x.org"]
    others = [span.wanted for span in constraint_spans(text, search, Glossary(terms)) if span.kind != "term"]
    known = ['<p class="title">', "</p>", "5.5", "https://title.org/name", "{name}", "7"]
    assert others == (known if search.protect else [])


def naive(text: str, terms: dict[str, str], search: SearchConfig) -> list[tuple[int, int, str]]:
    """Return the spans of a line by comparing every part of it with every term, and every character with every span."""
    inside = {i for span in constraints.spans(text) for i in range(span.start + 1, span.end)}
    edges = {0, *(end for _, end in units(text))} - inside
    every = [(i, j) for i in range(len(text)) for j in range(i + 1, len(text) + 1) if text[i:j] in terms]
    found = [(*each, "term") for each in every if edges.issuperset(each)]
    found += [(span.start, span.end, span.kind) for span in constraints.spans(text) if search.protect]
    chosen: list[tuple[int, int, str]] = []
    for start, end, kind in sorted(found, key=lambda span: (span[0] - span[1], span[2] != "term", span[0])):
        if all(end <= first or last <= start for first, last, _ in chosen):
            chosen.append((start, end, kind))
    return sorted(chosen)


LETTERS = "aab_1. %{}-\u0301\u200d你ท\u0e34"


@given(
    st.text(LETTERS, max_size=16).map(plain),
    st.dictionaries(
        st.text(LETTERS, min_size=1, max_size=4).map(plain).map(str.strip).filter(bool), st.just("x"), min_size=1
    ),
    st.sampled_from([OFF, ON]),
)
def test_spans_are_those_of_a_naive_search(text: str, terms: dict[str, str], search: SearchConfig) -> None:
    found = constraint_spans(text, search, Glossary(terms))
    assert [(span.start, span.end, span.kind) for span in found] == naive(text, terms, search)
    edges = [0, *(end for _, end in units(text))]
    occurrences = [(span.start, span.end) for span in Glossary(terms).spans(text)]
    assert sorted(occurrences) == [each for each in combinations(edges, 2) if text[slice(*each)] in terms]


class Counting(dict[tuple[int, str], int]):
    """A dictionary that counts how often it is asked."""

    n = 0

    def __contains__(self, key: object) -> bool:
        self.n += 1
        return super().__contains__(key)


def test_terms_that_nearly_match_are_found_in_linear_time() -> None:
    glossary = Glossary({"." * n + "b": "x" for n in range(1, 60)})
    glossary._automaton._next = counting = Counting(glossary._automaton._next)
    assert [*glossary.spans("a" + "." * 3000)] == []
    assert 0 < counting.n < 3 * 3000


def test_translations_contain_terms(translator: Translator) -> None:
    first, second, *others = PLAIN
    word, end = first.split()[0], first.split()[-1]
    terms = {word: "Zürich 7", second: second, f"{word} {end}x": "never"}
    found = translator.translate([f"{first} {word}", second, *others], glossary=terms, **BEAM.model_dump())
    assert found[0].count("Zürich 7") == 1 + first.split().count(word)
    assert second in found[1], "it is not translated"
    free = texts(translator, others, BEAM)
    unasked = [i for i, line in enumerate(others) if not applied(line, terms)]
    assert unasked and [found[2 + i] for i in unasked] == [free[i] for i in unasked]


@pytest.mark.parametrize(
    ("text", "terms", "expected"),
    [
        ("Bank", {"Bank": "mali"}, ["mali"]),
        ("Die Bank hat ein Bankkonto", {"Bank": "mali", "Bankkonto": "mali bore"}, ["mali"] * 2 + ["mali bore"]),
        ("a a c", {"a": "mali", "c": "bore mali mali"}, ["mali"] * 4 + ["bore mali mali"]),
        ("a b c", {"a": "mali", "b": "mali bore", "c": "mali bore re"},
         ["mali"] * 3 + ["mali bore"] * 2 + ["mali bore re"]),
        ("a b", {"a": "ma", "b": "mali bore"}, ["ma", "mali bore"]),
        ("a b", {"a": "mali", "b": "mali"}, ["mali"] * 2),
        ("7 ab", {"ab": "bo 7"}, ["7"] * 2 + ["bo 7"]),
    ],
)  # fmt: skip
def test_nested_translation_is_required_twice(
    tokenizer: Tokenizer, text: str, terms: dict[str, str], expected: list[str]
) -> None:
    phrases, _ = phrases_of(Line(text, glossary=Glossary(terms)), text, ON, tokenizer)
    assert sorted(tokenizer.decode(ids) for ids in phrases) == sorted(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a {b} c", ["{b}"]),
        (f"a {{b}} %s https://example.org/{'x' * 900}", ["{b}", "%s"]),
        (f"<i>a</i> {{{'x' * 900}}} <b>a</b>", ["<i>", "</i>", "<b>", "</b>"]),
        (f"a https://example.org/{'x' * 900}", []),
    ],
)
def test_placeholders_are_protected_as_far_as_they_are_short(
    tokenizer: Tokenizer, text: str, expected: list[str]
) -> None:
    short = BEAM.model_copy(update={"protect": "placeholders"})
    phrases, n_ordered = phrases_of(Line(text), text, short, tokenizer)
    assert [tokenizer.decode(ids) for ids in phrases] == expected
    assert n_ordered == text.count("<")
    all_of_them = BEAM.model_copy(update={"protect": ["placeholders"]})
    assert len(phrases_of(Line(text), text, all_of_them, tokenizer)[0]) == len(protected(text))


def test_number_of_protected_placeholders_is_limited(tokenizer: Tokenizer) -> None:
    text = "a" + " <b> %s </b>" * 40
    search = BEAM.model_copy(update={"protect": "placeholders"})
    phrases, n_ordered = phrases_of(Line(text), text, search, tokenizer)
    tags = [tokenizer.decode(ids) for ids in phrases[:n_ordered]]
    assert 0 < n_ordered < len(phrases) < 60 and tags == (["<b>", "</b>"] * 40)[: len(tags)]
    assert total_length(phrases) * beam_for(phrases, 1) <= COPIED_COST
    assert len(phrases_of(Line(text), text, search, tokenizer, 4)[0]) < len(phrases)
    terms = Glossary({"a": " ".join(["a"] * 300)})
    assert len(phrases_of(Line(text, glossary=terms), text, search, tokenizer)[0]) == len(phrases) + 1


def test_terms_cut_by_sentence_split_are_reported(
    translator: Translator, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    always = BEAM.model_copy(update={"split": "always"})
    (tmp_path / "in").write_text("Mali. Bore.\nMali bore. Tago ri.\n", encoding="utf-8")
    (tmp_path / "g.tsv").write_text("Mali\tÜnrú\nbore. Tago\tZürich\n", encoding="utf-8")
    files = TranslationFiles(glossary=tmp_path / "g.tsv")
    translate_file(translator, tmp_path / "in", tmp_path / "out", Options(always), files=files)
    first, second = (tmp_path / "out").read_text(encoding="utf-8").splitlines()
    assert "Ünrú" in first and "Ünrú" in second and "Zürich" not in second
    told = capsys.readouterr().err
    assert "glossary: 3 terms in 2 lines\n" in told and "1 term not translated as given, in line 2\n" in told


LETTERS_AND_WORDS = {"a": "x", "b": "y z"}
BOOKS = {"book": "كتـاب", "ice": "يخ", "-": "ـ"}
BANKS = {"Bank": "bank", "Bankkonto": "bank account"}


@pytest.mark.parametrize(
    ("terms", "language", "lines", "n", "n_lines", "n_missing"),
    [
        (LETTERS_AND_WORDS, "en", [("a b a", "x y z x"), ("-", "-"), ("a a b", "x y z x")], 6, 2, 0),
        (LETTERS_AND_WORDS, "en", [("a b a", "x y z x"), ("a a b", "x z")], 6, 2, 2),
        # in other forms of letters, too, or without any
        (BOOKS, "fa", [("book ice", "کتاب و یخ")], 2, 1, 0),
        (BOOKS, "fa", [("book -", "کتاب")], 2, 1, 1),
        # a translation inside another one is none
        (BANKS, "en", [("Die Bank hat ein Bankkonto", "It has a bank account")], 2, 1, 1),
        (BANKS, "en", [("Die Bank hat ein Bankkonto", "The bank has a bank account")], 2, 1, 0),
        (BANKS, "en", [("Die Bank hat ein Bankkonto", "A bank account of a bank.")], 2, 1, 0),
        (BANKS, "en", [("Die Bank hat ein Bankkonto", "The bank has no banking account")], 2, 1, 1),
        (BANKS, "en", [("Die Bank hat ein Bankkonto", "Our bank-account, the bank account")], 2, 1, 0),
        (BANKS, "en", [("Die Bank hat ein Bankkonto", "banking bank account")], 2, 1, 1),
        (BANKS, "en", [("Die Bank hat ein Bankkonto", "nothing")], 2, 1, 2),
    ],
)
def test_applied_terms_are_counted(
    terms: dict[str, str], language: str, lines: list[tuple[str, str]], n: int, n_lines: int, n_missing: int
) -> None:
    glossary = Glossary(terms)
    counts = Applied(glossary, language)
    assert [*counts.lines()] == [f"glossary: no line has any of its {len(terms)} terms"]
    for number, (text, translation) in enumerate(lines, start=1):
        counts.add(number, constraint_spans(text, OFF, glossary), translation)
    told, *missing = (re.findall("[0-9]+", line) for line in counts.lines())
    assert (told, missing) == ([str(n), str(n_lines)], [[str(n_missing), str(len(lines))]] if n_missing else [])


def test_translate_command_applies_glossary(
    nmt: Command, tokenizer: Tokenizer, translator: Translator, tmp_path: Path
) -> None:
    run = write_run(tmp_path / "run", tiny_config(), tokenizer, translator.searcher.models[0])
    word = PLAIN[0].split()[0]
    (tmp_path / "g.tsv").write_text(f"{word}\tZürich\nnichts davon\tnothing\n", encoding="utf-8")
    (tmp_path / "in").write_text(f"{PLAIN[0]}\n\n{word}, {word}\n", encoding="utf-8")
    (tmp_path / "terms").write_text("\n\nrita\n", encoding="utf-8")
    command = ["translate", "--run", run, "--input", tmp_path / "in", "--set", "search.beam=2"]
    done = nmt(*command, "--glossary", tmp_path / "g.tsv", "--constraints", tmp_path / "terms")
    assert done.status in (None, 0)
    first, blank, third, _ = done.out.split("\n")
    assert ("Zürich" in first, blank, third.count("Zürich"), "rita" in third) == (True, "", 2, True)
    assert f"glossary: {2 + PLAIN[0].split().count(word)} terms in 2 lines\n" in done.err


# --- Inline terms ---


GLOSSARY = Glossary({"Hund": "dog", "rote Katze": "red cat", "我": "\x01I"})


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
def test_mark_terms_surrounds_terms(text: str, wanted: str) -> None:
    assert of(text) == wanted


@pytest.mark.parametrize("text", ["ta bore.", "bore, ta?", "(bore)"])
def test_marked_word_has_same_pieces_in_every_line(tokenizer: Tokenizer, text: str) -> None:
    ids = encode_marked(tokenizer, mark_terms(text, Glossary({"bore": "dog"}).spans(text)))
    [(_, translation)] = marked(ids)
    assert [i for i in without_translations(ids) if i not in (4, 6)] == tokenizer.encode(text)
    assert [*ids[translation]] == [5, *tokenizer.encode("dog")]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.sampled_from(["Hund", "rote Katze", "我", " ", "a", ".", "\u2581", "é", "\x02"]), max_size=8).map(
        "".join
    )
)
def test_encode_marked_inserts_translations_between_marks(tokenizer: Tokenizer, text: str) -> None:
    ids = encode_marked(tokenizer, of(text))
    plain = CONTROL.sub(" ", text)
    assert tokenizer.decode(without_translations(ids)) == plain
    places = marked(ids)
    assert len(places) == len(list(constraint_spans(text, OFF, GLOSSARY)))
    for term, translation in places:
        assert tokenizer.decode(ids[term]).strip() + "=" + tokenizer.decode(ids[translation]).strip() in (
            "Hund=dog", "rote Katze=red cat", "我=I",
        )  # fmt: skip
    assert len(src_word_shares(tokenizer, ids, plain)) == len(plain.split())


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize(
    ("term", "text", "occurrence"),
    [
        ("İzmir Körfezi", "Yeni İzmir Körfezi'nde", "İzmir Körfezi"),
        ("Kat\u00adze", "die Kat\u200bze\ufeff.", "Kat\u200bze"),
        ("Grüne  Woche", "die Grüne\u00a0Woche", "Grüne\u00a0Woche"),
        ("한국", "한국 사람", "한국"),
        ("tiếng Việt", "học tiếng Việt nhé", "tiếng Việt"),
    ],
)
def test_term_is_found_in_another_normal_form_with_other_spaces(
    term: str, text: str, occurrence: str, form: str
) -> None:
    text = normalize(form, text)
    for written in (normalize("NFC", term), normalize("NFD", term)):
        [span] = Glossary({written: "x"}).spans(text)
        assert text[span.start : span.end] == normalize(form, occurrence)
