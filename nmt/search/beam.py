"""Beam search, vectorized over sentences and hypotheses: no step loops over sentences.

Each step considers the best 2K continuations of a sentence's K live hypotheses. Those among the first K that end in
`</s>` are finished; the best K that do not end stay live, so there are always K live ones. A sentence is done when
`patience` * K hypotheses have finished, or when no live one can still be among the N best.

In diverse beam search (Vijayakumar et al., 2016, arXiv:1610.02424) the beam is divided into groups. Each is searched by
itself, with a penalty on the tokens that earlier groups chose at the same step.

Legend: B sentences, G groups of each (1 unless search is diverse), R = B * G rows, K hypotheses of a row, M live
hypotheses of a row (1 before the first step, then K), V vocabulary, S source length, N n_best (K if that is less),
L length.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from nmt.data.on_device import sent
from nmt.search.constrained import Constraints
from nmt.search.rules import MINUS_INF, Rules, keep_rows, largest
from nmt.search.settings import SearchConfig
from nmt.search.step import Hypothesis, Scores, StepModel, by_sentence, length_penalty, no_translation
from nmt.text.ids import BOS, EOS


@dataclass
class _BeamRows:
    """The state of the rows that are still being searched; see `keep_rows`."""

    sentence: Tensor  # (R,) index of the sentence in the result
    limits: Tensor  # (R,)
    limit_penalty: Tensor  # (R,) length penalty at the limit
    # live hypotheses, best first; unused entries have log_prob -inf
    ids: Tensor  # (R, M, L)
    log_prob: Tensor  # (R, M) float64
    coverage: Tensor  # (R, M, S) attention received so far by each source position; S = 0 without a coverage penalty
    # the N best finished hypotheses, best first; unused entries have score -inf
    best_ids: Tensor  # (R, N, L) with </s>, then padding
    best_log_prob: Tensor  # (R, N) float64
    best_score: Tensor  # (R, N) float64
    best_length: Tensor  # (R, N) with </s>
    n_finished: Tensor  # (R,)

    @classmethod
    def start(cls, rules: Rules, config: SearchConfig, n_best: int) -> _BeamRows:
        """Return the initial state: one empty hypothesis in each row, none finished."""
        limits = rules.limits.repeat_interleave(config.diversity_groups)
        shape = (len(limits), n_best)
        minus_inf = torch.full(shape, MINUS_INF, dtype=torch.float64, device=limits.device)
        penalties = [length_penalty(length, config) for length in range(1, rules.longest + 1)]
        return cls(
            sentence=torch.arange(len(limits), device=limits.device) // config.diversity_groups,
            limits=limits,
            limit_penalty=sent(torch.tensor(penalties, dtype=torch.float64), limits.device)[limits - 1],
            ids=limits.new_empty((len(limits), 1, 0)),
            log_prob=torch.zeros_like(minus_inf[:, :1]),
            coverage=torch.zeros(len(limits), 1, 1 if config.coverage_penalty else 0, device=limits.device),
            best_ids=limits.new_empty((*shape, 0)),
            best_log_prob=minus_inf,
            best_score=minus_inf,
            best_length=limits.new_zeros(shape),
            n_finished=torch.zeros_like(limits),
        )


def beam_search(
    model: StepModel, rules: Rules, config: SearchConfig, n_best: int = 1, constraints: Constraints | None = None
) -> list[list[Hypothesis]]:
    """Return for each sentence of `model` up to `n_best` distinct hypotheses, best score first.

    1 <= n_best <= config.beam. Ties between scores go to the hypothesis found first, ties between continuations to
    the one of the better hypothesis.
    Raises CheckpointError if the model's scores are NaN.
    """
    assert 1 <= n_best <= config.beam, f"n_best {n_best} is not between 1 and the beam {config.beam}"
    n_groups = config.diversity_groups
    results: dict[int, list[Hypothesis]] = {}
    rows = _BeamRows.start(rules, config, min(n_best, config.group_size))
    tokens = torch.full((len(rules.limits), n_groups), BOS, device=rules.limits.device)  # (B, G * M)
    length = 0
    while len(rows.sentence):
        length += 1
        best = _best(model.step(tokens), rows, rules, config, constraints)
        if config.coverage_penalty:
            attention = model.attention().expand(-1, tokens.size(1), -1)  # after a prefix, of one hypothesis
            rows.coverage = rows.coverage + attention.reshape(*rows.log_prob.shape, -1)
        n_hypotheses = tokens.size(1)
        beams, tokens = _advance(rows, best, length, config)
        if constraints is not None:
            constraints.follow(beams, tokens)
        row_done = _done(rows, length, config)
        # rows that are done add no more hypotheses while they wait for others
        rows.log_prob.masked_fill_(row_done[:, None], MINUS_INF)
        done = row_done.view(-1, n_groups).all(1)  # (B,)
        first = torch.arange(0, n_hypotheses, n_hypotheses // n_groups, device=done.device)  # of each group
        beams = (beams.reshape(-1, n_groups, beams.size(1)) + first[:, None]).flatten(1)  # (B, G * M)
        tokens = tokens.reshape(beams.shape)
        kept = torch.arange(len(done), device=done.device)
        if (split := rules.leaving(done, length)) is not None:
            kept, ended = split
            results |= _results(keep_rows(rows, _rows_of(ended, n_groups)), n_best)
            rows = keep_rows(rows, _rows_of(kept, n_groups))
            rules = rules.keep(kept)
            constraints = constraints and constraints.keep(kept)
            beams = beams[kept]
            tokens = tokens[kept]
        model.select(kept, beams)
    return [results[i] for i in range(len(results))]


class _Continuations(NamedTuple):
    """The continuations of hypotheses by one token, (R, W) each, best first."""

    log_prob: Tensor
    beams: Tensor
    """The index of the hypothesis that is continued."""
    tokens: Tensor


def _best(
    scores: Iterable[Scores], rows: _BeamRows, rules: Rules, config: SearchConfig, constraints: Constraints | None
) -> _Continuations:
    """Return the 2K best continuations of each row, or all if there are fewer."""
    n_groups = config.diversity_groups
    length = rows.ids.size(2) + 1
    by_part = []
    for part, logits, log_z in by_sentence(scores):
        of_part = slice(part.start * n_groups, part.stop * n_groups)
        of_rules = rules if len(log_z) == len(rules.limits) else rules.keep(part)
        of_rules.apply(logits, rows.ids[of_part].view(*log_z.shape, -1))
        phrases = constraints and constraints.keep(part)
        if phrases is not None:
            phrases.apply(logits, length)
        by_part.append(_continuations(logits, log_z, rows.log_prob[of_part], config, phrases))
    return _Continuations(*map(torch.cat, zip(*by_part, strict=True))) if len(by_part) > 1 else by_part[0]


def _continuations(
    logits: Tensor, log_z: Tensor, log_prob: Tensor, config: SearchConfig, constraints: Constraints | None
) -> _Continuations:
    """Return the 2K best continuations of each row, or all if there are fewer.

    logits (B, G * M, V), log_z (B, G * M), log_prob (R, M).
    """
    n_groups = config.diversity_groups
    beam = config.group_size
    if constraints is not None:
        return _Continuations(*constraints.continuations(logits, log_z, log_prob, beam))
    if n_groups == 1:
        return _best_continuations(logits, log_z, log_prob, beam)
    b, _, n_pieces = logits.shape
    grouped = logits.view(b, n_groups, -1, n_pieces)
    log_z = log_z.view(b, n_groups, -1)
    log_prob = log_prob.view(b, n_groups, -1)
    penalty = torch.zeros_like(logits[:, 0], dtype=torch.float32)  # (B, V)
    by_group = []
    for group in range(n_groups):
        best = _best_continuations(grouped[:, group], log_z[:, group], log_prob[:, group], beam, penalty)
        ends = best.tokens == EOS
        ranks = torch.where(ends, torch.arange(ends.size(1), device=ends.device), (~ends).cumsum(1) - 1)
        chosen = (ranks < beam) & (best.log_prob > MINUS_INF)  # they finish or stay live
        penalty.scatter_add_(1, best.tokens, config.diversity * chosen.to(penalty.dtype))
        by_group.append(best)
    return _Continuations(*(torch.stack(of_groups, 1).flatten(0, 1) for of_groups in zip(*by_group, strict=True)))


def _best_continuations(
    logits: Tensor, log_z: Tensor, log_prob: Tensor, beam: int, penalty: Tensor | None = None
) -> _Continuations:
    """Return the 2K best continuations of M hypotheses, ranked after subtracting a penalty (R, V) on each token.

    logits (R, M, V), log_z (R, M), log_prob (R, M). Only the K + 1 best of each hypothesis are normalized, never all V:
    one of them may be `</s>`, the others suffice for K hypotheses.
    """
    penalized = logits if penalty is None else logits - penalty[:, None]
    _, ids = largest(penalized, min(beam + 1, logits.size(-1)))  # (R, M, K + 1)
    ids = ids.sort(-1).values  # so that the lower id comes first among equal values
    totals = log_prob[..., None] + (logits.gather(-1, ids) - log_z[..., None]).clamp(max=0.0)
    ranked = totals if penalty is None else totals - penalty[:, None].expand_as(logits).gather(-1, ids)
    order = ranked.flatten(1).sort(dim=1, descending=True, stable=True).indices[:, : 2 * beam]
    return _Continuations(totals.flatten(1).gather(1, order), order // ids.size(2), ids.flatten(1).gather(1, order))


def _advance(rows: _BeamRows, best: _Continuations, length: int, config: SearchConfig) -> tuple[Tensor, Tensor]:
    """Finish the continuations among the first K that end, and keep the K best of the others live.

    Returns the hypotheses that are continued and their new tokens, both (R, M).
    """
    beam = config.group_size
    ends = best.tokens == EOS
    if _none_ends(ends):
        beams = best.beams[:, :beam]
        tokens = best.tokens[:, :beam]
        rows.log_prob = best.log_prob[:, :beam]
    else:
        _finish(rows, best, ends, beam, length, config)
        order = ends.to(torch.uint8).sort(dim=1, stable=True).indices[:, :beam]  # those that do not end first
        beams = best.beams.gather(1, order)
        tokens = best.tokens.gather(1, order)
        rows.log_prob = best.log_prob.masked_fill(ends, MINUS_INF).gather(1, order)
    rows.ids = torch.cat((_gather(rows.ids, beams), tokens[..., None]), 2)
    rows.coverage = _gather(rows.coverage, beams)
    return beams, tokens


def _none_ends(ends: Tensor) -> bool:
    """Return whether no continuation ends; always False on a GPU, where reading the result would synchronize."""
    return ends.device.type == "cpu" and not bool(ends.any())


def _finish(rows: _BeamRows, best: _Continuations, ends: Tensor, beam: int, length: int, config: SearchConfig) -> None:
    """Add the continuations among the first K that end to the finished hypotheses, and keep the N best of these."""
    n_best = rows.best_score.size(1)
    beams = best.beams[:, :beam]
    tokens = best.tokens[:, :beam]
    log_prob = best.log_prob[:, :beam].masked_fill(~ends[:, :beam], MINUS_INF)
    score = log_prob / length_penalty(length, config)
    if config.coverage_penalty:
        score = score + config.coverage_penalty * _coverage(rows.coverage).gather(1, beams)
    all_scores = torch.cat((rows.best_score, score), 1)
    rows.best_score, order = all_scores.sort(dim=1, descending=True, stable=True)
    rows.best_score = rows.best_score[:, :n_best]
    order = order[:, :n_best]
    rows.best_log_prob = torch.cat((rows.best_log_prob, log_prob), 1).gather(1, order)
    rows.best_length = torch.cat((rows.best_length, torch.full_like(beams, length)), 1).gather(1, order)
    ids = torch.cat((_gather(rows.ids, beams), tokens[..., None]), 2)
    rows.best_ids = _gather(torch.cat((F.pad(rows.best_ids, (0, length - rows.best_ids.size(2))), ids), 1), order)
    rows.n_finished = rows.n_finished + (log_prob > MINUS_INF).sum(1)


def _coverage(received: Tensor) -> Tensor:
    """Return the coverage penalty (R, M) for the total attention (R, M, S) to each source position.

    Wu et al., 2016, equation 15, without its weight; 0 if each position has received 1. Padding has received exactly 0
    and adds nothing.
    """
    costs = received.clamp(min=1e-9, max=1.0).log()
    return costs.masked_fill(received == 0, 0.0).sum(-1)


def _done(rows: _BeamRows, length: int, config: SearchConfig) -> Tensor:
    """Return a mask (R,), True where enough hypotheses have finished or no live hypothesis can still become one of the
    N best.

    A log-probability only falls, and between the next length and the limit the length penalty is largest at one of the
    two (the sign of the exponent decides): no continuation scores more than the better of the two quotients. A coverage
    penalty only lowers the score.
    """
    best = rows.log_prob.amax(1)  # (R,)
    bound = torch.maximum(best / length_penalty(length + 1, config), best / rows.limit_penalty)
    done = ~(bound > rows.best_score[:, -1])
    if config.patience:
        done |= rows.n_finished >= n_to_finish(config, rows.best_score.size(1))
    return done


def n_to_finish(config: SearchConfig, n_best: int) -> int:
    """Return how many hypotheses of a group must finish for its search to stop (`patience`), at least `n_best`."""
    return max(round(config.patience * config.beam / config.diversity_groups), n_best, 1)


def _rows_of(sentences: Tensor, n_groups: int) -> Tensor:
    """Return the indices (B' * G,) of the rows of sentences (B',)."""
    return (sentences[:, None] * n_groups + torch.arange(n_groups, device=sentences.device)).flatten()


def _gather(x: Tensor, index: Tensor) -> Tensor:
    """Gather hypotheses: x (R, M, L), index (R, K) -> (R, K, L)."""
    return x.gather(1, index[..., None].expand(-1, -1, x.size(2)))


def _results(rows: _BeamRows, n_best: int) -> dict[int, list[Hypothesis]]:
    """Return for each sentence, by its index, its `n_best` finished hypotheses without duplicates, best first."""
    unique: dict[int, dict[tuple[int, ...], Hypothesis]] = {}
    columns = (rows.best_ids, rows.best_log_prob, rows.best_score, rows.best_length)
    for sentence, limit, *row in zip(*(x.tolist() for x in (rows.sentence, rows.limits, *columns)), strict=True):
        hypotheses = unique.setdefault(sentence, {})
        for ids, log_prob, score, length in zip(*row, strict=True):
            if score > MINUS_INF:
                hypothesis = Hypothesis(ids[: length - 1], log_prob, score, finished=length < limit)
                hypotheses.setdefault(tuple(hypothesis.ids), hypothesis)
    if not all(unique.values()):
        raise no_translation()
    return {
        sentence: sorted(hypotheses.values(), key=lambda hypothesis: -hypothesis.score)[:n_best]
        for sentence, hypotheses in unique.items()
    }
