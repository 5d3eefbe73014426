"""Beam search, dense over sentences and hypotheses: no step loops over sentences.

At each step the K best of all continuations of a sentence are kept. Those among them that end in `</s>` are finished;
the others live on. The place of a finished one stays empty (its log-probability is -inf) until the next step, when the
continuations of the living fill all K again. So a beam of one is greedy search.

Legend: B sentences, M living hypotheses of each (1 at first, then up to K, the beam), V vocabulary, N n_best.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from nmt.config import SearchConfig
from nmt.search.greedy import greedy_search
from nmt.search.step import Hypothesis, StepModel, length_penalty, mask_forbidden, no_translation
from nmt.tokenizer import BOS, EOS

MINUS_INF = -float("inf")


def search(
    model: StepModel, limits: Tensor, config: SearchConfig, banned: Tensor, n_best: int = 1
) -> list[list[Hypothesis]]:
    """For each sentence of `model` up to `n_best` hypotheses, best score first.

    limits (B,) int64 is the longest length of each, `</s>` counted, at least 1; banned (n,) int64 are the ids that are
    never taken (they keep their probability); both on the model's device. 1 <= n_best <= config.beam.
    Raises CheckpointError if the model's scores are not numbers.
    """
    if config.beam == 1 and n_best == 1:
        return [[hypothesis] for hypothesis in greedy_search(model, limits, config, banned)]
    return beam_search(model, limits, config, banned, n_best)


@dataclass
class _Rows:
    """The sentences that are still searched: every tensor's first dimension is B, so that one `keep` serves all."""

    sentence: Tensor  # (B,) the row's place in the result
    limits: Tensor  # (B,)
    limit_penalty: Tensor  # (B,) length penalty at the limit
    # the living; an empty place has log_prob -inf
    ids: Tensor  # (B, M, length)
    log_prob: Tensor  # (B, M) float64
    # the N best of the finished, best first; an empty place has score -inf
    best_ids: Tensor  # (B, N, length) with </s>, then filled up
    best_log_prob: Tensor  # (B, N) float64
    best_score: Tensor  # (B, N) float64
    best_length: Tensor  # (B, N) with </s>

    def keep(self, rows: Tensor) -> _Rows:
        """Only the rows (B',)."""
        return _Rows(*(getattr(self, field.name)[rows] for field in fields(self)))


def beam_search(
    model: StepModel, limits: Tensor, config: SearchConfig, banned: Tensor, n_best: int = 1, early_stopping: bool = True
) -> list[list[Hypothesis]]:
    """See `search`. Without `early_stopping` a sentence ends only when nothing lives: slower, and the same result.

    Among equal scores the hypothesis found first comes first; among equal continuations that of the better hypothesis,
    then the lower id.
    """
    assert 1 <= n_best <= config.beam, f"n_best {n_best} is not between 1 and the beam {config.beam}"
    last_lengths = set(limits.tolist())
    found: dict[int, list[Hypothesis]] = {}
    rows = _start(limits, config, n_best)
    tokens = torch.full_like(limits, BOS)[:, None]
    length = 0
    while len(rows.sentence):
        length += 1
        logits, log_z = model.step(tokens)
        mask_forbidden(logits, banned, rows.limits == length if length in last_lengths else None)
        rows.log_prob, beams, tokens = _best_continuations(logits, log_z, rows.log_prob, config.beam)
        rows.ids = torch.cat((_gather(rows.ids, beams), tokens[..., None]), 2)
        _finish(rows, tokens == EOS, length, length_penalty(length, config))
        next_penalty = length_penalty(length + 1, config) if early_stopping else None
        living = _may_improve(rows, next_penalty)
        kept = living.nonzero()[:, 0]
        if len(kept) < len(living):
            found |= _results(rows.keep((~living).nonzero()[:, 0]))
            rows, beams, tokens = rows.keep(kept), beams[kept], tokens[kept]
        model.select(kept, beams)
    return [found[i] for i in range(len(found))]


