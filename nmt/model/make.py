"""The model that a configuration describes."""

from __future__ import annotations

from collections.abc import Mapping

from nmt.config import Config
from nmt.errors import ConfigError
from nmt.model.stacks import DecoderModel, EncoderModel
from nmt.model.transformer import Model, Transformer


def make_model(config: Config, vocab_sizes: Mapping[str, int], separator: int) -> Model:
    """Make the model with random weights.

    `vocab_sizes`: pieces of each language's vocabulary, and number of labels; `separator`: the id between two lines of
    one sequence. Raises ConfigError if the head does not fit the number of classes.
    """
    vocab_size = vocab_sizes[config.learned_languages[-1]]
    classifies = config.training.objective == "classification"
    n_classes = vocab_sizes[config.data.tgt] if classifies else config.n_classes
    if config.model.head == "sigmoid" and n_classes not in (0, 2):
        raise ConfigError([f"model.head: sigmoid is for two labels, and the texts have {n_classes}; take softmax"])
    model: EncoderModel | DecoderModel
    match config.model.kind:
        case "encoder":
            between = separator if config.model.segments else None
            model = EncoderModel(config.model, vocab_size, n_classes, between)
        case "decoder":
            model = DecoderModel(config.model, vocab_size, n_classes, sees_source=config.joins_sides)
        case "translation":
            return Transformer(config.model, vocab_sizes[config.data.src], vocab_sizes[config.data.tgt])
    if classifies and model.output is not None and not config.training.lm_weight:
        model.output.requires_grad_(False)  # no piece is predicted
    return model
