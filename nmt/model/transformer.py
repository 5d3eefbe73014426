"""The Transformer (Vaswani et al., 2017), an encoder and a decoder.

Encoder and decoder return hidden states, not logits: `hidden @ output_weight.T + output_bias` gives logits, and the
loss takes the hidden states of tokens only, not of padding. Models with only an encoder or a decoder are masked and
causal language models, decoder-only translation models, and classifiers. Search decodes step by step with an
`InferenceModel`.

Legend: B sentences, S source and T target length, D width, V vocabulary, H heads, E = D / H, C classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from inspect import unwrap
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from nmt.model.attention import KeyValue, MultiHeadAttention, keys_values_of
from nmt.model.dropout import Dropout
from nmt.model.embedding import Embedding, LearnedPositions, random_rows
from nmt.model.masks import AttentionMask, Layout, Packed, Padded, Rows, attention_mask, prefix_mask, source_prefix
from nmt.model.settings import ModelConfig, ModelSizes
from nmt.text.ids import EOS, N_SPECIAL, UNK

WIDEST_WITH_GAIN_1 = 128
"""The largest width at which the norm before a tied output layer starts with gain 1.

With input and output embeddings tied, a new decoder predicts the token it has just read, with a logit that grows with
the square root of the width; above this width, a gain of 1 would let it dominate the whole vocabulary.
"""


NEVER_PREDICTED = tuple(i for i in range(N_SPECIAL) if i not in (UNK, EOS))
"""The special ids that are no target of a translation."""


class Activation(NamedTuple):
    """An activation function and its names in other libraries."""

    function: Callable[[Tensor], Tensor]
    onednn: str
    """The name in `mkldnn._linear_pointwise`, PyTorch's operator for oneDNN."""
    ctranslate2: str
    """The name in `ctranslate2.specs.common_spec.Activation`."""
    transformers: str
    """The name in `transformers.activations.ACT2FN`."""
    onnx: str
    """Operations of ONNX that map x to y, in its syntax for text."""


ACTIVATIONS = {
    "relu": Activation(F.relu, "relu", "RELU", "relu", "y = Relu (x)"),
    "gelu": Activation(F.gelu, "gelu", "GELU", "gelu", "y = Gelu (x)"),
    "silu": Activation(F.silu, "swish", "SWISH", "silu", "gate = Sigmoid (x) y = Mul (x, gate)"),
}
"""The values of `model.activation`, for training, search and exports."""


class FeedForward(nn.Module):
    """A position-wise feed-forward layer: two linear layers with a non-linearity between them (section 3.3)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.inner = nn.Linear(config.d_model, config.d_ff)
        self.outer = nn.Linear(config.d_ff, config.d_model)
        self.activation = ACTIVATIONS[config.activation]
        self.dropout = Dropout(config.activation_dropout)
        for linear in (self.inner, self.outer):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def extra_repr(self) -> str:
        return f"activation={self.activation.transformers}"

    def forward(self, x: Tensor) -> Tensor:
        """Apply both layers: (..., D) -> (..., D)."""
        output: Tensor = self.outer(self.dropout(self.activation.function(self.inner(x))))
        return output


def make_norm(config: ModelConfig) -> nn.LayerNorm:
    """Return a new norm, which is of the same kind for all sub-layers and stacks."""
    return nn.LayerNorm(config.d_model)


class SubLayer(nn.Module):
    """The residual connection and layer norm around every sub-layer.

    pre:  x + dropout(f(norm(x)))      post: norm(x + dropout(f(x)))
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.pre = {"pre": True, "post": False}[config.norm]
        self.norm = make_norm(config)
        self.dropout = Dropout(config.residual_dropout)

    def before(self, x: Tensor) -> Tensor:
        """Return the input of the sub-layer f: (..., D) -> (..., D)."""
        return self.norm(x) if self.pre else x

    def after(self, x: Tensor, output: Tensor) -> Tensor:
        """Add the output of the sub-layer to the residual stream x (..., D)."""
        x = x + self.dropout(output)
        return x if self.pre else self.norm(x)


