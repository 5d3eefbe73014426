"""The disk space that the checkpoints of a run take at most."""

from __future__ import annotations

from pathlib import Path

import pytest

from disk import hook
from kept_run import make_data, quicken, settings
from nmt.layout import RunDir
from nmt.runs import checkpoint
from nmt.runs.checkpoint import load_weights, most_bytes
from nmt.training.loop import fit


def test_the_most_that_checkpoints_take_is_never_passed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a best that is older than the newest, and the average of a run that goes on."""
    data, run, sizes = make_data(tmp_path), RunDir(tmp_path / "run"), [0]
    quicken(monkeypatch)

    def note(*_: object) -> None:
        sizes.append(sum(path.stat().st_size for path in run.checkpoints.rglob("*") if path.is_file()))

    with monkeypatch.context() as patch:
        hook(patch, note)
        for n in (6, 12):
            fit(settings(data, max_steps=n, save_every_steps=1, average_last=2), data, run.path, resume=n > 6)
    n_parameters = sum(tensor.numel() for tensor in load_weights(run.step(12)).values())
    monkeypatch.setattr(checkpoint, "NAMES_BYTES", 1 << 14)  # so small a model has few names
    # three optimizers of two numbers per weight; weights: two newest, the best, the average, and one being written
    assert 4 * n_parameters * (3 * 2 + 5) < max(sizes) <= most_bytes(n_parameters, keep_last=2, has_ema=False)
