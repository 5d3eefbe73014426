"""The objective of a configuration."""

from __future__ import annotations

from nmt.config import Config
from nmt.data.corpus import Corpora
from nmt.text.vocabularies import Tokenizers
from nmt.training.objectives import Objective
from nmt.training.objectives.causal import Causal
from nmt.training.objectives.classification import Classification
from nmt.training.objectives.denoising import Denoising
from nmt.training.objectives.masked import Masked
from nmt.training.objectives.translation import Translation

CLASSES: dict[str, type[Objective]] = {
    "translation": Translation,
    "denoising": Denoising,
    "masked": Masked,
    "causal": Causal,
    "classification": Classification,
}
"""The class of each objective, by `training.objective`."""


def make_objective(config: Config, tokenizers: Tokenizers, corpora: Corpora | None = None) -> Objective:
    """Return the objective of a configuration.

    `corpora`: the training text, in all directions; None for validation only.
    """
    return CLASSES[config.training.objective](config, tokenizers, corpora)
