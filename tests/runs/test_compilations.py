"""How often the model is compiled: once for batches of all sizes, whatever the objective."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from models import tiny_model
from nmt.config import TrainingConfig
from nmt.data.batching import Packing
from nmt.training.objective import objective
from nmt.training.setup import compiled as module
from nmt.training.setup.compiled import compiled
from packed import pairs_of

pytestmark = pytest.mark.usefixtures("no_coverage")

LENGTHS = [9] * 16 + [5] * 40 + [1, 30]
BATCHES = [range(16), range(20, 50), [56], [57], [3, 56]]
"""Also of a single sentence."""


@pytest.mark.parametrize("is_packed", [False, True], ids=["padded", "packed"])
def test_one_graph_for_all_sizes_before_and_after_simcut_begins(is_packed, monkeypatch):
    n_compiled = 0

    def backend(graph, _inputs):
        nonlocal n_compiled
        n_compiled += 1
        return graph

    monkeypatch.setattr(module, "BACKEND", backend)
    torch._dynamo.reset()
    pairs = pairs_of(LENGTHS, LENGTHS[::-1])
    model = tiny_model(encoder_layers=1, decoder_layers=1).eval()
    forward, settings = (
        compiled(model, cuts=True),
        TrainingConfig(consistency="simcut", consistency_start=1, cut_rate=0.3),
    )
    for rows in BATCHES:
        batch = (Packing(pairs, 16) if is_packed else pairs).batch(np.array(rows))
        for step in (0, 1):
            losses = []
            for way in (forward, None):
                torch.manual_seed(1)
                losses.append(objective(model, batch, settings, way, step).loss)
            torch.testing.assert_close(*losses)
    assert n_compiled == 1


def test_the_compiler_does_not_fuse_by_size():
    compiled(tiny_model())
    assert torch._inductor.config.triton.mix_order_reduction_non_strict_mode
