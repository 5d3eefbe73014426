"""Tests of what formats with keys share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from nmt.documents.types import Languages
from nmt.documents.units import (
    FORMS_FILLED,
    OTHER_PLACEHOLDERS,
    TOO_LONG,
    Filled,
    Unit,
    message_tokens,
    open_units,
    plain,
)
from nmt.languages.codes import plural_categories


def unit(key: str, **forms: str) -> Unit:
    return Unit(key, {form: [*message_tokens(text, [""])] for form, text in forms.items()})


def written(units: Sequence[Unit], translations: Sequence[str], target: str) -> tuple[list[str], dict[str, list[str]]]:
    """Return each form that is written, and the keys of each problem."""
    lines = []

    def write(filled: Sequence[Filled], _: Languages) -> bytes:
        for of_unit in filled:
            for form, tokens in of_unit.forms.items():
                lines.append(f"{of_unit.unit.key}/{form}{'*' * (form in of_unit.changed)} {plain(tokens)}")
        return b""

    document = open_units(units, write)
    document.translated(translations, ("de", target))
    return lines, {problem: [*keys] for problem, keys in document.problems.items()}


@pytest.mark.parametrize(
    ("target", "categories"),
    [
        ("pl", ["one", "few", "many", "other"]), ("ar", ["zero", "one", "two", "few", "many", "other"]),
        ("he", ["one", "two", "other"]), ("en", ["one", "other"]), ("deu_Latn", ["one", "other"]), ("xx", []),
        ("ja", ["other"]), ("sr-Latn", ["one", "few", "other"]), ("", []),
    ],
)  # fmt: skip
def test_plural_form_that_only_target_has_is_filled_and_told(target: str, categories: list[str]) -> None:
    assert [*plural_categories(target)] == categories
    units = [unit("files", one="Eine Datei", other="{n} Dateien"), unit("name", **{"": "Name"})]
    lines, problems = written(units, ["One file", "{n} files", "Name"], target)
    new = [f"files/{form}* {{n}} files" for form in categories if form not in ("one", "other")]
    assert sorted(lines) == sorted(["files/one* One file", "files/other* {n} files", *new, "name/ Name"])
    assert problems == ({FORMS_FILLED: ["files"]} if new else {})


def test_lost_placeholder_and_limit_are_told_by_key() -> None:
    units = [
        unit("a", **{"": "Eins {x}"}), unit("b", **{"": "Zwei"}),
        replace(unit("c", **{"": "Drei"}), limit=4), replace(unit("d", **{"": "Vier"}), limit=5),
    ]  # fmt: skip
    _, problems = written(units, ["One", "Two", "Three", "Four"], "en")
    assert problems == {OTHER_PLACEHOLDERS: ["a"], TOO_LONG: ["c"]}


def test_unit_with_translation_is_left_out() -> None:
    done = replace(unit("a", **{"": "Eins"}), target={"": [*message_tokens("One", [""])]})
    assert written([done, unit("b", **{"": "Zwei"})], ["Two"], "en")[0] == ["b/* Two"]
