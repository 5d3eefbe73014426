"""Multi-head attention against PyTorch's own, and its two paths against each other."""

import pytest
import torch

from nmt.model.attention import MultiHeadAttention
from nmt.model.masks import AttentionMask, Padded, attention_mask, padding_mask


def filled(d_model: int = 16, n_heads: int = 4) -> MultiHeadAttention:
    torch.manual_seed(0)
    attention = MultiHeadAttention(d_model, n_heads, dropout=0.0)
    torch.nn.init.normal_(attention.in_bias)
    torch.nn.init.normal_(attention.output.bias)
    return attention


def torchs_own(ours: MultiHeadAttention) -> torch.nn.MultiheadAttention:
    theirs = torch.nn.MultiheadAttention(16, 4, batch_first=True)
    theirs.load_state_dict(
        {
            "in_proj_weight": ours.in_weight,
            "in_proj_bias": ours.in_bias,
            "out_proj.weight": ours.output.weight,
            "out_proj.bias": ours.output.bias,
        }
    )
    return theirs


def test_attention_equals_torch_with_copied_weights():
    ours = filled()
    theirs = torchs_own(ours)
    x, memory = torch.randn(2, 5, 16), torch.randn(2, 7, 16)
    mask = padding_mask(torch.tensor([7, 4]))
    found = ours.cross(x, ours.keys_values(memory), AttentionMask(mask[:, None, None, :]))
    expected, _ = theirs(x, memory, memory, key_padding_mask=~mask)  # there True means padding
    torch.testing.assert_close(found, expected)
    causal = torch.ones(5, 5, dtype=torch.bool).triu(1)
    expected, _ = theirs(x, x, x, attn_mask=causal)
    torch.testing.assert_close(ours(x, AttentionMask(causal=True)), expected)


@pytest.mark.parametrize("causal", [False, True])
def test_cross_weights_equals_cross(causal):
    attention = filled()
    x = torch.randn(3, 6, 16)
    layout = Padded(padding_mask(torch.tensor([6, 4, 1])))
    mask = attention_mask(layout, layout, causal)
    output, weights = attention.cross_weights(x, attention.keys_values(x), mask)
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
        fast = attention.cross(torch.randn(2, 4, 16), attention.keys_values(memory), nothing)
        slow, weights = attention.cross_weights(torch.randn(2, 4, 16), attention.keys_values(memory), nothing)
    (fast.float().sum() + slow.float().sum()).backward()
    assert fast.isfinite().all() and slow.isfinite().all() and memory.grad.isfinite().all()
    assert weights[1].abs().max() == 0


def test_attention_in_bf16_is_close():
    attention = filled()
    x = torch.randn(2, 5, 16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = attention(x, AttentionMask(causal=True))
    assert rough.dtype == torch.bfloat16
    torch.testing.assert_close(rough.float(), attention(x, AttentionMask(causal=True)), atol=0.05, rtol=0.05)


def test_attention_dropout_applies_in_training_only():
    attention = MultiHeadAttention(16, 4, dropout=0.5)
    x = torch.randn(1, 8, 16)
    attention.train()
    assert not torch.equal(attention(x, AttentionMask()), attention(x, AttentionMask()))
    attention.eval()
    assert torch.equal(attention(x, AttentionMask()), attention(x, AttentionMask()))
