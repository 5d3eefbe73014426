"""Scores of pairs: a column of a table, a property of a unit, or a file beside aligned text."""

from __future__ import annotations

import gzip
import json
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from folders import TRAIN, Folder
from nmt.config.load import check_config
from nmt.data.sources import Source, TrainFiles, TrainPath
from nmt.errors import ConfigError, DataError
from nmt.prepare.pairs import SentencePair
from nmt.prepare.sources import open_source

ROWS = [
    ("eins", "one", "0.5"),
    ("zwei", "two", "-1e-2"),
    ("drei", "three", "nan"),
    ("vier", "four", ""),
    ("x", "y", "7"),
]
EXPECTED = [
    SentencePair("eins", "one", "c", 0.5),
    SentencePair("zwei", "two", "c", -0.01),
    SentencePair("x", "y", "c", 7.0),
]
COLUMNS = {"de": [de for de, _, _ in ROWS], "en": [en for _, en, _ in ROWS]}
NUMBERS = [0.5, -0.01, float("nan"), None, 7]


def table(separator: str) -> bytes:
    return "".join(f"{separator.join(row)}\n" for row in [("de", "en", "bicleaner"), *ROWS]).encode()


def tmx() -> str:
    units = "".join(
        f'<tu><prop type="bicleaner">{score}</prop><tuv xml:lang="de"><seg>{de}</seg></tuv>'
        f'<tuv xml:lang="en"><prop type="other">9</prop><seg>{en}</seg></tuv></tu>'
        for de, en, score in ROWS
    )
    return f'<tmx version="1.4"><header/><body>{units}</body></tmx>'


def json_lines(scores: list[object]) -> str:
    rows = zip(ROWS, scores, strict=True)
    return "".join(json.dumps({"t": {"de": de, "en": en}, "m": {"s": score}}) + "\n" for (de, en, _), score in rows)


def written(name: str, folder: Path) -> dict[str, object]:
    """Write a file and return the settings for it."""
    path = folder / name
    settings: dict[str, object] = {"path": name, "score": "bicleaner"}
    match name:
        case "a.tsv" | "a.csv":
            path.write_bytes(table("\t" if name == "a.tsv" else ";"))
        case "numbers.tsv":
            path.write_bytes(table("\t").partition(b"\n")[2])
            settings |= {"columns": {"de": 1, "en": 2}, "score": 3}
        case "a.jsonl":
            path.write_text(json_lines([0.5, "-0.01", True, None, 7]), encoding="utf-8")
            settings |= {"columns": {"de": "t.de", "en": "t.en"}, "score": "m.s"}
        case "a.parquet":
            pa.parquet.write_table(pa.table({**COLUMNS, "bicleaner": pa.array(NUMBERS, pa.float64())}), path)
        case "a.feather":
            nested = pa.array([{"s": None if number is None else str(number)} for number in NUMBERS])
            pa.feather.write_feather(pa.table({**COLUMNS, "m": nested}), str(path))
            settings["score"] = "m.s"
        case "a.tmx":
            path.write_text(tmx(), encoding="utf-8")
    return settings


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "numbers.tsv", "a.jsonl", "a.parquet", "a.feather", "a.tmx"])
def test_score_column_is_read(name: str, tmp_path: Path) -> None:
    """Rows without a number are skipped and counted."""
    settings = {**written(name, tmp_path), "name": "c"}
    source = check_config({"data": {"direction": "de-en", "train": [settings]}}, "test").data.train[0]
    opened = open_source(source, ("de", "en"), tmp_path)
    assert [pair._replace(document=0) for pair in opened.pairs()] == EXPECTED
    assert opened.units.skipped == {"no number as score": 2}
    without = {key: value for key, value in settings.items() if key != "score"}
    source = check_config({"data": {"direction": "de-en", "train": [without]}}, "test").data.train[0]
    assert [pair.score for pair in open_source(source, ("de", "en"), tmp_path).pairs()] == [None] * 5


def test_score_in_format_without_scores_raises(tmp_path: Path) -> None:
    (tmp_path / "a.po").write_text('msgid ""\nmsgstr "Language: de"\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"a\.po: PO files have no scores; remove score from the config"):
        list(open_source(TrainPath(path="a.po", score="x"), ("de", "en"), tmp_path).pairs())
    with pytest.raises(ConfigError, match=r"valid\.score: only available for training corpora"):
        pair = {"files": {"de": "a", "en": "b"}}
        check_config({"data": {"direction": "de-en", "train": [pair], "valid": {**pair, "score": "c"}}}, "test")


def aligned(folder: Path, scores: bytes, kind: str) -> Source:
    """Write aligned text with scores, plain, compressed, or in an archive as OPUS has it."""
    texts = {"de": "".join(f"{de}\n" for de, _, _ in ROWS), "en": "".join(f"{en}\n" for _, en, _ in ROWS)}
    if kind == "moses":
        with zipfile.ZipFile(folder / "a.zip", "w") as archive:
            for ending, text in {**texts, "scores": scores}.items():
                archive.writestr(f"C.de-en.{ending}", text)
        return TrainPath(path="a.zip", format="moses", score="scores", name="c")
    for language, text in texts.items():
        (folder / f"a.{language}").write_text(text, encoding="utf-8")
    name = "a.scores.gz" if kind == "gz" else "a.scores"
    (folder / name).write_bytes(gzip.compress(scores) if kind == "gz" else scores)
    return TrainFiles(files={"de": "a.de", "en": "a.en"}, score=name, name="c")


@pytest.mark.parametrize("kind", ["plain", "gz", "moses"])
def test_score_file_is_read(kind: str, tmp_path: Path) -> None:
    opened = open_source(aligned(tmp_path, b"1\n2\r\n 3e0\n-4\n5", kind), ("de", "en"), tmp_path)
    assert [pair.score for pair in opened.pairs()] == [1, 2, 3, -4, 5]
    assert ("score" in opened.record.files) == (kind != "moses")
    for scores, problem in (
        (b"1\n2\nthree\n4\n5\n", "scores.*line 3: 'three', where a score must be a number"),
        (b"1\n2\n3\n4\n", "has 5 lines, .*scores"),
        (b"1\n2\n3\n4\n5\n6\n", "scores 6: they must pair line by line"),
    ):
        source = aligned(tmp_path, scores, "plain" if kind == "gz" else kind)
        with pytest.raises(DataError, match=problem):
            list(open_source(source, ("de", "en"), tmp_path).pairs())


@pytest.mark.parametrize("name", ["a.tsv", "a.jsonl"])
def test_score_at_limit_is_kept(name: str, tmp_path: Path) -> None:
    """A score of 0.7 is kept at the limit 0.7, although 0.7 is less in 32 bits."""
    place = Folder(tmp_path)
    rows = [(*pair, "0.7" if number else "0.699999") for number, pair in enumerate(TRAIN)]
    text = "".join(
        f"{json.dumps(dict(zip(('de', 'en', 's'), row, strict=True)))}\n"
        if name == "a.jsonl"
        else "\t".join(row) + "\n"
        for row in rows
    )
    header = "de\ten\ts\n" if name == "a.tsv" else ""
    (tmp_path / "text" / name).write_text(header + text, encoding="utf-8")
    place.prepare(data__train=[{"path": name, "score": "s", "clean": {"min_score": 0.7}}])
    assert place.manifest()["sources"]["train.0"]["dropped"] == {"score": 1}
