"""Tests of the settings of monolingual text, `data.mono`."""

from __future__ import annotations

import pytest

from nmt.config import Config
from nmt.config.load import check_config, dump_config, parse_yaml
from nmt.data.sources import Source
from nmt.errors import ConfigError

ENGLISH = {"files": {"en": "news.en.gz"}}


def config(mono: object, **data: object) -> Config:
    pair = {"files": {"de": "a", "en": "b"}}
    return check_config({"data": {"direction": "de-en", "train": [pair], "mono": mono, **data}}, "test.yaml")


@pytest.mark.parametrize(
    ("mono", "problem"),
    [
        ({"fr": [{"files": {"fr": "a"}}]}, "data.mono: must name de or en, found fr"),
        ({"en": []}, "data.mono.en: must have at least one entry, found []"),
        ({"en": ENGLISH}, "data.mono.en: must be a list, found {files: {en: 'news.en.gz'}}"),
        ({"en": [{"files": {"de": "a"}}]}, "data.mono.en.0.files: must name en, found de"),
        (
            {"en": [ENGLISH, {"files": {"de": "a", "en": "b"}}]},
            "data.mono.en.1.files: must name en, found de, en",
        ),
        ({"en": [{"path": "a.tsv"}]}, "data.mono.en.0: must be a mapping with either files or hub"),
        ({"en": [{"opus": "Talks"}]}, "data.mono.en.0: must be a mapping with either files or hub"),
        (
            {"en": [{"hub": "a/b", "paths": ["a.csv"]}]},
            "data.mono.en.0.paths: monolingual text from the Hub must be in .parquet or .jsonl files",
        ),
        (
            {"en": [{"hub": "a/b", "paths": ["a.jsonl"], "columns": {"de": "text"}}]},
            "data.mono.en.0.columns: must name en, found de",
        ),
        ({"en": [ENGLISH | {"sha256": {"de": "0" * 64}}]}, "data.mono.en.0.sha256: must name en, found de"),
        ({"en": [ENGLISH | {"sha256": "0" * 64}]}, "data.mono.en.0.sha256: must be a mapping, found '000"),
        ({"en": [ENGLISH | {"repeat": 2}]}, "data.mono.en.0.repeat: only available for training corpora"),
        ({"en": [ENGLISH | {"weight": 1.0}]}, "data.mono.en.0.weight: only available for training corpora"),
        ({"en": [ENGLISH | {"score": "s"}]}, "data.mono.en.0.score: only available for training corpora"),
        (
            {"en": [ENGLISH | {"clean": {"drop": ["shouted"]}}]},
            "data.mono.en.0.clean: only available for training corpora",
        ),
        ({"en": [ENGLISH | {"fils": 1}]}, "data.mono.en.0.fils: no such setting; did you mean data.mono.en.0.files?"),
    ],
)
def test_invalid_mono_is_rejected(mono: object, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config(mono)
    (line,) = caught.value.problems
    assert line.startswith(f"test.yaml: {problem}")


def test_test_set_named_mono_conflicts_with_mono() -> None:
    test = {"mono": {"files": {"de": "a", "en": "b"}}}
    assert "mono" in config({}, test=test).data.test
    with pytest.raises(ConfigError, match=r"data\.test: 'mono' is reserved for the files of data\.mono"):
        config({"en": [ENGLISH]}, test=test)


def test_dump_and_load_keep_mono() -> None:
    hub = {"hub": "a/b", "paths": ["a.jsonl"], "columns": {"de": "text"}, "pairs": 5}
    written = config({"en": [ENGLISH | {"sha256": {"en": "0" * 64}}, ENGLISH], "de": [hub]})
    tree = parse_yaml(dump_config(written), "dumped")
    assert isinstance(tree, dict) and tree["data"]["mono"]["en"][1] == ENGLISH
    assert check_config(tree, "dumped") == written
    assert [(key, language) for key, language, _ in written.data.mono_sources()] == [
        ("mono.de.0", "de"), ("mono.en.0", "en"), ("mono.en.1", "en"),
    ]  # fmt: skip
    assert all(isinstance(source, Source) for *_, source in written.data.mono_sources())
