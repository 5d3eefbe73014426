"""A corpus of files that hold both languages, from the config to the data directory."""

from __future__ import annotations

import gzip
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from nmt.config import Config
from nmt.config.load import check_config
from nmt.data.sources import PathSource, TrainFiles, TrainPath
from nmt.errors import ConfigError, DataError
from nmt.prepare.pairs import Units
from nmt.prepare.prepare import dry_run, prepare
from nmt.prepare.sources import open_source, read_part
from nmt.recipes.directory import rooted

WORDS = ["eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn"]
PAIRS = [(f"{one} {two} {three}", f"{one[::-1]} {two[::-1]}") for one in WORDS for two in WORDS for three in WORDS[:3]]


def tmx(pairs: list[tuple[str, str]]) -> str:
    units = "".join(
        f'<tu><tuv xml:lang="de-DE"><seg>{de}</seg></tuv><tuv xml:lang="en"><seg>{en}</seg></tuv></tu>\n'
        for de, en in pairs
    )
    lone = '<tu><tuv xml:lang="de-DE"><seg>allein</seg></tuv></tu>\n'
    return f'<?xml version="1.0"?>\n<tmx version="1.4"><header/><body>\n{units}{lone}</body></tmx>\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One corpus in four files of three formats, in a folder, an archive and compressed."""
    (tmp_path / "memories").mkdir()
    (tmp_path / "memories" / "a.tmx").write_text(tmx(PAIRS[:90]), encoding="utf-8")
    with zipfile.ZipFile(tmp_path / "agency.zip", "w") as archive:
        archive.writestr("README", "not text")
        archive.writestr("b/b.tmx", tmx(PAIRS[90:150]))
    table = "".join(f"{en}\t{de}\n" for de, en in PAIRS[150:250])
    (tmp_path / "table.tsv.gz").write_bytes(gzip.compress(f"{table}short\n".encode()))
    rows = (json.dumps({"translation": {"de": de, "en": en}}) for de, en in PAIRS[250:])
    (tmp_path / "rows.jsonl").write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return tmp_path


def config(root: Path, **first: object) -> Config:
    train = [
        {"path": "memories/*.tmx", **first},
        {"path": "agency.zip", "members": "*.tmx"},
        {"path": "table.tsv.gz", "columns": {"de": 2, "en": 1}},
        {"path": "rows.jsonl", "columns": {"de": "translation.de", "en": "translation.en"}},
    ]
    data = {"direction": "de-en", "root": str(root), "train": train, "valid": 20}
    return check_config({"data": data, "tokenizer": {"vocab_size": 330}}, "test")


def test_each_format_yields_every_pair_once(folder: Path) -> None:
    told: list[str] = []
    prepare(config(folder), folder / "data", echo=told.append)
    manifest = json.loads((folder / "data" / "manifest.json").read_bytes())
    sources = [manifest["sources"][f"train.{i}"] for i in range(4)]
    assert [(source["read"], source.get("skipped"), list(source["files"])) for source in sources] == [
        (90, {"no text in en": 1}, ["memories/a.tmx"]), (60, {"no text in en": 1}, ["agency.zip"]),
        (100, {"fewer columns than 2": 1}, ["table.tsv.gz"]), (50, None, ["rows.jsonl"]),
    ]  # fmt: skip
    assert "train.0 *.tmx: units that are not one pair: no text in en 1" in told
    for split, least in (("train", 200), ("valid", 1)):
        texts = [(folder / "data" / f"{split}.{code}").read_text(encoding="utf-8") for code in ("de", "en")]
        pairs = list(zip(*map(str.splitlines, texts), strict=True))
        assert {*pairs} <= {*PAIRS} and len(pairs) > least


@pytest.mark.parametrize(
    "run",
    [
        lambda config, folder: prepare(config, folder / "data"),
        lambda config, folder: dry_run(config, sample=10, report=folder / "report.json"),
    ],
    ids=["prepared", "sampled"],
)
def test_columns_that_no_row_has_raise_with_skipped_units(folder: Path, run: Callable[[Config, Path], None]) -> None:
    train = [{"path": "table.tsv.gz", "columns": {"de": 1, "en": column}} for column in (9, 10)]
    data = {"direction": "de-en", "root": str(folder), "train": train, "valid": 20}
    with pytest.raises(DataError) as caught:
        run(check_config({"data": data}, "test"), folder)
    expected = "train.0 table.tsv.gz", "fewer columns than 9 101", "train.1 table.tsv.gz", "fewer columns than 10 101"
    assert all(text in str(caught.value) for text in expected), str(caught.value)


