"""Forced decoding: the probability of each token of given translations or lines, and its attention to the source.

Legend: B pairs of a batch, S source and T target length, `</s>` counted, N target tokens of a batch, H heads, D width,
V vocabulary.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from nmt.console import Progress
from nmt.data.batching import Batch, PairLengths, even_batches
from nmt.errors import CheckpointError, ConfigError
from nmt.model.attention import MultiHeadAttention
from nmt.model.device import autocast
from nmt.model.inference import InferenceModel
from nmt.model.masks import Padded
from nmt.model.transformer import DecodingModel, Model, Transformer
from nmt.search.rules import ShouldStop, stop_if
from nmt.search.step import Pair, TransformerStep, padded
from nmt.text.ids import BOS, EOS, N_SPECIAL, PAD, SEPARATOR

LOGITS = {"cpu": 2**22, "cuda": 2**27}
"""Maximum number of logits in memory: few enough for a CPU's cache, and enough for fast matrix products."""

N_MADE_UP = 12
"""Number of pieces of a made-up sentence."""


@dataclass(frozen=True)
class ForcedDecoder:
    """A scorer of given translations, with a model or an ensemble of models that share their vocabularies.

    Language models score lines: they ignore the sources of the pairs.
    """

    models: Sequence[DecodingModel]
    """In evaluation mode."""
    device: torch.device
    precision: str
    """Precision of the matrix products: float32, bf16 or fp16."""
    max_tokens: int
    """Maximum number of tokens of a batch, rows x longest side; it does not affect results."""

    def log_probs(self, pairs: Sequence[Pair], progress: Progress | None = None) -> list[list[float]]:
        """Return for each pair the log-probabilities of its T target tokens, `</s>` last, in nats.

        The probability of an ensemble is the mean over its models. `progress` counts pairs. Raises CheckpointError if a
        log-probability is not finite.
        """
        rows = []
        values = []
        with torch.inference_mode():
            for index in self._batches(pairs):
                batches = {joined: _batch(pairs, index, joined).to(self.device) for joined in self._layouts}
                with autocast(self.precision, self.device):
                    by_model = torch.stack([_log_probs(model, batches[model.sees_source]) for model in self.models])
                rows += index
                values.append(by_model.logsumexp(0) - math.log(len(self.models)))  # (models, N) -> (N,)
                if progress is not None:
                    progress.add(len(index))
            flat = torch.cat(values).tolist() if values else []  # synchronizes with a GPU once
        if not all(map(math.isfinite, flat)):
            raise CheckpointError(
                "the model's probabilities are not finite: the checkpoint is damaged, its training diverged, or values "
                "overflow in this precision; try another checkpoint, or float32"
            )
        stream = iter(flat)
        by_row = {row: list(islice(stream, len(pairs[row][1]) + 1)) for row in rows}
        return [by_row[row] for row in range(len(pairs))]

    def attention(self, pairs: Sequence[Pair], should_stop: ShouldStop | None = None) -> list[Tensor]:
        """Return for each pair the attention of target to source tokens, (T, S) float32 on the CPU; rows sum to 1.

        It is the mean over the heads of the decoder's `attention_layer`, at the step that predicts the token, and over
        the models of an ensemble. Raises ConfigError if a model has no cross-attention, and SearchStopped if
        `should_stop`, which is called before each batch, returns True.
        """
        models = with_cross_attention(self.models)
        by_row = {}
        with torch.inference_mode():
            for index in self._batches(pairs):
                stop_if(should_stop)
                batch = _batch(pairs, index).to(self.device)
                with autocast(self.precision, self.device):
                    weights = torch.stack([_weights(model, batch) for model in models]).mean(0)  # (B, T, S)
                weights = (weights / weights.sum(-1, keepdim=True)).cpu()  # rounded in half precision
                for row, padded_weights in zip(index, weights, strict=True):
                    src, tgt = pairs[row]
                    by_row[row] = padded_weights[: len(tgt) + 1, : len(src) + 1].clone()  # a view would hold the batch
        return [by_row[row] for row in range(len(pairs))]

    def layer_attention(self, pair: Pair) -> dict[str, Tensor]:
        """Return the attention weights of every layer for a pair, (H, Q, K) float32 on the CPU, by the layer's name.

        `encoder.layers.0.attention` is (H, S, S), `decoder.layers.0.attention` (H, T, T) and
        `decoder.layers.0.cross_attention` (H, T, S). Source tokens end in `</s>`, and target tokens, which the decoder
        reads, start with `<s>`: row t belongs to the step that predicts target token t. A decoder without
        cross-attention reads `<s>`, the source, a separator and the target as one sequence. An
        ensemble returns the weights of its first model.
        """
        model = copy.deepcopy(self.models[0]).cpu()  # for the hooks, and because the fast kernels return no weights
        weights = {}
        for name, layer in model.named_modules():
            if isinstance(layer, MultiHeadAttention):
                keep = partial(lambda name, _, inputs: weights.update({name: inputs[0].float()}), name)
                layer.dropout.register_forward_pre_hook(keep)  # whose input are the weights
        batch = _batch([pair], [0], model.sees_source)
        with torch.inference_mode(), autocast(self.precision, torch.device("cpu")):
            model(batch.src, Padded(batch.src_mask), batch.tgt_in, Padded(batch.tgt_mask))
        return weights

    @property
    def _layouts(self) -> set[bool]:
        """The layouts of the models: True if one reads source and translation as one sequence, False if as two."""
        return {model.sees_source for model in self.models}

    def _batches(self, pairs: Sequence[Pair]) -> Iterator[list[int]]:
        """Yield indices of pairs of similar lengths."""
        if not pairs:
            return
        src = np.array([len(src_ids) for src_ids, _ in pairs])
        tgt = np.array([len(tgt_ids) for _, tgt_ids in pairs])
        lengths = PairLengths(src, src + tgt + 1 if True in self._layouts else tgt)
        for rows in even_batches(lengths, self.max_tokens):
            yield rows.tolist()


