"""Tests of the set-up of the process before PyTorch is imported."""

import ctypes
import os
from types import SimpleNamespace

import pytest

from nmt import process


def test_keep_freed_memory_calls_mallopt(monkeypatch):
    asked = []
    library = SimpleNamespace(mallopt=lambda what, value: asked.append((what, value)))
    monkeypatch.setattr(ctypes, "CDLL", lambda _: library)
    process.keep_freed_memory()
    assert asked == [(-3, 32 << 20), (-1, 1 << 30)]


@pytest.mark.parametrize("error", [AttributeError, OSError])
def test_keep_freed_memory_without_mallopt_does_nothing(monkeypatch, error):
    def missing(_):
        raise error

    monkeypatch.setattr(ctypes, "CDLL", missing)
    process.keep_freed_memory()


def test_set_environment_keeps_user_values(monkeypatch):
    monkeypatch.setattr(os, "environ", {"GOMP_SPINCOUNT": "7"})
    process.set_environment()
    assert os.environ == process.ENVIRONMENT | {"GOMP_SPINCOUNT": "7"}
