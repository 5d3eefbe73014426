"""Opening and writing a data directory."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from nmt.data.corpus import Corpus, lines_of
from nmt.data.manifest import DATA_FORMAT, content_fingerprint, file_facts
from nmt.errors import DataError
from nmt.layout import DataDir
from nmt.prepare.pipeline.encode import write_encoded
from nmt.text.blocks import BlockEncoder
from nmt.text.tokenizer import train_tokenizer
from nmt.text.vocabularies import Tokenizers

LINES = [["eins  zwei", "", "drei\u2028vier"], ["one\ttwo", "x", ""]]


@pytest.fixture
def directory(tmp_path: Path) -> DataDir:
    """A data directory of three pairs."""
    directory = DataDir(tmp_path / "data")
    tokenizer = train_tokenizer(LINES[0] + LINES[1], 300)
    tokenizers = Tokenizers({"de": tokenizer, "en": tokenizer}, joint=True)
    tokenizers.save(directory.tokenizer)
    for language, lines in zip(("de", "en"), LINES, strict=True):
        encoded = BlockEncoder(tokenizer).encode(lines)
        counts = write_encoded(directory, "train", language, [f"{line}\n".encode() for line in lines], encoded)
        if language == "de":
            assert (counts.words, counts.characters) == (4, 16)
    files = file_facts(directory.path)
    manifest = {
        "format": DATA_FORMAT,
        "languages": ["de", "en"],
        "fingerprint": content_fingerprint(files),
        "tokenizer": {"fingerprint": tokenizers.fingerprint},
        "splits": {"train": {"pairs": 3}},
        "files": {name: file.model_dump() for name, file in files.items()},
    }
    directory.manifest.write_text(json.dumps(manifest))
    return directory


def test_corpus_restores_any_line(directory: DataDir) -> None:
    split = Corpus.open(directory).split("train")
    assert [split.text("de"), split.text("en")] == LINES
    assert lines_of(split, "de").n_ids()[1] == 0
    assert split.ends("en")[2] == split.ends("en")[1] == len(split.ids("en"))
    assert all(isinstance(read("de"), np.memmap) for read in (split.ids, split.ends))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("absent", "absent: no such data directory; nmt prepare with the same --config creates it"),
        (".", r"no data directory: manifest\.json is missing; run nmt prepare"),
    ],
)
def test_missing_data_directory_raises(name: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=said):
        Corpus.open(DataDir(tmp_path / name))


@pytest.mark.parametrize("content", ["", "[]", "3", '"x"', "[" * 100_000, '{"format": {}}', "null", '{"format": 1}'])
def test_invalid_manifest_raises(directory: DataDir, content: str) -> None:
    directory.manifest.write_text(content)
    with pytest.raises(DataError, match=r"manifest\.json: (damaged: |written in format \{\}, but this).*; remove"):
        Corpus.open(directory)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("languages", ["de"]),
        ("languages", "de-en"),
        ("fingerprint", 3),
        ("tokenizer", []),
        ("tokenizer", {"fingerprint": None}),
        ("splits", {"train": {"pairs": "3"}}),
        ("splits", {"train": {"pairs": 0}}),
        ("warnings", 5),
        ("warnings", [5]),
        ("files", ["train.de"]),
        ("files", {"train.de": {"bytes": 1.5, "sha256": ""}}),
        ("splits", {"train": {"pairs": 4}}),
        ("tokenizer", {"fingerprint": "0" * 16}),
    ],
)
def test_manifest_with_wrong_value_raises(directory: DataDir, key: str, value: object) -> None:
    Corpus.open(directory).verify("train")
    manifest = json.loads(directory.manifest.read_bytes())
    directory.manifest.write_text(json.dumps(manifest | {key: value}))
    damaged = rf"(it lacks )?{key}.*; remove the directory|train has a different number of lines"
    said = rf"manifest\.json: damaged: ({damaged})|tokenizer: not the tokenizer of the manifest; run nmt prepare again"
    with pytest.raises(DataError, match=said):
        Corpus.open(directory).verify("train")


def test_truncated_file_raises(directory: DataDir) -> None:
    path = directory.ids("train", "en")
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[:-2])
    said = rf"train\.en\.ids\.npy: {size - 2} bytes, but the manifest says {size} bytes; run nmt"
    with pytest.raises(DataError, match=said):
        Corpus.open(directory)


def test_fingerprint_covers_every_file(directory: DataDir) -> None:
    seen = {content_fingerprint(file_facts(directory.path))}
    for path in sorted(path for path in directory.path.rglob("*") if path.is_file()):
        data = path.read_bytes()
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        seen.add(content_fingerprint(file_facts(directory.path)))
        path.write_bytes(data)
    assert len(seen) == 1 + len(list(directory.path.rglob("*.*")))
