"""Denoising: training on masked lines of both sides, and fine-tuning for translation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fitting import fit, start
from kept_run import settings
from nmt.config import Config
from nmt.data.batching import unpadded
from nmt.errors import DataError
from nmt.layout import RunDir
from nmt.prepare.prepare import prepare
from nmt.runs.checkpoint import load_weights
from tiny_corpus import tiny_settings
from trained import records

pytestmark = pytest.mark.usefixtures("quick")


def denoising(data: Path, **training: Any) -> Config:
    return settings(data, **{"objective": "denoising", **training})


@pytest.fixture(scope="module")
def pretrained(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("denoising") / "run"
    fit(denoising(data), data, run)
    return run


def test_denoising_model_learns_both_sides(data: Path, pretrained: Path, tmp_path: Path) -> None:
    session = start(denoising(data), data, tmp_path / "run", resume=False)
    assert len(session.pairs) == 2 * session.windows.mix.n_pairs
    assert len(session.validator.references) == 6 == len(session.validator.src_lines)
    targets = unpadded(session.validator.pairs.batch(np.arange(6)).tgt_out)
    decode = session.training_objective.tokenizers["aa"].decode
    assert [decode(ids.tolist()) for ids in targets] == session.validator.references
    [first, last] = records(pretrained, "valid")
    assert last["nll"] < first["nll"]
    restored = sorted(RunDir(pretrained).dev.glob("step-*"))[-1].read_text(encoding="utf-8")
    assert restored.count("\n") == 6


def test_denoising_learns_from_monolingual_text(data: Path, tmp_path: Path) -> None:
    text = data.parent / "text"
    (text / "mono.aa").write_text("".join(f"mono {'xyz'[i % 3]}{i}\n" for i in range(30)), encoding="utf-8")
    mono = {"mono": {"aa": [{"files": {"aa": "mono.aa"}}]}}
    config = tiny_settings(text, training={"objective": "denoising"}, data=mono)
    prepare(config, tmp_path / "data", echo=lambda _: None)
    session = start(config, tmp_path / "data", tmp_path / "run", resume=False)
    assert session.windows.n_examples == len(session.pairs) == 2 * session.windows.mix.n_pairs + 30
    last = session.pairs.batch(np.array([len(session.pairs) - 1])).tgt_out[0, :-1].tolist()
    assert session.training_objective.tokenizers["aa"].decode(last) == "mono z29"
    mixed = tiny_settings(text, training={"objective": "denoising"}, data={**mono, "temperature": 5.0})
    with pytest.raises(DataError, match=r"data\.mono needs training in one window, without weights"):
        start(mixed, tmp_path / "data", tmp_path / "other", resume=False)
    ids = tmp_path / "data" / "mono.aa.ids.npy"
    ids.write_bytes(ids.read_bytes()[:-1] + b"?")
    with pytest.raises(DataError, match="damaged: its checksum"):
        start(config, tmp_path / "data", tmp_path / "other", resume=False)


def test_translation_run_starts_with_denoising_weights(data: Path, pretrained: Path, tmp_path: Path) -> None:
    session = start(settings(data, init_from=str(pretrained)), data, tmp_path / "run", resume=False)
    begun = dict(session.model.named_parameters())
    step = json.loads(RunDir(pretrained).selected.read_text(encoding="utf-8"))["best_step"]
    for name, tensor in load_weights(RunDir(pretrained).step(step)).items():
        assert torch.equal(begun[name], tensor), name
