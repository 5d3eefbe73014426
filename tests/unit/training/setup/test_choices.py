"""The size of micro-batches that is chosen by the memory."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch

from nmt.data.batching import Pairs
from nmt.data.lines import Lines
from nmt.data.rows import RowPacking
from nmt.model.settings import ModelConfig
from nmt.model.transformer import Transformer
from nmt.text.ids import N_SPECIAL
from nmt.training.loss import token_loss
from nmt.training.settings import TrainingConfig
from nmt.training.setup import choices

VOCABULARY = 300


def test_micro_batch_of_the_chosen_size_fits_although_one_pair_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    free = 60e6
    monkeypatch.setattr(choices, "free_bytes", lambda _: free)
    rng = np.random.default_rng(0)
    lines = Lines.of([rng.integers(N_SPECIAL, VOCABULARY, n - 1) for n in [300, *[60] * 400]])
    pairs = Pairs(lines, lines)
    sizes = {"d_model": 16, "d_ff": 16, "n_heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    model = Transformer(ModelConfig.model_validate(sizes), VOCABULARY, VOCABULARY)
    settings = TrainingConfig()
    objective = cast(Any, SimpleNamespace(settings=settings, loss=lambda *given: token_loss(*given, settings)))
    cpu = torch.device("cpu")

    n_tokens = choices.pick_max_tokens(objective, model, pairs, "float32", cpu, useful=1 << 20)

    rows = next(RowPacking(pairs).split(np.arange(1, len(pairs)), n_tokens))
    used = choices.pass_bytes(objective, model, pairs, rows, "float32", cpu)
    allowed = choices.SAFE_SHARE["cpu"] * free
    assert 1000 < n_tokens < pairs.lengths.larger_side(np.arange(len(pairs)))
    assert allowed / 4 < used < allowed
