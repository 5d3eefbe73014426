"""Decoder-only translation: the sequences that are learned from, and what each token of them may attend to."""

from __future__ import annotations

import numpy as np
import torch

from nmt.config import ModelConfig
from nmt.data.batching import Pairs
from nmt.data.corpus import Lines
from nmt.data.examples import OneSequence
from nmt.model.masks import Padded
from nmt.model.stacks import DecoderModel
from nmt.text.tokenizer import BOS, EOS, PAD, SEPARATOR

SRC = Lines.of([np.array(ids) for ids in ([20, 21], [22, 23, 24], [25])])
TGT = Lines.of([np.array(ids) for ids in ([30], [31, 32], [33, 34, 35])])


def test_by_hand() -> None:
    pairs = OneSequence().modified(Pairs.of_sides(SRC, TGT), np.array([2, 0]), 5)
    batch = pairs.batch(np.array([0, 1]))
    assert batch.index.tolist() == [0, 1]
    assert batch.src.tolist() == [[25, EOS, PAD], [20, 21, EOS]]
    assert batch.tgt_in.tolist() == [[BOS, 25, SEPARATOR, 33, 34, 35], [BOS, 20, 21, SEPARATOR, 30, PAD]]
    assert batch.tgt_out.tolist() == [[25, SEPARATOR, 33, 34, 35, EOS], [20, 21, SEPARATOR, 30, EOS, PAD]]
    assert batch.tgt_out.flatten()[batch.token_indices].tolist() == [33, 34, 35, EOS, 30, EOS]
    assert (batch.n_tokens, pairs.n_scored) == (6, 6)
    assert pairs.corpus_rows(np.array([0, 1])).tolist() == [2, 0]


def test_what_each_token_attends_to() -> None:
    """The source and the separator to each other, the target to these and to what stands before it."""
    batch = OneSequence().modified(Pairs.of_sides(SRC, TGT), np.arange(3), 0).batch(np.array([0]))
    torch.manual_seed(0)
    model = DecoderModel(ModelConfig(d_model=16, n_heads=2, d_ff=16, decoder_layers=1), 40, sees_source=True).eval()

    def hidden(tgt_in: torch.Tensor) -> torch.Tensor:
        states: torch.Tensor = model(batch.src, Padded(batch.src_mask), tgt_in, Padded(batch.tgt_mask))
        return states[0]

    before = hidden(batch.tgt_in)
    attends = []
    for place in range(batch.tgt_in.size(1)):
        changed = batch.tgt_in.clone()
        changed[0, place] = 39
        attends.append((hidden(changed) != before).any(-1).long().tolist())
    # a row for each token that is changed: <s> 20 21 SEPARATOR 30
    assert attends == [[1, 1, 1, 1, 1]] * 4 + [[0, 0, 0, 0, 1]]
