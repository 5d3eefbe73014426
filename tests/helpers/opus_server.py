"""OPUS on the loopback interface: its API and its archives."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import pytest

from file_server import Site, serve_files
from nmt.prepare import download as http


def archive(texts: dict[str, str | bytes]) -> bytes:
    """Return a zip archive with these files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, text in texts.items():
            opened.writestr(name, text)
    return buffer.getvalue()


def moses(name: str, de: str, other: str, pair: str = "de-en") -> bytes:
    """Return an archive in the format of OPUS."""
    stem = f"{name}.{pair}"
    texts = {f"{stem}.de": de, f"{stem}.{pair.removeprefix('de-')}": other, f"{stem}.xml": "<cesAlign/>"}
    return archive({"README": f"About {name}.\n", "LICENSE": "Public domain.\n", **texts})


class Opus:
    """Corpora of the language pair de-en, and of others with German, on a site."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.url = f"{site.url}/api"
        self.entries: list[dict[str, object]] = []

    def add(
        self, name: str, version: str, data: bytes, latest: bool = True, pairs: object = 2, pair: str = "de-en"
    ) -> str:
        """Add a version of a corpus, and return the path of its archive."""
        path = f"/{name}/{version}/moses/{pair}.txt.zip"
        self.site.files[path] = data
        self.entries.append(
            {"corpus": name, "version": version, "url": self.site.url + path, "size": 3, "alignment_pairs": pairs,
             "source": "de", "target": pair.removeprefix("de-"), "preprocessing": "moses", "latest": str(latest),
             "documents": "", "id": len(self.entries), "source_tokens": 10, "target_tokens": 11}
        )  # fmt: skip
        self.answer()
        return path

    def answer(self) -> None:
        """Make the API answer all requests about the added corpora."""
        names = {str(entry["corpus"]) for entry in self.entries}
        versions = {str(entry["version"]) for entry in self.entries}
        for corpus in (None, "Nothing", *names, *(name.lower() for name in names)):
            for version in (None, "latest", "v99", *versions):
                self._answer(corpus, version)

    def _answer(self, corpus: str | None, version: str | None) -> None:
        found = [
            entry
            for entry in self.entries
            if corpus in (None, entry["corpus"])
            and (version in (None, entry["version"]) or (version == "latest" and entry["latest"] == "True"))
        ]
        for other in {"en", *(str(entry["target"]) for entry in self.entries)}:
            for source, target in (("de", other), (other, "de")):
                question = {"source": source, "target": target, "corpus": corpus, "preprocessing": "moses"}
                asked = {key: value for key, value in (question | {"version": version}).items() if value is not None}
                content = {
                    "corpora": [entry for entry in found if (entry["source"], entry["target"]) == (source, target)]
                }
                self.site.files[f"/api?{urlencode(asked)}"] = json.dumps(content).encode()


@contextmanager
def serve_opus(cache: Path, patch: pytest.MonkeyPatch) -> Iterator[Opus]:
    """An OPUS without corpora that `nmt` finds, without pauses before a retry or a proxy; downloads go to `cache`."""
    patch.setattr(http, "PAUSES", ())
    patch.setenv("NMT_CACHE", str(cache))
    for name in ("http_proxy", "HTTP_PROXY"):
        patch.delenv(name, raising=False)
    with serve_files() as site:
        opus = Opus(site)
        patch.setenv("NMT_OPUS_URL", opus.url)
        yield opus
