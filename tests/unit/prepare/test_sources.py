"""Local files: what a line is, how lines pair, and what is said about files that will not do."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.data.sources import TrainFiles
from nmt.errors import DataError
from nmt.files.read import checksum
from nmt.prepare.pairs import SentencePair
from nmt.prepare.sources import open_source, text_folder
from nmt.text.lines import read_aligned, read_lines


def write(folder: Path, **files: bytes) -> None:
    for name, data in files.items():
        (folder / name.replace("_", ".")).write_bytes(data)


def lines_of(path: Path) -> list[str]:
    return list(read_lines(path))


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a\nb\n", ["a", "b"]),
        (b"a\nb", ["a", "b"]),
        (b"a\r\nb\r\n\r\n", ["a", "b", ""]),
        (b"a\r\nb\r", ["a", "b"]),
        (b"a\rb\n", ["a\rb"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
        ("a\u2028b\u0085c\x0bd\x0ce\x1cf\x00g\th\n".encode(), ["a\u2028b\u0085c\x0bd\x0ce\x1cf\x00g\th"]),
        (" \U0001f600  a \n".encode(), [" \U0001f600  a "]),
        (b"\n\n \n", ["", "", " "]),
    ],
)
def test_lines_end_at_line_feeds_only(tmp_path: Path, data: bytes, lines: list[str]) -> None:
    (tmp_path / "a.de").write_bytes(data)
    assert lines_of(tmp_path / "a.de") == lines


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\ufeff"))))
def test_written_lines_are_read_back(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    path = tmp_path_factory.mktemp("lines") / "a"
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    assert list(read_lines(path)) == lines


def test_unusual_lines_do_not_misalign_pairs(tmp_path: Path) -> None:
    odd = ["\x00", "a\u2028b", "\t", "", "\U0001f600", "wort " * 5000, "x\x0cy", "\ufeff", "z\rz"]
    pairs = [(line, str(i)) for i, line in enumerate(odd)]
    src, tgt = ("".join(f"{line}\r\n" for line in side).encode() for side in zip(*pairs, strict=True))
    write(tmp_path, a_de=src, a_en=tgt)
    assert list(read_aligned(tmp_path / "a.de", tmp_path / "a.en")) == pairs


def test_compressed_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.de.gz").write_bytes(gzip.compress(b"\xef\xbb\xbfeins\r\nzwei\n"))
    assert lines_of(tmp_path / "a.de.gz") == ["eins", "zwei"]


@pytest.mark.parametrize(("n_de", "n_en"), [(3, 2), (2, 3), (0, 2), (2, 0), (2, 5000)])
def test_unequal_numbers_of_lines_raise(tmp_path: Path, n_de: int, n_en: int) -> None:
    write(tmp_path, a_de=b"x\n" * n_de, a_en=b"x\n" * n_en)
    with pytest.raises(DataError, match=f"^a.de has {n_de} lines, a.en {n_en:,}: they must pair line by line"):
        list(read_aligned(tmp_path / "a.de", tmp_path / "a.en"))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"gut\nschlecht\xe4\n", "not UTF-8 at line 2, byte 9 of the line (0xE4); convert it from its"),
        (b"\xef\xbb\xbf\xffab\n", "not UTF-8 at line 1, byte 1 of the line (0xFF); convert it from its"),
        (b"\x89PNG\r\n\x1a\n", "not UTF-8 at line 1, byte 1 of the line (0x89); "),
        (b"\x00\x01\xf0\x02\n", "not UTF-8 at line 1, byte 3 of the line (0xF0); is it a text file?"),
    ],
)
def test_file_that_is_not_text_raises(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "a.de").write_bytes(data)
    with pytest.raises(DataError, match=re.escape(f"a.de: {message}")):
        lines_of(tmp_path / "a.de")


def test_missing_or_broken_files_raise(tmp_path: Path) -> None:
    write(tmp_path, a_gz=b"not gzip\n", cut_gz=gzip.compress(b"a\n" * 10_000)[:-9], b_de=b"x")
    name = r"a\.gz: its name ends in \.gz, but it is not compressed with gzip; if "
    cut = r"cut\.gz: not readable as gzip after line \d+: it is cut off"
    missing, folder = r"absent: no such file", "a directory, where a text file is needed"
    for read, file, said in (
        (checksum, "absent", missing), (lines_of, "absent", missing), (checksum, ".", folder), (lines_of, ".", folder),
        (lines_of, "a.gz", name), (lines_of, "cut.gz", cut),
    ):  # fmt: skip
        with pytest.raises(DataError, match=said):
            read(tmp_path / file)
    with pytest.raises(DataError, match=name):
        list(open_source(TrainFiles(files={"de": "b.de", "en": "a.gz"}), ("de", "en"), tmp_path).pairs())


def test_files_source_is_reusable(tmp_path: Path) -> None:
    write(tmp_path, t_de=b"eins\nzwei\n", t_en=b"one\ntwo\n")
    source = TrainFiles(files={"en": "t.en", "de": "t.de"}, name="numbers")
    opened = open_source(source, ("de", "en"), tmp_path)
    assert list(opened.pairs()) == [SentencePair("eins", "one", "numbers"), SentencePair("zwei", "two", "numbers")]
    assert list(opened.pairs()) == list(opened.pairs())
    assert opened.record.model_dump(exclude_unset=True) == {
        "corpus": "numbers",
        "files": {
            "de": {"name": "t.de", "sha256": checksum(tmp_path / "t.de")},
            "en": {"name": "t.en", "sha256": checksum(tmp_path / "t.en")},
        },
    }


# --- the sample corpus ---------------------------------------------------------------------------


def test_sample_corpus_is_found_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert text_folder("data/other") == Path("data/other")
    in_checkout = text_folder("data/sample")
    assert in_checkout.is_absolute() and (in_checkout / "train.de").is_file()
    package = tmp_path / "site-packages" / "nmt"
    (package / "data" / "sample").mkdir(parents=True)
    monkeypatch.setattr("nmt.files.read.__file__", str(package / "files" / "read.py"))
    assert text_folder("data/sample") == package / "data" / "sample"
    (tmp_path / "data" / "sample").mkdir(parents=True)  # one's own comes first
    assert text_folder("data/sample") == Path("data/sample")
