"""Models with only an encoder or a decoder."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from nmt.data.batching import Batch, Packing, Pairs
from nmt.data.lines import Lines
from nmt.model.masks import Packed, Padded, prefix_mask
from nmt.model.settings import ModelConfig
from nmt.model.transformer import DecoderModel, EncoderModel, Model, mean_state

LINES = Lines.of([np.array(ids) for ids in ([20, 8, 21, 22], [23, 24], [25, 26, 8, 27, 28])])
KINDS = [("pre", "sinusoidal"), ("post", "learned")]


def config(norm: str = "pre", positions: str = "sinusoidal") -> ModelConfig:
    settings: dict[str, Any] = {"norm": norm, "positions": positions}
    return ModelConfig(d_model=16, n_heads=2, d_ff=32, encoder_layers=2, decoder_layers=2, **settings)


def batches() -> tuple[Batch, Any]:
    pairs = Pairs(LINES, LINES)
    return pairs.batch(np.arange(3)), Packing(pairs, step=16).batch(np.arange(3))


def states(model: Model, batch: Any) -> torch.Tensor:
    """(N, D), of the tokens of a batch, packed or not, of all sentences one after the other."""
    if isinstance(batch, Batch):
        src, tgt = Padded(batch.src_mask), Padded(batch.tgt_mask)
        hidden: torch.Tensor = model(batch.src, src, batch.tgt_in, tgt)
        return hidden.flatten(0, 1)[batch.token_indices]
    src_rows = Packed(batch.src_bounds, batch.src_positions, batch.max_len)
    tgt_rows = Packed(batch.tgt_bounds, batch.tgt_positions, batch.max_len)
    packed: torch.Tensor = model(batch.src, src_rows, batch.tgt_in, tgt_rows)
    return packed[0, : batch.n_tokens]


@pytest.mark.parametrize(("norm", "positions"), KINDS)
def test_stacks_are_independent_of_padding_and_packing(norm: str, positions: str) -> None:
    padded, packed = batches()
    torch.manual_seed(1)
    for model in (EncoderModel(config(norm, positions), 30), DecoderModel(config(norm), 30)):
        found = states(model.eval(), padded)
        torch.testing.assert_close(states(model, packed), found, atol=1e-5, rtol=1e-5)
        single = [states(model, Pairs(LINES, LINES).batch(np.array([row]))) for row in range(3)]
        torch.testing.assert_close(torch.cat(single), found, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("norm", "positions"), KINDS)
def test_decoder_states_are_causal(norm: str, positions: str) -> None:
    torch.manual_seed(1)
    model, ids = DecoderModel(config(norm, positions), 30).eval(), torch.tensor([[2, 20, 21, 22, 23]])
    layout = Padded(torch.ones_like(ids, dtype=torch.bool))
    before = model(ids, layout, ids, layout)
    for place in range(5):
        changed = ids.clone()
        changed[0, place] = 29
        differs = (model(ids, layout, changed, layout) != before).any(-1)[0].tolist()
        assert differs == [False] * place + [True] * (5 - place)


def test_mean_states_of_padded_and_packed_sequences_are_equal() -> None:
    padded, packed = batches()
    numbers = [[1.0, 2, 3, 4, 5], [6.0, 7, 8], [9.0, 10, 11, 12, 13, 14]]
    wanted = [3.0, 7.0, 11.5]
    hidden = torch.full((3, 6, 1), 99.0)
    for row, own in zip(hidden, numbers, strict=True):
        row[: len(own), 0] = torch.tensor(own)
    assert mean_state(hidden, Padded(padded.src_mask))[:, 0].tolist() == wanted
    tokens = torch.tensor([number for own in numbers for number in own])
    hidden = torch.full((1, packed.src.size(1), 1), 99.0)
    hidden[0, : len(tokens), 0] = tokens
    layout = Packed(packed.src_bounds, packed.src_positions, packed.max_len)
    assert mean_state(hidden, layout)[:3, 0].tolist() == wanted


def test_prefix_mask_equals_example() -> None:
    wanted = [[[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]], torch.ones(4, 4).tril().tolist()]
    is_prefix = torch.arange(4) < torch.tensor([[2], [1]])
    allowed = prefix_mask(Padded(torch.ones(2, 4, dtype=torch.bool)), is_prefix).allowed
    assert allowed is not None and allowed[:, 0].long().tolist() == wanted
