"""A toolkit that trains Transformers for machine translation on raw parallel text, translates and evaluates.

from nmt import Translator, api
Translator.load("runs/demo").translate(["Gestern hat Maria den Hund gefüttert."])

`nmt.api` has the other stages: `api.prepare`, `api.train`, `api.evaluate`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if sys.platform == "win32":  # before the imports, which fail there
    print("nmt: Windows is not supported (file locks, signals); use it in WSL, see wsl --install", file=sys.stderr)
    raise SystemExit(2)

from nmt.process import set_environment

if TYPE_CHECKING:
    from nmt import api
    from nmt.translate.loading import Translator

__all__ = ["Translator", "__version__", "api"]
__version__ = "0.3.0"

set_environment()  # here, before anything of nmt imports PyTorch


def __getattr__(name: str) -> object:
    # Imported lazily, because importing PyTorch takes long and `nmt --help` does not need it.
    if name == "Translator":
        from nmt.translate.loading import Translator

        return Translator
    if name == "api":
        from importlib import import_module

        return import_module("nmt.api")
    raise AttributeError(f"module 'nmt' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
