"""Tests of errors, which are pickled when they pass between processes."""

from __future__ import annotations

import pickle

import pytest

from nmt.errors import ConfigError, DataError, NmtError, UnsafeFileError
from nmt.files.compressed import DamagedError


@pytest.mark.parametrize(
    "error",
    [
        DataError("a", "b"),
        ConfigError("one", "two"),
        ConfigError("one"),
        UnsafeFileError("x"),
        DamagedError("f", "zip", "cut"),
    ],
)
def test_error_is_unchanged_by_pickling(error: NmtError) -> None:
    there = pickle.loads(pickle.dumps(error))
    assert (type(there), there.args, str(there), there.__dict__) == (
        type(error),
        error.args,
        str(error),
        error.__dict__,
    )
