"""A folder with a small corpus, and `prepare` run on it: what the tests of `prepare` share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nmt.config import Config
from nmt.config.load import check_config
from nmt.data.corpus import Corpus
from nmt.errors import DataError
from nmt.layout import DataDir
from nmt.prepare.pipeline.work import SIZES, Sizes
from nmt.prepare.prepare import prepare
from sentences import sentence_pairs, write_pairs

PAIRS = sentence_pairs(300)
TRAIN, VALID, TEST = PAIRS[:240], PAIRS[240:270], PAIRS[270:]


class Folder:
    """A folder with a small corpus, and `prepare` run on it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data = folder, folder / "data"
        self.said: list[str] = []
        self.write(train=TRAIN, valid=VALID, test=TEST)

    def write(self, **files: list[tuple[str, str]]) -> None:
        for name, pairs in files.items():
            write_pairs(self.folder / "text", name, pairs)

    def config(self, direction: str = "de-en", **changes: Any) -> Config:
        """Return the configuration; `data__max_chars=5` sets data.max_chars."""
        tree: dict[str, Any] = {
            "data": {"direction": direction, "root": str(self.folder / "text"), "train": [files("train")]},
            "tokenizer": {} if "tokenizer__model" in changes else {"vocab_size": 400},
        }
        tree["data"] |= {"valid": files("valid"), "test": {"test": files("test")}}
        for key, value in changes.items():
            section, name = key.split("__")
            tree.setdefault(section, {})[name] = value
        return check_config(tree, "test.yaml")

    def prepare(
        self, tokenizer_from: Path | None = None, sizes: Sizes = SIZES, force: bool = False, **changes: Any
    ) -> str:
        """Run `prepare` and return its messages."""
        self.said.clear()
        config = self.config(**changes)
        prepare(config, self.data, tokenizer_from, echo=self.said.append, sizes=sizes, force=force)
        return "\n".join(self.said)

    def refused(self, tokenizer_from: Path | None = None, **changes: Any) -> str:
        """Return the message, one line, with which `prepare` refuses its input."""
        with pytest.raises(DataError) as caught:
            self.prepare(tokenizer_from, **changes)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    def pairs(self, split: str) -> list[tuple[str, str]]:
        """Return the pairs of a split, German first."""
        texts = self.corpus().split(split)
        return list(zip(texts.text("de"), texts.text("en"), strict=True))

    def corpus(self) -> Corpus:
        return Corpus.open(DataDir(self.data))

    def manifest(self) -> dict[str, Any]:
        """Return the manifest as it was written, including the keys that its readers ignore."""
        return dict(json.loads((self.data / "manifest.json").read_bytes()))

    def content(self) -> dict[str, bytes]:
        return {str(path.relative_to(self.data)): path.read_bytes() for path in self.data.rglob("*") if path.is_file()}

    def left(self) -> set[str]:
        """What stands beside the text."""
        return {path.name for path in self.folder.iterdir()} - {"text"}


def files(name: str) -> dict[str, Any]:
    return {"files": {"de": f"{name}.de", "en": f"{name}.en"}}
