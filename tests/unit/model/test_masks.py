"""The paper's two masks, and what each layout may mask."""

import pytest
import torch

from models import packed
from nmt.model.masks import Padded, attention_mask, causal_mask, padding_mask


def test_the_example_of_the_module():
    assert padding_mask(torch.tensor([3, 2])).tolist() == [[True, True, True], [True, True, False]]
    assert causal_mask(3).int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]


def test_true_means_may_be_attended():
    """The polarity of scaled_dot_product_attention, the opposite of torch.nn.Transformer's key_padding_mask."""
    value = torch.tensor([[[[1.0], [100.0]]]])  # (B, H, K, E)
    query = key = torch.zeros(1, 1, 2, 1)
    mask = padding_mask(torch.tensor([1]), 2)[:, None, None, :]
    found = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    assert found.flatten().tolist() == [1.0, 1.0]


def test_padded_causal_needs_no_mask_and_is_explicit_when_asked():
    layout = Padded(padding_mask(torch.tensor([3, 2])))
    mask = attention_mask(layout, layout, causal=True)
    assert mask.allowed is None and mask.causal
    assert torch.equal(mask.explicit(3, 3, torch.device("cpu"))[0, 0], causal_mask(3))


def test_packed_layouts_go_on_to_the_kernel():
    src, tgt = packed([2, 1]), packed([1, 2])
    mask = attention_mask(tgt, src)
    assert mask.packed is not None and mask.packed[0] is tgt and mask.packed[1] is src
    assert mask.allowed is None and not mask.causal and attention_mask(tgt, tgt, causal=True).causal


def test_a_query_sees_one_kind_of_layout():
    with pytest.raises(AssertionError, match="share one kind of layout"):
        attention_mask(packed([2]), Padded(padding_mask(torch.tensor([2]))))


@pytest.mark.parametrize(("step", "rows"), [(4, 8), (6, 6), (0, None)])
def test_padded_hidden_states_become_rows_and_sentences_again(step, rows):
    layout = Padded(padding_mask(torch.tensor([3, 2])), step)
    x = torch.randn(2, 3, 5)
    flat = layout.flatten(x)
    assert torch.equal(layout.unflatten(flat), x)
    if rows is None:
        assert flat is x
    else:
        assert flat.shape == (rows, 5) and torch.equal(flat[:6], x.flatten(0, 1)) and not flat[6:].any()
