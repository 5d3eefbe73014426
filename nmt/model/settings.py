"""Settings of the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import Field, model_validator

from nmt.section import Section, raise_together


class ModelConfig(Section):
    """The Transformer of "Attention Is All You Need" (Vaswani et al., 2017), or only its encoder or decoder."""

    kind: Literal["translation", "encoder", "decoder"] = "translation"
    """translation: encoder and decoder. encoder: only the encoder, for training.objective masked or classification
    (BERT; Devlin et al., 2019). decoder: only the decoder, without cross-attention, for training.objective causal or
    classification (GPT; Radford et al., 2018), or for translation, where source and target form one sequence."""

    d_model: int = Field(512, ge=2, le=1 << 16)
    """Width of the hidden states."""
    n_heads: int = Field(4, ge=1)
    """Number of attention heads; must divide d_model."""
    d_ff: int = Field(1024, ge=1, le=1 << 20)
    """Inner width of the feed-forward layers."""
    encoder_layers: int = Field(6, ge=1, le=1000)
    """Number of encoder layers."""
    decoder_layers: int = Field(6, ge=1, le=1000)
    """Number of decoder layers."""
    norm: Literal["pre", "post"] = "pre"
    """Placement of layer normalization. pre: before each sub-layer, with a final norm. post: after each residual
    connection, as in the paper."""
    positions: Literal["sinusoidal", "learned", "fairseq", "marian"] = "sinusoidal"
    """Position embeddings. sinusoidal: fixed, for sequences of any length. learned: for at most `max_positions`.
    fairseq: fixed, with the frequencies of fairseq, M2M-100 and NLLB. marian: fixed, with those of Marian."""
    max_positions: int = Field(1024, ge=2, le=1 << 24)
    """Maximum length of a sequence with learned positions, in pieces including the end of sentence."""
    activation: Literal["relu", "gelu", "silu"] = "relu"
    """Activation function of the feed-forward layers. silu is also known as swish."""
    tie_embeddings: Literal["all", "target", "none"] = "all"
    """Which weights are shared. all: the source embedding, the target embedding and the output layer. target: the
    target embedding and the output layer. none: no weights. If the model is only an encoder or decoder, all and target
    both tie its embedding to the output layer."""
    output_bias: bool | Literal["fixed"] = False
    """Whether the output layer has a bias, as in Marian models. fixed: it is not trained, in imported models without
    one, to which it gives pieces that they lack."""
    start_embedding: Literal["learned", "zero", "end"] = "learned"
    """Embedding of `<s>`, with which the decoder starts. zero: it is and stays zero, as in Marian models. The rows of
    the output layer for pieces that are never predicted then learn nothing, too. end: it is that of `</s>`, as in
    M2M-100."""
    embedding_dropout: float = Field(0.3, ge=0.0, lt=1.0)
    """Dropout on the sum of token and position embeddings."""
    residual_dropout: float = Field(0.3, ge=0.0, lt=1.0)
    """Dropout on the output of each sub-layer before it is added to the residual stream, and before the layer that
    predicts classes."""
    attention_dropout: float = Field(0.0, ge=0.0, lt=1.0)
    """Dropout on attention weights."""
    activation_dropout: float = Field(0.0, ge=0.0, lt=1.0)
    """Dropout after the activation of the feed-forward layers."""

    @property
    def stacks(self) -> tuple[str, ...]:
        """The stacks of layers: encoder, decoder, or both."""
        return ("encoder", "decoder") if self.is_encoder_decoder else (self.kind,)

    @property
    def is_encoder_decoder(self) -> bool:
        """Whether the model has an encoder and a decoder."""
        return self.kind == "translation"

    @model_validator(mode="after")
    def _check_model_settings(self) -> ModelConfig:
        problems = []
        if self.d_model % self.n_heads:
            problems.append(f"n_heads: {self.n_heads} does not divide d_model = {self.d_model}")
        if self.positions != "learned" and self.d_model % 2:
            problems.append(f"d_model: {self.positions} positions need an even width, found {self.d_model}")
        if self.positions in ("fairseq", "marian") and self.d_model < 4:
            problems.append(f"d_model: {self.positions} positions need a width of at least 4, found {self.d_model}")
        raise_together(problems)
        return self


@dataclass(frozen=True)
class ModelSizes:
    """The facts that a model needs about its data and objective."""

    src_vocab: int
    """Number of source pieces; of an encoder or decoder by itself, number of all pieces."""
    tgt_vocab: int
    n_classes: int
    """Number of classes that a head predicts for each sequence; 0: no head."""
    predicts_pieces: bool
    """Whether the output layer is trained."""
    sees_source: bool
    """Whether all positions of a decoder's source attend to one another."""
