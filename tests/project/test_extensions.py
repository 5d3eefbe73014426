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
    """Return a function that applies the patch of a section, or its first files, and returns a function that imports
    changed modules."""
    before = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "nmt"}

    def apply(section: str, n_files: int | None = None) -> Callable[[str], Any]:
        patch = TEXT.partition(f"\n### {section}\n")[2].partition("```diff\n")[2].partition("```")[0]
        shutil.copytree(ROOT / "nmt", tmp_path / "nmt", ignore=shutil.ignore_patterns("__pycache__"))
        files = re.split(r"^--- ", patch, flags=re.M)[1:]
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


@pytest.mark.parametrize(
    ("section", "positions"), [("Positions", "sinusoidal"), ("A bias of attention scores", "alibi")]
)
@pytest.mark.parametrize("n_files", [-1, None])
def test_positions_in_attention_need_all_parts_of_their_recipe(
    section: str, positions: str, n_files: int | None, patched: Import
) -> None:
    nmt = patched(section, n_files)
    config = model_config(nmt, positions=positions)
    transformer = nmt("nmt.model.transformer")
    torch.manual_seed(1)
    models = [transformer.Transformer(config, VOCAB, VOCAB)]
    models += [transformer.DecoderModel(config, VOCAB, 0, sees_source) for sees_source in (False, True)]
    check_inference = nmt("nmt.search.forced").check_inference
    for model in models:
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(0.1 * torch.randn_like(weight))
        if n_files is None:
            assert check_inference(model.eval()) < 0
        else:  # without search, the last file
            with pytest.raises(nmt("nmt.errors").CheckpointError) as caught:
                check_inference(model.eval())
            search, training = re.findall(r"-\d+\.\d{4}", str(caught.value))
            assert search != training
    if n_files is None:
        check_hypotheses(nmt, models[0])
    check_layouts(nmt, models[0], ["Rows", "Packed"] if positions == "sinusoidal" else ["Rows"])


@torch.no_grad()
def check_hypotheses(nmt: Callable[[str], Any], model: Any) -> None:
    """Hypotheses after given tokens, of the sentences that remain, have the probabilities that training computes."""
    step, layout, ids = nmt("nmt.search.step"), nmt("nmt.model.masks").Padded, nmt("nmt.text.tokenizer")
    src = step.padded([[20, 21, ids.EOS], [22, 23, 24, 25, ids.EOS], [26, ids.EOS]])
    given = [[30, 31, 32], [], [33]]
    prepared = nmt("nmt.model.inference").InferenceModel(model, "float32")
    steps = step.TransformerStep(prepared, src, src != 0, step.padded(given))
    read = [[[ids.BOS, *first] for _ in range(2)] for first in given]
    tokens = torch.full((3, 1), ids.BOS)
    for position in range(4):
        [(logits, log_z)] = steps.step(tokens)
        if position == 1:
            kept = torch.tensor([0, 2])
            read = [[read[i][beam] for beam in (1, 0)] for i in (0, 2)]
            logits, log_z, src = logits[kept][:, [1, 0]], log_z[kept][:, [1, 0]], src[kept]
            steps.select(kept, torch.tensor([[1, 0], [1, 0]]))
        elif position == 0:
            steps.select(torch.arange(3), torch.zeros(3, 2, dtype=torch.int64))
            logits, log_z = logits.expand(-1, 2, -1), log_z.expand(-1, 2)
        tokens = torch.arange(len(src) * 2).view(-1, 2) + 20 + position
        for i, of_sentence in enumerate(read):
            for beam, sequence in enumerate(of_sentence):
                tgt = torch.tensor([sequence])
                hidden = model(src[i, None], layout(src[i, None] != 0), tgt, layout(torch.ones_like(tgt) > 0))
                expected = (hidden[0, -1] @ model.output_weight.T).log_softmax(-1)
                torch.testing.assert_close(logits[i, beam] - log_z[i, beam], expected, atol=1e-5, rtol=1e-4)
                sequence.append(int(tokens[i, beam]))


def check_layouts(nmt: Callable[[str], Any], model: Any, names: list[str]) -> None:
    """Sentences in a row attend as they do alone, in the encoder and in the decoder."""
    masks = nmt("nmt.model.masks")
    ids, positions = torch.arange(20, 28).view(2, 4), torch.arange(4).repeat(2)
    padded = masks.Padded(torch.ones(2, 4, dtype=torch.bool))
    alone = model(ids, padded, ids, padded)
    layouts = {
        "Packed": masks.Packed(torch.tensor([0, 4, 8], dtype=torch.int32), positions, 4),
        "Rows": masks.Rows(torch.arange(2).repeat_interleave(4)[None], positions[None], 4),
    }
    for name in names:
        in_a_row = model(ids.view(1, 8), layouts[name], ids.view(1, 8), layouts[name])
        torch.testing.assert_close(in_a_row.view(2, 4, 16), alone, atol=1e-5, rtol=1e-4)


