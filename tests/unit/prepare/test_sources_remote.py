"""Sources at URLs and of OPUS, from servers on the loopback interface, to the data directory and again."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from file_server import Site
from nmt.config import Config
from nmt.config.load import check_config
from nmt.errors import ConfigError, DataError
from nmt.prepare.prepare import prepare
from opus_server import moses, serve_opus

WORDS = ["eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn"]
PAIRS = [(f"{one} {two} {n}", f"{one[::-1]} {two[::-1]} {n}") for one in WORDS for two in WORDS for n in (1, 2)]
DE, EN = ("".join(f"{pair[side]}\n" for pair in PAIRS) for side in (0, 1))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    with serve_opus(tmp_path / "cache", monkeypatch) as opus:
        site = opus.site
        opus.add("Talks", "v2", moses("Talks", DE, EN))
        site.files["/a.de.gz"] = gzip.compress(DE.encode())
        site.files["/a.en"] = EN.encode()
        site.files["/t.tsv"] = "".join(f"{de}\t{en}\n" for de, en in PAIRS).encode()
        yield site


def config(root: Path, source: dict[str, object], **settings: object) -> Config:
    data = {"direction": "de-en", "root": str(root), "train": [source], "valid": 20}
    return check_config({"data": data | settings, "tokenizer": {"vocab_size": 330}}, "test")


def digest(site: Site, path: str) -> str:
    return hashlib.sha256(site.files[path]).hexdigest()


def recorded(folder: Path) -> dict[str, object]:
    """What the manifest says of the training corpus, without counts."""
    record = json.loads((folder / "data" / "manifest.json").read_bytes())["sources"]["train.0"]
    assert (record.pop("read"), record.pop("kept"), record.pop("dropped")) == (200, 180, {"valid": 20})
    return dict(record)


OPUS = "/Talks/v2/moses/de-en.txt.zip"
KINDS = ["opus", "opus/v2", "path", "files"]


def source_of(kind: str, site: Site) -> tuple[dict[str, object], dict[str, object], dict[str, object]]:
    """Return a source, what is added to pin it, and its record."""
    match kind:
        case "opus" | "opus/v2":
            files = {f"{site.url}{OPUS}": {"sha256": digest(site, OPUS)}}
            record = {
                "corpus": "Talks-v2" if "v2" in kind else "Talks",
                "opus": "Talks",
                "version": "v2",
                "files": files,
            }
            return {"opus": "Talks/v2" if "v2" in kind else "Talks"}, {"sha256": digest(site, OPUS)}, record
        case "path":
            url = f"{site.url}/t.tsv"
            record = {"corpus": "t.tsv", "files": {url: {"sha256": digest(site, "/t.tsv")}}}
            return {"path": url, "columns": {"de": 1, "en": 2}}, {"sha256": digest(site, "/t.tsv")}, record
        case _:
            names = {"de": f"{site.url}/a.de.gz", "en": f"{site.url}/a.en"}
            sums = {"de": digest(site, "/a.de.gz"), "en": digest(site, "/a.en")}
            files = {code: {"name": names[code], "sha256": sums[code]} for code in names}
            return {"files": names}, {"sha256": sums}, {"corpus": "a.de.gz", "files": files}


@pytest.mark.parametrize("kind", KINDS)
def test_second_prepare_needs_no_network(
    kind: str, site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither to see that nothing has changed, nor to prepare again from the cache."""
    source, pin, record = source_of(kind, site)
    for settings in (source, source | pin):
        prepare(config(tmp_path, settings), tmp_path / "data")
        assert recorded(tmp_path) == record
    said = capsys.readouterr()
    assert "is up to date with 180 training pairs" in said.out  # to pin it changes nothing
    for sum_ in pin["sha256"].values() if isinstance(pin["sha256"], dict) else [pin["sha256"]]:
        assert f"{sum_}" in said.err
    assert "to reject any other content from now on, add " in said.err
    site.files.clear()
    site.requests.clear()
    shutil.rmtree(tmp_path / "data")
    for _ in range(2):
        prepare(config(tmp_path, source | pin), tmp_path / "data")
    assert recorded(tmp_path) == record
    assert len(site.requests) <= 2
    assert "opus" in kind or not any(request.startswith("/api") for request in site.requests)
    assert "to reject any other content" not in capsys.readouterr().err


@pytest.mark.parametrize("kind", KINDS)
def test_unexpected_checksum_raises(kind: str, site: Site, tmp_path: Path) -> None:
    source, pin, _ = source_of(kind, site)
    prepare(config(tmp_path, source), tmp_path / "data")
    other = "0" * 64
    wrong = {"sha256": {**pin["sha256"], "en": other} if isinstance(pin["sha256"], dict) else other}
    with pytest.raises(DataError, match=f"its SHA-256 is [0-9a-f]{{64}}, but {other} is expected"):
        prepare(config(tmp_path, source | wrong), tmp_path / "data")
    assert recorded(tmp_path)["corpus"]  # the old directory is still there


def test_checksums_of_local_files_are_verified(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("".join(f"{de}\t{en}\n" for de, en in PAIRS), encoding="utf-8")
    table = {"path": "t.tsv", "columns": {"de": 1, "en": 2}}
    right = hashlib.sha256((tmp_path / "t.tsv").read_bytes()).hexdigest()
    prepare(config(tmp_path, table | {"sha256": right.upper(), "pairs": 200}), tmp_path / "data")
    for wrong, problem in (
        ({"sha256": "0" * 64}, f"t.tsv: its SHA-256 is {right}, but the config expects 000000"),
        ({"pairs": 201}, r"t\.tsv: has 200 pairs, but the config says pairs: 201"),
    ):
        with pytest.raises(DataError, match=problem):
            prepare(config(tmp_path, table | wrong), tmp_path / "data")
    with pytest.raises(DataError, match="sha256 is for one file, but the source has 2"):
        (tmp_path / "u.tsv").write_bytes(b"a\tb\n")
        prepare(config(tmp_path, table | {"path": "*.tsv", "sha256": right}), tmp_path / "new")


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ({"path": "ftp://host/a.tmx"}, "ftp://host/a.tmx: only https:// and http:// URLs are supported"),
        ({"path": "https://me:secret@host/a.tmx"}, "host: the URL contains a password"),
        ({"path": "a.tmx", "sha256": "abc"}, "sha256: must be 64 hexadecimal digits, found 'abc'"),
        ({"path": "a.tmx", "sha256": {"de": "0" * 64}}, "sha256: must be text"),
        ({"files": {"de": "a", "en": "b"}, "sha256": "0" * 64}, "sha256: must be a mapping"),
        ({"files": {"de": "a", "en": "b"}, "sha256": {"fr": "0" * 64}}, "sha256: must name de and en, found fr"),
        ({"opus": "Talks/v1/x"}, "opus: must be a corpus, optionally with its version, such as Europarl/v8; found"),
        ({"opus": "Talks", "hub": "a/b", "paths": ["a.jsonl"]}, "exactly one of files, path, opus and hub"),
        ({"opus": "Talks", "columns": {"de": "a", "en": "b"}}, "columns: only available with path and hub"),
        ({"path": "a.tmx", "revision": "v1"}, "revision: only available with hub"),
        ({"path": "a.tmx", "pairs": 0}, "pairs: must be at least 1"),
    ],
)
def test_invalid_source_settings_raise(source: dict[str, object], problem: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        config(tmp_path, source)
    assert problem in str(caught.value) and "secret" not in str(caught.value)
