"""Corpora of OPUS: what is asked for, what is answered, and what is in the archives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nmt.errors import DataError
from nmt.prepare.download import cached
from nmt.prepare.opus import find_corpora, find_corpus, read_moses, read_notices
from opus_server import Opus, archive, moses, serve_opus

PAIR = ("de", "en")
QUESTION = "/api?source=de&target=en&preprocessing=moses&version=latest"


@pytest.fixture
def opus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opus]:
    with serve_opus(tmp_path / "cache", monkeypatch) as opus:
        opus.add("Talks", "v2", moses("Talks", "alt\n", "old\n"), latest=False, pairs=1)
        opus.add("Talks", "v10", moses("Talks", "eins\nzwei\n", "one\ntwo\n"))
        opus.add("books", "v1", moses("books", "", ""), pairs="")
        yield opus


def test_opus_corpora_of_pair_are_listed(opus: Opus) -> None:
    site = opus.site.url
    corpora = find_corpora(PAIR)
    assert corpora == find_corpora(("en", "de"))
    assert [(one.name, one.version, one.pairs, one.bytes, one.is_latest, one.url) for one in corpora] == [
        ("books", "v1", None, 3072, True, f"{site}/books/v1/moses/de-en.txt.zip"),
        ("Talks", "v10", 2, 3072, True, f"{site}/Talks/v10/moses/de-en.txt.zip"),
    ]
    assert [one.version for one in find_corpora(PAIR, "Talks", None)] == ["v10", "v2"]
    assert opus.site.requests[0] == QUESTION


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"<html>", "the response is not JSON"),
        (b"[" * 200_000, "the response is not JSON"),
        (b"[]", "not a valid response from OPUS"),
        (b'{"corpora": {}}', "not a valid response from OPUS"),
        (b'{"corpora": ["a"]}', "not a valid response from OPUS"),
        (b'{"corpora": [{"corpus": "a", "url": "b"}]}', "version"),
        (b'{"corpora": [{"corpus": 1, "version": "v1", "url": "b"}]}', "corpus"),
    ],
)
def test_invalid_opus_response_raises(body: bytes, expected: str, opus: Opus) -> None:
    opus.site.files[QUESTION] = body
    with pytest.raises(DataError) as caught:
        find_corpora(PAIR)
    assert str(caught.value).startswith(f"{opus.url}?source=de") and expected in str(caught.value)


@pytest.mark.usefixtures("opus")
def test_corpus_name_ignores_case() -> None:
    assert find_corpus("Talks", PAIR).version == "v10"
    assert find_corpus("talks", PAIR).version == "v10"
    assert find_corpus("talks", PAIR, "v2").version == "v2"
    with pytest.raises(DataError, match=r"^OPUS has no corpus Nothing for de-en; there are Talks, books$"):
        find_corpus("Nothing", PAIR)
    with pytest.raises(DataError, match=r"^OPUS has no version v99 of Talks for de-en; there are v10, v2$"):
        find_corpus("Talks", PAIR, "v99")


def test_downloaded_corpus_is_read_offline(opus: Opus, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = find_corpus("Talks", PAIR)
    path = cached(corpus.url).path
    assert path.read_bytes() == opus.site.files["/Talks/v10/moses/de-en.txt.zip"]
    assert list(read_moses(path, PAIR)) == [("eins", "one", None), ("zwei", "two", None)]
    assert list(read_moses(path, ("en", "de"))) == [("one", "eins", None), ("two", "zwei", None)]
    assert read_notices(path) == {"README": b"About Talks.\n", "LICENSE": b"Public domain.\n"}
    opus.site.files.clear()
    assert find_corpus("Talks", PAIR) == corpus and cached(corpus.url).path == path
    assert "using the cached response" in capsys.readouterr().err
    with pytest.raises(DataError, match="404"):
        find_corpus("Talks", PAIR, "v2")


def test_files_that_macos_adds_to_archives_are_ignored(tmp_path: Path) -> None:
    added = {"__MACOSX/._a.de": b"\0\x05\x16\x07", "__MACOSX/._a.en": b"\0\x05\x16\x07", "._a.en": b"\0"}
    (tmp_path / "a.zip").write_bytes(archive({"a.de": "eins\n", "a.en": "one\n", **added}))
    assert list(read_moses(tmp_path / "a.zip", PAIR)) == [("eins", "one", None)]


@pytest.mark.parametrize(
    "texts",
    [
        {},
        {"a.de": ""},
        {"a.de": "", "b.en": ""},
        {"a.de": "", "a.en": "", "b.de": "", "b.en": ""},
        {"de": "", "en": ""},
    ],
)
def test_archive_must_have_two_texts(texts: dict[str, str | bytes], tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(archive(texts))
    with pytest.raises(DataError, match=r"a\.zip: must have exactly one pair of files NAME\.de and NAME\.en; "):
        list(read_moses(tmp_path / "a.zip", PAIR))
