"""Lexical constraints in beam search: phrases that every translation must hold.

A phrase stands where its ids stand in a row and no piece follows that goes on with the word they end. One that is asked
for n times must stand n times without overlapping itself; different phrases may share ids. How far a hypothesis has
come in a phrase is the state of an automaton (Knuth, Morris & Pratt, 1977), so what the model says by itself counts.
Some phrases may be ordered, as opening and closing tags are: each counts after the one before it only, and none is
completed before its turn or once more, unless another phrase or a prefix holds it.

The places of the beam are dealt out in turn to banks, each of the hypotheses that have come equally far (Hokamp & Liu,
2017, arXiv:1704.07138; Post & Vilar, 2018, arXiv:1804.06609; all sentences at once as Hu et al., 2019, N19-1090).
Without banks, hypotheses that put off a phrase would push out those that took it.

Legend: B sentences, M hypotheses of each, N candidates to be continuations, P different phrases of a sentence at most,
L ids of a phrase at most, T ordered phrases of a sentence at most, K beam, V vocabulary, W continuations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from nmt.data.batching import sent
from nmt.search.phrases import TOLD_APART, Phrases, room
from nmt.search.rules import MINUS_INF
from nmt.search.topk import largest
from nmt.text.tokenizer import EOS, PAD


@dataclass(frozen=True)
class _Rows:
    """What is asked for and what is done of it: every tensor's first dimension is B, so that one `keep` serves all."""

    ids: Tensor  # (B, P, L) filled up with PAD
    lengths: Tensor  # (B, P) 1 in an empty place
    after: Tensor  # (B, P, L + 1, L + 1) the automata: state and place of the next id in the phrase -> state
    limits: Tensor  # (B,)
    n_ids: Tensor  # (B,) ids of all phrases, repeats counted
    turns: Tensor  # (B, T + 1) the ordered phrases, repeats included, as places in 0 ... P - 1, then P
    is_ordered: Tensor  # (B, P)
    # of the hypotheses
    missing: Tensor  # (B, M, P) how often a phrase must stand yet, that in `state` not counted before the next id
    state: Tensor  # (B, M, P) how many ids of a phrase the hypothesis ends in

    def keep(self, rows: Tensor) -> _Rows:
        """Only the rows (B',)."""
        return _Rows(*(getattr(self, field.name)[rows] for field in fields(self)))

    def sent(self, device: torch.device) -> _Rows:
        """The same on `device`."""
        return _Rows(*(sent(getattr(self, field.name), device) for field in fields(self)))

    def states_after(self, state: Tensor) -> Tensor:
        """States (B, M, P) -> (B, M, P, L), those after each id of the phrase."""
        at = state.transpose(1, 2)[..., None].expand(-1, -1, -1, self.after.size(3))
        return self.after.gather(2, at).transpose(1, 2)[..., :-1]

    def next_ids(self, state: Tensor) -> Tensor:
        """The next id of each phrase in states (B, M, P), none of which is its last."""
        return self.ids.gather(2, state.transpose(1, 2)).transpose(1, 2)

    def has_turn(self, missing: Tensor) -> Tensor:
        """(B, M, P) True where a phrase may count next, given how often each is missing (B, M, P): it is the first of
        the ordered ones that are missing, or it is not ordered."""
        if self.turns.size(1) == 1:
            return torch.ones_like(missing, dtype=torch.bool)
        n_left = (missing * self.is_ordered[:, None]).sum(-1)  # (B, M)
        n_ordered = (self.turns < self.is_ordered.size(1)).sum(-1, keepdim=True)  # (B, 1)
        turn = self.turns.gather(1, n_ordered - n_left)[..., None]
        places = torch.arange(self.is_ordered.size(1), device=turn.device)
        return ~self.is_ordered[:, None] | (places == turn)


