"""Models with only an encoder or a decoder: masked and causal language models, and classifiers.

Legend: B sentences, S source and T target length, D width, C classes.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from nmt.config import Config, ModelConfig
from nmt.model.dropout import Dropout
from nmt.model.embedding import Embedding
from nmt.model.masks import Layout, Padded
from nmt.model.transformer import Decoder, Encoder, Model, Transformer


class Head(nn.Module):
    """A classifier of whole sequences: the mean of the hidden states of their tokens, dropout and a linear layer."""

    def __init__(self, config: ModelConfig, n_classes: int) -> None:
        super().__init__()
        self.dropout = Dropout(config.residual_dropout)
        self.classes = nn.Linear(config.d_model, n_classes)

    def forward(self, hidden: Tensor, layout: Layout) -> Tensor:
        """Return logits (B, C) of hidden states (B, S, D), or in the packed layout (1, N, D)."""
        logits: Tensor = self.classes(self.dropout(mean_state(hidden, layout)))
        return logits


def mean_state(hidden: Tensor, layout: Layout) -> Tensor:
    """Return the mean of the hidden states over the tokens of each sequence, (B, D)."""
    if isinstance(layout, Padded):
        return (hidden * layout.mask[..., None]).sum(1) / layout.mask.sum(1, keepdim=True)
    begins, ends = layout.bounds[:-1].long(), layout.bounds[1:].long()
    sums = torch.cat((hidden.new_zeros(1, hidden.size(2), dtype=torch.float32), hidden[0].float().cumsum(0)))
    return ((sums[ends] - sums[begins]) / (ends - begins).clamp(min=1)[:, None]).to(hidden.dtype)


class EncoderModel(Model):
    """An encoder with an output layer over the vocabulary, and with a head if there are classes."""

    def __init__(self, config: ModelConfig, vocab_size: int, n_classes: int = 0) -> None:
        super().__init__()
        self.encoder = Encoder(config, Embedding(config, vocab_size))
        self._add_output(config, vocab_size)
        self.head = Head(config, n_classes) if n_classes else None

    def forward(
        self,
        src: Tensor,
        src_layout: Layout,
        _tgt_in: Tensor,
        _tgt_layout: Layout,
        src_kept: Tensor | None = None,
        _tgt_kept: Tensor | None = None,
    ) -> Tensor:
        """Encode src (B, S) -> hidden states (B, S, D). The target is not read."""
        hidden: Tensor = self.encoder(src, src_layout, src_kept)
        return hidden


class DecoderModel(Model):
    """A decoder without cross-attention, with an output layer over the vocabulary, and a head if there are classes.

    With `sees_source`, each sequence is a source, a separator and a target, and all tokens attend to all of the source.
    """

    def __init__(self, config: ModelConfig, vocab_size: int, n_classes: int = 0, sees_source: bool = False) -> None:
        super().__init__()
        self.sees_source = sees_source
        self.decoder = Decoder(config, Embedding(config, vocab_size), cross_attention=False)
        self._add_output(config, vocab_size)
        self.head = Head(config, n_classes) if n_classes else None

    def forward(
        self,
        _src: Tensor,
        src_layout: Layout,
        tgt_in: Tensor,
        tgt_layout: Layout,
        _src_kept: Tensor | None = None,
        tgt_kept: Tensor | None = None,
    ) -> Tensor:
        """Run teacher forcing: tgt_in (B, T) from `<s>` on -> hidden states (B, T, D).

        With `sees_source`, only the lengths of the source are read, since tgt_in begins with `<s>`, the source without
        its `</s>`, and a separator.
        """
        prefix = None
        if self.sees_source:
            assert isinstance(src_layout, Padded), "the kernel for packed sequences has no mask for prefixes"
            prefix = src_layout.mask.sum(1) + 1
        hidden: Tensor = self.decoder(tgt_in, tgt_layout, kept=tgt_kept, prefix=prefix)
        return hidden


DecodingModel = Transformer | DecoderModel
"""A model with a decoder, for search."""


def make_model(config: Config, vocab_sizes: Mapping[str, int]) -> Model:
    """Return a model with random weights. `vocab_sizes` has the number of pieces of each language, and of labels."""
    vocab_size = vocab_sizes[config.learned_languages[-1]]
    classifies = config.training.facts.classifies
    n_classes = vocab_sizes[config.data.tgt] if classifies else config.n_classes
    model: EncoderModel | DecoderModel
    match config.model.kind:
        case "encoder":
            model = EncoderModel(config.model, vocab_size, n_classes)
        case "decoder":
            model = DecoderModel(config.model, vocab_size, n_classes, sees_source=config.joins_sides)
        case "translation":
            return Transformer(config.model, vocab_sizes[config.data.src], vocab_sizes[config.data.tgt])
    for parameter in (model.output, model.output_bias) if classifies else ():
        if parameter is not None:
            parameter.requires_grad_(False)  # no pieces are predicted
    return model
