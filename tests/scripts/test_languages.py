"""The table of what happens to texts in many languages."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.measure.languages import HEADER, boundaries_by_rule, boundary_counts, row


@pytest.mark.parametrize(
    ("text", "boundaries"),
    [
        ("It is. Is it? Yes", {5, 10}),
        ("On 3. May J. Kurz came. he did", set()),
        ("ნახა. მერე", {5}),
        ("好。很好", {2}),
        ("ነው፡፡እሱ።፡ዞ", {4, 8}),
        ("« Oui. » Puis", {6}),
    ],
)
def test_rule_finds_boundaries(text: str, boundaries: set[int]) -> None:
    assert boundaries_by_rule(text, is_greek=False) == boundaries


def test_missed_and_invented_boundaries_are_counted() -> None:
    assert boundary_counts(["Ja. Nein. Gut."], "deu") == [2, 2, 0, 0]
    assert boundary_counts(["Es kamen 30. Dr. Kurz auch."], "deu") == [1, 0, 1, 0]


def test_row_has_a_cell_for_each_column(tmp_path: Path) -> None:
    english = ["This is a house. Did he come?", "He came in 1990."]
    (tmp_path / "ell.txt").write_text("Αυτό είναι σπίτι. Ήρθε;\nΉρθε το 1991.\n", encoding="utf-8")
    cells = dict(zip(HEADER, row(tmp_path / "ell.txt", english), strict=True))
    assert cells["name"] == "Greek" and cells["script"] == "Grek"
    assert (cells["by the rule"], cells["missed"], cells["pairs"]) == ("1", "0", "2")
    assert (cells["numbers"], cells["sentences"]) == ("1", "0")


def test_steps_that_do_not_apply_to_a_language_are_not_checked(tmp_path: Path) -> None:
    for code, steps in {"tha": ["sentences", "truncated"], "bod": ["sentences", "language"], "fra": []}.items():
        (tmp_path / f"{code}.txt").write_text("นี่คือ\n", encoding="utf-8")
        cells = dict(zip(HEADER, row(tmp_path / f"{code}.txt", ["This is it."]), strict=True))
        assert [name for name, cell in cells.items() if cell == "not checked"] == steps