def test_changed_or_new_file_is_detected(folder: Path) -> None:
    new = folder / "memories" / "c.tmx"
    for change, said in (
        (lambda: None, ""),
        (lambda: None, "nothing to do"),
        (lambda: new.write_text(tmx(PAIRS[:3])), " again: memories/c.tmx was added"),
        (lambda: new.write_text(tmx(PAIRS[:4])), " again: memories/c.tmx has changed"),
        (new.unlink, " again: memories/c.tmx was removed"),
        (lambda: None, "nothing to do"),
    ):
        change()
        echo = Mock()
        prepare(config(folder), folder / "data", echo=echo)
        assert said in echo.call_args_list[0].args[0]


def test_source_read_twice_counts_units_once(folder: Path) -> None:
    source = open_source(TrainPath(path="memories/a.tmx"), ("de", "en"), folder)
    assert list(source.pairs()) == list(source.pairs())
    assert source.units.skipped == {"no text in en": 1}


XLIFF = """<xliff version="1.2"><file source-language="de" target-language="en" original="a"><body>
<trans-unit id="1"><source>eins</source><target>one</target></trans-unit>
<trans-unit id="2"><source>zwei</source><target/></trans-unit>
<trans-unit id="3"><source>drei</source><target> <mrk mtype="seg" mid="1"/></target></trans-unit>
</body></file></xliff>"""
SEGMENT = '<tu><tuv xml:lang="de"><seg>drei</seg></tuv><tuv xml:lang="en"><seg/></tuv></tu>'
PO = """msgid ""
msgstr "Language: en\\nX-Source-Language: de\\n"

msgid "eins"
msgstr "one"

msgid "zwei"
msgstr " "
"""
ROWS = [{"de": "eins", "en": "one"}, {"de": "zwei", "en": ""}, {"de": "drei", "en": "\u3000"}]


@pytest.mark.parametrize(
    ("name", "content", "skipped"),
    [
        ("a.xlf", XLIFF, {"no text in en": 2}),
        ("a.tmx", tmx([("eins", "one"), ("zwei", " ")]).replace("</body>", f"{SEGMENT}</body>"), {"no text in en": 3}),
        ("a.po", PO, {"no text in en": 1}),
        ("a.tsv", "de\ten\neins\tone\nzwei\t\n\tthree\n\t \n",
         {"no text in en": 1, "no text in de": 1, "no text in de or en": 1}),
        ("a.csv", 'de,en\neins,one\nzwei,""\n', {"no text in en": 1}),
        ("a.jsonl", "".join(f"{json.dumps(row)}\n" for row in ROWS), {"no text in en": 2}),
    ],
)  # fmt: skip
def test_units_with_blank_side_are_skipped(name: str, content: str, skipped: dict[str, int], tmp_path: Path) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    source = open_source(PathSource(path=name), ("de", "en"), tmp_path)
    assert [pair[:2] for pair in source.pairs()] == [("eins", "one")]
    assert source.units.skipped == skipped


def test_blank_lines_of_aligned_files_and_monolingual_text_are_kept(tmp_path: Path) -> None:
    sides = {"a.de": "eins\n\ndrei\n", "a.en": "one\n\n\n"}
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name, content in sides.items():
            (tmp_path / name).write_text(content)
            archive.writestr(name, content)
    (tmp_path / "a.jsonl").write_text('{"de": "eins"}\n{"de": ""}\n')
    for part, languages, expected in (
        (TrainFiles(files={"de": "a.de", "en": "a.en"}), ("de", "en"), [("eins", "one"), ("", ""), ("drei", "")]),
        (TrainPath(path="a.zip", format="moses"), ("de", "en"), [("eins", "one"), ("", ""), ("drei", "")]),
        (TrainPath(path="a.jsonl"), ("de", "de"), [("eins", "eins"), ("", "")]),
    ):
        units = Units()
        assert [pair[:2] for pair in read_part(part, languages, tmp_path, units)] == expected
        assert units.skipped == {}


