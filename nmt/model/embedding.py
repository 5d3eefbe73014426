"""Token and position embeddings. Position embeddings are sinusoidal (Vaswani et al., 2017, section 3.5) or learned.

Legend: B sentences, L length, D width.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.errors import DataError
from nmt.model.dropout import Dropout
from nmt.model.settings import ModelConfig
from nmt.text.ids import BOS, EOS, PAD


def random_rows(n: int, d_model: int) -> nn.Parameter:
    """Return random embeddings (n, D) of variance 1 / D."""
    rows = torch.empty(n, d_model)
    if not rows.is_meta:  # which has nothing to draw, and for which PyTorch would import its compiler, for seconds
        rows.normal_().mul_(d_model**-0.5)
    return nn.Parameter(rows)


def sinusoidal_table(n_positions: int, d_model: int) -> Tensor:
    """Return a table (n_positions, D) with sin(position / 10000^(2i/D)) in column 2i and the cosine in column 2i +
    1."""
    position = torch.arange(n_positions, dtype=torch.float32)[:, None]
    column = torch.arange(0, d_model, 2, dtype=torch.float32)
    rate = torch.exp(column * (-math.log(10_000.0) / d_model))
    return torch.stack((torch.sin(position * rate), torch.cos(position * rate)), dim=-1).flatten(1)


def fairseq_table(n_positions: int, d_model: int, first: int = 2) -> Tensor:
    """Return the table (n_positions, D) of fairseq's sinusoidal positions: all sines before all cosines, the rates
    10000^(-i / (D/2 - 1)), and 2 as the first position. Marian has the same table, but 0 as the first position."""
    position = torch.arange(first, n_positions + first, dtype=torch.float32)[:, None]
    column = torch.arange(d_model // 2, dtype=torch.float32)
    rate = torch.exp(column * (-math.log(10_000.0) / (d_model // 2 - 1)))
    return torch.cat((torch.sin(position * rate), torch.cos(position * rate)), 1)


class SinusoidalPositions(nn.Module):
    """Sinusoidal position embeddings, in a table that grows with the longest sentence."""

    def __init__(self, d_model: int, make: Callable[[int, int], Tensor] = sinusoidal_table) -> None:
        """make: the function that makes the table, such as `sinusoidal_table`."""
        super().__init__()
        self.d_model = d_model
        self.make = make
        self.table: Tensor
        with torch.device("cpu"):  # no checkpoint has it, so that it must have values even in a model without any
            table = make(512, d_model)
        self.register_buffer("table", table, persistent=False)

    def forward(self, positions: Tensor, end: int) -> Tensor:
        """Embed positions (L,) or (B, L) int64, all below `end` -> (L, D) or (B, L, D)."""
        table = self.table  # another decoding thread may replace it meanwhile
        if end > table.size(0):
            table = self.table = self.make(2 * end, self.d_model).to(table)
        return table[positions]

    def first(self, n: int) -> Tensor:
        """Return the embeddings (n, D) of the first n positions, for exports."""
        return self.make(n, self.d_model)


class LearnedPositions(nn.Module):
    """A learned embedding for each of the first `max_positions` positions."""

    def __init__(self, d_model: int, max_positions: int) -> None:
        super().__init__()
        self.weight = random_rows(max_positions, d_model)

    def extra_repr(self) -> str:
        return ", ".join(map(str, self.weight.shape))

    def forward(self, positions: Tensor, end: int) -> Tensor:
        """Embed positions as `SinusoidalPositions` does. Raises DataError if `end` exceeds `max_positions`."""
        if end > self.weight.size(0):
            raise DataError(
                f"a sequence of {end} pieces is longer than the {self.weight.size(0)} learned positions of this model "
                "(model.max_positions); split the line, or train with sinusoidal positions"
            )
        return self.weight[positions]

    def first(self, n: int) -> Tensor:
        """Return the embeddings (n, D) of the first n positions, for exports."""
        return self.weight[:n]


TABLES: dict[str, Callable[[int, int], Tensor]] = {
    "sinusoidal": sinusoidal_table,
    "fairseq": fairseq_table,
    "marian": partial(fairseq_table, first=0),
}
"""The functions that make tables of positions which are not learned, by `model.positions`."""


class Embedding(nn.Module):
    """Token embeddings times sqrt(D), plus position embeddings, with dropout."""

    def __init__(self, config: ModelConfig, vocab_size: int) -> None:
        super().__init__()
        self.scale = config.d_model**0.5
        self.weight = random_rows(vocab_size, config.d_model)
        self.zero_row = BOS if config.start_embedding == "zero" else None
        """The row that is zero and learns nothing."""
        if self.zero_row is not None:
            with torch.no_grad():
                self.weight[[PAD, BOS]] = 0.0
        self.start = EOS if config.start_embedding == "end" else BOS
        """The row for `<s>`."""
        self.positions: SinusoidalPositions | LearnedPositions = (
            LearnedPositions(config.d_model, config.max_positions)
            if config.positions == "learned"
            else SinusoidalPositions(config.d_model, TABLES[config.positions])
        )
        self.dropout = Dropout(config.embedding_dropout)

    def extra_repr(self) -> str:
        return ", ".join(map(str, self.weight.shape))

    def rows(self, ids: Tensor) -> Tensor:
        """Return the rows of the table that embed ids."""
        return ids if self.start == BOS else ids.masked_fill(ids == BOS, self.start)

    def forward(self, ids: Tensor, positions: Tensor, end: int, kept: Tensor | None = None) -> Tensor:
        """Embed ids (B, L) int64 at `positions` (L,) or (B, L), all below `end` -> (B, L, D).

        Where `kept` (B, L) bool is False, the token embedding is dropped and only the position embedding remains.
        """
        tokens = F.embedding(self.rows(ids), self.weight, self.zero_row) * self.scale
        if kept is not None:
            tokens = tokens * kept[..., None]
        dropped: Tensor = self.dropout(tokens + self.positions(positions, end))
        return dropped
