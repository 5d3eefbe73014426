"""Micro-batches without padding: all source tokens in one row, all target tokens in another.

Each row is padded to a multiple of `step` tokens by one more sentence, the tail, which has no part in the loss; so
tensors have few different sizes, and both sides equally many sentences. `bounds` are padded with empty sentences:

    tokens     a a a b b . . .      (step 4: sentences of 3 and 2 tokens, a tail of 3)
    positions  0 1 2 0 1 0 1 2
    bounds     0 3 5 8 8
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from nmt.data.batching import Batch, Indices, Pairs, sent
from nmt.text.tokenizer import BOS, PAD

STEP = 64


@dataclass(frozen=True)
class PackedBatch:
    """Sentence pairs without padding: N source and T target tokens, tails counted.

    `src` (1, N) ends each sentence in `</s>`; `tgt_in` (1, T) starts each with `<s>`; `tgt_out` (1, T) are the target
    tokens, each sentence ending in `</s>`. Bounds (B + 1,) int32 and positions (N,), (T,) are as in the module's
    example; no sentence is longer than `max_len`. The tokens of the loss are the first `n_tokens` of `tgt_out`, or if
    the pairs say which are `scored` those that `token_indices` (n_tokens,) index. `labels` (B,) int64 are classes, if
    there are some, and `label_weight` is as for `Batch`.
    """

    src: Tensor
    src_bounds: Tensor
    src_positions: Tensor
    tgt_in: Tensor
    tgt_out: Tensor
    tgt_bounds: Tensor
    tgt_positions: Tensor
    max_len: int
    n_tokens: int
    token_indices: Tensor | None = None
    labels: Tensor | None = None
    label_weight: float = 1.0

    def to(self, device: torch.device) -> PackedBatch:
        """Return the batch on `device`."""
        if device.type == "cpu":
            return self
        moved: dict[str, Any] = {name: sent(x, device) for name, x in vars(self).items() if isinstance(x, Tensor)}
        return replace(self, **moved)


class Packing:
    """Makes packed batches of the pairs of a split."""

    def __init__(self, pairs: Pairs, step: int = STEP, max_len: int = 0) -> None:
        """`step` (tokens): see the module. All batches have the same `max_len`, at least the one given (tokens)."""
        self._pairs, self._step = pairs, step
        self.max_len = max(step, pairs.lengths.src.max(), pairs.lengths.tgt.max(), max_len)

    def split(self, rows: Indices, max_tokens: int) -> Iterator[Indices]:
        """Split `rows` consecutively into at most `max_tokens` on either side; a longer pair is a batch of its own."""
        start, n_src, n_tgt = 0, 0, 0
        lengths = self._pairs.lengths
        for i, (src, tgt) in enumerate(zip(lengths.src[rows].tolist(), lengths.tgt[rows].tolist(), strict=True)):
            if i > start and max(n_src + src, n_tgt + tgt) > max_tokens:
                yield rows[start:i]
                start, n_src, n_tgt = i, 0, 0
            n_src, n_tgt = n_src + src, n_tgt + tgt
        if len(rows):
            yield rows[start:]

    def batch(self, rows: Indices) -> PackedBatch:
        """Return the pairs `rows` (B,) as a packed batch."""
        padded = self._pairs.batch(rows)
        src, src_bounds, src_positions = self._row(padded.src.numpy())
        tgt, tgt_bounds, tgt_positions = self._row(padded.tgt_out.numpy())
        tgt_in, inputs = np.full_like(tgt, PAD), padded.tgt_in.numpy()[padded.tgt_mask.numpy()]
        tgt_in[: len(inputs)], tgt_in[len(inputs)] = inputs, BOS  # the tail starts like a sentence
        return PackedBatch(
            src=torch.from_numpy(src)[None],
            src_bounds=torch.from_numpy(src_bounds),
            src_positions=torch.from_numpy(src_positions),
            tgt_in=torch.from_numpy(tgt_in)[None],
            tgt_out=torch.from_numpy(tgt)[None],
            tgt_bounds=torch.from_numpy(tgt_bounds),
            tgt_positions=torch.from_numpy(tgt_positions),
            max_len=self.max_len,
            n_tokens=padded.n_tokens,
            token_indices=self._scored(padded),
            labels=padded.labels,
            label_weight=padded.label_weight,
        )

    @staticmethod
    def _scored(padded: Batch) -> Tensor | None:
        """Return the places of the tokens of the loss in the row, unless they are all tokens."""
        is_token = padded.tgt_mask.flatten()
        if padded.n_tokens == int(is_token.sum()):
            return None
        places = is_token.cumsum(0) - 1
        return places[padded.token_indices]

    def _row(self, padded: Indices) -> tuple[Indices, npt.NDArray[np.int32], Indices]:
        """Pack padded ids (B, L) into one row with its tail; returns ids, bounds and positions."""
        is_token = padded != PAD
        ends = np.cumsum(is_token.sum(1))
        size, n_bounds = (self._full(n + 1) for n in (int(ends[-1]), len(ends) + 1))
        bounds = np.full(n_bounds, size, np.int32)
        bounds[0], bounds[1 : len(ends) + 1] = 0, ends
        ids = np.full(size, PAD, np.int64)
        ids[: ends[-1]] = padded[is_token]
        return ids, bounds, np.arange(size) - np.repeat(bounds[:-1], np.diff(bounds))

    def _full(self, n: int) -> int:
        """Round `n` up to a multiple of the step."""
        return -(-n // self._step) * self._step
