"""Functions shared by all kinds of search: the tokens allowed next, the most probable ones, and stopping.

A forbidden token gets a logit of -inf; other tokens keep their probabilities, normalized over the whole vocabulary.

Legend: B sentences, M hypotheses of each, V vocabulary, L length so far.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor

from nmt.data.on_device import sent
from nmt.text.ids import EOS, PAD, SEPARATOR

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


N_ROWS = 16
"""Number of rows into which values are arranged; the k largest are in the k columns with the largest maxima."""
FEW_VALUES = 2048
"""Number of values below which `torch.topk` is as fast."""
SMALL = 2**16
"""Number of values of all rows below which one operation is faster than nine."""


def largest(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k largest of x (..., V) and their indices, both (..., k), largest first; k <= V.

    Equal values may be chosen and ordered arbitrarily, except that k = 1 takes the first.
    """
    if k == 1:
        return x.max(-1, keepdim=True)
    n_columns, n_remaining = divmod(x.size(-1), N_ROWS)
    if x.size(-1) < FEW_VALUES or k > n_columns // 8 or x.numel() < SMALL:
        return x.topk(k)
    end = N_ROWS * n_columns
    columns = x[..., :end].view(*x.shape[:-1], N_ROWS, n_columns).amax(-2).topk(k).indices  # (..., k)
    rows = torch.arange(0, end, n_columns, device=x.device)
    remaining = torch.arange(end, x.size(-1), device=x.device).expand(*columns.shape[:-1], n_remaining)
    candidates = torch.cat(((columns[..., None] + rows).flatten(-2), remaining), -1)  # (..., 16 * k + rest)
    values, order = x.gather(-1, candidates).topk(k)
    return values, candidates.gather(-1, order)


ShouldStop = Callable[[], bool]
"""A function that returns whether to stop. It is called in several threads, and once True it stays True."""


class SearchStopped(Exception):  # noqa: N818  (not an error)
    """Raised when a search was stopped on request; it has no result."""


def stop_if(should_stop: ShouldStop | None) -> None:
    """Raise SearchStopped if `should_stop` is given and returns True."""
    if should_stop is not None and should_stop():
        raise SearchStopped


State = TypeVar("State", bound="DataclassInstance")


def keep_rows(state: State, rows: Tensor | slice) -> State:
    """Return a copy of a dataclass of tensors (R, ...) that has only `rows` (R',) of each tensor."""
    return type(state)(*(getattr(state, field.name)[rows] for field in fields(state)))


MINUS_INF = -float("inf")
GIVEN = 1e30
"""A logit whose log-probability is 0, the most that search allows."""
CHECK_EVERY = 8
"""Number of steps on a GPU between two checks of which sentences are done."""