def made_up(n_rows: int) -> list[Pair]:
    """Return pairs of pieces by whose log-probabilities implementations of a model are compared.

    n_rows: the number of rows of the smaller vocabulary. The second source is shorter, so that it is padded.
    """
    ids = [N_SPECIAL + i % (n_rows - N_SPECIAL) for i in range(N_MADE_UP)]
    return [(ids, ids[::-1]), (ids[: N_MADE_UP // 2], ids)]


@torch.inference_mode()
def check_inference(model: DecodingModel) -> float:
    """Return the mean log-probability of a piece of `made_up` by a model in evaluation mode, in float32 (nats).

    Raises CheckpointError if the steps of search compute another one for any piece.
    """
    encoder = model.encoder if isinstance(model, Transformer) else None
    n_rows = min(len(stack.embedding.weight) for stack in (encoder, model.decoder) if stack is not None)
    pairs = made_up(n_rows)
    device = model.output_weight.device
    batch = _batch(pairs, [0, 1], model.sees_source).to(device)
    trained = _log_probs(model, batch)
    tgt = torch.tensor([[*ids, EOS] for _, ids in pairs], device=device)
    step = TransformerStep(InferenceModel(model, "float32"), batch.src, batch.src_mask)
    tokens = torch.full_like(tgt[:, :1], BOS)
    for expected, following in zip(torch.split(trained.view(tgt.shape), 1, 1), torch.split(tgt, 1, 1), strict=True):
        [(logits, log_z)] = step.step(tokens)
        searched = logits[:, 0].gather(1, following) - log_z
        for log_prob, by_search in torch.cat((expected, searched), 1).tolist():
            check_equal(log_prob, by_search, "search (nmt/model/inference.py)")
        tokens = following
    return float(trained.mean())


def check_equal(trained: float, other: float, by: str, tolerance: float = 1e-3) -> float:
    """Return the difference between two mean log-probabilities of a piece: by training's forward pass, and by another
    implementation.

    Raises CheckpointError with both if it is larger than `tolerance`, or than float32 computes of a diverged model.
    """
    difference = abs(trained - other)
    if not difference <= max(tolerance, 1e-5 * abs(trained)):
        raise CheckpointError(
            f"{by} does not compute the model that is trained: the same text has a log-probability a piece of "
            f"{other:.4f} there, but {trained:.4f} in training's forward pass; see docs/architecture.md"
        )
    return difference


def with_cross_attention(models: Sequence[Model]) -> list[Transformer]:
    """Return the given models, which must have cross-attention. Raises ConfigError if one of them has no
    cross-attention."""
    transformers = [model for model in models if isinstance(model, Transformer)]
    if len(transformers) < len(models):
        raise ConfigError("alignments and attention need an encoder and a decoder; this run has model.kind: decoder")
    return transformers


def _batch(pairs: Sequence[Pair], index: Sequence[int], joined: bool = False) -> Batch:
    """Collate the pairs with these indices into a batch as for training; see `nmt.data.batching.Batch`.

    `joined`: each target begins with its source and a separator; only the tokens after the separator are scored.
    """
    sources = [pairs[i][0] for i in index]
    targets = [pairs[i][1] for i in index]
    src = padded([[*ids, EOS] for ids in sources])
    before = [[*ids, SEPARATOR] if joined else [] for ids in sources]
    tgt_in = padded([[BOS, *first, *ids] for first, ids in zip(before, targets, strict=True)])
    tgt_out = padded([[*first, *ids, EOS] for first, ids in zip(before, targets, strict=True)])
    starts = torch.tensor([len(first) for first in before])
    is_scored = (tgt_out != PAD) & (torch.arange(tgt_out.size(1)) >= starts[:, None])
    token_indices = is_scored.flatten().nonzero()[:, 0]
    return Batch(src, src != PAD, tgt_in, tgt_out, token_indices, len(token_indices))


def _log_probs(model: Model, batch: Batch) -> Tensor:
    """Return the log-probabilities (N,) float32 of the target tokens of all pairs, on the model's device."""
    hidden = model(batch.src, Padded(batch.src_mask), batch.tgt_in, Padded(batch.tgt_mask))  # (B, T, D)
    hidden = hidden.flatten(0, 1)[batch.token_indices]
    targets = batch.tgt_out.flatten()[batch.token_indices]
    weight = model.output_weight
    bias = None if model.output_bias is None else model.output_bias.to(hidden.dtype)
    n_rows = max(1, LOGITS[hidden.device.type] // len(weight))
    blocks = zip(torch.split(hidden, n_rows), torch.split(targets, n_rows), strict=True)
    logits = ((F.linear(rows, weight, bias).float(), ids) for rows, ids in blocks)
    return torch.cat([block.log_softmax(-1).gather(-1, ids[:, None])[:, 0] for block, ids in logits])


def _weights(model: Transformer, batch: Batch) -> Tensor:
    """Return the cross-attention (B, T, S) float32, the mean over the heads."""
    src_layout = Padded(batch.src_mask)
    weights: list[Tensor] = []  # one (B, H, T, S)
    memory = model.encoder(batch.src, src_layout)
    model.decoder(batch.tgt_in, Padded(batch.tgt_mask), memory, src_layout, weights)
    return weights[0].float().mean(1)
