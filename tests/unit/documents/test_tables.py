"""Tests of tables (`.csv`, `.tsv`) and of the choice of their columns."""

from __future__ import annotations

import csv
import io
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from command import Command
from fuzzed import no_hang
from nmt.documents import Columns, Document, open_document
from nmt.documents.formats import is_translated
from nmt.documents.tables import open_table
from nmt.documents.types import DocumentOptions
from nmt.errors import ConfigError, DataError
from places import ROOT
from samples_tables import CSV, TSV

TABLE = 'id,de,en\r\n1,"Hallo, Welt",\r\n2,Ja,yes\r\n3,"zwei\r\nZeilen",""\r\n'


def opened(text: str, columns: str = "", name: str = "a.csv") -> Document:
    return open_document(name, text.encode(), "de", "en", Columns.parse(columns) if columns else None)


def upper(document: Document) -> str:
    return document.translated([text.upper() for text in document.texts]).decode()


@pytest.mark.parametrize(
    ("columns", "wanted"),
    [
        ("", 'id,de,en\r\n1,"Hallo, Welt","HALLO, WELT"\r\n2,Ja,yes\r\n3,"zwei\r\nZeilen","ZWEI\r\nZEILEN"\r\n'),
        ("source=de", 'id,de,en\r\n1,"HALLO, WELT",\r\n2,JA,yes\r\n3,"ZWEI\r\nZEILEN",""\r\n'),
        ("source=2", 'id,DE,en\r\n1,"HALLO, WELT",\r\n2,JA,yes\r\n3,"ZWEI\r\nZEILEN",""\r\n'),
        ("source=2,target=3", upper(opened(TABLE))),
        ("source=de,target=3", upper(opened(TABLE))),
        (
            "source=de,target=Neu, neu",
            'id,de,en,"Neu, neu"\r\n1,"Hallo, Welt",,"HALLO, WELT"\r\n2,Ja,yes,JA\r\n'
            '3,"zwei\r\nZeilen","","ZWEI\r\nZEILEN"\r\n',
        ),
    ],
)
def test_columns_are_chosen_by_language_name_or_number(columns: str, wanted: str) -> None:
    assert upper(opened(TABLE, columns)) == wanted


def test_filled_cells_are_kept_and_counted() -> None:
    document = opened(CSV)
    assert "Fertig mit {name}" not in document.texts and document.n_kept == 1
    assert any("1 text with a translation" in note for note in document.notes())
    filled = upper(document)
    assert "Done with {name}" in filled and opened(filled).texts == [] and opened(filled).n_kept == 5


@pytest.mark.parametrize(
    "text", [CSV, TABLE, CSV.replace("\r\n", "\n"), CSV.replace(";", "\t"), "\ufeffsep=;" + CSV[1:]]
)
def test_copied_texts_keep_bytes_of_other_cells(text: str) -> None:
    for content in (text.encode(), text.encode("utf-16-le" if text[0] == "\ufeff" else "utf-8")):
        document = open_document("a.csv", content, "de", "en", Columns("2"))
        assert document.translated(document.texts) == content


def test_keys_are_rows_or_cells_of_column() -> None:
    assert opened(TABLE, "source=de,key=id").keys == ["1", "2", "3", "3"]
    assert opened(TABLE, "source=de").keys == ["2", "3", "4", "4"]


def test_problem_names_key() -> None:
    document = opened("key,source,target\nmenu.open,Öffne {name},\n", "source=source,target=target,key=key")
    document.translated(["Open"])
    assert [*document.problems.values()] == [["menu.open"]]


def test_quotes_in_tsv_are_text_unless_they_enclose_cell() -> None:
    document = opened(TSV, name="a.tsv")
    assert document.texts == ['"Hallo" sagte er', 'Ein "Wort"', "Alles", "Er ging", "und kam", "dann"]
    assert upper(document) == (
        'source\ttarget\n"Hallo" sagte er\t"HALLO" SAGTE ER\nNein, nein\tNo, no\n"Ein ""Wort"""\t"EIN ""WORT"""\n'
        '"Alles"\t"ALLES"\n"Er ging\nund kam\tdann"\t"ER GING\nUND KAM\tDANN"\n'
    )


