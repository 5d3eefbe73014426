"""Lexically constrained beam search: phrases that every translation must contain.

A phrase occurs where its ids occur contiguously and the token after them does not continue their last word. A phrase
required n times must occur n times without overlapping itself; different phrases may share ids. The number of ids of a
phrase in which a hypothesis ends is the state of an automaton (Knuth, Morris & Pratt, 1977), so occurrences that the
model generates by itself count. Some phrases may be ordered, such as opening and closing tags: each counts only after
the previous one, and none is completed before its turn or too often, unless another phrase or a prefix contains it.

The beam is allocated in turn to banks of hypotheses with equal progress (Hokamp & Liu, 2017, arXiv:1704.07138; Post &
Vilar, 2018, arXiv:1804.06609; vectorized over sentences as by Hu et al., 2019, N19-1090). Without banks, hypotheses
that postpone a phrase would crowd out hypotheses that have generated it.

Legend: B sentences, M hypotheses of each, N candidate continuations, K beam, V vocabulary, W continuations; maximum
numbers: P distinct phrases of a sentence, L ids of a phrase, T ordered phrases of a sentence, D states along failure
links.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from nmt.data.on_device import sent
from nmt.search.rules import MINUS_INF, keep_rows, largest
from nmt.search.settings import SearchConfig
from nmt.text.ids import EOS, PAD

Phrases = Sequence[Sequence[int]]
"""The phrases of a sentence as ids. A phrase required twice occurs twice; an empty phrase has no effect."""

PENALTY_SHARE = 0.4
"""Factor on the exponent of the length penalty. On Multi30k, it makes translations with terms of the references as long
as the references."""
MAX_BANK_IDS = 8
"""Maximum number of generated ids of a phrase that makes a separate bank: the rest of a long phrase is nearly certain.
"""


def total_length(phrases: Phrases) -> int:
    """Return the maximum number of ids that the phrases of a sentence add to its translation."""
    return sum(map(len, phrases))


def beam_for(phrases: Phrases, beam: int) -> int:
    """Return the beam size with which search with these phrases is as thorough as search with `beam` without phrases.

    It has about one more hypothesis for each bank, and is a multiple of `beam` so that sentences can share batches.
    """
    n_banks = sum(min(len(phrase), MAX_BANK_IDS + 1) for phrase in phrases)
    return beam * (1 + -(-n_banks // beam))


def with_phrases(config: SearchConfig, beam: int) -> SearchConfig:
    """Return the settings for a search with phrases and this beam size (see `beam_for`).

    As many finished hypotheses end a search as before. Length is rewarded less: the cost of unlikely phrases does not
    grow with length, so dividing it by a length penalty would reward padding.
    """
    changes = {
        "beam": beam,
        "patience": config.patience * config.beam / beam,
        "length_penalty": PENALTY_SHARE * config.length_penalty,
    }
    return config.model_copy(update=changes)


@dataclass(frozen=True)
class _PhraseRows:
    """The phrases of each sentence and the progress of each hypothesis in them; see `keep_rows`."""

    ids: Tensor  # (B, P, L + 2) the next id in each state, padded with PAD
    lengths: Tensor  # (B, P) 1 where there is no phrase
    links: Tensor  # (B, P, L + 2) failure links; see `_links`. They all end in state L + 1
    limits: Tensor  # (B,)
    n_ids: Tensor  # (B,) ids of all phrases, repeats counted
    turns: Tensor  # (B, T + 1) the ordered phrases, repeats included, as indices 0 ... P - 1, then P
    is_ordered: Tensor  # (B, P)
    # of each hypothesis
    missing: Tensor  # (B, M, P) missing occurrences; one that `state` completes counts from the next id on
    state: Tensor  # (B, M, P) how many ids of a phrase the hypothesis ends in

    @classmethod
    def start(cls, phrases: Sequence[Phrases], limits: Tensor, n_ordered: Sequence[int]) -> _PhraseRows:
        """Return the initial state on the CPU, with one empty hypothesis for each sentence."""
        required = [
            [(i < n, tuple(phrase)) for i, phrase in enumerate(of_sentence) if phrase]
            for of_sentence, n in zip(phrases, n_ordered, strict=True)
        ]
        counts = [Counter(of_sentence) for of_sentence in required]
        n_phrases = max(1, max(map(len, counts), default=0))
        shape = (len(counts), n_phrases)
        longest = max((len(phrase) for count in counts for _, phrase in count), default=1)
        ids = torch.full((*shape, longest + 2), PAD)
        lengths = torch.ones(shape, dtype=torch.int64)
        missing = torch.zeros(shape, dtype=torch.int64)
        links = torch.full_like(ids, longest + 1)
        turns = torch.full((len(counts), 1 + max(n_ordered, default=0)), n_phrases)
        is_ordered = torch.zeros(shape, dtype=torch.bool)
        for row, count in enumerate(counts):
            for i, ((ordered, phrase), n) in enumerate(count.items()):
                ids[row, i, : len(phrase)] = torch.tensor(phrase)
                lengths[row, i], missing[row, i], is_ordered[row, i] = len(phrase), n, ordered
                links[row, i, : len(phrase) + 1] = torch.tensor(_links(phrase, longest + 1))
            distinct = list(count)
            for turn, phrase_of_turn in enumerate(entry for entry in required[row] if entry[0]):
                turns[row, turn] = distinct.index(phrase_of_turn)
        n_ids = (missing * lengths).sum(-1)
        state = torch.zeros_like(missing)[:, None]
        return cls(ids, lengths, links, limits, n_ids, turns, is_ordered, missing[:, None], state)

    def to(self, device: torch.device) -> _PhraseRows:
        """Return a copy on `device`."""
        return _PhraseRows(*(sent(getattr(self, field.name), device) for field in fields(self)))

    def of_states(self, table: Tensor, state: Tensor) -> Tensor:
        """Return the entries (B, M, P) of `ids` or `links` for states (B, M, P)."""
        return table.gather(2, state.transpose(1, 2)).transpose(1, 2)

    def chains(self, state: Tensor, depth: int) -> tuple[Tensor, Tensor]:
        """Return the ids (B, M, P, D) that extend the match of states (B, M, P), or a shorter match, padded with PAD,
        and the states to which they lead. Any other id leads to state 0."""
        states = [state]
        for _ in range(depth - 1):
            states.append(self.of_states(self.links, states[-1]))
        ids = torch.stack([self.of_states(self.ids, linked) for linked in states], -1)
        return ids, torch.stack(states, -1) + 1

    def advanced(self, state: Tensor, tokens: Tensor, depth: int) -> Tensor:
        """Return the states (B, N, P) that follow states (B, N, P) after tokens (B, N)."""
        for _ in range(depth):
            state = torch.where(self._is_next(state, tokens), state, self.of_states(self.links, state))
        return (state + 1).masked_fill(~self._is_next(state, tokens), 0)

    def _is_next(self, state: Tensor, tokens: Tensor) -> Tensor:
        return (self.of_states(self.ids, state) == tokens[..., None]) & (tokens != PAD)[..., None]

    def has_turn(self, missing: Tensor) -> Tensor:
        """Return a mask (B, M, P), True at phrases whose next occurrence counts: unordered ones and the first missing
        ordered one.

        `missing` (B, M, P): the number of missing occurrences of each phrase.
        """
        if self.turns.size(1) == 1:
            return torch.ones_like(missing, dtype=torch.bool)
        n_left = (missing * self.is_ordered[:, None]).sum(-1)  # (B, M)
        n_ordered = (self.turns < self.is_ordered.size(1)).sum(-1, keepdim=True)  # (B, 1)
        turn = self.turns.gather(1, n_ordered - n_left)[..., None]
        indices = torch.arange(self.is_ordered.size(1), device=turn.device)
        return ~self.is_ordered[:, None] | (indices == turn)


class Constraints:
    """The phrases of a batch and the progress of each hypothesis in them."""

    def __init__(
        self,
        phrases: Sequence[Phrases],
        limits: Tensor,
        word_parts: Tensor | None = None,
        n_ordered: Sequence[int] | None = None,
        device: torch.device | None = None,
    ) -> None:
        """Create the constraints of a batch, with one empty hypothesis for each sentence.

        Args:
            phrases: the phrases of each sentence.
            limits: (B,) the maximum length of each translation, `</s>` counted; at least 1 + total_length(phrases) must
                remain after a prefix. Reading limits that are not on the CPU synchronizes with the device.
            word_parts: (V,) see the function; no phrase starts with such a token.
            n_ordered: for each sentence, the number of its first phrases that must occur in their order; by default 0.
                An ordered phrase also satisfies an equal one that is not ordered.
            device: the device of the model, by default the device of `limits`.
        """
        rows = _PhraseRows.start(phrases, limits.cpu(), n_ordered or [0] * len(phrases))
        slack = rows.limits - rows.n_ids
        self._first_tight = int(slack.min()) if len(slack) else 0  # all phrases fit before this length
        self._rows = rows.to(device or limits.device)
        self._depth = _depth(rows.links)
        self._word_parts = word_parts
        self._max_phrases = max(map(len, phrases), default=0)
        self._n_levels = max(map(total_length, phrases), default=0) + 1

    def keep(self, rows: Tensor | slice) -> Constraints:
        """Return the constraints of sentences `rows`, (B',) or a slice."""
        constraints = copy(self)
        constraints._rows = keep_rows(self._rows, rows)
        return constraints

    def apply(self, logits: Tensor, length: int) -> None:
        """Mask in place, in logits (B, M, V), the tokens at position `length` (from 1) after which the phrases no
        longer fit, and `</s>` where a phrase is missing. PAD is masked already."""
        rows, (next_ids, lacking, state) = self._rows, self._open()
        n_missing = (lacking * rows.lengths[:, None]).sum(-1)  # (B, M) ids
        end = logits[..., EOS].masked_fill(n_missing > 0, MINUS_INF)
        if length >= self._first_tight:
            n_left = (rows.limits - length - 1)[:, None]  # tokens after this one, before `</s>`
            # a token that continues a word undoes the phrase before it
            undone = (rows.missing * rows.lengths[:, None]).sum(-1) - n_missing
            # (B, M, P, 2 D): an id that continues a word extends what a complete phrase ends in, too
            complete_ids, complete_begun = rows.chains(rows.state, self._depth)
            ids, begun = rows.chains(state, self._depth)
            ids = torch.cat((complete_ids, ids), -1)
            begun = torch.cat((complete_begun, begun), -1)
            continues = self._continues_word(ids)
            is_of_complete = torch.arange(ids.size(-1), device=ids.device) < self._depth
            begun = begun.masked_fill(continues != is_of_complete, 0)
            required = torch.where(continues, rows.missing[..., None], lacking[..., None]) > 0
            has_turn = (rows.has_turn(rows.missing)[..., None], rows.has_turn(lacking)[..., None])
            required &= torch.where(continues, *has_turn)
            n_needed = (n_missing[..., None, None] + continues * undone[..., None, None]) - begun
            ids = ids.masked_fill(~required | (n_needed > n_left[..., None, None]), PAD).flatten(2)
            allowed = logits.gather(-1, ids)
            if self._word_parts is not None:
                logits.masked_fill_((n_missing + undone > n_left)[..., None] & self._word_parts, MINUS_INF)
            logits.masked_fill_((n_missing > n_left)[..., None], MINUS_INF)
            logits.scatter_(-1, ids, allowed)
        logits[..., EOS] = end
        self._keep_order(logits, next_ids, lacking, state)

    def _keep_order(self, logits: Tensor, next_ids: Tensor, lacking: Tensor, state: Tensor) -> None:
        """Mask in place the next id of ordered phrases before their turn and after they have occurred.

        It stays if an open phrase needs the same id or if no other id is allowed. `next_ids`, `lacking` and `state`
        are the results of `_open`. The first of several ids is never masked: it may be only a space.
        """
        rows = self._rows
        if rows.turns.size(1) == 1:
            return
        is_early = ~rows.has_turn(lacking) & ((state > 0) | (rows.lengths[:, None] == 1))
        ids = rows.of_states(rows.ids, state).masked_fill(~is_early, PAD)  # (B, M, P); PAD is masked already
        ids = ids.masked_fill((ids[..., :, None] == next_ids[..., None, :]).any(-1), PAD)
        allowed = logits.gather(-1, ids)
        logits.scatter_(-1, ids, MINUS_INF)
        is_stuck = ~(logits > MINUS_INF).any(-1, keepdim=True)  # after a prefix, or near the limit
        logits.scatter_(-1, ids, allowed.masked_fill(~is_stuck, MINUS_INF))

    def continuations(
        self, logits: Tensor, log_z: Tensor, log_prob: Tensor, beam: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return log_prob, hypotheses and tokens, each (B, W), of the 2K best continuations, or of all if fewer.

        logits (B, M, V), log_z and log_prob (B, M). Candidates are the K + 1 best of each hypothesis and the next ids
        of its phrases. The best of each bank come first, then the second best of each, and so on. A sentence without
        phrases has one bank.
        """
        next_ids, _, _ = self._open()
        _, best = largest(logits, min(beam + 1, logits.size(-1)))
        ids = torch.cat((best.sort(-1).values, next_ids), -1)  # (B, M, K + 1 + P)
        is_new = torch.cat((torch.ones_like(best, dtype=torch.bool), next_ids != PAD), -1)
        same = (ids[..., :, None] == ids[..., None, :]) & is_new[..., None, :]
        is_new &= ~same.tril(-1).any(-1)
        totals = log_prob[..., None] + (logits.gather(-1, ids) - log_z[..., None]).clamp(max=0.0)
        totals = totals.masked_fill(~is_new, MINUS_INF).flatten(1)  # (B, N)
        totals, order = totals.sort(dim=1, descending=True, stable=True)
        beams = order // ids.size(2)
        tokens = ids.flatten(1).gather(1, order)
        bank = self._banks(beams, tokens)
        n_banks = (self._max_phrases + 1) * self._n_levels
        turn = _ranks(bank) * n_banks - bank
        turn = torch.where(totals == MINUS_INF, turn.size(1) * n_banks, turn)
        order = turn.sort(dim=1, stable=True).indices[:, : 2 * beam]
        return totals.gather(1, order), beams.gather(1, order), tokens.gather(1, order)

    def follow(self, beams: Tensor, tokens: Tensor) -> None:
        """Replace the hypotheses by hypotheses `beams` (B, K), extended by `tokens` (B, K)."""
        missing, state = self._advanced(beams, tokens)
        self._rows = replace(self._rows, missing=missing, state=state)

    def _continues_word(self, ids: Tensor) -> Tensor:
        """Return a mask of the shape of `ids`, True where an id continues the word before it."""
        return torch.zeros_like(ids, dtype=torch.bool) if self._word_parts is None else self._word_parts[ids]

    def _open(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return three tensors (B, M, P) on the phrases of each hypothesis.

        next_ids: the next id of the phrase; PAD if it is complete or may not count next
        lacking: the number of missing copies, if the next token does not continue the last word of a complete one
        state: the number of generated ids of the phrase
        """
        rows = self._rows
        is_complete = rows.state == rows.lengths[:, None]
        lacking = rows.missing - (is_complete & (rows.missing > 0)).long()
        state = rows.state.masked_fill(is_complete, 0)
        is_open = (lacking > 0) & rows.has_turn(lacking)
        return rows.of_states(rows.ids, state).masked_fill(~is_open, PAD), lacking, state

    def _advanced(self, beams: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return `missing` and `state`, (B, N, P), of hypotheses `beams` (B, N) extended by `tokens` (B, N)."""
        rows = self._rows
        at = beams[..., None].expand(-1, -1, rows.state.size(2))
        missing = rows.missing.gather(1, at)
        state = rows.state.gather(1, at)
        counted = (state == rows.lengths[:, None]) & ~self._continues_word(tokens)[..., None]
        state = state.masked_fill(counted, 0)
        state = rows.advanced(state, tokens, self._depth)
        missing = missing - (counted & (missing > 0)).long()
        early = (state == rows.lengths[:, None]) & ~rows.has_turn(missing)  # inside another phrase or a prefix
        return missing, state.masked_fill(early, 0)

    def _banks(self, beams: Tensor, tokens: Tensor) -> Tensor:
        """Return the banks (B, N) of hypotheses `beams` (B, N) extended by `tokens` (B, N), ascending with progress.

        Progress is the number of phrases that are complete or begun (of the phrases begun, only the longest counts),
        then the number of their ids. Counting only phrases would be too coarse: a hypothesis that has just taken a rare
        first id would compete with hypotheses that are further into a phrase.
        """
        rows = self._rows
        missing, state = self._advanced(beams, tokens)
        is_complete = state == rows.lengths[:, None]
        lacking = missing - (is_complete & (missing > 0)).long()
        begun = state.masked_fill(is_complete | (lacking == 0) | ~rows.has_turn(lacking), 0).amax(-1)
        n_phrases = self._max_phrases - lacking.sum(-1) + (begun > 0)
        n_ids = rows.n_ids[:, None] - (lacking * rows.lengths[:, None]).sum(-1) + begun.clamp(max=MAX_BANK_IDS)
        return n_phrases * self._n_levels + n_ids


def _links(phrase: Sequence[int], end: int) -> list[int]:
    """Return the failure link of each state: the longest shorter match that expects another id, or `end`.

    A state is the number of ids of the phrase in which a text ends, 0 … all (Knuth, Morris & Pratt, 1977, section 2). A
    chain of links has O(log(len(phrase))) states.
    """
    links, border = [end], 0  # the links, and the longest shorter match of the state, whatever it expects
    for state in range(1, len(phrase) + 1):
        expected = phrase[state] if state < len(phrase) else None
        links.append(border if phrase[border] != expected else links[border])
        while border != end and phrase[border] != expected:
            border = links[border]
        border = 0 if border == end else border + 1
    return links


def _depth(links: Tensor) -> int:
    """Return the number of states in the longest chain of links."""
    end = links.size(2) - 1
    states = links
    depth = 1
    while bool((states != end).any()):
        states = links.gather(2, states)
        depth += 1
    return depth


def _ranks(bank: Tensor) -> Tensor:
    """Return (B, N) for each entry of `bank` (B, N) the number of earlier entries in the same bank."""
    ordered, order = bank.sort(dim=1, stable=True)
    index = torch.arange(bank.size(1), device=bank.device).expand_as(bank)
    is_first = ordered != ordered.roll(1, 1)
    is_first[:, :1] = True
    first = index.masked_fill(~is_first, 0).cummax(1).values
    return torch.empty_like(index).scatter_(1, order, index - first)
