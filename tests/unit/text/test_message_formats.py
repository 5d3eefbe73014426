"""Tests of PO messages with format strings, by the recorded verdicts of gettext's msgfmt."""

from __future__ import annotations

import json
from typing import Any

import pytest

from catalogues import is_marked_fuzzy
from nmt.documents import open_document
from nmt.text.constraints import spans
from nmt.text.message_formats import GRAMMARS, directives
from places import GOLDEN
from waiting import cpu_time_limit

MESSAGES: list[dict[str, Any]] = json.loads((GOLDEN / "po_formats.json").read_text(encoding="utf-8"))["messages"]
UNKNOWN = {"c++-format", "go-format", "icu-format", "rust-format"}
"""Flags that the recorded version of msgfmt does not know."""


@pytest.mark.parametrize("flag", sorted({message["flag"] for message in MESSAGES}))
def test_message_that_msgfmt_rejects_is_fuzzy(flag: str) -> None:
    messages = [message for message in MESSAGES if message["flag"] == flag]
    for message in messages:
        assert is_marked_fuzzy(message) is message["fuzzy"], message
        assert message["fuzzy"] or not message["fatal"], message
    assert not all(message["fuzzy"] for message in messages)


def test_messages_of_all_formats_are_recorded() -> None:
    fatal = {flag for message in MESSAGES if message["fatal"] for flag in message["flag"].split(", ")}
    assert fatal >= {flag for flag in GRAMMARS if flag} - UNKNOWN


NESTED = "{who, select, f {{n, plural, one {Ihr {kind} Hund} other {Ihre # Hunde}}} other {Hund}}"
NESTED_TRANSLATIONS = [
    ("{who, select, f {{n, plural, one {her {kind} dog} other {her # dogs}}} other {dog}}", False),
    ("{who, select, f {{n, plural, one {her {kind} dog} other {her # dogs}} other {dog}}", True),
    ("{who, select, f {{n, plural, one {her {art} dog} other {her # dogs}}} other {dog}}", True),
]


PLURAL = "Hier {n, plural, =0 {kein Hund} one {# Hund} other {# Hunde}} am {day, date, short}."
PLURAL_TRANSLATIONS = [
    ("Here {n, plural, =0 {no dog} one {# dog} other {# dogs}} on {day, date, short}.", False),
    ("Here {n, plural, one {# dog} other {# dogs}} on {day, date, short}.", True),
    ("Here {n, plural, =0 {no dog} one {# dog} other {dogs}} on {day, date, short}.", True),
    ("Here {n, plural, =0 {no dog} one {# dog} andere {# dogs}} on {day, date, short}.", True),
    ("Here {n, select, =0 {no dog} one {# dog} other {# dogs}} on {day, date, short}.", True),
    ("Here {n, plural, =0 {no dog} one {# dog} other {# dogs} on {day, date, short}.", True),
    ("Here '{n, plural, =0 {no dog} one {# dog} other {# dogs}} on {day, date, short}.", True),
    ("Here {n, plural, =0 {no dog} one {# dog} other {# dogs}} on {day, date}.", True),
    ("Here are dogs on {day, date, short}.", True),
]


@pytest.mark.parametrize(
    ("flag", "source", "translation", "is_fuzzy"),
    [
        ("wrap", "50 % der Hunde", "50 percent of the dogs", False),
        ("wrap", "Noch %(mein Name)s", "Still", True),
        # arguments of ICU without branches may change their order
        ("wrap", "{name} hat {n, number} Hunde", "There are {n, number} dogs of {name}", False),
        ("wrap", "{name} hat {n, number} Hunde", "There are dogs of {name}", True),
        ("wrap", "{name} hat {n, number} Hunde", "There are {n, date} dogs of {name}", True),
        ("wrap", "{name}: Hund # {n, number}", "dog no. {n, number}: {name}", False),
        ("wrap", "Hund {ja, nein} und {name} oder {}", "{} or {name}, dog {yes, no}", False),
        *(("wrap", NESTED, *row) for row in NESTED_TRANSLATIONS),
        *(("wrap", PLURAL, *row) for row in PLURAL_TRANSLATIONS),
        ("c++-format", "Hund {} und {:x}", "dog {} and {:x}", False),
        ("c++-format", "Hund {} und {:x}", "dog {:x} and {}", True),
        ("go-format", "Hund %v von %[2]d", "dog %v", True),
        ("go-format", "Hund%v", "dog%v", False),
        ("c-format", "100%% fertig, %s von %d", "%s of %d, 100%% done", False),
        ("c-format", "100%% fertig, %s von %d", "%d of %s, 100%% done", True),
        ("rust-format", "Hund {name:>5}", "dog {name}", True),
        ("x-format", "Hund {name}", "dog", True),
    ],
)
def test_other_messages_are_fuzzy_if_placeholders_are_lost(
    flag: str, source: str, translation: str, is_fuzzy: bool
) -> None:
    assert is_marked_fuzzy({"flag": flag, "msgid": source, "msgstr": translation}) is is_fuzzy


def test_directive_like_tag_is_text_in_flagged_message() -> None:
    po = '#, c-format\nmsgid "Noch %<PRIu64> <b>Hunde</b> hier"\nmsgstr ""\n\nmsgid "Ein <b>Hund</b> hier"\nmsgstr ""\n'
    document = open_document("a.po", po.encode())
    assert document.texts == ["Noch %<PRIu64> Hunde hier", "Ein Hund hier"]
    assert document.flags == ["c-format", ""]


@pytest.mark.parametrize(
    ("flag", "text", "placeholders"),
    [
        ("c-format", "Bild%dx%dMB, 5%s, 50 % der", ["%d", "%d", "%s", "% d"]),
        ("c-format", "Hund %*d und %.*s %'d %<PRIu64>", ["%*d", "%.*s", "%'d", "%<PRIu64>"]),
        ("", "Bild%dx%dMB, 50 % der", []),
        ("qt-format", "%n und %L1", ["%n", "%L1"]),
        ("python-brace-format", "Wert {a[b c]} und {{x y}}", ["{a[b c]}", "{{", "}}"]),
        ("lisp-format", "Wert ~5,'0d von ~{~a~}", ["~5,'0d", "~{", "~a", "~}"]),
        ("sh-format", "Hund$name", ["$name"]),
    ],
)
def test_directives_of_flagged_text_are_protected(flag: str, text: str, placeholders: list[str]) -> None:
    assert [span.wanted for span in spans(text, flag) if span.kind == "placeholder"] == placeholders


LONG = [
    "%",
    "%0",
    "%'",
    "%(",
    "%((",
    "%|",
    "%<",
    "%*",
    "{",
    "{{",
    "{a{b}",
    "{a,",
    "'",
    "~1,",
    "~/",
    "${",
    "<a",
    "} a",
    "%<}",
    "%{>",
    "#",
    "{#",
]


@pytest.mark.exhaustive
@pytest.mark.parametrize("flag", GRAMMARS)
def test_directives_of_long_text_are_found_in_linear_time(flag: str) -> None:
    with cpu_time_limit(5):  # usual is a tenth of a second; quadratic code takes minutes
        for part in LONG:
            directives(part * (30_000 // len(part)), flag)


@pytest.mark.parametrize("part", ["%<}", "%{>"])
def test_names_of_ruby_that_do_not_end_are_found_in_linear_time(part: str) -> None:
    with cpu_time_limit(5):  # usual is a tenth of a second; quadratic patterns take 10 and 16 seconds
        directives(part * 80_000, "ruby-format")