def test_translation_is_quoted_if_needed() -> None:
    document = opened("source;target\nAlso gut;\n")
    assert document.translated(['So; "good"']) == b'source;target\nAlso gut;"So; ""good"""\n'


@pytest.mark.parametrize("text", ["x,y\na,b\n", "de,en,de\na,b,c\n", "de,x\na,b\n", "x,en\na,b\n"])
def test_unclear_columns_raise_and_list_names(text: str) -> None:
    with pytest.raises(DataError, match="--columns") as caught:
        opened(text)
    assert text.partition("\n")[0].replace(",", ", ")[:5] in str(caught.value)


@pytest.mark.parametrize(
    "columns", ["source=x", "source=4", "source=de,key=x", "source=de,target=2", "source=1,target=x"]
)
def test_missing_columns_raise(columns: str) -> None:
    with pytest.raises(DataError, match="columns"):
        opened(TABLE, columns)


@pytest.mark.parametrize("text", ["", "A", "target=A", "source=", "source=A,source=B", "x=A,source=A"])
def test_malformed_columns_raise(text: str) -> None:
    with pytest.raises(ConfigError, match="--columns"):
        Columns.parse(text)


def test_columns_have_names_with_commas_and_signs() -> None:
    assert Columns.parse("source=a, b=c,key=d") == ("a, b=c", "", "d")


def test_columns_of_other_document_raise() -> None:
    with pytest.raises(DataError, match=r"a\.srt.*--columns"):
        opened("1\n00:00:01,000 --> 00:00:02,000\nx\n", "source=A", "a.srt")


@pytest.mark.parametrize("text", ['de,en\n1,2\n"a,b\n', 'de,en\n"a"b,c\n"', "de,en\n" + "," * 20_000])
def test_damaged_table_raises_with_line(text: str) -> None:
    with no_hang(), pytest.raises(DataError, match=r"a\.csv: line [23]: "):
        opened(text)


@given(st.text(alphabet='ab",\n\r', max_size=30))
def test_cells_are_those_of_csv_reader(text: str) -> None:
    header = "source,target\n"
    options = DocumentOptions(columns=Columns("1"))
    try:
        rows = [*csv.reader(io.StringIO(header + text, newline=""), strict=True)]
    except csv.Error:
        with pytest.raises(DataError):
            open_table("a.csv", (header + text).encode(), options)
        return
    document = open_table("a.csv", (header + text).encode(), options)
    copied = [*csv.reader(io.StringIO(upper(document), newline=""), strict=True)]
    assert [row[1:] for row in copied] == [row[1:] for row in rows]
    assert [cell.split() for row in copied for cell in row[:1]] == [row[0].upper().split() for row in rows if row]


@pytest.mark.parametrize(
    ("name", "text", "is_table"),
    [
        ("corpus.csv", "Ein Satz.\nNoch einer, mit Komma.\n", False),
        ("corpus.tsv", "Ein Satz.\nNoch einer, mit Komma.\n", False),
        ("a.csv", "de;en\n", True),
        ("a.tsv", "de\ten\nHallo\t\n", True),
        ("a.tsv", 'de\ten\n"Zwei\nZeilen"\t\n', True),
        ("a.tsv", "de,en\nHallo,\n", False),
    ],
)
def test_table_is_recognised_by_content(name: str, text: str, is_table: bool) -> None:
    assert is_translated(name, text.encode()) == is_table
    assert is_translated(name, text.encode("utf-16")) == is_table


@pytest.mark.parametrize("options", [["Hallo"], ["--as-text", "--input", "a.csv"], ["--interactive"]])
def test_columns_without_table_are_refused(options: list[str], nmt: Command) -> None:
    done = nmt("translate", *options, "--columns", "source=A")
    assert done.status == 2 and done.err.count("\n") == 1 and "--" in done.err


def test_columns_are_malformed_before_model_is_loaded(tmp_path: Path, nmt: Command) -> None:
    (tmp_path / "a.csv").write_text(TABLE)
    (tmp_path / "none").mkdir()
    shutil.copy(ROOT / "configs" / "sample.yaml", tmp_path / "none" / "config.yaml")
    done = nmt("translate", "--run", tmp_path / "none", "--input", tmp_path / "a.csv", "--columns", "A")
    assert done.status == 2 and "--columns A" in done.err and done.err.count("\n") == 1