@dataclass
class Rules:
    """Rules for the tokens of a batch. Tensors are on the model's device; `limits` may also be given on the CPU."""

    banned: Tensor
    """(n,) int64 ids that are only allowed in a prefix, including PAD."""
    limits: Tensor
    """(B,) int64 maximum length of each translation, `</s>` counted, at least 1. Limits on the CPU are copied to the
    device; reading limits that are on the device synchronizes with it."""
    min_length: int = 0
    """Minimum number of tokens before `</s>`; the limit takes precedence."""
    no_repeat_ngram: int = 0
    """No n-gram of this many ids occurs twice, except in a prefix; 0 allows all."""
    prefix: Tensor | None = None
    """(B, P) int64 ids with which a translation starts, padded with PAD on the right; takes precedence over all rules
    except the limit. Those that are banned, tags of languages, have probability 1."""
    n_separators: Tensor | None = None
    """(B,) int64 maximum number of separators in a translation; None for no limit."""
    last_lengths: frozenset[int] | None = None
    """The limits of this batch; after `keep`, which does not read tensors, also of sentences that have left it."""
    should_stop: ShouldStop | None = None
    """Called after each step; SearchStopped is raised once it returns True."""

    def __post_init__(self) -> None:
        if self.last_lengths is None:
            self.last_lengths = frozenset(self.limits.tolist())
        if self.limits.device != self.banned.device:
            self.limits = sent(self.limits, self.banned.device)

    @property
    def longest(self) -> int:
        """The maximum of `last_lengths`, or 0 for an empty batch."""
        return max(self.last_lengths or (), default=0)

    def leaving(self, done: Tensor, length: int) -> tuple[Tensor, Tensor] | None:
        """Return the ascending indices of the sentences to keep and of those to remove, or None if all should be kept.

        `done` (B,) bool: the finished sentences. Removal does not always pay: the other sentences are copied, and
        reading `done` synchronizes with a GPU. A few sentences that are done stay to make a multiple of 8, since
        kernels start faster for sizes that recur. Raises SearchStopped.
        """
        stop_if(self.should_stop)
        if done.device.type != "cpu" and length % CHECK_EVERY and length < self.longest:
            return None
        n = len(done)
        n_live = n - int(done.sum())
        n_staying = n_live if n <= 8 else -(-n_live // 8) * 8
        if n_staying >= n or (n - n_staying) * 8 < n:
            return None
        live_first = done.to(torch.uint8).sort(stable=True).indices
        return live_first[:n_staying].sort().values, live_first[n_staying:].sort().values

    def keep(self, rows: Tensor | slice) -> Rules:
        """Return the rules of sentences `rows`, (B',) or a slice."""
        prefix = None if self.prefix is None else self.prefix[rows]
        n_separators = None if self.n_separators is None else self.n_separators[rows]
        return replace(self, limits=self.limits[rows], prefix=prefix, n_separators=n_separators)

    def apply(self, logits: Tensor, ids: Tensor) -> None:
        """Mask in place, in logits (B, M, V), the tokens that may not follow ids (B, M, L)."""
        length = ids.size(2)  # tokens so far; the next is number length + 1
        forced = self._forced(length)
        if forced is not None:
            at = forced[:, None, None].expand(-1, logits.size(1), -1)  # (B, M, 1)
            forced_logit = logits.gather(-1, at)  # before another rule masks it
            is_banned = (forced[:, None] == self.banned).any(1)[:, None, None]  # torch.isin waits for a GPU
            forced_logit.masked_fill_(is_banned, GIVEN)
        logits.index_fill_(-1, self.banned, MINUS_INF)
        if self.n_separators is not None:
            has_all = (ids == SEPARATOR).sum(-1) >= self.n_separators[:, None]
            logits[..., SEPARATOR].masked_fill_(has_all, MINUS_INF)
        if length < self.min_length:
            logits[..., EOS] = MINUS_INF
        if 0 < self.no_repeat_ngram <= length:
            _forbid_repeats(logits, ids, self.no_repeat_ngram)
        if forced is not None:
            is_forced = (forced != PAD)[:, None, None]
            logits.masked_fill_(is_forced, MINUS_INF)
            logits.scatter_(-1, at, forced_logit.masked_fill(~is_forced, MINUS_INF))

    def _forced(self, length: int) -> Tensor | None:
        """Return the only id (B,) allowed after `length` tokens, PAD where there are several; None if all would be
        PAD."""
        forced = None
        if self.prefix is not None and length < self.prefix.size(1):
            forced = self.prefix[:, length]
        if length + 1 in (self.last_lengths or ()):
            forced = torch.full_like(self.limits, PAD) if forced is None else forced
            forced = forced.masked_fill(self.limits == length + 1, EOS)
        return forced


def _forbid_repeats(logits: Tensor, ids: Tensor, n: int) -> None:
    """Mask tokens that would complete an n-gram that ids (B, M, L) already contain, n <= L."""
    before = ids.unfold(2, n, 1)  # (B, M, L - n + 1, n): the n-grams so far
    last = ids[:, :, ids.size(2) - n + 1 :]  # (B, M, n - 1): the n-gram that the next id would complete
    repeats = (before[..., :-1] == last[:, :, None]).all(-1)  # (B, M, L - n + 1)
    taken = torch.where(repeats, before[..., -1], PAD)  # PAD is masked anyway
    logits.scatter_(-1, taken, MINUS_INF)
