"""Prepared products equal a linear layer for any number of rows."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from nmt.model import inference
from nmt.model.device import DTYPES
from nmt.model.inference import packs, product
from nmt.model.transformer import ACTIVATIONS, Activation

TOLERANCE = {"float32": 1e-6, "bf16": 2e-2, "fp16": 2e-3}


@pytest.fixture(params=[True, False], ids=["packed", "plain"])
def packing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param and not packs():
        pytest.skip("this CPU, or this PyTorch, has no packed products")
    monkeypatch.setattr(inference, "packs", lambda: request.param)


@pytest.mark.usefixtures("packing")
@pytest.mark.parametrize("precision", ["float32", "bf16", "fp16"])
@pytest.mark.parametrize("activation", ["none", *ACTIVATIONS])
@torch.inference_mode()
def test_packed_products_equal_linear_layer(precision: str, activation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference, "FEW_PRODUCTS", 2 * 48 * 32)  # two rows are few
    torch.manual_seed(1)
    weight, bias = torch.randn(48, 32) / 6, torch.randn(48)
    for used_bias in (bias, None):
        prepared = product(weight, used_bias, precision, ACTIVATIONS.get(activation))
        for shape in ((1, 32), (2, 1, 32), (3, 32), (16, 32), (4, 5, 32), (257, 32)):
            x = torch.randn(shape)
            linear = F.linear(x, weight, used_bias)
            expected = {
                "none": linear, "relu": linear.relu(), "gelu": F.gelu(linear), "silu": linear * linear.sigmoid()
            }[activation]  # fmt: skip
            for given in (x, x.to(DTYPES[precision])):
                found = prepared(given)
                assert found.shape == (*shape[:-1], 48)
                torch.testing.assert_close(
                    found.float(), expected, atol=3 * TOLERANCE[precision], rtol=TOLERANCE[precision]
                )


@pytest.mark.parametrize("activation", ACTIVATIONS.values())
def test_onednn_activations_equal_table(activation: Activation) -> None:
    """In float32, which every CPU has, unlike the bf16 that packed products are for."""
    if not torch.backends.mkldnn.is_available():
        pytest.skip("this PyTorch has no oneDNN")
    x = torch.linspace(-6, 6, 4 * 64).view(4, 64)
    found = inference._pointwise(x, torch.eye(64), None, activation)
    torch.testing.assert_close(found, activation.function(x), atol=2e-6, rtol=1e-5)


@torch.inference_mode()
def test_products_are_independent_of_padding_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    if not packs():
        pytest.skip("this CPU, or this PyTorch, has no packed products")
    empty = torch.empty
    monkeypatch.setattr(torch, "empty", lambda *size, **options: empty(*size, **options).fill_(float("nan")))
    monkeypatch.setattr(inference, "FEW_PRODUCTS", 0)
    prepared = product(torch.eye(64) * 2, None, "bf16")
    x = torch.ones(259, 64)
    assert torch.equal(prepared(x).float(), 2 * x)


def test_products_are_not_packed_without_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise AttributeError("no such operator")

    monkeypatch.setattr(inference, "_pointwise", missing)
    packs.cache_clear()
    try:
        assert not packs()
    finally:
        packs.cache_clear()
