"""What a run says about memory, and recomputation from a run's start to its end."""

from __future__ import annotations

import pytest
import torch

from fitting import fit
from nmt.errors import ConfigError
from nmt.layout import RunDir
from nmt.runs.checkpoint import load_weights
from nmt.training import memory
from nmt.training.setup.choices import pick_compile
from tiny_corpus import tiny_settings

FEW = {"validate_every_steps": 2, "save_every_steps": 2, "average_last": 1}


def test_run_resumed_with_recomputation_ends_with_equal_weights(tiny_data, text, tmp_path):
    model = {"attention_dropout": 0.1, "activation_dropout": 0.1}
    for name, steps in (("plain", [(4, False)]), ("resumed", [(2, False), (4, True)]), ("again", [(4, True)])):
        for n_steps, recompute in steps:
            training = {**FEW, "max_steps": n_steps, "recompute": recompute, "consistency": "rdrop"}
            config = tiny_settings(text, model=model, training=training)
            fit(config, tiny_data, tmp_path / name, resume=n_steps > steps[0][0])
    plain, *others = (load_weights(RunDir(tmp_path / name).step(4)) for name in ("plain", "resumed", "again"))
    for other in others:
        assert all(torch.equal(tensor, other[name]) for name, tensor in plain.items())


@pytest.mark.parametrize("free", [1e6, 1e12])
def test_run_warns_if_it_takes_more_memory_than_is_free(tiny_data, text, tmp_path, monkeypatch, capsys, free):
    monkeypatch.setattr(memory, "free_bytes", lambda _: free)
    fit(tiny_settings(text, training={**FEW, "max_steps": 1}), tiny_data, tmp_path / "run")
    said = capsys.readouterr().err
    assert "MB of memory (weights" in said
    assert (memory.TOO_LITTLE in said) == (free == 1e6)


def test_recomputed_model_is_not_compiled(text):
    gpu = torch.device("cuda")
    assert not pick_compile(tiny_settings(text, training={"recompute": True}).training, gpu, is_sharded=False)
    with pytest.raises(ConfigError, match=r"training\.recompute"):
        pick_compile(tiny_settings(text, training={"recompute": True, "compile": "on"}).training, gpu, is_sharded=False)