class EncoderLayer(nn.Module):
    """An encoder layer: self-attention and feed-forward."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(config)
        self.feed_forward = FeedForward(config)
        self.attention_residual = SubLayer(config)
        self.feed_forward_residual = SubLayer(config)

    def forward(self, x: Tensor, mask: AttentionMask) -> Tensor:
        """Apply the layer: (B, S, D) -> (B, S, D)."""
        x = self.attention_residual.after(x, self.attention(self.attention_residual.before(x), mask))
        return self.feed_forward_residual.after(x, self.feed_forward(self.feed_forward_residual.before(x)))


class DecoderLayer(nn.Module):
    """A decoder layer: self-attention, cross-attention to the memory unless this is off, and feed-forward."""

    def __init__(self, config: ModelConfig, cross_attention: bool) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(config)
        self.attention_residual = SubLayer(config)
        self.cross_attention: MultiHeadAttention | None = None
        if cross_attention:
            self.cross_attention = MultiHeadAttention(config)
            self.cross_attention_residual = SubLayer(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_residual = SubLayer(config)

    def forward(
        self,
        x: Tensor,
        mask: AttentionMask,
        memory: KeyValue | None,
        memory_mask: AttentionMask | None,
        weights: list[Tensor] | None = None,
    ) -> Tensor:
        """Apply the layer: (B, T, D) -> (B, T, D). Cross-attention weights (B, H, T, S) are appended to `weights`."""
        x = self.attention_residual.after(x, self.attention(self.attention_residual.before(x), mask))
        if self.cross_attention is not None:
            assert memory is not None and memory_mask is not None, "a decoder with cross-attention needs a memory"
            query = self.cross_attention_residual.before(x)
            attended = self.cross_attention.cross(query, memory, memory_mask, weights)
            x = self.cross_attention_residual.after(x, attended)
        return self.feed_forward_residual.after(x, self.feed_forward(self.feed_forward_residual.before(x)))


@torch.no_grad()
def scale_residual_init(layers: Sequence[nn.Module]) -> None:
    """Scale the initial output weights of all N sub-layers by 1 / sqrt(N).

    Otherwise the sum of N random outputs would drown the embeddings in the residual stream, the more the deeper the
    stack (Radford et al., 2019, section 2.3, for pre-norm; post-norm gains as much).
    """
    outputs = []
    for layer in layers:
        for part in layer.children():
            if isinstance(part, FeedForward):
                outputs.append(part.outer.weight)
            elif isinstance(part, MultiHeadAttention):
                outputs.append(part.output.weight)
    for weight in outputs:
        weight.mul_(len(outputs) ** -0.5)


class Stack(nn.Module):
    """An embedding, a sequence of layers and, with pre-norm, a final norm."""

    layers: Sequence[EncoderLayer | DecoderLayer]
    recomputes = False
    """Whether only the inputs of layers are kept for the backward pass, which computes the rest again."""

    def __init__(self, config: ModelConfig, embedding: Embedding, layers: Iterable[nn.Module]) -> None:
        super().__init__()
        self.embedding = embedding
        self.layers = cast(Sequence[EncoderLayer | DecoderLayer], nn.ModuleList(layers))
        self.norm = make_norm(config) if config.norm == "pre" else nn.Identity()
        scale_residual_init(self.layers)

    @property
    def last_norm(self) -> nn.LayerNorm:
        """The layer norm that produces the hidden states."""
        return self.layers[-1].feed_forward_residual.norm if isinstance(self.norm, nn.Identity) else self.norm

    def _applied(self, layer: nn.Module) -> Callable[..., Tensor]:
        """Return a layer as a function, which recomputes if the stack does."""
        # without its decorator, which imports PyTorch's compiler
        return partial(unwrap(checkpoint), layer, use_reentrant=False) if self.recomputes else layer


class Encoder(Stack):
    """A stack of self-attention layers."""

    layers: Sequence[EncoderLayer]

    def __init__(self, config: ModelConfig, embedding: Embedding) -> None:
        super().__init__(config, embedding, (EncoderLayer(config) for _ in range(config.encoder_layers)))

    def forward(self, ids: Tensor, layout: Layout) -> Tensor:
        """Encode ids (B, S) int64 -> hidden states (B, S, D)."""
        x = self.embedding(ids, layout.positions, layout.max_len, layout.kept)
        mask = attention_mask(layout, layout)
        for layer in self.layers:
            x = self._applied(layer)(x, mask)
        hidden: Tensor = self.norm(x)
        return hidden


class Decoder(Stack):
    """A stack of causal self-attention layers, with attention to a memory unless `cross_attention` is off."""

    layers: Sequence[DecoderLayer]

    def __init__(self, config: ModelConfig, embedding: Embedding, cross_attention: bool = True) -> None:
        layers = (DecoderLayer(config, cross_attention) for _ in range(config.decoder_layers))
        super().__init__(config, embedding, layers)

    def memory_kv(self, memory: Tensor | None) -> list[KeyValue | None]:
        """Return the keys and values of a memory (B, S, D) for each layer, or None without cross-attention."""
        layers = [layer.cross_attention for layer in self.layers if layer.cross_attention is not None]
        if memory is None or not layers:
            return [None] * len(self.layers)
        return [*keys_values_of(layers, memory)]

    @property
    def attention_layer(self) -> int:
        """The layer whose cross-attention aligns words best: the last but one (Garg et al., 2019, arXiv:1909.02074)."""
        return max(len(self.layers) - 2, 0)

    def forward(
        self,
        ids: Tensor,
        layout: Layout,
        memory: Tensor | None = None,
        memory_layout: Layout | None = None,
        weights: list[Tensor] | None = None,
        prefix: Tensor | None = None,
    ) -> Tensor:
        """Decode with teacher forcing: ids (B, T) int64, `<s>` first -> hidden states (B, T, D).

        The cross-attention weights of `attention_layer`, (B, H, T, S), are appended to `weights`. All tokens of a
        sequence attend to its first ones, where `prefix` (B, T) is True; packed sequences have none.
        """
        x = self.embedding(ids, layout.positions, layout.max_len, layout.kept)
        mask = attention_mask(layout, layout, causal=True) if prefix is None else prefix_mask(layout, prefix)
        memory_mask = None if memory_layout is None else attention_mask(layout, memory_layout)
        for i, (layer, kv) in enumerate(zip(self.layers, self.memory_kv(memory), strict=True)):
            of_layer = weights if i == self.attention_layer else None
            x = self._applied(layer)(x, mask, kv, memory_mask, of_layer)
        hidden: Tensor = self.norm(x)
        return hidden


class Model(nn.Module):
    """A model with an encoder, a decoder, or both, and an output layer over the vocabulary.

    All models take the same arguments, so that the training loop, the compiler and the loss are the same for them.
    """

    sees_source = False
    """Whether the decoder's own sequence begins with the source."""
    output: nn.Parameter | None
    """The weight (V, D) of the output layer, if it is not tied."""
    output_bias: nn.Parameter | None
    """The bias (V,) of the output layer, if it has one."""
    fixed_rows: tuple[int, ...]
    """Rows of the output weight and bias that learn nothing."""

    def extra_repr(self) -> str:
        tied = " (tied)" if self.output is None else ""
        return f"output={tuple(self.output_weight.shape)}{tied}, output_bias={self.output_bias is not None}"

    @property
    def n_parameters(self) -> int:
        """The number of parameters; a tied one counts once."""
        return sum(parameter.numel() for parameter in self.parameters())

    @property
    def stacks(self) -> list[Encoder | Decoder]:
        """The encoder, the decoder, or both."""
        return [stack for stack in self.children() if isinstance(stack, Encoder | Decoder)]

    @property
    def max_positions(self) -> int | None:
        """The length of the longest sequence with learned positions; None with sinusoidal positions."""
        tables = [stack.embedding.positions for stack in self.stacks]
        return min((table.weight.size(0) for table in tables if isinstance(table, LearnedPositions)), default=None)

    @property
    def output_weight(self) -> Tensor:
        """The weight (V, D) of the output layer: logits are hidden @ output_weight.T, plus the bias."""
        return self.stacks[-1].embedding.weight if self.output is None else self.output

    def _add_output(self, config: ModelConfig, vocab_size: int) -> None:
        """Create the output layer of the last stack, tied or not."""
        self.output = None
        is_trained = config.output_bias is True
        self.output_bias = nn.Parameter(torch.zeros(vocab_size), is_trained) if config.output_bias else None
        self.fixed_rows = NEVER_PREDICTED if config.start_embedding != "learned" else ()
        if config.tie_embeddings == "none":
            self.output = random_rows(vocab_size, config.d_model)
        else:
            gain = min(1.0, (WIDEST_WITH_GAIN_1 / config.d_model) ** 0.5)
            nn.init.constant_(self.stacks[-1].last_norm.weight, gain)


