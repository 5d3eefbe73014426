"""Classifiers: training, resuming, and the commands that use or reject them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from command import Command
from fitting import fit, start
from kept_run import quicken
from labelled import TEST, TRAIN, VALID, labelled_config, write_reviews
from nmt.config import Config
from nmt.data.batching import unpadded
from nmt.data.corpus import Corpus
from nmt.layout import DataDir, RunDir
from nmt.prepare.pipeline.work import Sizes
from nmt.prepare.prepare import prepare
from nmt.runs.checkpoint import choose_weights
from nmt.text.vocabularies import Tokenizers
from trained import assert_same_run, records, train_with_deaths

pytestmark = pytest.mark.usefixtures("quick")

TRAINING = {
    "objective": "classification", "device": "cpu", "precision": "float32", "update_tokens": 600, "max_tokens": 600,
    "schedule": "constant", "peak_lr": 1e-2, "warmup_steps": 10, "log_every_steps": 10, "max_steps": 60,
    "validate_every_steps": 30, "save_every_steps": 30,
}  # fmt: skip
MODEL = {
    "d_model": 32, "n_heads": 2, "d_ff": 64, "embedding_dropout": 0.1, "residual_dropout": 0.1,
}  # fmt: skip
SHORT = {"max_steps": 6, "save_every_steps": 2, "validate_every_steps": 3, "keep_last": 2, "average_last": 2}


def config(text: Path, kind: str = "encoder", **training: Any) -> Config:
    model = {**MODEL, "kind": kind, f"{kind}_layers": 1}
    return labelled_config(text, data={"max_pieces": 100}, training={**TRAINING, **training}, model=model)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the texts, with their data directory in it."""
    folder = tmp_path_factory.mktemp("labelled")
    for name, pairs in (("train", TRAIN), ("valid", VALID), ("test", TEST)):
        write_reviews(folder, name, pairs)
    prepare(config(folder), folder / "data", echo=lambda _: None)
    return folder


@pytest.fixture(scope="module")
def trained(text: Path) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        quicken(patch)
        fit(config(text), text / "data", text / "run")
    return text / "run"


def test_encoder_learns_labels(trained: Path, nmt: Command) -> None:
    best = max(record["accuracy"] for record in records(trained, "valid"))
    assert best > 0.95 and all(0 <= record["macro_f1"] <= 1 for record in records(trained, "valid"))
    reason = json.loads(RunDir(trained).selected.read_text())["reason"]
    assert "accuracy" in reason and reason.endswith("on the development set")
    report = json.loads(nmt("evaluate", "--run", trained, "--format=json").out)
    scores = {score["metric"]: score["value"] for score in report["scores"]}
    assert scores["accuracy"] > 0.95 and scores["macro_f1"] > 0.95 and 0 <= scores["calibration_error"] < 0.5
    assert report["labels"] == ["neg", "pos"] and sum(map(sum, report["confusion"])) == len(TEST)
    shown = nmt("evaluate", "--run", trained, "--split", "test")
    assert f"accuracy {scores['accuracy']:.4f}, macro F1" in shown.out and "split test, 30 texts, step" in shown.out
    assert nmt("evaluate", "--run", trained, "--history").out.count("test ") == 2
    table = nmt("evaluate", "--run", trained, "--format", "csv").out.splitlines()
    assert len(table) == 4 and f",accuracy,{scores['accuracy']!r}," in table[1]
    curve = nmt("runs", "--curve", trained, "--format", "markdown").out.splitlines()
    assert curve[0] == "| minutes | steps | perplexity | accuracy |" and any(f"| {best:.4f} |" in row for row in curve)
    listed = nmt("runs", trained.parent).out
    assert f"acc {best:.1%}" in listed and f"test {scores['accuracy']:.1%}" in listed


def test_decoder_learns_labels(text: Path, tmp_path: Path, nmt: Command) -> None:
    fit(config(text, "decoder"), text / "data", tmp_path / "run")
    assert max(record["accuracy"] for record in records(tmp_path / "run", "valid")) > 0.95
    report = json.loads(nmt("evaluate", "--run", tmp_path / "run", "--format=json").out)
    assert {score["metric"]: score["value"] for score in report["scores"]}["accuracy"] > 0.95


