"""What a translation may look like: which pieces may follow, whatever the model thinks of them.

Every search (greedy, beam, sampling) asks the same rules at each step. A forbidden piece gets a logit of -inf; those
allowed keep their probabilities, which are of the whole vocabulary.

Legend: B sentences, M hypotheses of each, V vocabulary, L length so far.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from nmt.data.batching import sent
from nmt.text.tokenizer import EOS, PAD

MINUS_INF = -float("inf")
CHECK_EVERY = 8
"""Steps between two looks at which sentences are done, on a GPU."""


@dataclass
class Rules:
    """The rules of a batch; all tensors are on the model's device, but the limits may be given on the CPU."""

    banned: Tensor
    """(n,) int64 ids that are never taken but as part of a prefix; PAD is one of them."""
    limits: Tensor
    """(B,) int64 the longest length of each sentence, `</s>` counted, at least 1: there only `</s>` may follow. They
    are needed on both sides: given on the CPU they are sent to the device, given there they are waited for."""
    min_length: int = 0
    """Least number of pieces before `</s>`; a limit goes before."""
    no_repeat_ngram: int = 0
    """No sequence of so many ids stands twice but in a prefix; 0 allows all."""
    prefix: Tensor | None = None
    """(B, P) int64 ids that a translation starts with, whatever the other rules say but for a limit; filled up with PAD
    on the right."""
    last_lengths: frozenset[int] | None = None
    """The limits of this batch; after `keep`, which asks no device for them, also of those that left it."""

    def __post_init__(self) -> None:
        if self.last_lengths is None:
            self.last_lengths = frozenset(self.limits.tolist())
        if self.limits.device != self.banned.device:
            self.limits = sent(self.limits, self.banned.device)

    @property
    def longest(self) -> int:
        """The largest of `last_lengths`; 0 without sentences."""
        return max(self.last_lengths or (), default=0)

    def leaving(self, done: Tensor, length: int) -> tuple[Tensor, Tensor] | None:
        """The sentences that stay and those that leave, ascending, if it is worth it: what stays must be copied
        together, and a GPU is waited for to look. done (B,) bool: those that may leave.

        A few that are done stay to make a multiple of 8: products of sizes that come again start sooner.
        """
        if done.device.type != "cpu" and length % CHECK_EVERY and length < self.longest:
            return None
        n, n_living = len(done), len(done) - int(done.sum())
        n_staying = n_living if n <= 8 else -(-n_living // 8) * 8
        if n_staying >= n or (n - n_staying) * 8 < n:
            return None
        living_first = done.to(torch.uint8).sort(stable=True).indices
        return living_first[:n_staying].sort().values, living_first[n_staying:].sort().values

    def keep(self, rows: Tensor) -> Rules:
        """The rules of the sentences `rows` (B',)."""
        prefix = None if self.prefix is None else self.prefix[rows]
        return replace(self, limits=self.limits[rows], prefix=prefix)

    def apply(self, logits: Tensor, ids: Tensor) -> None:
        """Forbid in place what may not follow ids (B, M, L) in logits (B, M, V)."""
        length = ids.size(2)  # pieces so far; the next is number length + 1
        forced = self._forced(length)
        if forced is not None:
            at = forced[:, None, None].expand(-1, logits.size(1), -1)  # (B, M, 1)
            kept = logits.gather(-1, at)  # before another rule forbids it
        logits.index_fill_(-1, self.banned, MINUS_INF)
        if length < self.min_length:
            logits[..., EOS] = MINUS_INF
        if 0 < self.no_repeat_ngram <= length:
            _forbid_repeats(logits, ids, self.no_repeat_ngram)
        if forced is not None:
            is_forced = (forced != PAD)[:, None, None]
            logits.masked_fill_(is_forced, MINUS_INF)
            logits.scatter_(-1, at, kept.masked_fill(~is_forced, MINUS_INF))

    def _forced(self, length: int) -> Tensor | None:
        """(B,) the only id that may follow `length` pieces, PAD where several may; None if they may everywhere."""
        forced = None
        if self.prefix is not None and length < self.prefix.size(1):
            forced = self.prefix[:, length]
        if length + 1 in (self.last_lengths or ()):
            forced = torch.full_like(self.limits, PAD) if forced is None else forced
            forced = forced.masked_fill(self.limits == length + 1, EOS)
        return forced


def _forbid_repeats(logits: Tensor, ids: Tensor, n: int) -> None:
    """Forbid what would end a sequence of n ids that stands in ids (B, M, L) already, n <= L."""
    before = ids.unfold(2, n, 1)  # (B, M, L - n + 1, n): each sequence of n so far
    last = ids[:, :, ids.size(2) - n + 1 :]  # (B, M, n - 1): what the next id would end
    repeats = (before[..., :-1] == last[:, :, None]).all(-1)  # (B, M, L - n + 1)
    taken = torch.where(repeats, before[..., -1], PAD)  # PAD is never taken anyway
    logits.scatter_(-1, taken, MINUS_INF)
