"""Tables of probabilities as models: what search over them must find can be worked out by other means."""

from __future__ import annotations

import functools
import itertools
import zlib
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from nmt.search.rules import Rules
from nmt.search.settings import SearchConfig
from nmt.search.step import Hypothesis, Scores, length_penalty
from nmt.text.ids import BOS, EOS, PAD, UNK

BANNED = torch.tensor([PAD, UNK, BOS])
A, B = 4, 5  # the two ordinary ids of the smallest tables

Prefix = tuple[int, ...]
Table = Callable[[int, Prefix], Tensor]  # sentence, ids so far -> logits (V,)


class TableModel:
    """A `StepModel` whose logits are read from a table by sentence and previously chosen ids."""

    def __init__(self, table: Table, sentences: Sequence[int]) -> None:
        self.table = table
        self.sentences = list(sentences)
        self.prefixes: list[list[Prefix]] = [[()] for _ in sentences]
        self.rows_seen: list[int] = []

    def step(self, tokens: Tensor) -> Iterator[Scores]:
        self.rows_seen.append(len(tokens))
        if self.prefixes and self.prefixes[0] == [()]:  # the first step says how many hypotheses there are
            self.prefixes = [[()] * tokens.size(1) for _ in self.sentences]
        assert tokens.shape == (len(self.sentences), len(self.prefixes[0]))
        for prefixes, row in zip(self.prefixes, tokens.tolist(), strict=True):
            prefixes[:] = [(*prefix, token) for prefix, token in zip(prefixes, row, strict=True)]
        logits = torch.stack(
            [
                torch.stack([self.table(sentence, prefix[1:]) for prefix in prefixes])
                for sentence, prefixes in zip(self.sentences, self.prefixes, strict=True)
            ]
        )
        for part in logits.split(max(2, len(logits) // 2)):  # parts need not be of all sentences
            yield part, part.logsumexp(-1)

    def attention(self) -> Tensor:
        """By sentence and previously chosen ids, like the logits; sentence n has n % 3 + 1 source positions."""
        weights = torch.zeros(len(self.sentences), len(self.prefixes[0]), 3)
        for i, (sentence, prefixes) in enumerate(zip(self.sentences, self.prefixes, strict=True)):
            for j, prefix in enumerate(prefixes):
                seen = attention(sentence, prefix[1:])
                weights[i, j, : len(seen)] = seen
        return weights

    def select(self, sentences: Tensor, beams: Tensor) -> None:
        rows = sentences.tolist()
        has_started = self.prefixes[:1] != [[()]]
        assert rows == sorted(set(rows) if has_started else rows), "ascending, after the first step each once"
        chosen = zip(rows, beams.tolist(), strict=True)
        self.prefixes = [[self.prefixes[row][beam] for beam in row_beams] for row, row_beams in chosen]
        self.sentences = [self.sentences[row] for row in rows]


def random_table(seed: int, vocab: int = 6, sharpness: float = 2.0) -> Table:
    """Return independent random logits for every prefix of every sentence."""

    @functools.cache
    def logits(sentence: int, prefix: Prefix) -> Tensor:
        key = zlib.crc32(repr((seed, sentence, prefix)).encode())
        return torch.randn(vocab, generator=torch.Generator().manual_seed(key)) * sharpness

    return lambda sentence, prefix: logits(sentence, prefix).clone()


@functools.lru_cache(maxsize=10_000)
def attention(sentence: int, prefix: Prefix) -> Tensor:
    """Return made-up attention weights (S,) of the next piece to the source positions of a sentence."""
    key = zlib.crc32(repr(("attention", sentence, prefix)).encode())
    return (2 * torch.randn(sentence % 3 + 1, generator=torch.Generator().manual_seed(key))).softmax(-1)


def forced_log_prob(table: Table, sentence: int, ids: Prefix) -> float:
    """Return the log-probability of ids and `</s>` according to the table."""
    total = 0.0
    for i, token in enumerate((*ids, EOS)):
        total += float(table(sentence, ids[:i]).double().log_softmax(-1)[token])
    return total


def waiting(every: int) -> Callable[[Rules, Tensor, int], tuple[Tensor, Tensor] | None]:
    """`Rules.leaving` with a look every so many steps only, as on a GPU."""

    def leaving(rules: Rules, done: Tensor, length: int) -> tuple[Tensor, Tensor] | None:
        if length % every and length < rules.longest:
            return None
        return (~done).nonzero()[:, 0], done.nonzero()[:, 0]

    return leaving


def every_output(
    table: Table, sentence: int, symbols: Sequence[int], limit: int, config: SearchConfig
) -> list[Hypothesis]:
    """Return all outputs of up to `limit` pieces, `</s>` counted, best score first."""
    outputs = []
    for length in range(1, limit + 1):
        for ids in itertools.product(symbols, repeat=length - 1):
            log_prob = forced_log_prob(table, sentence, ids)
            received = sum(attention(sentence, ids[:i]) for i in range(length))
            coverage = config.coverage_penalty * float(torch.as_tensor(received).clamp(max=1).log().sum())
            score = log_prob / length_penalty(length, config) + coverage
            outputs.append(Hypothesis(ids, log_prob, score, length < limit))
    return sorted(outputs, key=lambda hypothesis: -hypothesis.score)
