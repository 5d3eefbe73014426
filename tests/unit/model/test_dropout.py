"""Dropout keeps its promise: the rate, the mean, the gradient, the seed."""

import pytest
import torch

from nmt.model.dropout import Dropout


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5])
def test_dropout_rate_and_mean(p):
    torch.manual_seed(0)
    x = torch.ones(401, 1003)
    found = Dropout(p)(x)
    assert (found == 0).float().mean().item() == pytest.approx(p, abs=0.005)
    assert found.mean().item() == pytest.approx(1.0, abs=0.01)
    assert len(found.unique()) == 2
    # every byte of a random word decides alike
    by_byte = (found.flatten()[: 8 * 50_000].view(-1, 8) == 0).float().mean(0)
    assert by_byte.min() > p - 0.02 and by_byte.max() < p + 0.02


def test_dropout_gradient_is_the_mask():
    x = torch.ones(7, 5, requires_grad=True)
    found = Dropout(0.4)(x)
    found.sum().backward()
    assert torch.equal(x.grad, found)


def test_dropout_depends_on_seed():
    x, dropout = torch.ones(1000), Dropout(0.5)
    torch.manual_seed(3)
    first = dropout(x)
    assert not torch.equal(first, dropout(x))
    torch.manual_seed(3)
    assert torch.equal(first, dropout(x))


@pytest.mark.parametrize(("p", "share"), [(0.001, 1 / 256), (0.999, 255 / 256)])
def test_extreme_dropout_rates_are_rounded(p, share):
    torch.manual_seed(0)
    found = Dropout(p)(torch.ones(100_000))
    assert found.isfinite().all()
    assert (found == 0).float().mean().item() == pytest.approx(share, abs=0.002)


def test_dropout_is_identity_in_evaluation_and_at_rate_0():
    x = torch.randn(9)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x
