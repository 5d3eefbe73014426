"""nmt: train a machine-translation Transformer from raw parallel text and measure it honestly.

from nmt import Translator, api
Translator.load("runs/demo").translate(["Der Hund schläft."])

`nmt.api` has the other stages: `api.prepare`, `api.train`, `api.evaluate`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nmt.process import set_environment

if TYPE_CHECKING:
    from nmt import api
    from nmt.translate.translator import Translator

__all__ = ["Translator", "__version__", "api"]
__version__ = "0.2.0"

set_environment()  # for programs, too, here, where nothing of nmt has imported PyTorch yet


def __getattr__(name: str) -> Any:
    # here, so that `nmt --help` need not wait for PyTorch
    if name == "Translator":
        from nmt.translate.translator import Translator

        return Translator
    if name == "api":
        from importlib import import_module

        return import_module("nmt.api")
    raise AttributeError(f"module 'nmt' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
