"""Layout and compilation: the choice, equal results, and the number of compilations."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

from cases import cases
from fitting import fit
from models import tiny_model
from nmt.config import Config
from nmt.data.batching import PackedBatch, Packing
from nmt.data.rows import RowBatch, RowPacking
from nmt.errors import ConfigError, NmtError
from nmt.layout import RunDir
from nmt.model import dropout
from nmt.model.settings import ModelConfig
from nmt.model.transformer import DecoderModel
from nmt.runs.info import read_info
from nmt.training.loss import cross_entropy, token_loss
from nmt.training.objectives.translation import one_sequence
from nmt.training.settings import TrainingConfig
from nmt.training.setup import choices as module
from nmt.training.setup.choices import compiled, pick_compile, pick_layout
from packed import pairs_of
from tiny_corpus import tiny_settings
from trained import records

pytestmark = pytest.mark.usefixtures("no_coverage")

CPU, GPU = torch.device("cpu"), torch.device("cuda")
SHALLOW = {"encoder_layers": 1, "decoder_layers": 1}  # deeper models take longer to compile
PLAIN = {"embedding_dropout": 0.0, "residual_dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}


def settings(folder: Path = Path("x"), **training: object) -> Config:
    return tiny_settings(folder, model=PLAIN | SHALLOW, training={"max_steps": 4, "average_last": 1, **training})


@pytest.fixture
def captured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile as far as the graph of the forward pass, for what is decided there or by us."""
    monkeypatch.setattr(module, "BACKEND", "eager")
    torch._dynamo.reset()


LENGTHS = [9] * 16 + [5] * 40 + [1, 30]
BATCHES = [range(16), range(20, 50), [56], [57], [3, 56]]
"""Of many sizes, the first as large on one side as on the other, and single sentences."""


def batches(is_packed: bool = True) -> list[PackedBatch | RowBatch]:
    pairs = pairs_of(LENGTHS, LENGTHS[::-1])
    maker = Packing(pairs, 16) if is_packed else RowPacking(pairs)
    return [maker.batch(np.array(rows)) for rows in BATCHES]


@pytest.mark.parametrize("precision", cases(["float32", "bf16"], always=["float32"]))
def test_packed_kernel_is_compiled(calls, monkeypatch, precision):
    # all but the generation of machine code
    monkeypatch.setattr(module, "BACKEND", "aot_eager")
    torch._dynamo.reset()
    # compiled code uses PyTorch's dropout; so does what it is compared with
    monkeypatch.setattr(dropout._BytewiseDropout, "apply", lambda x, n: functional.dropout(x, n / 256))
    # rows that are filled up, as some CPUs have them, draw other numbers
    monkeypatch.setattr("nmt.training.loss.row_step", lambda _: 0)
    model = tiny_model(**SHALLOW, residual_dropout=0.25)
    forward = compiled(model)
    is_bf16 = precision == "bf16"
    near = {"atol": 0.02, "rtol": 0.02} if is_bf16 else {}
    autocast = torch.autocast("cpu", dtype=torch.bfloat16, enabled=is_bf16)
    with torch._dynamo.config.patch(error_on_recompile=True), autocast:
        for batch in batches():
            losses = []
            for seed, way in ((1, None), (1, forward), (2, forward)):
                torch.manual_seed(seed)
                losses.append(cross_entropy(model, batch, 0.1, way).loss)
            torch.testing.assert_close(losses[1], losses[0], **near)
            assert losses[2] != losses[1]
            one, two = (torch.autograd.grad(loss, list(model.parameters())) for loss in losses[:2])
            for a, b in zip(one, two, strict=True):
                assert a.isfinite().all()
                if not is_bf16:  # rounding differs
                    torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)
    assert len(calls) == 3 * 5 * 3


class Doubled(torch.nn.Module):
    """A model that is compiled in no time."""

    def forward(self, src: torch.Tensor, *_others: object) -> torch.Tensor:
        return 2 * src


def test_compile_error_raises(monkeypatch):
    monkeypatch.setattr(module, "BACKEND", "broken")
    torch._dynamo.register_backend(lambda *_: 1 / 0, name="broken")
    ids = torch.ones(2, 3, dtype=torch.long)
    with pytest.raises(NmtError, match=r"^compiling the model failed: .*; train with training.compile: off$") as got:
        compiled(Doubled())(ids, None, ids, None)
    assert "\n" not in str(got.value)


