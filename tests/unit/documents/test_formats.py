"""Tests of all formats of documents: what the registry says of them, and files that are copied, damaged or hostile."""

from __future__ import annotations

import io
import time
import zipfile
from pathlib import PurePath

import pytest

from document_samples import SAMPLES, damaged
from nmt.documents import FORMATS, Document, open_document
from nmt.errors import DataError
from nmt.languages.codes import language_of
from untraced import untraced

BILINGUAL = {".po", ".csv", ".tsv", ".ts", ".xlf", ".xliff", ".sdlxliff", ".mqxliff", ".mxliff"}


def content_of(written: bytes) -> bytes | dict[str, bytes]:
    """Return a file, or the members of an archive."""
    if not zipfile.is_zipfile(io.BytesIO(written)):
        return written
    with zipfile.ZipFile(io.BytesIO(written)) as archive:
        return {member: archive.read(member) for member in archive.namelist()}


def shouted(text: str) -> str:
    """Return a text as a bad model would translate it: longer, with signs that all formats must escape."""
    return f"«{text.upper()}» & <\"'|*_#\\ 東京 עברית"


def test_each_format_has_sample() -> None:
    assert {PurePath(name).suffix for name in SAMPLES} >= {*FORMATS} - {".htm", ".docx", ".odt"}


def test_suffix_that_is_language_is_recognised_by_content() -> None:
    by_name = [suffix for suffix, row in FORMATS.items() if language_of(suffix[1:]) and not row.kind]
    assert by_name == [".txt", ".srt", ".odt"]  # far more usual as formats


@pytest.mark.parametrize("name", SAMPLES)
def test_copied_texts_keep_bytes(name: str) -> None:
    content = SAMPLES[name]
    document = open_document(name, content, "de")
    assert document.texts
    if PurePath(name).suffix in BILINGUAL:  # their empty translations are filled
        content = document.translated(document.texts)
        document = open_document(name, content, "de")
        assert document.texts == []
    assert content_of(document.translated(document.texts)) == content_of(content)


@pytest.mark.parametrize("name", SAMPLES)
def test_written_document_is_opened_again(name: str) -> None:
    document = open_document(name, SAMPLES[name], "de")
    written = document.translated([*map(shouted, document.texts)])
    again = open_document(name, written, "de")
    assert len(again.keys) <= len(document.keys) and {*again.keys} <= {*document.keys}
    assert content_of(again.translated(again.texts)) == content_of(written)


@pytest.mark.parametrize("name", SAMPLES)
def test_damaged_document_raises_or_is_written(name: str) -> None:
    begun = time.process_time()
    n_opened = 0
    with untraced():
        for content in damaged(SAMPLES[name]):
            try:
                document: Document = open_document(name, content, "de", "en")
                document.translated([*map(shouted, document.texts)], ("de", "en"))
                n_opened += 1
            except DataError as error:
                assert "\n" not in str(error) and str(error).isprintable() and name in str(error)
    is_always_valid = PurePath(name).suffix in (".txt", ".html", ".srt", ".properties", ".md", ".markdown")
    assert n_opened < 200 or is_always_valid
    assert time.process_time() - begun < 60


@pytest.mark.parametrize("name", SAMPLES)
def test_kept_translations_are_written_as_they_are(name: str) -> None:
    languages = ("de", "en" if PurePath(name).suffix in BILINGUAL else "pl")
    document = open_document(name, SAMPLES[name], *languages)
    written = document.translated([f"A {text} & 'b'" for text in document.texts], languages)
    again, previous = open_document(name, SAMPLES[name], *languages), open_document(name, written).units
    again.keep({key: previous[key] for key, unit in again.units.items() if not unit.target})
    if again.units:
        assert again.texts == []
        assert again.translated([], languages) == written
