"""The writer of checkpoints, with and without a thread."""

from __future__ import annotations

import threading

import pytest
import torch

from nmt.training import session as session_module
from nmt.training.session import Saver

CPU = torch.device("cpu")


@pytest.fixture
def in_a_thread(monkeypatch: pytest.MonkeyPatch) -> Saver:
    monkeypatch.setattr(session_module, "THREADED", ("cpu",))
    return Saver(CPU)


def fail(error: Exception) -> None:
    raise error


def test_saver_writes_in_thread(in_a_thread: Saver) -> None:
    may_end, names = threading.Event(), []

    def write() -> None:
        assert may_end.wait(30)
        names.append(threading.current_thread().name)

    in_a_thread.write(3, write)
    assert in_a_thread.outcome(must_wait=False) is None and not names
    may_end.set()
    assert in_a_thread.saved_step == 3 and names[0].startswith("nmt saves")
    assert in_a_thread.outcome(must_wait=True) == (3, None)
    assert in_a_thread.outcome(must_wait=True) is None, "reported once"
    in_a_thread.close()


def test_saver_on_cpu_waits() -> None:
    here, wrote = Saver(CPU), []
    here.write(3, lambda: wrote.append(3))
    assert wrote == [3]
    assert here.outcome(must_wait=False) == (3, None) and here.saved_step == 3
    tensors = {"a": torch.ones(2)}
    assert here.copied(tensors) is tensors


@pytest.mark.parametrize("threaded", [False, True])
def test_failed_write_is_reported_and_saved_step_stays(monkeypatch: pytest.MonkeyPatch, threaded: bool) -> None:
    monkeypatch.setattr(session_module, "THREADED", ("cpu",) if threaded else ())
    found, error = Saver(CPU), OSError(28, "No space left on device")
    found.saved_step = 2
    found.write(4, lambda: fail(error))
    assert found.outcome(must_wait=True) == (4, error) and found.saved_step == 2
    found.write(5, lambda: None)
    assert found.saved_step == 5
    found.close()


def test_saver_raises_unexpected_errors(in_a_thread: Saver) -> None:
    in_a_thread.write(4, lambda: fail(KeyError("x")))
    with pytest.raises(KeyError):
        in_a_thread.outcome(must_wait=True)
    in_a_thread.close()


def test_saver_writes_copies(in_a_thread: Saver) -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    copy = in_a_thread.copied({"a": weight})["a"]
    with torch.no_grad():
        weight.add_(1)
    assert copy.tolist() == [1, 1] and not copy.requires_grad
