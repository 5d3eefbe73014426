"""Reading of glossary files."""

from __future__ import annotations

from pathlib import Path

import pytest

from nmt.errors import DataError
from nmt.search.settings import SearchConfig
from nmt.text.constraints import Glossary, constraint_spans
from nmt.text.glossaries import read_glossary


def read(tmp_path: Path, text: str, name: str = "g.tsv", target: str | None = None) -> Glossary:
    (tmp_path / name).write_bytes(text.encode())
    return read_glossary(tmp_path / name, target=target)


def test_glossary_file_is_read(tmp_path: Path) -> None:
    text = (
        "\ufeff# German\tEnglish\n\n Hund \t hound \r\nHund\thound\n#1\tfirst\n  \n#\n#\tnumber\nneue Katze\tnew cat\n"
    )
    glossary = read(tmp_path, text)
    spans = constraint_spans("Hund, neue Katze, #1 #", SearchConfig(), glossary)
    assert [span.wanted for span in spans] == ["hound", "new cat", "first", "number"] and len(glossary) == 4


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("g.csv", 'source,target\nHund,"hound, dog"\n"a ""b""",c\n'),
        ("g.csv", '\ufeffGerman;English\r\nHund;"hound, dog"\r\n\r\n"a ""b""";c\r\n'),
        ("g.CSV", 'en-GB;de_AT\n"hound, dog";Hund\nc;"a ""b"""\n'),
        ("g.tsv", '# mine\n\nen\tde\nhound, dog\tHund\nc\ta "b"\n'),
        ("g.csv", 'No,Source term,Target term,Comment\n1,Hund,"hound, dog",x\n2,"a ""b""",c,\n'),
        ("g.csv", 'en;Kommentar;de\nhound, dog;;Hund\nc;x;"a ""b"""\n'),
        ("g.csv", 'English;German\nhound, dog;Hund\nc;"a ""b"""\n'),
        ("g.csv", 'Quellbegriff;Zielbegriff\nHund;"hound, dog"\n"a ""b""";c\n'),
        ("g.csv", 'Übersetzung;Ausgangstext\n"hound, dog";Hund\nc;"a ""b"""\n'),
        ("g.csv", 'Begriff (Englisch);Begriff (Deutsch)\n"hound, dog";Hund\nc;"a ""b"""\n'),
        ("g.tsv", 'Nr\tTerme source\tTerme cible\n1\tHund\thound, dog\n2\ta "b"\tc\n'),
        ("g.tsv", 'Hund\thound, dog\na "b"\tc\n'),
    ],
)
def test_glossary_table_is_read_with_or_without_header(tmp_path: Path, name: str, text: str) -> None:
    glossary = read(tmp_path, text, name, "en")
    assert (len(glossary), glossary.translations) == (2, ["c", "hound, dog"])
    assert [span.wanted for span in constraint_spans('a "b" Hund', SearchConfig(), glossary)] == ["c", "hound, dog"]


@pytest.mark.parametrize(
    ("name", "text", "target", "translations", "n_skipped"),
    [
        ("g.tsv", "cat\tkat\ndog\thond\n", "nl", ["hond", "kat"], 0),  # terms of three letters are no header
        ("g.csv", "en;de\ndog;Hund\n", "en_GB", ["dog"], 0),
        ("g.csv", "en;de\ndog;Hund\n", "eng_Latn", ["dog"], 0),
        ("g.csv", "sep=;\r\nde;en\r\nHund;hound, dog\r\nKatze;\r\n", "en", ["hound, dog"], 1),
        ("g.csv", '"sep=,"\nHund,"hound, dog"\n,cat\nKatze,\n', "en", ["hound, dog"], 2),
        ("g.csv", "sep=\t\nHund\thound, dog\n", "en", ["hound, dog"], 0),
        ("g.csv", "Nr;Source term;Target term\n1;Hund;hound, dog\n2;Katze\n", "en", ["hound, dog"], 1),
        ("g.tsv", "Hund\thound, dog\nKatze\t \n", "en", ["hound, dog"], 1),
    ],
)
def test_header_of_any_code_incomplete_rows_and_separator_of_excel_are_skipped(
    name: str,
    text: str,
    target: str,
    translations: list[str],
    n_skipped: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert read(tmp_path, text, name, target).translations == translations
    said = capsys.readouterr().err
    assert f"{n_skipped} row" in said if n_skipped else not said


def test_all_faults_of_a_glossary_are_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        read(tmp_path, "Hund\tdog\nHund\thound\nKatze\nMaus\tmouse\nMaus\trat\nHund\tcur\n")
    lines = [problem.partition(": ")[0][-6:] for problem in caught.value.args]
    assert lines == ["line 2", "line 3", "line 5", "line 6"]
    with pytest.raises(DataError) as caught:
        read(tmp_path, "Hund\n" * 5000)
    assert 1 < len(caught.value.args) < 50 and "4,9" in caught.value.args[-1]
    with pytest.raises(DataError) as caught:
        Glossary({"a": 1, "x": " ", "y": "z", " y": "w"})  # type: ignore[dict-item]
    assert len(caught.value.args) == 3


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        *((name, "<martif/>", rf"{name}: .*CSV") for name in ("g.tbx", "G.TBX", "g.xml")),
        ("g.csv", "de;fr\nHund;chien\n", r"g\.csv, line 1: .*de and fr"),
        ("g.csv", "a,b\nc\n", "g.csv, line 2: "),
        ("g.csv", 'a,b\n"c\nd",e,f\n', "g.csv, line 2: "),
        ("g.csv", 'a,"b" x\n', "g.csv, line 1: "),
        ("g.csv", 'a,b\nc,"d\ne,f\n', "g.csv, line 2: "),
        ("g.tsv", "a\tb\nHund hound\n",
         r"line 2: a term and its translation are needed, in two columns; found 1 column$"),
        ("g.tsv", "#comment\n", r"line 1: .* found 1 column$"),
        ("g.tsv", "a\tb\tc\n", r"line 1: .* found 3 columns$"),
        ("g.tsv", "Hund\t \n", r"g\.tsv: has no terms"),
        ("g.tsv", "Hund\ta\n\nHund\tb\n", r"line 3: 'Hund' has two translations, 'a' and 'b'; keep one$"),
        ("g.tsv", "", r"g\.tsv: has no terms"),
        ("g.tsv", "# x\n", r"g\.tsv: has no terms"),
    ],
)  # fmt: skip
def test_invalid_glossary_file_raises(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path, text, name, "en" if "fr" in text else None)
