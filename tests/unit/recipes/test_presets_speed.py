"""The speed of training, measured with random text."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace

import pytest

from nmt.config.load import load_config
from nmt.recipes import presets
from nmt.training.settings import DEFAULT_MAX_TOKENS

SMALL = [
    "model.d_model=8", "model.d_ff=8", "model.encoder_layers=1", "model.decoder_layers=1", "tokenizer.vocab_size=300",
    "training.device=cpu",
]  # fmt: skip


@pytest.mark.parametrize(
    ("update_tokens", "measured", "seconds"), [(400, 400, 1.0), (4 * DEFAULT_MAX_TOKENS, DEFAULT_MAX_TOKENS, 4.0)]
)
def test_large_update_is_measured_by_a_micro_batch(monkeypatch, update_tokens, measured, seconds):
    clock, real, sizes = count(), presets.token_loss, []

    def objective(model, batch, settings):
        sizes.append(batch.n_tokens)
        return real(model, batch, settings)

    monkeypatch.setattr(presets, "token_loss", objective)
    monkeypatch.setattr(presets, "time", SimpleNamespace(perf_counter=lambda: float(next(clock))))
    config = load_config("base.yaml", [*SMALL, f"training.update_tokens={update_tokens}"])
    assert presets.seconds_per_update(config, 16) == seconds
    assert set(sizes) == {measured}


def test_crossconst_is_measured_with_copied_targets():
    directions = ["data.directions=[de-en, en-de]", "data.languages=[de, en]", "training.consistency=crossconst"]
    config = load_config("base.yaml", [*SMALL, *directions, "training.update_tokens=400"])
    assert presets.seconds_per_update(config, 16) > 0
