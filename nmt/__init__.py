"""nmt: train a machine-translation Transformer from raw parallel text and measure it honestly.

from nmt import Translator
Translator.load("runs/demo").translate(["Der Hund schläft."])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nmt.translator import Translator

__all__ = ["Translator", "__version__"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name != "Translator":
        raise AttributeError(f"module 'nmt' has no attribute {name!r}")
    from nmt.translator import Translator  # here, so that `nmt --help` need not wait for PyTorch

    return Translator