def test_resumed_classifier_equals_uninterrupted(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fit(config(text, **SHORT), text / "data", tmp_path / "whole")
    train_with_deaths(config(text, **SHORT), text / "data", tmp_path / "run", monkeypatch, [5])
    assert_same_run(tmp_path / "whole", tmp_path / "run")


def test_classify_writes_one_label_per_line(trained: Path, tmp_path: Path, nmt: Command) -> None:
    lines = [text for text, _ in TEST]
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in [*lines, "", "long " * 1000]))
    asked = ("classify", "--run", trained, "--input", tmp_path / "in.txt")
    done = nmt(*asked, "--output", tmp_path / "out.tsv")
    assert done.status in (0, None), done.err
    *rows, blank, last = [line.split("\t") for line in (tmp_path / "out.tsv").read_text().split("\n")[:-1]]
    assert blank == [""] and len(last) == 2
    assert "1 line had more than 400 pieces; only the start was read: 32" in done.err
    assert sum(row[0] == label for row, (_, label) in zip(rows, TEST, strict=True)) / len(TEST) > 0.95
    everything = nmt(*asked, "--probabilities").out.split("\n")
    for row, line in zip(rows, everything[: len(rows)], strict=True):
        label, share, other, rest = line.split("\t")
        assert [label, share] == row and {label, other} == {"neg", "pos"}
        assert float(share) >= float(rest) and float(share) + float(rest) == pytest.approx(1, abs=2e-6)


@pytest.mark.parametrize(("kind", "objective"), [("encoder", "masked"), ("decoder", "causal")])
def test_classifier_starts_from_pretrained_model(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, objective: str
) -> None:
    """Which was learned in the same data directory, of the texts alone; the head is new."""
    settings = config(text, kind, objective=objective, max_steps=2)
    fit(settings, text / "data", tmp_path / "before")
    theirs = choose_weights(RunDir(tmp_path / "before"), settings.training.average_last).tensors
    session = start(config(text, kind, init_from=str(tmp_path / "before")), text / "data", tmp_path / "run", False)
    found = dict(session.model.named_parameters())
    assert found.keys() - theirs.keys() == {"head.classes.weight", "head.classes.bias"}
    assert all(torch.equal(found[name], tensor) for name, tensor in theirs.items())
    assert "new: head" in capsys.readouterr().err


def test_head_with_other_labels_is_not_loaded(trained: Path, tmp_path: Path) -> None:
    for name, pairs in (("train", TRAIN), ("valid", VALID), ("test", TEST)):
        write_reviews(tmp_path, name, [(text, f"so {label}") for text, label in pairs])
    settings = config(tmp_path, init_from=str(trained))
    prepare(settings, tmp_path / "data", trained, echo=lambda _: None)
    labels = Tokenizers.load(RunDir(trained).tokenizer, ("en", "label")).labels
    assert labels is not None and labels.names == ["neg", "pos"]
    theirs = choose_weights(RunDir(trained), settings.training.average_last).tensors
    model = dict(start(settings, tmp_path / "data", tmp_path / "run", False).model.named_parameters())
    changed = {name for name, tensor in theirs.items() if not torch.equal(model[name], tensor)}
    assert changed == {"head.classes.weight", "head.classes.bias"}


def test_texts_in_shards_keep_their_labels(text: Path, tmp_path: Path) -> None:
    prepare(config(text), tmp_path / "data", echo=lambda _: None, sizes=Sizes(part_pairs=50, shard_pairs=100))
    corpus, known = Corpus.open(DataDir(tmp_path / "data")), dict(TRAIN)
    assert len(corpus.train_splits) > 1
    for split in corpus.train_splits:
        assert [known[line] for line in split.text("en")] == [*split.text("label")]
    session = start(config(text, **SHORT), tmp_path / "data", tmp_path / "run", resume=False)
    batch = session.pairs.batch(np.arange(len(TRAIN)))
    assert batch.labels is not None
    texts = [corpus.tokenizers["en"].decode(ids.tolist()) for ids in unpadded(batch.src)]
    assert [known[line] for line in texts] == [("neg", "pos")[label] for label in batch.labels.tolist()]
