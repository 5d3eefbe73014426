"""Tests of Markdown."""

from __future__ import annotations

import time

import pytest
from markdown_it import MarkdownIt

from nmt.documents import open_document
from samples_markdown import MARKDOWN

PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def blocks(content: bytes) -> list[tuple[str, str]]:
    """Return the blocks after the front matter."""
    return [(block.type, block.tag) for block in PARSER.parse(content.decode().partition("\n---\n")[2])]


def translated(text: str, *translations: str) -> str:
    return open_document("a.md", text.encode()).translated(translations).decode()


def test_texts_are_those_that_readers_see() -> None:
    assert open_document("README.md", MARKDOWN).texts == [
        "Ein Anfang",
        "Was *man* wissen muss",
        "Überschrift mit",
        "Ein Absatz über zwei Zeilen mit fettem, schrägem und altem Text, einem Verweis, einem zweiten, einem Kürzel "
        "und .",
        "Nach einem Umbruch",
        "noch eine Zeile & ein *Stern* mit 50\xa0%.",
        "Setext",
        "Ein Zitat über Zeilen",
        "Aufgabe eins",
        "Aufgabe zwei mit Bild",
        "Ein Hinweis für alle.",
        "Erstens",
        "Zweitens mit Strg und fett",
        "Spalte eins",
        "Spalte zwei",
        "Wert | mehr",
        "gleich",
        "gleich",
        "und {{ name }}",
        "Ein Rat",
        "Die Fußnote.",
    ]


@pytest.mark.parametrize(
    "translation",
    ["{}", "# {}", "1. {}", "- {}", "> {} |", "{} [x](y) `z` <b> *", "「{}」です", "```{}", "= {} ~~~", "+ {}"],
)
def test_blocks_stay_whatever_translation_is(translation: str) -> None:
    document = open_document("README.md", MARKDOWN)
    written = document.translated([translation.format(text.upper()) for text in document.texts])
    assert blocks(written) == blocks(MARKDOWN)
    assert not document.problems


@pytest.mark.parametrize(
    ("text", "translation", "wanted"),
    [
        ("Ein **Hund** hier", "A *dog* [here]", r"A \***dog**\* \[here\]"),
        ("Ein **Hund** hier", "Ein Hund da", "Ein **Hund** da"),
        ("Der [Hund](a(b).html 'T) x')", "Hund it is", "[Hund](a(b).html 'T) x') it is"),
        ("Der [Hund][] da\n\n[Hund]: x", "Der dog da", "Der [dog][Hund] da\n\n[Hund]: x"),
        ("Der [Hund] da\n\n[Hund]: x", "Da Hund", "Da [Hund]\n\n[Hund]: x"),
        ("Ein Wort\nund mehr", "One word and more", "One word and more"),
        ("# Titel #", "Title", "# Title #"),
        ("Ein a_b", "A snake_case_", r"A snake_case\_"),
        ("Was `a` `b` ist", "What", "What `a` `b`"),
        ("---\ntitle: Ja\n---\n", "Yes: no", '---\ntitle: "Yes: no"\n---\n'),
        ("---\ntitle: 'Ja ''so'''\n---\n", "Yes so", "---\ntitle: Yes so\n---\n"),
        ("Das {{< a_b \"*\" >}} hier", "The {{< a_b \"*\" >}} there", "The {{< a_b \"*\" >}} there"),
    ],
)  # fmt: skip
def test_translation_is_spelled_as_text(text: str, translation: str, wanted: str) -> None:
    assert translated(text, translation) == wanted


def test_emphasis_beside_letter_and_bracket_is_written_as_element() -> None:
    assert translated("**Achtung!** Jetzt", "Achtung!Jetzt") == "<strong>Achtung!</strong>Jetzt"
    assert translated("**Achtung** Jetzt", "AchtungもJetzt") == "**Achtung**もJetzt"


@pytest.mark.parametrize(
    "content", ["[" * 50_000, "*a" * 50_000, ">" * 10_000, "`" * 50_000, "|a" * 5000 + "\n" + "|-" * 5000]
)
def test_unusual_markup_takes_linear_time(content: str) -> None:
    begun = time.process_time()
    document = open_document("a.md", content.encode())
    document.translated([text.upper() for text in document.texts])
    assert time.process_time() - begun < 30


def test_long_paragraph_is_left_and_told() -> None:
    document = open_document("a.md", b"Kurz.\n\n" + b"lang " * 5000 + b"\n")
    assert document.texts == ["Kurz."]
    assert document.translated(["Short."]) == b"Short.\n\n" + b"lang " * 5000 + b"\n"
    assert [*document.problems.values()] == [["line 3"]]
