"""The patches of docs/architecture.md, each applied to a copy of the package."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from tiny_corpus import SETTINGS, tiny_text

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
VOCAB = 40
Import = Callable[..., Callable[[str], Any]]


def applied(source: str, hunk: str) -> str:
    """Return the source after a change; the old lines must occur exactly once."""
    lines = hunk.splitlines()
    old, new = ("".join(f"{line[1:]}\n" for line in lines if line[:1] != other) for other in "+-")
    if not source:  # a new file
        return new
    assert source.count(old) == 1, f"a patch does not apply:\n{old}"
    return source.replace(old, new)


@pytest.fixture
def patched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Import]:
    """Return a function that applies the patch of a section, and returns a function that imports changed modules."""
    before = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "nmt"}

    def apply(section: str, n_files: int) -> Callable[[str], Any]:
        patch = TEXT.partition(f"\n### {section}\n")[2].partition("```diff\n")[2].partition("```")[0]
        shutil.copytree(ROOT / "nmt", tmp_path / "nmt", ignore=shutil.ignore_patterns("__pycache__"))
        files = re.split(r"^--- ", patch, flags=re.M)[1:]
        assert len(files) == 2
        for of_file in files[:n_files]:
            name, *hunks = of_file.split("\n@@\n")
            source = (tmp_path / name).read_text(encoding="utf-8") if (tmp_path / name).exists() else ""
            for hunk in hunks:
                source = applied(source, hunk)
            (tmp_path / name).write_text(source, encoding="utf-8")
        for name in before:
            del sys.modules[name]
        monkeypatch.syspath_prepend(tmp_path)
        assert Path(str(import_module("nmt").__file__)).is_relative_to(tmp_path)
        return import_module

    yield apply
    for name in [name for name in sys.modules if name.partition(".")[0] == "nmt"]:
        del sys.modules[name]
    sys.modules.update(before)


def model_config(nmt: Callable[[str], Any], **changes: object) -> Any:
    sizes = {"d_model": 16, "n_heads": 2, "d_ff": 32, "encoder_layers": 2, "decoder_layers": 2}
    return nmt("nmt.config").ModelConfig(**sizes, embedding_dropout=0.0, residual_dropout=0.0, **changes)


@pytest.mark.parametrize("n_files", [1, 2], ids=["training only", "training and search"])
def test_rotary_positions_need_both_parts_of_their_recipe(n_files: int, patched: Import) -> None:
    nmt = patched("Positions", n_files)
    config = model_config(nmt)
    torch.manual_seed(1)
    models = [nmt("nmt.model.transformer").Transformer(config, VOCAB, VOCAB)]
    models += [
        nmt("nmt.model.transformer").DecoderModel(config, VOCAB, 0, sees_source) for sees_source in (False, True)
    ]
    check_inference = nmt("nmt.search.forced").check_inference
    for model in models:
        if n_files == 2:
            assert check_inference(model.eval()) < 0
        else:
            with pytest.raises(nmt("nmt.errors").CheckpointError) as caught:
                check_inference(model.eval())
            search, training = re.findall(r"-\d+\.\d{4}", str(caught.value))
            assert search != training
    masks, attention = nmt("nmt.model.masks"), nmt("nmt.model.attention").MultiHeadAttention(16, 2, 0.0)
    x = torch.randn(2, 4, 16)
    padded = masks.Padded(torch.ones(2, 4, dtype=torch.bool))
    packed = masks.Packed(torch.tensor([0, 4, 8], dtype=torch.int32), torch.arange(4).repeat(2), 4)
    alone, in_a_row = (
        attention(rows, masks.attention_mask(layout, layout))
        for rows, layout in ((x, padded), (x.view(1, 8, 16), packed))
    )
    torch.testing.assert_close(in_a_row.view(2, 4, 16), alone)


def test_z_loss_is_added_to_every_loss(patched: Import, monkeypatch: pytest.MonkeyPatch) -> None:
    nmt = patched("A loss", 2)
    loss = nmt("nmt.training.loss")
    torch.manual_seed(1)
    config = model_config(nmt, start_embedding="zero", tie_embeddings="none", output_bias=True)
    model = nmt("nmt.model.transformer").Transformer(config, VOCAB, VOCAB)
    sides = [
        nmt("nmt.data.corpus").Lines.of([np.arange(20, 20 + n) for n in lengths]) for lengths in ((3, 7, 5), (6, 2, 8))
    ]
    batch = nmt("nmt.data.batching").Pairs(*sides).batch(np.arange(3))
    monkeypatch.setitem(loss.BLOCK_ELEMENTS, "cpu", 4 * VOCAB)
    n_rows, linear = [], functional.linear

    def counted(x: torch.Tensor, weight: torch.Tensor, *rest: Any) -> torch.Tensor:
        if len(weight) == VOCAB:
            n_rows.append(len(x))
        return linear(x, weight, *rest)

    monkeypatch.setattr(functional, "linear", counted)
    for consistency in ("none", "simcut"):
        found, gradients = [], []
        for z_loss in (0.0, 0.1):
            settings = nmt("nmt.config.training").TrainingConfig(consistency=consistency, z_loss=z_loss)
            torch.manual_seed(2)
            found.append(loss.token_loss(model, batch, settings))
            model.zero_grad()
            found[-1].loss.backward()
            gradients.append([parameter.grad.clone() for parameter in (model.output, model.output_bias)])
        assert found[1].nll == found[0].nll
        assert (found[1].divergence > 0) == (consistency == "simcut")
        hidden, _ = loss._scored(batch, loss._states(batch, model))
        logits = linear(hidden, model.output, model.output_bias)
        expected = 0.1 * logits.logsumexp(-1).square().sum()
        torch.testing.assert_close(found[1].loss - found[0].loss, expected, rtol=1e-3, atol=1e-3)
        wanted = torch.autograd.grad(expected, (model.output, model.output_bias))
        for one, two, naive in zip(*gradients, wanted, strict=True):
            naive[list(model.fixed_rows)] = 0
            torch.testing.assert_close(two - one, naive, rtol=1e-3, atol=1e-4)
    assert max(n_rows) <= 4 < len(hidden)


def test_objective_is_one_file_and_one_row(patched: Import, tmp_path: Path) -> None:
    nmt = patched("An objective", 2)
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    tiny_text(tmp_path / "text")
    sources = {name: {"files": {side: f"{name}.{side}" for side in ("aa", "bb")}} for name in ("train", "dev")}
    data = {"direction": "aa-bb", "root": str(tmp_path / "text"), "train": [sources["train"]], "valid": sources["dev"]}
    training = {**SETTINGS["training"], "objective": "prefix", "report_to": []}
    tree = {**SETTINGS, "data": {**data, "max_pieces": 100}, "training": training}
    config = nmt("nmt.config.load").check_config(tree, "made up")
    nmt("nmt.prepare.prepare").prepare(config, tmp_path / "data", echo=lambda _: None)
    directories = nmt("nmt.layout").DataDir(tmp_path / "data"), nmt("nmt.layout").RunDir(tmp_path / "run")
    plan = nmt("nmt.training.plan").Plan(config, *directories, resume=False, start={}, tags=())
    session = nmt("nmt.training.setup.start").start(plan)
    pairs, rows = session.pairs, np.arange(4)
    whole, learned = pairs.lines(rows)[0], session.training_objective.changed(pairs, rows, 0)
    assert [[*src, *tgt] for src, tgt in zip(*learned.lines(rows), strict=True)] == [[*line] for line in whole]
    nmt("nmt.training.loop").fit(replace(plan, run=nmt("nmt.layout").RunDir(tmp_path / "fitted")))
    runs = {run.name: run for run in nmt("nmt.runs.listing").summarise_all(tmp_path)}
    assert runs["fitted"].best_perplexity is not None and runs["fitted"].step == 12