class Transformer(Model):
    """An encoder and a decoder, with embeddings tied according to `tie_embeddings`."""

    def __init__(self, config: ModelConfig, src_vocab: int, tgt_vocab: int) -> None:
        super().__init__()
        tgt_embedding = Embedding(config, tgt_vocab)
        src_embedding = tgt_embedding if config.tie_embeddings == "all" else Embedding(config, src_vocab)
        self.encoder = Encoder(config, src_embedding)
        self.decoder = Decoder(config, tgt_embedding)
        self._add_output(config, tgt_vocab)

    def forward(self, src: Tensor, src_layout: Layout, tgt_in: Tensor, tgt_layout: Layout) -> Tensor:
        """Run teacher forcing: src (B, S), tgt_in (B, T) -> hidden states (B, T, D)."""
        hidden: Tensor = self.decoder(tgt_in, tgt_layout, self.encoder(src, src_layout), src_layout)
        return hidden


class Head(nn.Module):
    """A classifier of whole sequences: the mean of the hidden states of their tokens, dropout and a linear layer."""

    def __init__(self, config: ModelConfig, n_classes: int) -> None:
        super().__init__()
        self.dropout = Dropout(config.residual_dropout)
        self.classes = nn.Linear(config.d_model, n_classes)

    def forward(self, hidden: Tensor, layout: Layout) -> Tensor:
        """Return logits (B, C) of hidden states (B, S, D), or in another layout; see `mean_state`."""
        logits: Tensor = self.classes(self.dropout(mean_state(hidden, layout)))
        return logits


