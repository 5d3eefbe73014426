"""Denoising: both sides of the pairs are restored from masked lines, and a translation run starts with the weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from kept_run import Died, die_before, differences, kept, settings
from nmt.config import Config
from nmt.data.batching import unpadded
from nmt.errors import ConfigError, DataError
from nmt.layout import RunDir
from nmt.prepare.prepare import prepare
from nmt.runs.checkpoint import load_weights
from nmt.runs.listing import summarise
from nmt.share.export import Request, export
from nmt.training.loop import fit
from nmt.training.setup.start import start
from nmt.translate.translator import Translator
from tiny_corpus import tiny_settings

pytestmark = pytest.mark.usefixtures("quick")


def denoising(data: Path, **training: Any) -> Config:
    return settings(data, **{"objective": "denoising", **training})


def records(run: Path, kind: str) -> list[dict[str, Any]]:
    lines = RunDir(run).log.read_text(encoding="utf-8").splitlines()
    return [record for record in map(json.loads, lines) if record["kind"] == kind]


@pytest.fixture(scope="module")
def pretrained(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("denoising") / "run"
    fit(denoising(data), data, run)
    return run


@pytest.fixture(scope="module")
def one_span(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("span") / "run"
    fit(denoising(data, noise="span"), data, run)
    return run


def test_both_sides_are_learned_and_restored(data: Path, pretrained: Path, tmp_path: Path) -> None:
    session = start(denoising(data), data, tmp_path / "run", resume=False)
    other = start(denoising(data, seed=2), data, tmp_path / "other", resume=False)
    assert other.validator.src_lines == session.validator.src_lines, "runs of several seeds compare"
    assert len(session.pairs) == 2 * session.windows.mix.n_pairs
    assert len(session.validator.references) == 6 == len(session.validator.src_lines)
    assert any("[mask]" in line for line in session.validator.src_lines)
    targets = unpadded(session.validator.pairs.batch(np.arange(6)).tgt_out)
    decode = session.validator.tokenizers["aa"].decode
    assert [decode(ids.tolist()) for ids in targets] == session.validator.references
    [first, last] = records(pretrained, "valid")
    assert last["nll"] < first["nll"]
    restored = sorted(RunDir(pretrained).dev.glob("step-*"))[-1].read_text(encoding="utf-8")
    assert restored.count("\n") == 6


def test_monolingual_text_is_learned_too(data: Path, tmp_path: Path) -> None:
    text = data.parent / "text"
    (text / "mono.aa").write_text("".join(f"mono {'xyz'[i % 3]}{i}\n" for i in range(30)), encoding="utf-8")
    mono = {"mono": {"aa": [{"files": {"aa": "mono.aa"}}]}}
    config = tiny_settings(text, training={"objective": "denoising"}, data=mono)
    prepare(config, tmp_path / "data", echo=lambda _: None)
    session = start(config, tmp_path / "data", tmp_path / "run", resume=False)
    span = tiny_settings(text, training={"objective": "denoising", "noise": "span"}, data=mono)
    assert len(start(span, tmp_path / "data", tmp_path / "span", resume=False).pairs) == len(session.pairs)
    assert session.windows.n_examples == len(session.pairs) == 2 * session.windows.mix.n_pairs + 30
    last = session.pairs.batch(np.array([len(session.pairs) - 1])).tgt_out[0, :-1].tolist()
    assert session.validator.tokenizers["aa"].decode(last) == "mono z29"
    mixed = tiny_settings(text, training={"objective": "denoising"}, data={**mono, "temperature": 5.0})
    with pytest.raises(DataError, match=r"data\.mono is learned in one window, without weights"):
        start(mixed, tmp_path / "data", tmp_path / "other", resume=False)
    ids = tmp_path / "data" / "mono.aa.ids.npy"
    ids.write_bytes(ids.read_bytes()[:-1] + b"?")
    with pytest.raises(DataError, match="damaged, its checksum"):
        start(config, tmp_path / "data", tmp_path / "other", resume=False)


def test_each_update_is_masked_anew(data: Path, tmp_path: Path) -> None:
    session = start(denoising(data), data, tmp_path / "run", resume=False)
    update = session.updates()[0]
    sources = []
    for epoch in (0, 0, 1):
        session.state.epoch = epoch
        modified = session.modify(update)
        assert modified.n_tokens == update.n_tokens
        sources.append(session.batch(modified.rows).src.tolist())
    assert sources[0] == sources[1] != sources[2]


@pytest.mark.parametrize("noise", ["infilling", "span"])
def test_a_resumed_run_is_the_same(data: Path, pretrained: Path, one_span: Path, tmp_path: Path, noise: str) -> None:
    run, config = tmp_path / "run", denoising(data, noise=noise)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Died):
        die_before(5, patch)
        fit(config, data, run)
    fit(config, data, run, resume=True)
    assert differences(kept(run), kept(one_span if noise == "span" else pretrained)) == []


def test_of_one_span_its_pieces_are_validated(data: Path, one_span: Path, tmp_path: Path) -> None:
    first, last = records(one_span, "valid")
    assert last["nll"] < first["nll"] and last["loss"] == last["nll"] and "bleu" not in last
    assert "perplexity" in last and not [*RunDir(one_span).dev.glob("step-*")]
    sessions = [start(denoising(data, noise="span", seed=i), data, tmp_path / str(i), resume=False) for i in (1, 2)]
    batches = [session.validator.pairs.batch(np.arange(6)) for session in sessions]
    assert torch.equal(batches[0].src, batches[1].src), "runs of several seeds compare"
    assert summarise(RunDir(one_span)).best_perplexity == pytest.approx(last["perplexity"])
    update = sessions[0].modify(sessions[0].updates()[0])
    assert update.n_tokens == sessions[0].batch(update.rows).n_tokens < sessions[0].updates()[0].n_tokens


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"objective": "translation"}, "noise: span is only available with objective: denoising, found translation"),
        ({"mask_span": 2.0}, "mask_span: not available with noise: span, whose length is set by mask_share"),
        ({"select_by": "bleu"}, "select_by: bleu needs translations, but noise: span writes none; use loss or auto"),
    ],
)
def test_what_does_not_go_with_one_span(data: Path, changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        denoising(data, **{"noise": "span", **changes})
    assert caught.value.problems == [f"tiny: training.{problem}"]


@pytest.mark.parametrize("noise", ["infilling", "span"])
def test_a_translation_run_starts_with_its_weights(
    data: Path, pretrained: Path, one_span: Path, tmp_path: Path, noise: str
) -> None:
    pretrained = one_span if noise == "span" else pretrained
    session = start(settings(data, init_from=str(pretrained)), data, tmp_path / "run", resume=False)
    begun = dict(session.model.named_parameters())
    step = json.loads(RunDir(pretrained).selected.read_text(encoding="utf-8"))["best_step"]
    for name, tensor in load_weights(RunDir(pretrained).step(step)).items():
        assert torch.equal(begun[name], tensor), name


def test_it_does_not_translate(pretrained: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        Translator.load(pretrained)
    with pytest.raises(ConfigError, match=r"has learned training\.objective: denoising, not to"):
        export(Request(pretrained), tmp_path / "exported", "native")
    assert summarise(RunDir(pretrained)).best_bleu is None
    assert str(caught.value) == (
        f"{pretrained}: has learned training.objective: denoising, not to translate; "
        f"nmt train --init-from {pretrained} starts a translation run with its weights"
    )


@pytest.mark.parametrize(
    "setting", [{"both_directions": True}, {"src_bpe_dropout": 0.1}, {"modifiers": {"typos": 0.1}}]
)
def test_what_is_of_pairs_is_refused(data: Path, setting: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"training.{next(iter(setting))}: not available with objective: denoising"):
        denoising(data, **setting)


def test_it_needs_a_joint_vocabulary(data: Path, tmp_path: Path) -> None:
    changes = {"tokenizer": {"joint": False}, "model": {"tie_embeddings": "none"}}
    separate = tiny_settings(data.parent / "text", **changes)
    prepare(separate, tmp_path / "data", echo=lambda _: None)
    with pytest.raises(DataError, match=r"training\.objective: denoising, of both languages, needs a joint one"):
        start(denoising(data), tmp_path / "data", tmp_path / "run", resume=False)
    with pytest.raises(
        ConfigError, match=r"training\.objective: denoising in both languages needs tokenizer\.joint: true"
    ):
        tiny_settings(data.parent / "text", training={"objective": "denoising", "languages": ["bb"]}, **changes)
