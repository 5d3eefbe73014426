"""Tests of files of keys and texts: JSON, ARB, Java properties, strings files and YAML."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from documents import same
from nmt.documents import Document, format_of, open_document
from nmt.documents.units import FORMS_FILLED, OTHER_PLACEHOLDERS
from nmt.errors import DataError
from samples_keyed import SAMPLES


def opened(name: str, text: str) -> Document:
    return open_document(name, text.encode(), "de", "en")


def written(name: str, text: str, translations: Sequence[str], target: str = "en", source: str = "de") -> str:
    document = open_document(name, text.encode(), source, target)
    return document.translated([*translations], (source, target)).decode()


@pytest.mark.parametrize("name", SAMPLES)
def test_copied_sample_is_equal_and_shouted_one_has_as_many_texts(name: str) -> None:
    document = open_document(name, SAMPLES[name], "de", "de")
    assert same(document) == SAMPLES[name]
    again = open_document(name, document.translated([f"X {text} Ж “É”" for text in document.texts]))
    assert again.texts == [f"X {text} Ж “É”" for text in document.texts] and again.keys == document.keys


TEXTS = [
    ("a.json", '{"a": {"b": "Ein Hund", "n": 5, "c": ["x y", true, {"d": "z"}]}}', ["a.b", "a.c.0", "a.c.2.d"]),
    ("a.json", '{"u": "https://a.org", "m": "a@b.org", "c": "#ffcc00", "t": "true", "n": "{{x}}", "e": ""}', []),
    ("a.arb", '{"@@locale": "de", "a": "Ein Hund", "@a": {"description": "kein Text"}}', ["a"]),
    ("a.properties", "# x = y\n! x = y\na.b = Ein Hund\nc:Zwei\nd Drei\ne\n = f\n", ["a.b", "c", "d", "#2"]),
    ("a.properties", "a\\ b\\:c = x \\\n   y\\u00e4\nd = 5\n", ["a b:c"]),
    ("a.strings", '/* "k" = "v"; */ "a" = "b c"; // "k" = "v";\nd.e = "f"; "g"; h = i;', ["a", "d.e"]),
    (
        "a.yaml",
        "a:\n  yes: Ja\n  b: 5\n  c: yes\n  d: '5'\n  e: *x\n  f: !foo Hund\n  g: 2001-01-01\n  h:\n",
        ["a.yes"],
    ),
    ("a.yaml", "a: '%d.%m.%Y'\nb: '%d. %B um'\nc: :day\nd: [x, {e: y}]\n", ["b", "d.0", "d.1.e"]),
]


@pytest.mark.parametrize(("name", "text", "keys"), TEXTS)
def test_texts_have_keys_and_values_for_programs_are_none(name: str, text: str, keys: list[str]) -> None:
    assert opened(name, text).keys == keys


WRITTEN = [
    # characters beyond ASCII are written as in the file
    ("a.json", '{"a": "x\\u00e4"}', 'ü "😀"\\', '{"a": "\\u00fc \\"\\ud83d\\ude00\\"\\\\"}'),
    ("a.json", '\ufeff{"a": "xä"}\r\n', "ü", '\ufeff{"a": "ü"}\r\n'),
    ("a.json", '{"a": "\\ud800 x"}', "y", '{"a": "\\ud800 y"}'),
    ("a.properties", "a = x\n", 'ü "😀"\\', 'a = \\u00fc "\\ud83d\\ude00"\\\\\n'),
    ("a.properties", "# ä\na = \\ x\\\n   y\n", "ü", "# ä\na = \\ ü\n"),
    ("a.strings", '"a" = "x";', 'ü "😀"\\', '"a" = "ü \\"😀\\"\\\\";'),
    ("a.strings", '"a" = "x\\U00e4\\\\U00e4";', "y", '"a" = "y";'),
    # doubled apostrophes of MessageFormat
    ("a.properties", "a = x {0}", "l'x {0}", "a = l''x {0}"),
    ("a.properties", "a = it''s", "l'x", "a = l''x"),
    ("a.properties", "a = it's {0}", "l'x {0}", "a = l'x {0}"),
    ("a.properties", "a = x", "l'x", "a = l'x"),
    # styles of YAML
    ("a.yaml", "a: x # c\n", "y z", "a: y z # c\n"),
    ("a.yaml", "a: x\n  y\nb: 5\n", "z", "a: z\nb: 5\n"),
    ("a.yaml", "a: x\n", "No", 'a: "No"\n'),
    ("a.yaml", "a: x\n", "5 Ä: y", 'a: "5 Ä: y"\n'),
    ("a.yaml", "a: x\n", "y, [z] {b}", "a: y, [z] {b}\n"),
    ("a.yaml", "a: [x]\n", "y, z", 'a: ["y, z"]\n'),
    ("a.yaml", "{a: x}\n", "y, z", '{a: "y, z"}\n'),
    ("a.yaml", "a: 'x'\n", "l'y: z", "a: 'l''y: z'\n"),
    ("a.yaml", 'a: "\\u00e4 x"\n', "ü", 'a: "\\u00fc"\n'),
    ("a.yaml", "a: &x b\nc: *x\n", "d", "a: &x d\nc: *x\n"),
    ("a.yaml", "a: |\r\n\r\n    x\r\n\r\nb: 5\r\n", "y", "a: |\r\n\r\n    y\r\n\r\nb: 5\r\n"),
    ("a.yaml", "a: |2-\n   x\nb: 5\n", "y", 'a: " y"\nb: 5\n'),
    ("a.yaml", "a: >+ # c\n  x\n  y\n\n", "z", "a: >+ # c\n  z\n\n"),
]


@pytest.mark.parametrize(("name", "text", "translation", "wanted"), WRITTEN)
def test_changed_text_is_written_as_its_file_is(name: str, text: str, translation: str, wanted: str) -> None:
    assert written(name, text, [translation]) == wanted
    assert open_document(name, wanted.encode()).texts == [translation]


def test_iso_8859_1_properties_keep_encoding_and_escape_other_letters() -> None:
    document = open_document("a.properties", "a = ä".encode("latin-1"))
    assert document.texts == ["ä"]
    assert document.translated(["ü"]) == "a = ü".encode("latin-1")
    assert document.translated(["Ж"]) == b"a = \\u0416"


def test_lines_of_block_are_texts_that_keep_indentation() -> None:
    text = "a:\n  b: |\n    x\n      y\n\n    z\n  c: >-\n    v\n    w\n\n    u\n"
    translated = written("a.yaml", text, ["X", "Y", "Z", "V W", "U"])
    assert translated == "a:\n  b: |\n    X\n      Y\n\n    Z\n  c: >-\n    V W\n\n    U\n"
    assert yaml.safe_load(translated) == {"a": {"b": "X\n  Y\n\nZ\n", "c": "V W\nU"}}


PLURALS = [
    ("a.json", '{\n  "k_one": "x",\n  "k_other": "y",\n  "l": 1\n}',
     '{\n  "k_one": "X",\n  "k_other": "Y",\n  "k_few": "Y",\n  "k_many": "Y",\n  "l": 1\n}'),
    ("a.json", '{"k_male_other":"y","k_male_one":"x"}',
     '{"k_male_other":"Y","k_male_one":"X","k_male_few":"Y","k_male_many":"Y"}'),
    ("a.json", '{"k": {"one": "x", "other": "y"}}', '{"k": {"one": "X", "other": "Y", "few": "Y", "many": "Y"}}'),
    ("a.json", '{"k": "x", "k_plural": "y"}', '{"k": "X", "k_plural": "Y"}'),
    ("a.json", '{"k_one": "x", "k_two": "y"}', '{"k_one": "X", "k_two": "Y"}'),
    ("a.json", '{"k_other": "y"}', '{"k_other": "Y"}'),
    ("a.yaml", "k:\r\n  one: x,\r\n  other: yy # c\r\nl: 1\r\n",
     "k:\r\n  one: X,\r\n  other: YY\r\n  few: YY\r\n  many: YY # c\r\nl: 1\r\n"),
    ("a.yaml", "k: {one: x, other: z}\n", "k: {one: X, other: Z, few: Z, many: Z}\n"),
    ("a.properties", "k_one=x\nk_other=y\n", "k_one=X\nk_other=Y\n"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "wanted"), PLURALS)
def test_missing_plural_forms_follow_last_one(name: str, text: str, wanted: str) -> None:
    document = opened(name, text)
    translations = [part.upper() for part in document.texts]
    assert document.translated(translations, ("de", "ru")).decode() == wanted
    assert (FORMS_FILLED in document.problems) == ("few" in wanted)


def test_form_other_alone_is_plural_if_source_has_no_other_category() -> None:
    assert written("a.json", '{"k_other": "x"}', ["X"], "de", "ja") == '{"k_other": "X","k_one": "X"}'
    assert written("a.yaml", "l:\n  - other: x\n", ["X"], "de", "ja") == "l:\n  - other: X\n    one: X\n"


STATED = [
    ("a.arb", '{"@@locale": "de_AT", "a": "x"}', "pt-BR", '{"@@locale": "pt_BR", "a": "X"}'),
    ("a.arb", '{"@@locale": "fr", "a": "x"}', "en", '{"@@locale": "fr", "a": "X"}'),
    ("a.json", '{ "de": {"a": "x"}}', "en", '{ "en": {"a": "X"}}'),
    ("a.json", '{"de": "x"}', "en", '{"de": "X"}'),
    ("a.yml", "# c\nde: # c\n  de:\n    a: x\n", "pt-BR", "# c\npt-BR: # c\n  de:\n    a: X\n"),
    ("a.yml", "---\r\n'de-AT':\r\n  a: x\r\n", "en", "---\r\n'en':\r\n  a: X\r\n"),
    ("a.yml", "de:\n  a: x\n", "no", '"no":\n  a: X\n'),
    ("a.yml", "menu:\n  a: x\n", "en", "menu:\n  a: X\n"),
]


@pytest.mark.parametrize(("name", "text", "target", "wanted"), STATED)
def test_stated_language_is_that_of_target(name: str, text: str, target: str, wanted: str) -> None:
    assert written(name, text, ["X"], target) == wanted


def test_branches_of_icu_message_are_texts_on_their_own() -> None:
    plural = "{n, plural, =0 {kein Hund} one {# Hund von {name}} other {{n, number} Hunde}}"
    text = f"{plural} und {{g, select, f {{sie}} other {{er}}}}"
    document = opened("a.arb", json.dumps({"a": text}))
    assert document.texts == ["kein Hund", "Hund von {name}", "{n, number} Hunde", "und", "sie", "er"]
    assert {*document.flags} == {"icu-format"}
    new = document.translated([*"AB", "{n, number} C", *"DEF"])
    wanted = "{n, plural, =0 {A} one {# B} other {{n, number} C}} D {g, select, f {E} other {F}}"
    assert json.loads(new) == {"a": wanted}
    assert document.problems == {OTHER_PLACEHOLDERS: ["a"]}


@pytest.mark.parametrize(
    ("name", "text", "translation"),
    [
        ("a.json", '{"a": "x {{y}}"}', "x {{z}}"),
        ("a.json", '{"a": "x $t(y.z)"}', "x $t(y.a)"),
        ("a.json", '{"a": "x @:y.z"}', "x y.z"),
        ("a.yaml", 'a: "x %{y}"', "x %{z}"),
        ("a.yaml", 'a: "x %count%"', "x %zahl%"),
        ("a.yaml", 'a: "%d. %B x"', "%d. x"),
        ("a.strings", '"a" = "%@ x %d";', "%d x %@"),
        ("a.properties", "a = '{'x {0}", "{x {0}"),
    ],
)
def test_lost_placeholder_is_reported_with_key(name: str, text: str, translation: str) -> None:
    document = opened(name, text)
    document.translated([translation])
    assert document.problems == {OTHER_PLACEHOLDERS: ["a"]}
    assert "\n" not in document.notes()[0] and document.notes()[0].endswith(": a")


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a.json", b'{"a": "x"\n "b": "y"}', "line 2"),
        ("a.json", b'{"a": "x"}\n{"a": "y"}\n', "line 2"),
        ("a.json", b'[{"a": "x"}]', "data"),
        ("a.json", b'{"a":' * 5000 + b"1" + b"}" * 5000, "recursion"),
        ("a.json", b'{"a":' * 200 + b"1" + b"}" * 200, "data"),
        ("a.json", b"", "not JSON"),
        ("a.json", b'{"a": "\xff"}', "not UTF-8 at line 1"),
        ("a.arb", b"Ein Satz.\n", "not JSON"),
        ("a.strings", b'"a" = "b";\n"c" = d e;\n', "line 2"),
        ("a.strings", b'"a" = "b";\n/* c', "line 2"),
        ("a.strings", b'<?xml version="1.0"?>\n<plist/>', "line 1"),
        ("a.properties", b"PK\3\4", "zip"),
        ("a.yaml", b"a: x\nb: [c\n", "line 3"),
        ("a.yaml", b"a: x\nb: '\x00'\n", "#x0000"),
        ("a.yaml", b'a: "\\UFFFFFFFF"\n', "too large"),
        ("a.yaml", b"- a\n- b\n", "data"),
        ("a.yaml", b"a: " + b"[" * 5000, "data"),
        ("a.yaml", b"? {a: b}\n: c\n", "data"),
        ("a.yml", b"Ein Satz: gut.\nNoch einer.\n", "not YAML"),
    ],
)
def test_malformed_file_is_rejected_with_reason(name: str, content: bytes, why: str) -> None:
    with pytest.raises(DataError) as caught:
        open_document(name, content)
    assert why in str(caught.value) and "\n" not in str(caught.value)


def test_aliases_of_yaml_are_not_expanded() -> None:
    levels = "".join(f"b{i}: &b{i} [*b{i - 1}, *b{i - 1}]\n" for i in range(1, 100))
    assert opened("a.yaml", f"b0: &b0 [ein Hund]\n{levels}").texts == ["ein Hund"]


@pytest.mark.parametrize("name", ["corpus.yml", "corpus.arb"])
def test_sentences_in_language_with_same_code_are_no_document(name: str) -> None:
    start = b"Der Hund bellt.\nEr sagt: gut.\n"
    assert format_of(Path(name), start) is None
    assert format_of(Path(name), b'{"@@locale": "de",\n"a": "b"}') is not None or name == "corpus.yml"