def test_skipped_units_of_test_sets_are_reported(folder: Path) -> None:
    (folder / "test.tsv").write_text("de\ten\neins\tone\nzwei\t\n")
    (folder / "lines.de").write_text("eins\n\ndrei\nvier\n")
    (folder / "lines.en").write_text("one\n\n\nfour\n")
    tests = {"table": {"path": "test.tsv"}, "lines": {"files": {"de": "lines.de", "en": "lines.en"}}}
    train = [{"path": "rows.jsonl", "columns": {"de": "translation.de", "en": "translation.en"}}]
    data = {"direction": "de-en", "root": str(folder), "train": train, "valid": 5, "test": tests}
    told: list[str] = []
    dry_run(check_config({"data": data}, "test"), report=folder / "report", echo=told.append)
    report = json.loads((folder / "report" / "report.json").read_bytes())
    assert report["held_out"] == {"valid": 5, "table": 1, "lines": 4}
    warning = "data.test.table (test.tsv): units that are not one pair: no text in en 1"
    assert report["warnings"][0] == warning and f"warning: {warning}" in told
    assert warning in (folder / "report" / "report.html").read_text()
    (folder / "test.tsv").write_text("de\ten\nzwei\t\n")
    with pytest.raises(DataError, match=r"^data\.test\.table \(test\.tsv\): (?!.*test).*no text in en 1"):
        dry_run(check_config({"data": data}, "test"), echo=told.append)


def test_parts_are_read_independently(folder: Path) -> None:
    """One for each file, none for what is in an archive, and together they give all pairs in order."""
    (folder / "memories" / "b").mkdir()
    (folder / "memories" / "b" / "c.tmx").write_text(tmx(PAIRS[:5]), encoding="utf-8")
    for settings, n_parts in (
        ({"path": "memories"}, 2),
        ({"path": "agency.zip", "members": "*.tmx"}, 1),
        ({"path": ".", "members": "*.tmx"}, 1),
        ({"path": "table.tsv.gz", "columns": {"de": "2", "en": "1"}}, 1),
    ):
        source = open_source(TrainPath(**settings), ("de", "en"), folder)  # type: ignore[arg-type]
        parts = [TrainPath.model_validate(json.loads(part.model_dump_json())) for part in source.parts]
        units = Units()
        pairs = [pair for part in parts for pair in read_part(part, ("de", "en"), folder, units)]
        assert len(parts) == n_parts and len(pairs) >= 60
        assert (pairs, units.skipped) == (list(source.pairs()), source.units.skipped)
        assert {pair.corpus for pair in pairs} == {source.record.corpus}


def test_recipe_in_other_folder_finds_files(folder: Path) -> None:
    here = config(folder)
    files = TrainFiles(files={"de": "a.de", "en": "https://host/a.en"}, score="a.scores")
    others = [files, TrainPath(path="https://host/a.tmx"), TrainPath(path="a.tsv", score="bicleaner")]
    changes = {"valid": TrainPath(path="memories/a.tmx"), "train": [*here.data.train, *others]}
    moved = rooted(here.model_copy(update={"data": here.data.model_copy(update=changes)}))
    *rest, first, second, third = moved.data.train
    paths = ("memories/*.tmx", "agency.zip", "table.tsv.gz", "rows.jsonl")
    assert [source.path for source in rest] == [str(folder / path) for path in paths]
    assert first.files == {"de": str(folder / "a.de"), "en": "https://host/a.en"}
    assert (first.score, second.path, third.score) == (str(folder / "a.scores"), "https://host/a.tmx", "bicleaner")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"files": {"de": "a", "en": "b"}}, "exactly one of files, path, opus and hub"),
        ({"paths": ["a.parquet"]}, "paths: only available with hub"),
        ({"format": "docx"}, "format: must be"),
    ],
)
def test_conflicting_settings_raise(changes: dict[str, object], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        config(Path(), **changes)