class Constraints:
    """The phrases of a batch, and how far each hypothesis has come in them."""

    def __init__(
        self,
        phrases: Sequence[Phrases],
        limits: Tensor,
        word_parts: Tensor | None = None,
        n_ordered: Sequence[int] | None = None,
        device: torch.device | None = None,
    ) -> None:
        """phrases: those of each sentence. limits (B,): its longest length, `</s>` counted, which leaves 1 + room(…)
        after a prefix; on the CPU, or they are waited for. word_parts (V,): see the function; none stands at the start
        of a phrase. n_ordered: so many of each sentence's phrases, the first, must stand in their order; by default
        none. Of the others none need stand beside an equal one of these. device: the model's, by default that of
        `limits`."""
        rows = _start(phrases, limits.cpu(), n_ordered or [0] * len(phrases))
        slack = rows.limits - rows.n_ids
        self._first_tight = int(slack.min()) if len(slack) else 0  # before this length there is room for everything
        self._rows = rows.sent(device or limits.device)
        self._word_parts = word_parts
        self._most = max(map(len, phrases), default=0)  # phrases
        self._n_levels = max(map(room, phrases), default=0) + 1

    def keep(self, rows: Tensor) -> Constraints:
        """The constraints of the sentences `rows` (B',)."""
        kept = copy(self)
        kept._rows = self._rows.keep(rows)
        return kept

    def apply(self, logits: Tensor, length: int) -> None:
        """Forbid in place what as piece number `length` leaves no room for the phrases, in logits (B, M, V), where PAD
        is forbidden already; and `</s>` where a phrase is missing."""
        rows, (wanted, lacking, state) = self._rows, self._open()
        sure = (lacking * rows.lengths[:, None]).sum(-1)  # (B, M) ids that are missing
        end = logits[..., EOS].masked_fill(sure > 0, MINUS_INF)
        if length >= self._first_tight:
            room_left = (rows.limits - length - 1)[:, None]  # after this piece, before `</s>`
            # a piece that goes on with a word undoes the phrase that stands before it
            undone = (rows.missing * rows.lengths[:, None]).sum(-1) - sure
            ids = rows.ids[:, None].expand(-1, sure.size(1), -1, -1)  # (B, M, P, L)
            goes_on = self._goes_on(ids)
            begun = torch.where(goes_on, rows.states_after(rows.state), rows.states_after(state))
            asked = torch.where(goes_on, rows.missing[..., None], lacking[..., None]) > 0
            has_turn = (rows.has_turn(rows.missing)[..., None], rows.has_turn(lacking)[..., None])
            asked &= torch.where(goes_on, *has_turn)
            need = (sure[..., None, None] + goes_on * undone[..., None, None]) - begun
            ids = ids.masked_fill(~asked | (need > room_left[..., None, None]), PAD).flatten(2)
            kept = logits.gather(-1, ids)
            if self._word_parts is not None:
                logits.masked_fill_((sure + undone > room_left)[..., None] & self._word_parts, MINUS_INF)
            logits.masked_fill_((sure > room_left)[..., None], MINUS_INF)
            logits.scatter_(-1, ids, kept)
        logits[..., EOS] = end
        self._keep_order(logits, wanted, lacking, state)

    def _keep_order(self, logits: Tensor, wanted: Tensor, lacking: Tensor, state: Tensor) -> None:
        """Forbid in place to go on with an ordered phrase before its turn and once it has stood, unless an open phrase
        wants the same id (`wanted`, `lacking` and `state` are those of `_open`) or nothing else is allowed.

        The first of several ids is free: it may be a mere space.
        """
        rows = self._rows
        if rows.turns.size(1) == 1:
            return
        is_early = ~rows.has_turn(lacking) & ((state > 0) | (rows.lengths[:, None] == 1))
        ids = rows.next_ids(state).masked_fill(~is_early, PAD)  # (B, M, P); PAD is forbidden already
        ids = ids.masked_fill((ids[..., :, None] == wanted[..., None, :]).any(-1), PAD)
        allowed = logits.gather(-1, ids)
        logits.scatter_(-1, ids, MINUS_INF)
        is_stuck = ~(logits > MINUS_INF).any(-1, keepdim=True)  # with a prefix, or for want of room
        logits.scatter_(-1, ids, allowed.masked_fill(~is_stuck, MINUS_INF))

    def continuations(
        self, logits: Tensor, log_z: Tensor, log_prob: Tensor, beam: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The 2K most wanted continuations, or all: their log_prob, hypotheses and tokens, all (B, W).

        logits (B, M, V), log_z and log_prob (B, M). Candidates are the K + 1 best of each hypothesis and the next ids
        of its phrases; the best of each bank come first, then the second best of each … A sentence without phrases
        has one bank.
        """
        wanted, _, _ = self._open()
        _, best = largest(logits, min(beam + 1, logits.size(-1)))
        ids = torch.cat((best.sort(-1).values, wanted), -1)  # (B, M, K + 1 + P)
        is_new = torch.cat((torch.ones_like(best, dtype=torch.bool), wanted != PAD), -1)
        same = (ids[..., :, None] == ids[..., None, :]) & is_new[..., None, :]
        is_new &= ~same.tril(-1).any(-1)
        totals = log_prob[..., None] + (logits.gather(-1, ids) - log_z[..., None]).clamp(max=0.0)
        totals = totals.masked_fill(~is_new, MINUS_INF).flatten(1)  # (B, N)
        totals, order = totals.sort(dim=1, descending=True, stable=True)
        beams, tokens = order // ids.size(2), ids.flatten(1).gather(1, order)
        bank = self._banks(beams, tokens)
        n_banks = (self._most + 1) * self._n_levels
        turn = _ranks(bank) * n_banks - bank
        turn = torch.where(totals == MINUS_INF, turn.size(1) * n_banks, turn)
        order = turn.sort(dim=1, stable=True).indices[:, : 2 * beam]
        return totals.gather(1, order), beams.gather(1, order), tokens.gather(1, order)

    def follow(self, beams: Tensor, tokens: Tensor) -> None:
        """The hypotheses are now `beams` (B, K), each with one more of `tokens` (B, K)."""
        missing, state = self._advanced(beams, tokens)
        self._rows = _Rows(**{**vars(self._rows), "missing": missing, "state": state})

    def _goes_on(self, ids: Tensor) -> Tensor:
        """True where an id goes on with the word before it."""
        return torch.zeros_like(ids, dtype=torch.bool) if self._word_parts is None else self._word_parts[ids]

    def _open(self) -> tuple[Tensor, Tensor, Tensor]:
        """What hypotheses lack, all (B, M, P): the next id of each phrase, PAD if it is done or has not its turn; how
        often the phrase is missing if the next piece goes on with no word; how many of its ids stand already."""
        rows = self._rows
        stands = rows.state == rows.lengths[:, None]
        lacking = rows.missing - (stands & (rows.missing > 0)).long()
        state = rows.state.masked_fill(stands, 0)
        is_open = (lacking > 0) & rows.has_turn(lacking)
        return rows.next_ids(state).masked_fill(~is_open, PAD), lacking, state

    def _advanced(self, beams: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """`missing` and `state` (B, N, P) of hypotheses `beams` (B, N) after `tokens` (B, N)."""
        rows = self._rows
        at = beams[..., None].expand(-1, -1, rows.state.size(2))
        missing, state = rows.missing.gather(1, at), rows.state.gather(1, at)
        counted = (state == rows.lengths[:, None]) & ~self._goes_on(tokens)[..., None]
        state = state.masked_fill(counted, 0)
        longest = rows.ids.size(2)
        match = rows.ids[:, None] == tokens[..., None, None]  # (B, N, P, L)
        place = torch.where(match.any(-1), match.int().argmax(-1), longest)
        index = state * (longest + 1) + place
        state = rows.after.flatten(2).gather(2, index.transpose(1, 2)).transpose(1, 2)
        missing = missing - (counted & (missing > 0)).long()
        early = (state == rows.lengths[:, None]) & ~rows.has_turn(missing)  # within another phrase, or in a prefix
        return missing, state.masked_fill(early, 0)

    def _banks(self, beams: Tensor, tokens: Tensor) -> Tensor:
        """(B, N) the banks after `tokens` (B, N), ascending with what is done: the phrases that stand or are begun (of
        those that are begun, the longest), then the ids of these.

        Phrases alone are too few: where the seldom first id of one has just been taken, others have more behind them.
        """
        rows = self._rows
        missing, state = self._advanced(beams, tokens)
        stands = state == rows.lengths[:, None]
        lacking = missing - (stands & (missing > 0)).long()
        begun = state.masked_fill(stands | (lacking == 0) | ~rows.has_turn(lacking), 0).amax(-1)
        n_phrases = self._most - lacking.sum(-1) + (begun > 0)
        n_ids = rows.n_ids[:, None] - (lacking * rows.lengths[:, None]).sum(-1) + begun.clamp(max=TOLD_APART)
        return n_phrases * self._n_levels + n_ids


def _start(phrases: Sequence[Phrases], limits: Tensor, n_ordered: Sequence[int]) -> _Rows:
    """Of hypotheses that are empty still, one of each sentence; on the CPU."""
    asked = [
        [(place < n, tuple(phrase)) for place, phrase in enumerate(each) if phrase]
        for each, n in zip(phrases, n_ordered, strict=True)
    ]
    counts = [Counter(each) for each in asked]
    n_places = max(1, max(map(len, counts), default=0))
    shape = (len(counts), n_places)
    longest = max((len(phrase) for count in counts for _, phrase in count), default=1)
    ids = torch.full((*shape, longest), PAD)
    lengths, missing = torch.ones(shape, dtype=torch.int64), torch.zeros(shape, dtype=torch.int64)
    after = torch.zeros(*shape, longest + 1, longest + 1, dtype=torch.int64)
    turns = torch.full((len(counts), 1 + max(n_ordered, default=0)), n_places)
    is_ordered = torch.zeros(shape, dtype=torch.bool)
    for row, count in enumerate(counts):
        for place, ((ordered, phrase), n) in enumerate(count.items()):
            ids[row, place, : len(phrase)] = torch.tensor(phrase)
            lengths[row, place], missing[row, place], is_ordered[row, place] = len(phrase), n, ordered
            after[row, place, : len(phrase) + 1, : len(phrase)] = torch.tensor(_automaton(phrase))
        places = list(count)
        for turn, each in enumerate(each for each in asked[row] if each[0]):
            turns[row, turn] = places.index(each)
    n_ids = (missing * lengths).sum(-1)
    state = torch.zeros_like(missing)[:, None]
    return _Rows(ids, lengths, after, limits, n_ids, turns, is_ordered, missing[:, None], state)


def _automaton(phrase: Sequence[int]) -> list[list[int]]:
    """For each state (how many ids of the phrase a text ends in: 0 … all) and each id of the phrase: the state after
    it. After any other id it is 0."""
    falls = [0, 0]  # of each state the longest shorter one that the text ends in, too
    rows: list[list[int]] = []
    for state in range(len(phrase) + 1):
        fall = rows[falls[state]] if state else [0] * len(phrase)
        goes_on = phrase[state] if state < len(phrase) else None
        rows.append([state + 1 if token == goes_on else fall[i] for i, token in enumerate(phrase)])
        if 0 < state < len(phrase):
            falls.append(fall[state])
    return rows


def _ranks(bank: Tensor) -> Tensor:
    """Of each of bank (B, N) how many before it are in the same bank."""
    ordered, order = bank.sort(dim=1, stable=True)
    place = torch.arange(bank.size(1), device=bank.device).expand_as(bank)
    is_first = ordered != ordered.roll(1, 1)
    is_first[:, :1] = True
    first = place.masked_fill(~is_first, 0).cummax(1).values
    return torch.empty_like(place).scatter_(1, order, place - first)
