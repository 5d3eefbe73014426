"""Masked language models: what they learn, with and without the pair task, and that nothing depends on how an update is
split, laid out or interrupted."""

from __future__ import annotations

import math
import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from command import Command
from fitting import fit, start
from kept_run import quicken, settings
from nmt.config import Config
from nmt.data.batching import Packing
from nmt.errors import DataError
from nmt.model.masks import Padded
from nmt.model.transformer import EncoderModel
from nmt.prepare.prepare import prepare
from nmt.training.loss import cross_entropy
from nmt.training.session import Session
from nmt.translate.filter import PairClassifier, classified
from tiny_corpus import tiny_settings
from trained import records

pytestmark = pytest.mark.usefixtures("quick")

STILL = {f"{kind}_dropout": 0 for kind in ("embedding", "residual", "attention", "activation")}


def masked(data: Path, **training: Any) -> Config:
    sizes = {"max_tokens": 400} if training.get("masked") else {}
    return settings(data, kind="encoder", objective="masked", select_by="auto", **{**sizes, **training})


def still(data: Path, **training: Any) -> Config:
    """Return a configuration without dropout."""
    config = masked(data, **training)
    return config.model_copy(update={"model": config.model.model_copy(update=STILL)})


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Config, Path]:
    """A model that has learned lines of one word each, which is repeated."""
    folder, rng = tmp_path_factory.mktemp("masked"), random.Random(5)
    words = [a + b for a in "bdfg" for b in "aeio"]
    for name, n in (("train", 300), ("dev", 60), ("test", 10)):
        lines = [[rng.choice(words)] * rng.randint(3, 9) for _ in range(n)]
        (folder / f"{name}.aa").write_text("".join(f"{' '.join(line)}\n" for line in lines), encoding="utf-8")
        (folder / f"{name}.bb").write_text("".join(f"{' '.join(line)}\n"[::-1].strip() + "s\n" for line in lines))
    config = tiny_settings(
        folder,
        tokenizer={"vocab_size": 400},
        model={"kind": "encoder", **STILL},
        training={
            "objective": "masked", "masked": {"pair_task": ["copied"]}, "update_tokens": 600,
            "max_tokens": 2000, "schedule": "constant", "peak_lr": 0.01, "warmup_steps": 20, "label_smoothing": 0,
            "max_steps": 160, "validate_every_steps": 160, "save_every_steps": 160, "log_every_steps": 80,
        },
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        quicken(patch)
        prepare(config, folder / "data", echo=lambda _: None)
        fit(config, folder / "data", folder / "run")
    return config, folder


def test_masked_model_learns_pieces_and_pairs(trained: tuple[Config, Path], tmp_path: Path) -> None:
    config, folder = trained
    [valid] = records(folder / "run", "valid")
    session = start(config, folder / "data", tmp_path / "run", resume=False)
    pairs = session.validator.pairs
    batch = pairs.batch(np.arange(len(pairs)))
    targets = Counter(batch.tgt_out.flatten()[batch.token_indices].tolist())
    unigram = math.exp(-sum(n * math.log(n / targets.total()) for n in targets.values()) / targets.total())
    assert unigram > 10 > 3 > valid["perplexity"] > 1
    assert valid["accuracy"] > 0.75 and valid["pair_accuracy"] > 0.95
    assert batch.labels is not None and 0.3 < batch.labels.float().mean() < 0.7, "neither label is most of them"
    assert valid["loss"] == pytest.approx(valid["nll"] + valid["pair_loss"], rel=1e-5)
    first, last = records(folder / "run", "train")
    assert last["pair_loss"] < first["pair_loss"]
    assert last["loss"] == pytest.approx(last["nll"] + last["pair_loss"], rel=0.01)  # of updates of several sizes


def losses(session: Session, max_tokens: int, n_ranks: int = 1) -> tuple[float, dict[str, torch.Tensor]]:
    """The loss of the first update and its gradients, summed over micro-batches and ranks."""
    update = session.changed_update(session.updates()[0])
    session.model.zero_grad()
    total = 0.0
    for rank in range(n_ranks):
        for rows in session.batches.split(update.share(rank, n_ranks), max_tokens):
            loss = cross_entropy(session.model, session.batches.batch(rows), 0.0).loss / update.n_tokens
            loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
    grads = {name: p.grad.clone() for name, p in session.model.named_parameters() if p.grad is not None}
    return total, grads


@pytest.mark.parametrize("pair_task", [[], ["shuffled"]])
def test_loss_does_not_depend_on_micro_batches(data: Path, tmp_path: Path, pair_task: list[str]) -> None:
    config = still(data, update_tokens=200, masked={"pair_task": pair_task})
    session = start(config, data, tmp_path / "run", resume=False)
    whole, grads = losses(session, 10_000)
    for max_tokens, n_ranks in ((60, 1), (100, 3)):
        found, others = losses(session, max_tokens, n_ranks)
        assert found == pytest.approx(whole, rel=1e-5)
        assert others.keys() == grads.keys() == {name for name, _ in session.model.named_parameters()}
        for name, grad in grads.items():
            torch.testing.assert_close(others[name], grad, atol=1e-5, rtol=1e-4)
    # the mean over the chosen pieces, plus the mean over the pairs
    assert session.changed is not None and isinstance(session.model, EncoderModel)
    batch = session.changed.batch(np.arange(len(session.changed)))
    with torch.no_grad():
        hidden = session.model.encoder(batch.src, Padded(batch.src_mask))
        logits = (hidden @ session.model.output_weight.T).flatten(0, 1)[batch.token_indices]
        expected = F.cross_entropy(logits, batch.tgt_out.flatten()[batch.token_indices])
        if pair_task:
            assert session.model.head is not None and batch.labels is not None
            expected += F.cross_entropy(session.model.head(hidden, Padded(batch.src_mask)), batch.labels)
    assert whole == pytest.approx(float(expected), rel=1e-5)


def test_padded_packed_and_single_sequences_have_the_same_loss(data: Path, tmp_path: Path) -> None:
    config = still(data, masked={"pair_task": ["shuffled"]})
    session = start(config, data, tmp_path / "run", resume=False)
    session.changed_update(session.updates()[0])
    pairs, model = session.pairs, session.model
    assert isinstance(model, EncoderModel) and model.head is not None

    def found(batches: list[Any]) -> list[float]:
        sums = [cross_entropy(model, batch, 0.0) for batch in batches]
        return [
            sum(float(each.nll) for each in sums), sum(float(each.class_nll) for each in sums),
            sum(float(each.loss.detach()) for each in sums), sum(float(each.n_class_correct) for each in sums),
        ]  # fmt: skip

    rows = np.arange(len(pairs))
    padded = found([pairs.batch(rows)])
    assert found([Packing(pairs).batch(rows)]) == pytest.approx(padded, rel=1e-4)
    assert found([pairs.batch(rows[i : i + 1]) for i in rows]) == pytest.approx(padded, rel=1e-4)


def test_masked_examples_depend_on_pair_task_and_languages(data: Path, tmp_path: Path) -> None:
    lines = start(masked(data), data, tmp_path / "lines", resume=False)
    pairs = start(masked(data, masked={"pair_task": ["shuffled"]}), data, tmp_path / "pairs", resume=False)
    one = start(masked(data, masked={"languages": ["bb"]}), data, tmp_path / "one", resume=False)
    assert len(lines.pairs) == 2 * len(pairs.pairs) == 2 * len(one.pairs) == 2 * pairs.windows.mix.n_pairs
    assert isinstance(lines.model, EncoderModel) and lines.model.head is None
    again = start(masked(data, masked={"pair_task": ["shuffled"]}, seed=2), data, tmp_path / "again", resume=False)
    batches = [session.validator.pairs.batch(np.arange(3)) for session in (pairs, again)]
    assert torch.equal(batches[0].src, batches[1].src), "runs of several seeds compare"


def test_separate_vocabularies_of_a_data_directory_raise(data: Path, tmp_path: Path) -> None:
    separate = {"tokenizer": {"joint": False}, "model": {"tie_embeddings": "none"}}
    prepare(tiny_settings(data.parent / "text", **separate), tmp_path / "data", echo=lambda _: None)
    with pytest.raises(DataError, match="in both languages needs a joint one"):
        start(masked(data), tmp_path / "data", tmp_path / "run", resume=False)


def test_classifier_keeps_right_pairs_and_drops_copies(
    trained: tuple[Config, Path], tmp_path: Path, nmt: Command
) -> None:
    folder = trained[1]
    sides = [(folder / f"dev.{language}").read_text(encoding="utf-8").splitlines()[:20] for language in ("aa", "bb")]
    right = list(zip(*sides, strict=True))
    pairs = [*right, *[(pair[i % 2],) * 2 for i, pair in enumerate(right)]]
    texts, kept_files = ([tmp_path / f"{name}.{side}" for side in ("aa", "bb")] for name in ("text", "kept"))
    for text, side in zip(texts, zip(*pairs, strict=True), strict=True):
        text.write_text("".join(f"{line}\n" for line in side), encoding="utf-8")
    given = ["--classifier", folder / "run", "--src", texts[0], "--tgt", texts[1], "--output", tmp_path / "scores"]
    result = nmt("filter", *given, "--min-score", 0.5, "--kept", *kept_files)
    assert result.status == 0, result.err
    scores = [float(line) for line in (tmp_path / "scores").read_text().splitlines()]
    assert sum(score > 0.5 for score in scores[:20]) >= 19 and sum(score < 0.5 for score in scores[20:]) >= 19
    lines = [file.read_text(encoding="utf-8").splitlines() for file in kept_files]
    assert list(zip(*lines, strict=True)) == [pair for pair, score in zip(pairs, scores, strict=True) if score >= 0.5]
    judge = PairClassifier.load(folder / "run")
    alone = [found.value for pair in right[:5] for found in classified(judge, [pair])]
    assert alone == pytest.approx(scores[:5], rel=1e-4), "a pair's score does not depend on the others"
