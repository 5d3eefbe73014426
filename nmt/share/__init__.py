"""Sharing models: exports, CTranslate2 and the Hugging Face Hub."""

from typing import Literal

EngineName = Literal["auto", "native", "ctranslate2"]
"""The engines that translate: PyTorch (native), CTranslate2, or one of them by a rule."""
