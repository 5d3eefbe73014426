"""One compiled model serves both passes of R-Drop and SimCut."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from models import tiny_model
from nmt.config import TrainingConfig
from nmt.training.objective import objective
from nmt.training.setup.compiled import compiled
from packed import SRC, TGT, pairs_of

pytestmark = pytest.mark.usefixtures("no_coverage")

ROWS = np.arange(len(SRC))


def settings(**changes: Any) -> TrainingConfig:
    return TrainingConfig(**changes)


@pytest.mark.parametrize("kind", ["none", "rdrop", "simcut"])
def test_the_compiled_model_serves_both_passes(kind, monkeypatch):
    """By PyTorch's compiler without a C++ compiler behind it, which would take a minute."""
    monkeypatch.setattr("nmt.training.setup.compiled.BACKEND", "eager")
    model, how = tiny_model(encoder_layers=1, decoder_layers=1), settings(consistency=kind, cut_rate=0.3)
    forward = compiled(model)
    for n in (6, 4):
        batch = pairs_of(SRC, TGT).batch(np.arange(n))
        losses = []
        for each in (forward, None):
            torch.manual_seed(3)
            losses.append(objective(model, batch, how, each).loss)
        torch.testing.assert_close(*losses)
