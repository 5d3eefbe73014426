"""The library whose models are imported and exported."""

from __future__ import annotations

import warnings
from typing import Any


def of_transformers(name: str) -> Any:
    """Return a class of transformers, imported when a test needs it, since every process collects all tests."""
    with warnings.catch_warnings():  # of the library's own, when it is imported
        warnings.simplefilter("ignore")
        import transformers

        return getattr(transformers, name)
