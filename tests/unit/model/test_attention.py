"""Attention and its masks, in the padded and the packed layout."""

import pytest
import torch

from models import padding_mask, tiny_model
from nmt.model.attention import MultiHeadAttention, keys_values_of
from nmt.model.dropout import Dropout
from nmt.model.masks import AttentionMask, Padded, attention_mask
from nmt.model.settings import ModelConfig


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("n_keys", [5, 8])
def test_attention_bias_equals_mask(dtype, n_keys):
    allowed = padding_mask(torch.tensor([n_keys, 2]))[:, None, None, :]
    mask = AttentionMask(allowed)
    numbers = mask.bias(dtype)
    assert numbers.dtype == dtype and torch.equal(numbers == 0, allowed) and torch.equal(numbers < -1e38, ~allowed)
    assert all(stride % 8 == 0 for stride in numbers.stride()[:-1]) and numbers.stride(-1) == 1
    by_head = mask.bias_by_head(torch.zeros(2, 3, 1, 4, dtype=dtype))
    assert torch.equal(by_head, numbers[:, 0].repeat_interleave(3, 0))
    assert mask.bias(dtype) is numbers and mask.bias_by_head(torch.zeros(2, 3, 1, 4, dtype=dtype)) is by_head


def test_layers_share_one_mask(monkeypatch):
    seen = []

    def attend(query, *_, attn_mask, **__):
        seen.append(attn_mask)
        return query

    monkeypatch.setattr("nmt.model.attention.F.scaled_dot_product_attention", attend)
    model = tiny_model(encoder_layers=2, decoder_layers=2).to("meta")
    layout = Padded(torch.ones(3, 5, dtype=torch.bool, device="meta"))
    ids = torch.ones(3, 5, dtype=torch.int64, device="meta")
    model(ids, layout, ids, layout)
    of_encoder, of_cross = seen[:2], seen[3::2]  # the decoder's self-attention has none
    assert of_encoder[0] is of_encoder[1] and of_cross[0] is of_cross[1] and seen[2] is seen[4] is None
    assert of_encoder[0].dtype == of_cross[0].dtype == torch.float32


# --- Multi-head attention against PyTorch's own, and its two paths against each other ---


def filled(d_model: int = 16, n_heads: int = 4) -> MultiHeadAttention:
    torch.manual_seed(0)
    attention = MultiHeadAttention(ModelConfig(d_model=d_model, n_heads=n_heads, attention_dropout=0.0))
    torch.nn.init.normal_(attention.in_bias)
    torch.nn.init.normal_(attention.output.bias)
    return attention


def test_attention_equals_torch_with_copied_weights():
    ours = filled()
    theirs = torch.nn.MultiheadAttention(16, 4, batch_first=True)
    theirs.load_state_dict({
        "in_proj_weight": ours.in_weight, "in_proj_bias": ours.in_bias, "out_proj.weight": ours.output.weight,
        "out_proj.bias": ours.output.bias,
    })  # fmt: skip
    x, memory = torch.randn(2, 5, 16), torch.randn(2, 7, 16)
    mask = padding_mask(torch.tensor([7, 4]))
    found = ours.cross(x, keys_values_of([ours], memory)[0], AttentionMask(mask[:, None, None, :]))
    expected, _ = theirs(x, memory, memory, key_padding_mask=~mask)  # there True means padding
    torch.testing.assert_close(found, expected)
    causal = torch.ones(5, 5, dtype=torch.bool).triu(1)
    expected, _ = theirs(x, x, x, attn_mask=causal)
    torch.testing.assert_close(ours(x, AttentionMask(~causal[None, None])), expected)


@pytest.mark.parametrize("causal", [False, True])
def test_cross_attention_that_returns_weights_equals_self_attention(causal):
    attention = filled()
    x = torch.randn(3, 6, 16)
    layout = Padded(padding_mask(torch.tensor([6, 4, 1])))
    mask = attention_mask(layout, layout, causal)
    output = attention.cross(x, keys_values_of([attention], x)[0], mask, found := [])
    [weights] = found
    real = layout.mask if causal else torch.ones_like(layout.mask)
    torch.testing.assert_close(output[real], attention(x, mask)[real])
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 4, 6))
    if causal:
        assert weights.triu(1).abs().max() == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_fully_masked_query_is_finite(dtype):
    attention = filled()
    memory = torch.randn(2, 3, 16, requires_grad=True)
    nothing = AttentionMask(torch.tensor([[True, True, False], [False, False, False]])[:, None, None, :])
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
        fast = attention.cross(torch.randn(2, 4, 16), keys_values_of([attention], memory)[0], nothing)
        slow = attention.cross(torch.randn(2, 4, 16), keys_values_of([attention], memory)[0], nothing, found := [])
    (fast.float().sum() + slow.float().sum()).backward()
    assert fast.isfinite().all() and slow.isfinite().all() and memory.grad.isfinite().all()
    assert found[0][0, ..., 2].abs().max() == 0


# --- Dropout keeps its promise: the rate, the mean, the gradient, the seed ---


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5])
def test_dropout_has_requested_rate_and_keeps_mean(p):
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