def test_alibi_falls_linearly_with_the_distance_in_self_attention_only(patched: Import) -> None:
    nmt = patched("A bias of attention scores")
    model = nmt("nmt.model.transformer").Transformer(model_config(nmt, positions="alibi"), VOCAB, VOCAB).eval()
    attention, biases = nmt("nmt.model.attention"), []
    attend = attention.attend
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention, "attend", lambda *args: biases.append(args[3].bias(torch.float32)) or attend(*args))
        ids, layout = torch.arange(20, 23)[None], nmt("nmt.model.masks").Padded(torch.ones(1, 3, dtype=torch.bool))
        model(ids, layout, ids, layout)
    of_encoder, _, of_decoder, of_cross, *_ = biases
    distances = torch.tensor([[0.0, 1, 2], [1, 0, 1], [2, 1, 0]])
    expected = -torch.stack((distances / 2**4, distances / 2**8))[None]
    assert torch.equal(of_encoder, expected) and of_cross.max() == of_cross.min() == 0
    past = distances.tril().bool() | torch.eye(3, dtype=torch.bool)
    assert torch.equal(of_decoder[..., past], expected[..., past]) and (of_decoder[..., ~past] < -1e37).all()
    obstacle = nmt("nmt.model.masks").packing_obstacle
    assert "positions" in obstacle(torch.device("cpu"), "bf16", model_config(nmt, positions="alibi"))


def test_z_loss_is_added_to_every_loss(patched: Import, monkeypatch: pytest.MonkeyPatch) -> None:
    nmt = patched("A loss")
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
            settings = nmt("nmt.training.settings").TrainingConfig(consistency=consistency, z_loss=z_loss)
            torch.manual_seed(2)
            found.append(loss.token_loss(model, batch, settings))
            model.zero_grad()
            found[-1].loss.backward()
            gradients.append([parameter.grad.clone() for parameter in (model.output, model.output_bias)])
        assert found[1].nll == found[0].nll
        assert (found[1].divergence > 0) == (consistency == "simcut")
        hidden = loss.scored(batch, loss._states(batch, model))
        logits = linear(hidden, model.output, model.output_bias)
        expected = 0.1 * logits.logsumexp(-1).square().sum()
        torch.testing.assert_close(found[1].loss - found[0].loss, expected, rtol=1e-3, atol=1e-3)
        wanted = torch.autograd.grad(expected, (model.output, model.output_bias))
        for one, two, naive in zip(*gradients, wanted, strict=True):
            naive[list(model.fixed_rows)] = 0
            torch.testing.assert_close(two - one, naive, rtol=1e-3, atol=1e-4)
    assert max(n_rows) <= 4 < len(hidden)


def test_objective_is_one_file_and_two_rows(patched: Import, tmp_path: Path) -> None:
    nmt = patched("An objective")
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    tiny_text(tmp_path / "text")
    sources = {name: {"files": {side: f"{name}.{side}" for side in ("aa", "bb")}} for name in ("train", "dev")}
    data = {"direction": "aa-bb", "root": str(tmp_path / "text"), "train": [sources["train"]], "valid": sources["dev"]}
    training = {**SETTINGS["training"], "objective": "prefix", "report_to": []}
    tree = {**SETTINGS, "data": {**data, "max_pieces": 100}, "training": training}
    config = nmt("nmt.config.load").check_config(tree, "made up")
    nmt("nmt.prepare.prepare").prepare(config, tmp_path / "data", echo=lambda _: None)
    directories = nmt("nmt.layout").DataDir(tmp_path / "data"), nmt("nmt.layout").RunDir(tmp_path / "run")
    plan = nmt("nmt.training.plan").TrainingPlan(config, *directories, resume=False, start={}, tags=())
    session = nmt("nmt.training.start").start(plan)
    pairs, rows = session.pairs, np.arange(4)
    whole, learned = pairs.lines(rows)[0], session.training_objective.changed(pairs, rows, 0)
    assert [[*src, *tgt] for src, tgt in zip(*learned.lines(rows), strict=True)] == [[*line] for line in whole]
    nmt("nmt.training.start").fit(replace(plan, run=nmt("nmt.layout").RunDir(tmp_path / "fitted")))
    runs = {run.name: run for run in nmt("nmt.runs.listing").summarise_all(tmp_path)}
    assert runs["fitted"].best_perplexity is not None and runs["fitted"].step == 12


def test_document_format_is_one_file_and_one_row(patched: Import, tmp_path: Path) -> None:
    nmt = patched("A document format")
    documents = nmt("nmt.documents")
    content = "# x = 1\r\nmenu.size = Größe \r\nempty=\r\nno value\r\nn={n} Größen".encode("utf-16")
    (tmp_path / "a.lang").write_bytes(content)
    document = documents.read_document(tmp_path / "a.lang")
    assert documents.is_document("a.lang") and not documents.has_markup("a.lang")
    assert document.texts == ["Größe", "{n} Größen"] and document.keys == ["menu.size", "n"]
    written = document.translated(["حجم", "أحجام"]).decode("utf-16")
    assert written == "# x = 1\r\nmenu.size = حجم \r\nempty=\r\nno value\r\nn=أحجام"
    assert [*document.problems.values()] == [["n"]]
