"""The check of a GPU runs on a CPU, where it checks itself."""

import sys
import time
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "scripts"))

import gpu_check
from gpu_check_setting import MODES, limited


@pytest.fixture
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the compiler does is tested elsewhere, and takes long."""
    monkeypatch.setattr(gpu_check, "compiled", lambda model, _mode=None: model)
    monkeypatch.setattr(gpu_check, "MODES", MODES[:2])
    monkeypatch.setattr(gpu_check.compiling, "BACKEND", "aot_eager")  # to have it put back


@pytest.mark.usefixtures("uncompiled")
def test_every_part_passes(capsys):
    status = gpu_check.main(["--device", "cpu", "--small"])
    out = capsys.readouterr().out
    assert status == 0 and out.endswith("all parts passed\n"), out
    for part in ("packed bf16 compiled", "padded, 512", "packed, 512", "beam 5", "BLEU", "equal to a CPU's"):
        assert part in out


@pytest.mark.usefixtures("uncompiled")
def test_a_part_that_fails_is_told_and_the_others_go_on(monkeypatch, capsys):
    monkeypatch.setattr(gpu_check, "learned", lambda *_: 1 / 0)
    monkeypatch.setattr(gpu_check, "train_step", lambda *_: limited_out())
    monkeypatch.setattr(gpu_check, "prepare", lambda *_, **__: 1 / 0)
    assert gpu_check.main(["--device", "cpu", "--small"]) == 1
    out = capsys.readouterr().out
    assert "ZeroDivisionError: division by zero   FAILED" in out and "sentences/s" in out
    assert "TimeoutError: took longer than 0 s   FAILED" in out and out.endswith("4 FAILED\n")


def limited_out() -> None:
    with limited(0.01):
        time.sleep(5)


def test_without_a_gpu_it_says_so(capsys):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    assert gpu_check.main([]) == 2
    assert capsys.readouterr().err.count("\n") == 1
