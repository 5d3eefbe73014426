"""Tests of contradictory settings of objectives and models, which are rejected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from labelled import labelled_config
from nmt.errors import ConfigError
from tiny_corpus import tiny_settings

CAUSAL = {"objective": "causal", "select_by": "auto"}
PAIRS = {"objective": "masked", "masked": {"pair_task": ["cut"]}}
DENOISING = {"objective": "denoising", "denoising": {"mask_share": 0.5}}


@pytest.mark.parametrize(
    ("kind", "training", "problem"),
    [
        ("translation", {"masked": {"pair_task": ["cut"]}}, "training.masked.pair_task: .* masked"),
        ("encoder", {**PAIRS, "masked": {"pair_task": ["cut"], "languages": ["aa"]}}, "masked.languages: .*pair_task"),
        ("encoder", {**PAIRS, "max_tokens": 201}, "training.max_tokens: 201"),
        ("translation", CAUSAL, "causal needs model.kind: decoder"),
        ("decoder", {**CAUSAL, "causal": {"languages": ["xx"]}}, "languages: .*, found xx"),
        ("decoder", {**CAUSAL, "select_by": "chrf"}, "training.select_by: chrf"),
        ("translation", {**DENOISING, "objective": "translation"}, "training.denoising.mask_share: .* denoising"),
        ("translation", {**DENOISING, "bpe_dropout": 0.1}, "training.bpe_dropout: .* translation"),
        ("translation", {**DENOISING, "modifiers": {"typos": 0.1}}, "training.modifiers: .* translation"),
        ("encoder", {"objective": "classification"}, "aa-label, found aa-bb"),
        ("translation", {"consistency": "crossconst"}, "crossconst needs data.directions"),
        ("translation", {"modifiers": {"typos": 0.7, "tags": 0.4}}, "training.modifiers: .* 1.1"),
        ("translation", {"modifiers": {"terms": 0.1}}, "training.glossary: "),
        ("translation", {"glossary": "g.tsv"}, "training.glossary: "),
    ],
)
def test_conflicting_objective_settings_are_rejected(kind: str, training: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        tiny_settings(Path("text"), training=training, model={"kind": kind})


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"model": {"kind": "translation"}}, "model.kind: encoder or decoder"),
        ({"model": {"pooling": "first"}}, "model.pooling: "),
        ({"training": {"consistency": "rdrop"}}, "training.consistency: .* classification"),
        ({"training": {"bpe_dropout": 0.1}}, "training.bpe_dropout: .* translation"),
        ({"training": {"select_by": "bleu"}}, "training.select_by: bleu"),
        ({"data": {"direction": "label-en"}}, "data.direction: .* en-label, not label-en"),
    ],
)
def test_conflicting_classification_settings_are_rejected(changes: dict[str, Any], problem: str) -> None:
    training = {"objective": "classification", **changes.get("training", {})}
    model = {"kind": "encoder", **changes.get("model", {})}
    with pytest.raises(ConfigError, match=problem):
        labelled_config(Path("text"), training=training, model=model, data=changes.get("data", {}))


def test_objective_on_both_languages_needs_joint_vocabulary() -> None:
    separate = {"tokenizer": {"joint": False}, "model": {"tie_embeddings": "none", "kind": "encoder"}}
    with pytest.raises(ConfigError, match=r"tokenizer\.joint"):
        tiny_settings(Path("text"), training=PAIRS, **separate)
