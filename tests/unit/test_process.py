"""What a process is set up with before PyTorch is imported."""

import ctypes
import os

import pytest

from nmt import process


class Library:
    """A C library that keeps what it was asked for."""

    def __init__(self):
        self.asked = []

    def mallopt(self, what, value):
        self.asked.append((what, value))


def test_freed_memory_is_kept_where_the_c_library_can(monkeypatch):
    library = Library()
    monkeypatch.setattr(ctypes, "CDLL", lambda _: library)
    process.keep_freed_memory()
    assert library.asked == [(-3, 32 << 20), (-1, 1 << 30)]


@pytest.mark.parametrize("error", [AttributeError, OSError])
def test_another_c_library_is_left_alone(monkeypatch, error):
    def missing(_):
        raise error

    monkeypatch.setattr(ctypes, "CDLL", missing)
    process.keep_freed_memory()


def test_what_the_user_has_set_stays(monkeypatch):
    monkeypatch.setattr(os, "environ", {"GOMP_SPINCOUNT": "7"})
    process.set_environment()
    assert os.environ == process.ENVIRONMENT | {"GOMP_SPINCOUNT": "7"}
