"""The choice of device and number format."""

import itertools

import pytest
import torch

from nmt.errors import ConfigError
from nmt.model import device
from nmt.model.device import pick_device, pick_precision

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("bf16", "float32", "chosen"), [(1.0, 4.0, "bf16"), (44.0, 1.0, "float32"), (1.0, 1.1, "float32")]
)
def test_cpu_precision_is_fastest_in_probe(monkeypatch, bf16, float32, chosen):
    times = {torch.bfloat16: bf16, torch.float32: float32}
    monkeypatch.setattr(device, "_seconds", times.__getitem__)
    assert pick_precision("auto", CPU) == chosen


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_missing_gpu_is_rejected():
    assert pick_device("auto") == CPU
    with pytest.raises(ConfigError, match=r"training.device: cuda is requested, but PyTorch finds no GPU"):
        pick_device("cuda")


@pytest.mark.parametrize(("supported", "chosen"), [(True, "bf16"), (False, "fp16")])
def test_gpu_precision_is_bf16_if_supported(monkeypatch, supported, chosen):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: supported)
    assert pick_precision("auto", torch.device("cuda")) == chosen


@pytest.fixture
def _library_of_before():
    before = device.float32_library()
    yield
    device.use_float32_library(before)


@pytest.mark.parametrize(
    ("seconds", "errors", "chosen"),
    [
        ((1.0, 2.0), (1e-5, 1e-5), "onednn"),
        ((1.0, 1.1), (1e-5, 1e-5), "mkl"),
        ((1.0, 4.0), (1e-2, 1e-5), "mkl"),  # a processor that takes bf16 where it may is not exact
    ],
)
@pytest.mark.usefixtures("_library_of_before")
def test_float32_library_is_fastest_accurate_one(monkeypatch, seconds, errors, chosen):
    times, found = itertools.cycle(seconds), itertools.cycle(errors)
    monkeypatch.setattr(device, "_seconds", lambda _: next(times))
    monkeypatch.setattr(device, "_error", lambda: next(found))
    assert device.pick_float32_library("float32", CPU) == chosen
