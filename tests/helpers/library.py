"""The library that multiplies float32 matrices in tests, except those of the probe; `make test-processors` sets it."""

from __future__ import annotations

import os

FLOAT32_LIBRARY = os.environ.get("NMT_TEST_FLOAT32", "mkl")
