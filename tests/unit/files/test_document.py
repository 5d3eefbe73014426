"""JSON documents: validated models in, one line that names the file for everything else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nmt.errors import CheckpointError, DataError, UnsafeFileError
from nmt.files import read
from nmt.files.document import Document, Sealed, document_text, read_document, sealed_text


class Inner(Document):
    n: int


class Note(Document):
    format: int
    text: str
    inner: Inner | None = None
    tags: list[str] = []  # noqa: RUF012 (pydantic copies it)


class Letter(Sealed):
    text: str


def written(path: Path, content: object) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def test_written_documents_are_read_back(tmp_path: Path) -> None:
    note = Note(format=1, text="é", inner=Inner(n=3))
    path = written(tmp_path / "note.json", document_text(note))
    assert [*json.loads(path.read_text()).items()] == [("format", 1), ("text", "é"), ("inner", {"n": 3})]
    assert read_document(path, Note, DataError, formats=(1,)) == note


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "damaged: Expecting value"),
        ("[1]", "damaged: not a JSON object"),
        ("[" * 100_000, "damaged: "),
        ({}, "damaged: it lacks format, text"),
        ({"format": 1, "text": 2}, "damaged: text has an invalid value"),
        ({"format": True, "text": "a"}, "damaged: format has an invalid value"),
        ({"format": 1, "text": "a", "inner": {"n": "3"}}, "damaged: inner.n has an invalid value"),
        ({"format": 2}, "written in format 2, but this version of nmt reads 1"),
        ({"format": "1", "text": "a"}, "written in format 1, but this version of nmt reads 1"),
    ],
)
def test_invalid_document_raises(content: object, message: str, tmp_path: Path) -> None:
    path = written(tmp_path / "note.json", content)
    with pytest.raises(CheckpointError) as error:
        read_document(path, Note, CheckpointError, "; remove it", formats=(1,))
    assert str(error.value).startswith(f"{path}: {message}")
    assert str(error.value).endswith("; remove it") and "\n" not in str(error.value)


def test_unreadable_file_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError):
        read_document(tmp_path / "none.json", Note, DataError)
    with pytest.raises(DataError, match=r": cannot be read: Is a directory; remove it$"):
        read_document(tmp_path, Note, DataError, "; remove it")
    monkeypatch.setattr(read, "DOCUMENT_BYTES", 10)
    with pytest.raises(UnsafeFileError, match="more than such a file has"):
        read_document(written(tmp_path / "note.json", {"format": 1, "text": "a"}), Note, DataError)


def test_seal_covers_whole_document(tmp_path: Path) -> None:
    text = sealed_text({"format": 1, "text": "a", "more": 1})
    assert read_document(written(tmp_path / "a", text), Letter, DataError, formats=(1,)).text == "a"
    for old, new in (('"a"', '"b"'), ('"more": 1', '"more": 2'), ('"seal"', '"deal"')):
        changed = written(tmp_path / "b", text.replace(old, new))
        with pytest.raises(DataError, match=r"b: damaged: its checksum does not match"):
            read_document(changed, Letter, DataError, formats=(1,))
    later = written(tmp_path / "c", text.replace('"format": 1', '"format": 2'))
    with pytest.raises(DataError, match="written in format 2, but this version of nmt reads 1"):
        read_document(later, Letter, DataError, formats=(1,))
