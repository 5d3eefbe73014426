"""The choice of `search.split: auto` by the training text, and the settings of runs that depend on it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from folders import TRAIN, Folder
from nmt.config.load import adopting, changed_config, dump_config
from nmt.data.corpus import Corpora
from nmt.layout import DataDir, RunDir
from nmt.recipes.directory import changed_settings
from nmt.training.setup.inputs import with_split

LOWER = [(src.lower(), tgt.lower()) for src, tgt in TRAIN[:200]]
"""Pairs of single sentences, in which no capital says where a sentence begins."""
SEVERAL = [(f"{src} {LOWER[i - 1][0]}", f"{tgt} {LOWER[i - 1][1]}") for i, (src, tgt) in enumerate(LOWER)]


@pytest.mark.parametrize(("n", "split"), [(1, "always"), (12, "long")])
def test_auto_splits_always_if_few_training_pairs_have_several_sentences(n: int, split: str, tmp_path: Path) -> None:
    place = Folder(tmp_path)
    place.write(train=[*LOWER[n:], *SEVERAL[:n]])
    place.prepare()
    config = place.config()
    corpora = Corpora.open(DataDir(place.data), config.data)
    assert place.manifest()["several"] == pytest.approx(n / 200, abs=0.01)
    chosen = with_split(config, corpora)
    assert chosen.search.split == split
    never = changed_config(config, ["search.split=never"])
    assert with_split(never, corpora) == never
    joined = changed_config(config, ["data.documents=true", "training.modifiers.join=0.5"])
    assert with_split(joined, corpora).search.split == "long"

    run = RunDir(tmp_path / "run")
    run.path.mkdir()
    run.config.write_text(dump_config(chosen))
    assert changed_settings(run, config) == []
    assert [change.key for change in changed_settings(run, never)] == ["search.split"]
    assert adopting(config, run.path, "--init-from").search.split == "auto", "the new text decides"
    run.config.write_text(dump_config(never))
    assert adopting(config, run.path, "--init-from").search.split == "never", "which no text has decided"

    manifest = place.manifest()
    del manifest["several"]  # as in earlier versions
    (place.data / "manifest.json").write_text(json.dumps(manifest))
    assert with_split(config, Corpora.open(DataDir(place.data), config.data)).search.split == "long"
