"""The paper's two masks, and what each layout may see."""

import torch

from nmt.model.masks import Packed, Padded, padding_mask, subsequent_mask, visible


def test_the_example_of_the_module():
    assert padding_mask(torch.tensor([3, 2])).tolist() == [[True, True, True], [True, True, False]]
    assert subsequent_mask(3).int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]


def test_true_means_may_be_attended():
    """The polarity of scaled_dot_product_attention, the opposite of torch.nn.Transformer's key_padding_mask."""
    value = torch.tensor([[[[1.0], [100.0]]]])  # (B, H, K, E)
    query = key = torch.zeros(1, 1, 2, 1)
    mask = padding_mask(torch.tensor([1]), 2)[:, None, None, :]
    found = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    assert found.flatten().tolist() == [1.0, 1.0]


def test_padded_causal_needs_no_mask_and_is_explicit_when_asked():
    layout = Padded(padding_mask(torch.tensor([3, 2])))
    see = visible(layout, layout, causal=True)
    assert see.mask is None and see.causal
    assert torch.equal(see.explicit(3, 3, torch.device("cpu"))[0, 0], subsequent_mask(3))


def test_packed_positions_and_sentences():
    packed = Packed(torch.tensor([3, 4, 6]), max_len=3)
    assert packed.sentence.tolist() == [0, 0, 0, 1, 2, 2]
    assert packed.positions.tolist() == [0, 1, 2, 0, 0, 1]


def test_packed_tokens_see_their_own_sentence_only():
    src, tgt = Packed(torch.tensor([2, 3]), 2), Packed(torch.tensor([1, 3]), 2)
    cross, own = visible(tgt, src).mask, visible(tgt, tgt, causal=True).mask
    assert cross is not None and own is not None
    assert cross[0, 0].int().tolist() == [[1, 1, 0], [0, 0, 1], [0, 0, 1]]
    assert own[0, 0].int().tolist() == [[1, 0, 0], [0, 1, 0], [0, 1, 1]]
