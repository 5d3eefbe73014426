"""Tests of prompts, and of the division of answers to several lines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nmt.chat.prompt import PROMPT, SIMILARITY, Prompter, divided, read_prompt
from nmt.errors import ConfigError, DataError
from nmt.search.settings import SearchConfig
from nmt.text.constraints import Glossary
from nmt.text.segments import Codes
from nmt.translate.memory import TranslationMemory


def test_paragraphs_without_terms_and_examples_are_left_out() -> None:
    prompt = Prompter(PROMPT, ("de", "en")).prompt(["Der {text} bellt."])
    assert "German" in prompt and "English" in prompt and prompt.endswith("Text:\nDer {text} bellt.")
    assert "terms" not in prompt and "similar" not in prompt


def test_prompt_has_terms_of_its_lines_and_two_similar_pairs() -> None:
    pairs = [
        ("Der rote Hund bellt laut", "one"),
        ("Der rote Hund bellt", "two"),
        ("Der rote Hund", "three"),
        ("x", "y"),
    ]
    memory = TranslationMemory([(source, target, Codes(0)) for source, target in pairs], "de", "en")
    memory.use_for(SIMILARITY, SearchConfig())
    prompter = Prompter(
        "{terms}\n\n{examples}\n\n{text}", ("de", "en"), Glossary({"Hund": "hound", "Katze": "cat"}), memory
    )
    expected = "Hund = hound\n\nDer rote Hund bellt = two\nDer rote Hund bellt laut = one\n\nDer rote Hund bellt"
    assert prompter.prompt(["Der rote Hund bellt"]) == expected
    assert prompter.prompt(["Nichts davon"]) == "Nichts davon"


def test_several_lines_are_numbered() -> None:
    prompter = Prompter(PROMPT, ("de", "en"))
    assert "Text:\n1: a\n2: b\n\n" in prompter.prompt(["a", "b"])
    assert "JSON" in prompter.prompt(["a", "b"], in_json=True) and "JSON" not in prompter.prompt(["a", "b"])
    assert "wrong length" in prompter.prompt(["a"], rejected="wrong length")


@pytest.mark.parametrize(("text", "found"), [("{source} only", "text"), ("{text} {txt}", "txt")])
def test_prompt_with_unknown_or_without_text_is_refused(tmp_path: Path, text: str, found: str) -> None:
    (tmp_path / "p.txt").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=found):
        read_prompt(tmp_path / "p.txt")
    with pytest.raises(DataError, match="absent"):
        read_prompt(tmp_path / "absent")


@pytest.mark.parametrize(
    "answer",
    [
        '{"1": "one", "2": "{two}"}',
        '```json\n{"1": "one", "2": "{two}"}\n```',
        "1: one\n2: {two}",
        "1. one\n\n2. {two}\n",
        "Here are the translations:\n1) one\n2) {two}",
    ],
)
def test_answer_is_divided(answer: str) -> None:
    assert divided(answer, 2) == ["one", "{two}"]


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "1: one",
        "1: one\n1: two",
        "2: two\n1: one",
        "1: one\n2: two\n3: three",
        "1: one\nand more\n2: two",
        "1: one\n2: two\nand more",
        '{"1": "one"}',
        '{"1": "one", "1": "two"}',
        '{"1": "one", "1": "uno", "2": "two"}',
        '{"1": "one", "2": 2}',
        '{"1": "one", "2": "two", "3": "three"}',
        '["one", "two"]',
        "{}",
    ],
)
def test_answer_with_missing_or_repeated_numbers_is_not_divided(answer: str) -> None:
    assert divided(answer, 2) is None


def test_default_prompt_has_all_placeholders() -> None:
    assert {*re.findall(r"\{(\w+)\}", read_prompt(None))} == {"source", "target", "text", "terms", "examples"}
