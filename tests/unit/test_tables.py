"""Tables in the formats of --format."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest

from nmt.evaluate.significance import Interval
from nmt.tables import Cell, Format, Table, render

NAME = r"a_b & 5% $x$ {#1} ~^\ <i>|*[1]" + "\x1b[31m"
TABLE = Table(
    ["system", "BLEU", "", "margin"],
    [[NAME, Cell("31.00", is_best=True), "", "-0.5"], ["*", Cell("30.00 ± 0.10", is_significant=True), "", "--"]],
    {1, 3},
    title="test_a: 2 lines",
    notes=["BLEU|nrefs:1", "A sentence."],
    records=[
        {"name": NAME, "value": 31.0000000001, "interval": Interval(30.5, 31.5), "difference": {}},
        {"name": "b,c", "value": None, "notes": ("one", "two"), "difference": {"p": 1e-9, "is_first": True}},
    ],
)


def shown(how: Format, *tables: Table, document: object = None) -> str:
    return render(how, tables or [TABLE], document)


def test_text_is_aligned_and_has_title_and_wrapped_notes() -> None:
    long = Table(["a", "b"], [["x", "1"], ["yy", "22"]], {1}, notes=["word " * 30, "no-break|" * 30])
    assert shown("text", long).splitlines() == [
        "a    b", "x    1", "yy  22", " ".join(["word"] * 20), "  " + " ".join(["word"] * 10), "no-break|" * 30,
    ]  # fmt: skip
    lines = shown("text").splitlines()
    assert lines[0] == "test_a: 2 lines" and "\x1b" not in lines[2] and lines[2].startswith(r"a_b & 5% $x$")
    assert shown("text", Table([], [], (), text="other"), TABLE).startswith("other\n\ntest_a")


def test_markdown_emphasizes_and_escapes() -> None:
    table = shown("markdown").split("\n\n")[1].splitlines()
    assert shown("markdown").split("\n\n")[0] == r"test\_a: 2 lines"
    assert table[:2] == ["| system | BLEU | margin |", "| --- | --: | --: |"], "the empty column is left out"
    assert table[2].endswith(" | **31.00** | -0.5 |") and table[3] == r"| \* | 30.00 ± 0.10† | -- |"
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 4 for line in table)
    assert shown("markdown").endswith("\n- BLEU\\|nrefs:1\n- A sentence.")


def test_latex_emphasizes_and_escapes() -> None:
    lines = shown("latex").splitlines()
    assert [lines[2], lines[3], lines[5]] == [
        r"\caption{test\_a: 2 lines. BLEU\textbar{}\allowbreak{}nrefs:1. A sentence.}", r"\begin{tabular}{lrr}",
        r"system & BLEU & margin \\",
    ]  # fmt: skip
    assert lines[7].startswith(r"a\_b \& 5\% \$x\$ \{\#1\} \textasciitilde{}\textasciicircum{}\textbackslash{} ")
    assert lines[7].endswith(r" & \textbf{31.00} & $-$0.5 \\")
    assert lines[8] == r"{*} & 30.00 $\pm$ 0.10$^{\dagger}$ & -{}- \\", "the row begins with no star of \\\\"


@pytest.mark.parametrize("table", [TABLE, Table(["a"], [["x"]], ())])
def test_latex_is_well_formed(table: Table) -> None:
    """Braces, environments and cells of a table are balanced, and no special character is bare."""
    text = shown("latex", table)
    bare = re.sub(r"\\[a-zA-Z]+|\\[^a-zA-Z]", " ", text.partition("\n")[2])
    depth = 0
    for character in bare:
        depth += {"{": 1, "}": -1}.get(character, 0)
        assert depth >= 0 and character not in "#%~" and ord(character) < 128, character
    assert depth == 0 and bare.count("$") % 2 == 0
    begun, ended = (re.findall(rf"\\{word}{{(\w+)}}", text) for word in ("begin", "end"))
    assert sorted(begun) == sorted(ended)
    (columns,) = re.findall(r"\\begin{tabular}{([lr]+)}", text)
    rows = [line for line in text.splitlines() if line.endswith(r" \\")]
    assert all(len(re.findall(r"(?<!\\)&", row)) == len(columns) - 1 for row in rows) and rows


def test_csv_has_unrounded_values_and_columns_of_all_records() -> None:
    first, second, *again = csv.DictReader(io.StringIO(shown("csv", TABLE, TABLE)))
    assert again == [first, second]
    assert float(first["value"]) == 31.0000000001 and first["interval_low"] == "30.5"
    assert (first["difference_p"], second["difference_p"]) == ("", "1e-09")
    assert (second["name"], second["value"], second["notes"]) == ("b,c", "", "one; two")
    assert "\x1b" not in shown("csv")


def test_json_is_the_document() -> None:
    document = {"value": 31.0000000001, "none": None, "text": "ü"}
    assert json.loads(shown("json", document=document)) == document
