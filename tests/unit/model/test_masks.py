"""The paper's two masks, and what each layout may mask."""

import pytest
import torch

from models import packed, tiny_model
from nmt.model.masks import AttentionMask, Padded, attention_mask, causal_mask, padding_mask


def test_masks_example_of_docstring():
    assert padding_mask(torch.tensor([3, 2])).tolist() == [[True, True, True], [True, True, False]]
    assert causal_mask(3).int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]


def test_mask_true_means_attended():
    """The polarity of scaled_dot_product_attention, the opposite of torch.nn.Transformer's key_padding_mask."""
    value = torch.tensor([[[[1.0], [100.0]]]])  # (B, H, K, E)
    query = key = torch.zeros(1, 1, 2, 1)
    mask = padding_mask(torch.tensor([1]), 2)[:, None, None, :]
    found = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    assert found.flatten().tolist() == [1.0, 1.0]


def test_padded_causal_mask_is_implicit_unless_requested():
    layout = Padded(padding_mask(torch.tensor([3, 2])))
    mask = attention_mask(layout, layout, causal=True)
    assert mask.allowed is None and mask.causal
    assert torch.equal(mask.explicit(3, 3, torch.device("cpu"))[0, 0], causal_mask(3))


def test_packed_layouts_are_passed_to_kernel():
    src, tgt = packed([2, 1]), packed([1, 2])
    mask = attention_mask(tgt, src)
    assert mask.packed is not None and mask.packed[0] is tgt and mask.packed[1] is src
    assert mask.allowed is None and not mask.causal and attention_mask(tgt, tgt, causal=True).causal


def test_mixed_layouts_are_rejected():
    with pytest.raises(AssertionError, match="share one kind of layout"):
        attention_mask(packed([2]), Padded(padding_mask(torch.tensor([2]))))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("n_keys", [5, 8])
def test_attention_bias_equals_mask(dtype, n_keys):
    allowed = padding_mask(torch.tensor([n_keys, 2]))[:, None, None, :]
    mask = AttentionMask(allowed)
    numbers = mask.additive(dtype)
    assert (
        numbers.dtype == dtype and torch.equal(numbers == 0, allowed) and torch.equal(numbers == -torch.inf, ~allowed)
    )
    assert all(stride % 8 == 0 for stride in numbers.stride()[:-1]) and numbers.stride(-1) == 1
    assert mask.additive(dtype) is numbers and AttentionMask(causal=True).additive(dtype) is None


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


@pytest.mark.parametrize(("step", "rows"), [(4, 8), (6, 6), (0, None)])
def test_flatten_and_unflatten_round_trip(step, rows):
    layout = Padded(padding_mask(torch.tensor([3, 2])), step)
    x = torch.randn(2, 3, 5)
    flat = layout.flatten(x)
    assert torch.equal(layout.unflatten(flat), x)
    if rows is None:
        assert flat is x
    else:
        assert flat.shape == (rows, 5) and torch.equal(flat[:6], x.flatten(0, 1)) and not flat[6:].any()
