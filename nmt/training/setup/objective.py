"""The objective of a configuration, and its validators."""

from __future__ import annotations

from nmt.config import Config
from nmt.data.corpus import Corpora
from nmt.text.vocabularies import Tokenizers
from nmt.training.objective import Objective
from nmt.training.objectives.causal import Causal
from nmt.training.objectives.classification import Classification, ClassValidator
from nmt.training.objectives.denoising import Denoising, RestorationValidator
from nmt.training.objectives.masked import Masked
from nmt.training.objectives.translation import Translation, TranslationValidator
from nmt.training.validate import Execution, HeldOutSplit, SplitValidator, Validator
from nmt.translate.loading import open_language_model

CLASSES: dict[str, type[Objective]] = {
    "translation": Translation,
    "denoising": Denoising,
    "masked": Masked,
    "causal": Causal,
    "classification": Classification,
}
"""The class of each objective in `nmt.training.facts`."""


def make_objective(config: Config, tokenizers: Tokenizers, corpora: Corpora | None = None) -> Objective:
    """Return the objective of a configuration.

    corpora: the training text, in all directions; None for validation only.
    """
    make = CLASSES[config.training.objective]
    return make(config.data, config.training, config.learned_languages, config.joins_sides, tokenizers, corpora)


def make_validator(config: Config, tokenizers: Tokenizers, held_out: HeldOutSplit, execution: Execution) -> Validator:
    """Return the validator of a split in the direction of a configuration.

    Raises ConfigError or DataError if the search settings cannot be used.
    """
    objective = make_objective(config, tokenizers)
    match objective:
        case Translation():
            return TranslationValidator(objective, held_out, execution, config.search, open_language_model)
        case Denoising():
            return RestorationValidator(objective, held_out, execution, config.search, open_language_model)
        case Classification():
            return ClassValidator(objective.validated(held_out), execution)
    return SplitValidator(objective.validated(held_out), execution)