def _start(limits: Tensor, config: SearchConfig, n_best: int) -> _Rows:
    shape = (len(limits), n_best)
    minus_inf = torch.full(shape, MINUS_INF, dtype=torch.float64, device=limits.device)
    penalties = [length_penalty(limit, config) for limit in limits.tolist()]
    return _Rows(
        sentence=torch.arange(len(limits), device=limits.device),
        limits=limits,
        limit_penalty=torch.tensor(penalties, dtype=torch.float64, device=limits.device),
        ids=limits.new_empty((len(limits), 1, 0)),
        log_prob=torch.zeros_like(minus_inf[:, :1]),
        best_ids=limits.new_empty((*shape, 0)),
        best_log_prob=minus_inf,
        best_score=minus_inf,
        best_length=limits.new_zeros(shape),
    )


def _best_continuations(logits: Tensor, log_z: Tensor, log_prob: Tensor, beam: int) -> tuple[Tensor, Tensor, Tensor]:
    """The K best one-token continuations of M hypotheses, or all if there are fewer, best first.

    logits (B, M, V), log_z (B, M), log_prob (B, M) -> log_prob, beams (which hypothesis is continued) and tokens, all
    (B, K). Only the best of each hypothesis are normalised, never all V.
    """
    per_row = min(beam, logits.size(-1))
    # max takes the first of equal values, topk any: with it a beam of one is greedy search to the letter.
    values, ids = logits.max(-1, keepdim=True) if per_row == 1 else logits.topk(per_row)  # (B, M, k)
    ids, by_id = ids.sort(-1)  # so that the lower id comes first among equal values
    values = values.gather(-1, by_id)
    totals = log_prob[..., None] + (values - log_z[..., None]).clamp(max=0.0)
    totals, order = totals.flatten(1).sort(dim=1, descending=True, stable=True)
    totals, order = totals[:, :beam], order[:, :beam]
    return totals, order // per_row, ids.flatten(1).gather(1, order)


def _finish(rows: _Rows, ended: Tensor, length: int, penalty: float) -> None:
    """Move the hypotheses `ended` (B, M) from the living to the finished, of which the N best stay."""
    n_best = rows.best_score.size(1)
    log_prob = rows.log_prob.masked_fill(~ended, MINUS_INF)
    all_scores = torch.cat((rows.best_score, log_prob / penalty), 1)
    rows.best_score, order = all_scores.sort(dim=1, descending=True, stable=True)
    rows.best_score, order = rows.best_score[:, :n_best], order[:, :n_best]
    rows.best_log_prob = torch.cat((rows.best_log_prob, log_prob), 1).gather(1, order)
    lengths = torch.full_like(ended, length, dtype=torch.int64)
    rows.best_length = torch.cat((rows.best_length, lengths), 1).gather(1, order)
    filled_up = torch.nn.functional.pad(rows.best_ids, (0, 1))
    rows.best_ids = _gather(torch.cat((filled_up, rows.ids), 1), order)
    rows.log_prob = rows.log_prob.masked_fill(ended, MINUS_INF)


def _may_improve(rows: _Rows, next_penalty: float | None) -> Tensor:
    """(B,) True where something lives that may still be among the N best; without `next_penalty`, where it lives.

    A log-probability only falls, and the penalty between the next length and the limit is extreme at one of them
    (which, depends on the sign of the exponent): no continuation scores more than the better of the two quotients.
    """
    best = rows.log_prob.amax(1)  # (B,)
    if next_penalty is None:
        return best > MINUS_INF
    bound = torch.maximum(best / next_penalty, best / rows.limit_penalty)
    return bound > rows.best_score[:, -1]


def _gather(x: Tensor, index: Tensor) -> Tensor:
    """x (B, M, L), index (B, K) -> (B, K, L)."""
    return x.gather(1, index[..., None].expand(-1, -1, x.size(2)))


def _results(rows: _Rows) -> dict[int, list[Hypothesis]]:
    """Sentence -> its finished hypotheses, best first."""
    found = {}
    columns = (rows.best_ids, rows.best_log_prob, rows.best_score, rows.best_length)
    for sentence, limit, *row in zip(*(x.tolist() for x in (rows.sentence, rows.limits, *columns)), strict=True):
        found[sentence] = [
            Hypothesis(ids[: length - 1], log_prob, score, finished=length < limit)
            for ids, log_prob, score, length in zip(*row, strict=True)
            if score > MINUS_INF
        ]
        if not found[sentence]:
            raise no_translation()
    return found
