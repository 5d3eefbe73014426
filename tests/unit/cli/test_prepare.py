"""`nmt data`, with a local server in place of OPUS."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from command import Command
from nmt.config import Config
from nmt.data.sources import TrainFiles
from nmt.files.yaml12 import parse_yaml
from nmt.prepare import opus as opus_module
from opus_server import Opus, moses, serve_opus


@pytest.fixture
def opus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opus]:
    with serve_opus(tmp_path / "cache", monkeypatch) as opus:
        opus.add("Talks", "v1", moses("Talks", "alt\n", "old\n"), latest=False, pairs=None)
        opus.add("Talks", "v2", moses("Talks", "eins\nzwei ü\n", "one\ntwo\n"), pairs=1234567)
        yield opus


@pytest.mark.usefixtures("opus")
def test_list_shows_corpora_of_language_pair(nmt: Command) -> None:
    result = nmt("data", "list", "en-de")
    table = "corpus  version      pairs    size\nTalks   v2       1,234,567  0.0 MB\n"
    assert (result.status, result.err, result.out) == (0, "", table)
    [row] = json.loads(nmt("data", "list", "de-en", "--format=json").out)
    assert (row["name"], row["bytes"], row["is_latest"]) == ("Talks", 3072, True)


def test_show_describes_opus_corpus(nmt: Command, opus: Opus) -> None:
    result = nmt("data", "show", "talks", "de-en")
    assert f"version   v2, the latest: 1,234,567 pairs, 0.0 MB, {opus.site.url}/Talks/v2/" in result.out
    assert "version   v1: ? pairs" in result.out and "Tiedemann, 2012" in result.out
    assert "nmt data get Talks de-en --version v2 writes the corpus as text" in result.out
    assert result.out.endswith("data:\n  train:\n  - opus: Talks/v2\n")


@pytest.mark.parametrize("version", [None, "v1"])
def test_get_downloads_opus_corpus(version: str | None, nmt: Command, opus: Opus, tmp_path: Path) -> None:
    result = nmt("data", "get", "Talks", "de-en", *(["--version", version, "--output", "a/b"] if version else []))
    where, stem = "a/b" if version else "data", f"Talks-{version or 'v2'}.de-en"
    texts = {"de": "alt\n", "en": "old\n"} if version else {"de": "eins\nzwei ü\n", "en": "one\ntwo\n"}
    assert {path.name: path.read_text() for path in (tmp_path / where).iterdir()} == {
        f"{stem}.{end}": text
        for end, text in {"LICENSE": "Public domain.\n", "README": "About Talks.\n", **texts}.items()
    }
    settings: Any = parse_yaml(result.out, "out")
    [source] = Config.model_validate({"data": {"direction": "en-de", **settings["data"]}}).data.train
    files = {language: f"{where}/{stem}.{language}" for language in texts}
    assert source == TrainFiles(files=files, name=f"Talks-{version or 'v2'}")
    assert (result.status, result.err, len(opus.site.requests)) == (0, "", 2)


def test_get_keeps_corpora_of_other_pairs_and_versions(nmt: Command, opus: Opus, tmp_path: Path) -> None:
    opus.add("Talks", "v2", moses("Talks", "drei\n", "trois\n", "de-fr"), pair="de-fr")
    nmt("data", "get", "Talks", "de-en")
    kept = {path: path.read_bytes() for path in (tmp_path / "data").iterdir()}
    nmt("data", "get", "Talks", "de-fr")
    nmt("data", "get", "Talks", "de-en", "--version", "v1")
    assert {path: path.read_bytes() for path in kept} == kept
    assert len([*(tmp_path / "data").iterdir()]) == 12


def test_damaged_download_keeps_existing_files(
    nmt: Command, opus: Opus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nmt("data", "get", "Talks", "de-en")
    opus.site.files["/Talks/v2/moses/de-en.txt.zip"] = moses("Talks", "eins\n", "one\ntwo\n")
    monkeypatch.setenv("NMT_CACHE", str(tmp_path / "empty"))
    result = nmt("data", "get", "Talks", "de-en")
    assert result.status == 2 and "Talks.de-en.de has 1 line, Talks.de-en.en 2: they must pair" in result.err
    assert (tmp_path / "data" / "Talks-v2.de-en.en").read_text() == "one\ntwo\n"
    assert not list((tmp_path / "data").glob("*.part"))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("list", "Missing argument '[NAME] PAIR'; see --help"),
        ("list Talks de-en", "data list takes a language pair, as in nmt data list de-en, found Talks de-en"),
        ("show de-en", "data show takes a name and a language pair, as in nmt data show Europarl de-en, found de-en"),
        ("list de", "de: not a pair of languages; write it as de-en"),
        ("list de-de", "de-de: not a pair of languages; write it as de-en"),
        ("list de-en --version v8", "--version: not an option of nmt data list"),
        ("show a de-en --output b", "--output: not an option of nmt data show"),
        ("get a de-en --format json", "--format: not an option of nmt data get"),
        ("get Talk de-en", "OPUS has no corpus Talk for de-en; did you mean Talks?"),
        ("get Talks de-en --version v99", "OPUS has no version v99 of Talks for de-en; there are v2, v1"),
    ],
)
def test_invalid_data_arguments_are_rejected(line: str, expected: str, nmt: Command, opus: Opus) -> None:
    for version in ("latest", "v99"):
        question = f"/api?source={{}}&target={{}}&corpus=Talk&preprocessing=moses&version={version}"
        for pair in (("de", "en"), ("en", "de")):
            opus.site.files[question.format(*pair)] = b'{"corpora": []}'
    result = nmt("data", *line.split())
    assert (result.status, result.out, result.err) == (2, "", f"nmt: {expected}\n")


def test_file_names_of_corpora_are_sanitized() -> None:
    assert [opus_module._safe(name) for name in ("../../a", "a/b\n", ".rc", "", "WMT-News")] == [
        "_.._a", "a_b_", "rc", "corpus", "WMT-News",
    ]  # fmt: skip