def mean_state(hidden: Tensor, layout: Layout) -> Tensor:
    """Return the mean of the hidden states over the tokens of each sentence, (B, D).

    In other layouts than the padded one, the means of sentences may be followed by rows to be ignored.
    """
    match layout:
        case Padded():
            return (hidden * layout.mask[..., None]).sum(1) / layout.mask.sum(1, keepdim=True)
        case Packed():
            begins = layout.bounds[:-1].long()
            ends = layout.bounds[1:].long()
            sums = torch.cat((hidden.new_zeros(1, hidden.size(2), dtype=torch.float32), hidden[0].float().cumsum(0)))
            means = (sums[ends] - sums[begins]) / (ends - begins).clamp(min=1)[:, None]
        case Rows():
            means = layout.sums(hidden.float()) / layout.lengths.clamp(min=1)[:, None]
    return means.to(hidden.dtype)


class EncoderModel(Model):
    """An encoder with an output layer over the vocabulary, and with a head if there are classes."""

    def __init__(self, config: ModelConfig, vocab_size: int, n_classes: int = 0) -> None:
        super().__init__()
        self.encoder = Encoder(config, Embedding(config, vocab_size))
        self._add_output(config, vocab_size)
        self.head = Head(config, n_classes) if n_classes else None

    def forward(self, src: Tensor, src_layout: Layout, _tgt_in: Tensor, _tgt_layout: Layout) -> Tensor:
        """Encode src (B, S) -> hidden states (B, S, D). The target is not read."""
        hidden: Tensor = self.encoder(src, src_layout)
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

    def forward(self, _src: Tensor, src_layout: Layout, tgt_in: Tensor, tgt_layout: Layout) -> Tensor:
        """Run teacher forcing: tgt_in (B, T) from `<s>` on -> hidden states (B, T, D).

        With `sees_source`, only the lengths of the source are read, since tgt_in begins with `<s>`, the source without
        its `</s>`, and a separator.
        """
        prefix = source_prefix(src_layout, tgt_layout) if self.sees_source else None
        hidden: Tensor = self.decoder(tgt_in, tgt_layout, prefix=prefix)
        return hidden


DecodingModel = Transformer | DecoderModel
"""A model with a decoder, for search."""


def make_model(config: ModelConfig, sizes: ModelSizes) -> Model:
    """Return a model with random weights."""
    model: EncoderModel | DecoderModel
    match config.kind:
        case "encoder":
            model = EncoderModel(config, sizes.src_vocab, sizes.n_classes)
        case "decoder":
            model = DecoderModel(config, sizes.src_vocab, sizes.n_classes, sizes.sees_source)
        case "translation":
            return Transformer(config, sizes.src_vocab, sizes.tgt_vocab)
    if not sizes.predicts_pieces:
        for parameter in (model.output, model.output_bias):
            if parameter is not None:
                parameter.requires_grad_(False)
    return model
