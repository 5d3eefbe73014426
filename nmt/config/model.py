"""Settings of the Transformer."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from nmt.config.section import Section, raise_together


class ModelConfig(Section):
    """The Transformer of "Attention Is All You Need" (Vaswani et al., 2017), or one of its halves."""

    kind: Literal["translation", "encoder", "decoder"] = "translation"
    """translation: encoder and decoder. encoder: the encoder alone, for training.objective masked or classification
    (BERT; Devlin et al., 2019). decoder: the decoder alone, without attention to a source, for the objectives causal
    and classification (GPT; Radford et al., 2018) and for translation, where source and target are one sequence."""

    d_model: int = Field(512, ge=2, le=1 << 16)
    """Width of the hidden states."""
    n_heads: int = Field(4, ge=1)
    """Attention heads; must divide d_model."""
    d_ff: int = Field(1024, ge=1, le=1 << 20)
    """Inner width of the feed-forward layers."""
    encoder_layers: int = Field(6, ge=1, le=1000)
    """Layers of the encoder."""
    decoder_layers: int = Field(6, ge=1, le=1000)
    """Layers of the decoder."""
    norm: Literal["pre", "post"] = "pre"
    """Layer norm before each sub-layer, with a final norm (pre), or after each residual connection as in the paper
    (post)."""
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"
    """Position embeddings: sinusoidal, for sequences of any length, or learned, up to `max_positions`."""
    max_positions: int = Field(1024, ge=2, le=1 << 24)
    """Longest sequence with learned positions (pieces, end of sentence included)."""
    pooling: Literal["mean", "first", "last"] = "mean"
    """Classes of a sequence are predicted from the mean of its hidden states, or from the first or the last one. The
    first state of a decoder sees nothing of the sequence, and is refused."""
    head: Literal["softmax", "sigmoid"] = "softmax"
    """Outputs of the layer that predicts classes. softmax: one for each class. sigmoid: a single one, for two classes,
    whose sigmoid is the probability of the second (of labels in alphabetical order)."""
    head_dropout: float = Field(0.1, ge=0.0, lt=1.0)
    """Dropout before the layer that predicts classes."""
    activation: Literal["relu", "gelu", "silu"] = "relu"
    """Activation function of the feed-forward layers; silu is also known as swish."""
    tie_embeddings: Literal["all", "target", "none"] = "all"
    """Share embeddings between source, target and output layer (all), target and output layer (target), or not at all
    (none). An encoder or decoder alone has one embedding, which the output layer shares unless this is none."""
    segments: bool = False
    """encoder: add a learned embedding to the tokens of a line and another one to those of its translation."""
    embedding_dropout: float = Field(0.3, ge=0.0, lt=1.0)
    """Dropout on the sum of token and position embeddings."""
    residual_dropout: float = Field(0.3, ge=0.0, lt=1.0)
    """Dropout on a sub-layer's output before it is added to the residual stream."""
    attention_dropout: float = Field(0.0, ge=0.0, lt=1.0)
    """Dropout on attention weights."""
    activation_dropout: float = Field(0.0, ge=0.0, lt=1.0)
    """Dropout after the activation of the feed-forward layers."""

    @model_validator(mode="after")
    def _check(self) -> ModelConfig:
        problems = []
        if self.d_model % self.n_heads:
            problems.append(f"n_heads: {self.n_heads} does not divide d_model = {self.d_model}")
        if self.positions == "sinusoidal" and self.d_model % 2:
            problems.append(f"d_model: sinusoidal positions need an even width, found {self.d_model}")
        raise_together(problems)
        return self
