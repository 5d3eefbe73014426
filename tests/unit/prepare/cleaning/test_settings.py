"""Tests of cleaning settings for all corpora and for one corpus."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nmt.config import Config
from nmt.config.load import changed_config, dump_config, load_config
from nmt.data.settings import DataConfig
from nmt.data.sources import TrainFiles
from nmt.errors import ConfigError
from nmt.model.settings import ModelConfig
from nmt.prepare.cleaning.settings import CleanConfig, CorpusClean
from nmt.prepare.recipe import Recipe, changes, recipe
from nmt.text.settings import TokenizerConfig


def loaded(*overrides: str) -> Config:
    return load_config("sample.yaml", overrides)


def recipe_of(config: Config) -> Recipe:
    return recipe(config.data, config.tokenizer)


def test_corpus_clean_overrides_data_clean() -> None:
    config = loaded("data.clean={drop: [shouted], max_words: 9}", "data.train.0.clean={drop: []}")
    clean = config.data.clean_of("train.0")
    assert (clean.drop, clean.max_words, clean.repair) == ([], 9, None)
    assert (clean.max_chars, clean.max_ratio, clean.min_score) == (1000, 4.0, None)
    config = loaded(
        "data.train.0.score=a", "data.train.0.clean={max_chars: 50, max_ratio: 2.0, min_score: 0, max_words: 0}"
    )
    own = config.data.clean_of("train.0")
    assert (own.max_chars, own.max_ratio, own.min_score, own.max_words) == (50, 2.0, 0.0, 0)


def test_dump_and_load_keep_cleaning(tmp_path: Path) -> None:
    given = [
        "data.clean={drop: [shouted], block_lists: {en: bad.en}}",
        "data.train.0.clean={drop: [], max_words: 0}",
    ]
    for config in (loaded(), loaded(*given)):
        (tmp_path / "config.yaml").write_text(dump_config(config, comments=True), encoding="utf-8")
        assert load_config(tmp_path / "config.yaml") == changed_config(config, []) == config
        assert "drop: null" not in dump_config(config)
    assert "#   drop: Reasons" in dump_config(loaded(), comments=True)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("data.valid.clean={drop: [shouted]}", "data.valid.clean: only available for training corpora"),
        ("data.test.test.clean={drop: [shouted]}", "data.test.test.clean: only available for training corpora"),
        ("data.clean.block_lists={fr: a}", "data.clean.block_lists: must name de or en, found fr"),
        ("data.train.0.clean.block_lists={fr: a}", "data.train.0.clean.block_lists: must name de or en, found fr"),
        ("data.clean.min_score=0.5", "data.clean.min_score: no such setting"),
        ("data.train.0.clean.drop=[near_duplicates]", "data.train.0.clean.drop: near_duplicates concerns all corpora"),
        ("data.train.0.clean={min_score: 0.5}", "data.train.0: clean.min_score needs score"),
        (
            "data.clean.classifier=runs/a",
            "data.clean.classifier: this setting has been removed; score pairs with nmt filter",
        ),
        (
            "data.train.0.clean.min_classifier_score=0.5",
            "data.train.0.clean.min_classifier_score: this setting has been removed",
        ),
        ("data.clean.drop=[near]", "data.clean.drop.0: must be copied, broken"),
        ("data.clean.min_script=1.5", "data.clean.min_script: must be at most 1"),
        ("data.clean.max_words=-1", "data.clean.max_words: must be at least 0"),
        ("data.clean.drops=[shouted]", "data.clean.drops: no such setting; did you mean data.clean.drop?"),
        (
            "data.clean.shouted=true",
            "data.clean.shouted: this setting has been removed; write it as an entry",
        ),
    ],
)
def test_invalid_cleaning_is_rejected(override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        loaded(override)


def test_recipe_omits_default_cleaning() -> None:
    old = recipe_of(loaded())
    assert "drop" not in repr(old) and "block_lists" not in old
    assert list(changes(old, recipe_of(loaded("data.clean={drop: null}")))) == []


def test_recipe_differences_name_settings() -> None:
    old, new = recipe_of(loaded()), recipe_of(loaded("data.clean={drop: [shouted], max_words: 9}"))
    assert list(changes(old, new)) == [
        "data.clean.drop was added",
        "data.clean.max_words was added",
    ]
    assert list(changes(new, new)) == list(changes(old, old)) == []
    own = recipe_of(loaded("data.clean={drop: [shouted], max_words: 9}", "data.train.0.clean={drop: []}"))
    assert list(changes(new, own)) == ["data.train.0.clean was added"]


def test_recipe_depends_on_documents() -> None:
    without, with_documents = recipe_of(loaded()), recipe_of(loaded("data.documents=true"))
    assert "documents" not in without  # like recipes of versions without the setting
    assert list(changes(without, with_documents)) == ["documents was false, is true"]
    assert list(changes(with_documents, without)) == ["documents was true, is false"]
    assert list(changes(with_documents, with_documents)) == []


@pytest.mark.parametrize("joint", [True, False])
def test_recipe_depends_on_content_of_block_list(tmp_path: Path, joint: bool) -> None:
    files = TrainFiles(files={"de": "a", "en": "b"}, clean=CorpusClean(block_lists={"de": "bad.de"}))
    clean = CleanConfig(block_lists={"en": "bad.en"})
    config = Config(
        data=DataConfig(direction="de-en", root=str(tmp_path), train=[files], clean=clean),
        tokenizer=TokenizerConfig(joint=joint),
        model=ModelConfig(tie_embeddings="all" if joint else "none"),
    )
    without = recipe_of(config)
    (tmp_path / "bad.de").write_text("a\n", encoding="utf-8")
    (tmp_path / "bad.en").write_text("b\n", encoding="utf-8")
    old = recipe_of(config)
    assert list(changes(old, recipe_of(config))) == []
    assert list(changes(old, without)) == list(changes(without, old)) == []  # as on a machine that trains
    (tmp_path / "bad.de").write_text("c\n", encoding="utf-8")
    assert list(changes(old, recipe_of(config))) == ["bad.de has changed"]


def test_comparison_leaves_recipes_unchanged() -> None:
    of_another_version: dict[str, object] = {"block_lists": {"bad.de": "0"}}
    assert list(changes(of_another_version, recipe_of(loaded()))) != []
    assert of_another_version == {"block_lists": {"bad.de": "0"}}