@pytest.fixture(scope="module")
def plain(tiny_data: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    """The records of a run that is not compiled."""
    run = tmp_path_factory.mktemp("plain") / "run"
    fit(settings(tiny_data.parent / "text"), tiny_data, run)
    return records(run, "train")


@pytest.mark.usefixtures("captured", "quick")
@pytest.mark.parametrize(
    ("layout", "setting"),
    cases(
        [("packed", "off"), ("packed", "on"), ("rows", "on")],
        always=[("packed", "off"), ("packed", "on")],
    ),
)
def test_compiled_run_equals_eager_run(tiny_data, plain, tmp_path, monkeypatch, layout, setting):
    monkeypatch.setattr("nmt.training.setup.choices.pick_layout", lambda *_: layout)
    fit(settings(tiny_data.parent / "text", compile=setting), tiny_data, tmp_path / "run")
    info = read_info(RunDir(tmp_path / "run"))
    assert info.layout == layout and info.compiled == (setting == "on")
    for one, two in zip(plain, records(tmp_path / "run", "train"), strict=True):
        for number in ("loss", "perplexity", "gradient_norm"):
            assert one[number] == pytest.approx(two[number], rel=1e-3)


def test_auto_packs_and_compiles_on_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    monkeypatch.setattr(torch.backends.cuda, "is_flash_attention_available", lambda: True)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: object())
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    config, training = settings(), settings().training
    joined = tiny_settings(Path("x"), model={**PLAIN, "kind": "decoder"}, training={"max_tokens": 500})
    assert pick_layout(config, GPU, "bf16") == pick_layout(config, GPU, "fp16") == "packed"
    assert pick_layout(config, GPU, "float32") == pick_layout(config, CPU, "bf16") == "rows"
    assert pick_layout(joined, GPU, "bf16") == "rows"
    assert pick_compile(training, GPU, is_sharded=False) and not pick_compile(training, GPU, is_sharded=True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (6, 1))
    assert not pick_compile(training, GPU, is_sharded=False) and pick_layout(config, GPU, "fp16") == "rows"
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"training\.compile: on is not possible: it needs the package triton"):
        pick_compile(settings(compile="on").training, GPU, is_sharded=False)


def test_unavailable_compile_raises(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(ConfigError, match=r"needs a C\+\+ compiler, and there is no g\+\+; use auto or off"):
        pick_compile(settings(compile="on").training, CPU, is_sharded=False)
    assert pick_compile(settings(compile="off").training, GPU, is_sharded=False) is False


@pytest.mark.parametrize("is_packed", [False, True], ids=["rows", "packed"])
def test_one_graph_with_and_without_simcut(is_packed, monkeypatch):
    n_compiled = 0

    def backend(graph, _inputs):
        nonlocal n_compiled
        n_compiled += 1
        return graph

    monkeypatch.setattr(module, "BACKEND", backend)
    torch._dynamo.reset()
    model = tiny_model(**SHALLOW).eval()
    forward = compiled(model, cuts=True)
    for batch in batches(is_packed):
        for how in (TrainingConfig(), TrainingConfig(consistency="simcut", cut_rate=0.3)):
            losses = []
            for way in (forward, None):
                torch.manual_seed(1)
                losses.append(token_loss(model, batch, how, way).loss)
            torch.testing.assert_close(*losses)
    assert n_compiled == 1


@pytest.mark.usefixtures("captured")
def test_compiled_prefix_of_a_single_row_is_that_of_its_sentences():
    pairs = one_sequence(pairs_of([5, 3], [4, 6]), np.arange(2), 0)
    batch = RowPacking(pairs).batch(np.arange(2))
    model = DecoderModel(ModelConfig(d_model=16, n_heads=2, d_ff=16, decoder_layers=1), 40, sees_source=True).eval()
    found, expected = (cross_entropy(model, batch, 0.0, forward).loss for forward in (compiled(model), None))
    assert len(batch.src) == 1
    torch.testing.assert_close(found, expected)
