"""Device and number format are chosen by what is there and what is fast."""

import itertools
import time

import pytest
import torch

from nmt.errors import ConfigError
from nmt.model import precision
from nmt.model.device import pick_device
from nmt.model.precision import pick_precision, pick_threads

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("bf16", "float32", "chosen"), [(1.0, 4.0, "bf16"), (44.0, 1.0, "float32"), (1.0, 1.1, "float32")]
)
def test_cpu_precision_follows_probe(monkeypatch, bf16, float32, chosen):
    times = {torch.bfloat16: bf16, torch.float32: float32}
    monkeypatch.setattr(precision, "_seconds", times.__getitem__)
    assert pick_precision("auto", CPU) == chosen


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_missing_gpu_is_rejected():
    assert pick_device("auto") == CPU
    with pytest.raises(ConfigError, match=r"training.device: cuda requested, but PyTorch finds no GPU"):
        pick_device("cuda")


@pytest.mark.parametrize(("supported", "chosen"), [(True, "bf16"), (False, "fp16")])
def test_gpu_precision_is_bf16_if_supported(monkeypatch, supported, chosen):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: supported)
    assert pick_precision("auto", torch.device("cuda")) == chosen


@pytest.fixture
def _library_of_before():
    yield
    precision.use_float32_library("mkl")


@pytest.mark.parametrize(
    ("seconds", "errors", "chosen"),
    [
        ((1.0, 2.0), (1e-5, 1e-5), "onednn"),
        ((1.0, 1.1), (1e-5, 1e-5), "mkl"),
        ((1.0, 4.0), (1e-2, 1e-5), "mkl"),  # a processor that takes bf16 where it may is not exact
    ],
)
@pytest.mark.usefixtures("_library_of_before")
def test_float32_library_is_fastest_exact_one(monkeypatch, seconds, errors, chosen):
    times, found = itertools.cycle(seconds), itertools.cycle(errors)
    monkeypatch.setattr(precision, "_seconds", lambda _: next(times))
    monkeypatch.setattr(precision, "_error", lambda: next(found))
    assert precision.pick_float32_library("float32", CPU) == chosen


@pytest.mark.usefixtures("_library_of_before")
def test_library_probe_leaves_products_exact():
    chosen = precision.pick_float32_library("float32", CPU)
    for name in {chosen, "mkl"}:
        precision.use_float32_library(name)
        for shape in ((3, 17, 33), (300, 64, 50), (64, 1000, 8)):
            a, b = torch.randn(shape[:2]), torch.randn(shape[1:])
            torch.testing.assert_close(a @ b, (a.double() @ b.double()).float(), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("fastest", [1, 2])
def test_pick_threads_takes_fastest(fastest: int) -> None:
    before = torch.get_num_threads()
    found = pick_threads(lambda: time.sleep(0.001 if torch.get_num_threads() == fastest else 0.01), 2)
    assert (found, torch.get_num_threads()) == (fastest, before)
