"""Scores of given translations or lines: log-probabilities in total and for each piece."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, repeat
from pathlib import Path
from typing import TypeAlias

from nmt.console import LineNumbers, Progress, amount
from nmt.files.write import open_output
from nmt.search.forced import ForcedDecoder
from nmt.search.settings import SearchConfig
from nmt.search.step import length_penalty
from nmt.text.ids import SEPARATOR
from nmt.text.tokenizer import Tokenizer, is_blank
from nmt.translate.types import WINDOW

EOS_PIECE = "</s>"

Context: TypeAlias = Sequence[tuple[str, str]]
"""Pairs of lines before a pair in its document."""


@dataclass(frozen=True)
class Scored:
    """The score of one pair of lines."""

    pieces: tuple[str, ...]
    """The pieces of the target, including `</s>`; empty if a side is blank."""
    log_probs: tuple[float, ...]
    """Log-probability of each piece, given the source and the pieces before it (nats)."""
    score: float
    """The ranking criterion of search: `log_prob` divided by the length penalty. NaN if a side is blank."""
    n_words: int
    """Number of words of the target that were read, plus one if the end of sentence was scored."""
    cut: bool = False
    """True if a side has more pieces than the model supports: only its start was read. The end of sentence of a
    truncated target is not scored."""
    text: str = ""
    """The target line."""

    @property
    def log_prob(self) -> float:
        """Sum of `log_probs` (nats). NaN if a side is blank."""
        return math.fsum(self.log_probs) if self.pieces else math.nan


BLANK_SCORE = Scored((), (), math.nan, 0)
"""The result for a pair with a blank side, which is not scored."""


@dataclass(frozen=True)
class PairScorer:
    """A scorer of pairs of lines, which computes log-probabilities by forced decoding."""

    decoder: ForcedDecoder
    src: Tokenizer | None
    """The source tokenizer; None for a language model, which reads no sources."""
    tgt: Tokenizer
    search: SearchConfig
    """Search settings, for the length penalty."""
    max_length: int
    """Maximum number of pieces of a line; longer lines are truncated."""

    def score(
        self,
        pairs: Iterable[tuple[str, str]],
        window: int = WINDOW,
        progress: Progress | None = None,
        contexts: Iterable[Context] = (),
    ) -> Iterator[Scored]:
        """Yield the score of each pair of a source and a target line, in order.

        `window` is the number of pairs that are read ahead and sorted by length. `progress` counts scored pairs.
        `contexts`: for each of the first pairs, the pairs before it in its document, with which it is scored.
        """
        stream = iter(pairs)
        before = chain(contexts, repeat(()))
        while chunk := list(islice(stream, window)):
            given = [self._given(context) for context in islice(before, len(chunk))]
            rows = []
            for row, (src, tgt) in enumerate(chunk):
                if not (is_blank(tgt) or (self.src is not None and is_blank(src))):
                    rows.append(row)
            src_ids: list[list[int]] = [[] for _ in rows]
            if self.src is not None:
                tags = self.src.tag_ids(self.search.tags)
                encoded = self.src.encode_all([chunk[row][0] for row in rows], self.search.to)
                src_ids = [[*tags, *given[row][0], *ids] for row, ids in zip(rows, encoded, strict=True)]
            encoded = self.tgt.encode_all([chunk[row][1] for row in rows])
            tgt_ids = [[*given[row][1], *ids] for row, ids in zip(rows, encoded, strict=True)]
            ids = [(s[: self.max_length], t[: self.max_length]) for s, t in zip(src_ids, tgt_ids, strict=True)]
            if progress is not None:
                progress.add(len(chunk) - len(rows))
            scored = [BLANK_SCORE] * len(chunk)
            log_probs = self.decoder.log_probs(ids, progress)
            for row, s, t, values in zip(rows, src_ids, tgt_ids, log_probs, strict=True):
                scored[row] = self._scored(s, t, values, len(given[row][1]))
            yield from (replace(pair, text=chunk[row][1]) for row, pair in enumerate(scored))

    def _given(self, context: Context) -> tuple[list[int], list[int]]:
        """Return the ids of both sides of a context, with a separator after each line."""
        tokenizers = (self.src or self.tgt, self.tgt)
        src, tgt = (
            [i for pair in context for i in (*tokenizer.encode(pair[side]), SEPARATOR)]
            for side, tokenizer in enumerate(tokenizers)
        )
        return src, tgt

    def _scored(
        self, src_ids: Sequence[int], tgt_ids: Sequence[int], values: Sequence[float], n_context: int
    ) -> Scored:
        """Return the score of a pair, given the log-probabilities of its target pieces and of `</s>`; the first
        `n_context` pieces do not count."""
        src_cut = len(src_ids) > self.max_length
        tgt_cut = len(tgt_ids) > self.max_length
        ids = tgt_ids[n_context : self.max_length]
        values = values[n_context:]
        end = () if tgt_cut else (EOS_PIECE,)
        pieces = (*self.tgt.pieces(ids), *end)
        n_given = len(self.tgt.opening)
        log_probs = (*[0.0] * n_given, *values[n_given : len(pieces)])
        score = math.fsum(log_probs) / length_penalty(len(pieces), self.search)
        return Scored(pieces, log_probs, score, len(self.tgt.decode(ids).split()) + len(end), src_cut or tgt_cut)


# --- files ----------------------------------------------------------------------------------------


def write_scores(scored: Iterable[Scored], target: Path | str, tokens: bool, noun: str) -> Totals:
    """Write a line for each pair into a file, or to standard output (`-`), and return the totals.

    A line has the tab-separated columns of `scored_line`; score and log-probability are `nan` for a pair with a blank
    side. With `tokens` it is a JSON object with pieces and their log-probabilities, null instead of NaN, and whether a
    side was truncated.
    A file is written as F.part and renamed at the end. Raises DataError if it cannot be written.
    """
    totals = Totals(noun)
    with open_output(target) as out:
        for number, pair in enumerate(scored, start=1):
            totals.add(number, pair)
            line = _json(pair) if tokens else scored_line(number, pair.score, pair.log_prob, pair.text)
            out.write(f"{line}\n".encode())
    return totals


def scored_line(number: int, score: float, log_prob: float, *columns: str) -> str:
    """Return a line with tab-separated line number (from 1), score, log-probability and other columns, text last."""
    return "\t".join([str(number), f"{score:.6f}", f"{log_prob:.6f}", *columns])


def _json(scored: Scored) -> str:
    has_score = bool(scored.pieces)
    return json.dumps(
        {
            "score": round(scored.score, 6) if has_score else None,
            "log_prob": round(scored.log_prob, 6) if has_score else None,
            "pieces": scored.pieces,
            "log_probs": [round(value, 6) for value in scored.log_probs],
            "cut": scored.cut,
        },
        ensure_ascii=False,
    )


def cut_message(cut: LineNumbers, noun: str = "pair") -> str:
    """Return the message about pairs or lines that are too long and were truncated."""
    on_a_side = " on a side" if noun == "pair" else ""
    return (
        f"{amount(cut.n, noun)} with more pieces{on_a_side} than the model supports (model.max_positions, or a "
        f"multiple of data.max_pieces); only their start was scored: {cut.first}"
    )


class Totals:
    """Totals and warnings of the scored pairs or lines of a text."""

    def __init__(self, noun: str) -> None:
        self._noun = noun
        self.n_pairs = self.n_pieces = self.n_words = 0
        self.log_prob = 0.0
        self.blank = LineNumbers()
        self.cut = LineNumbers()

    def add(self, number: int, scored: Scored) -> None:
        """Add a scored pair; `number` is its line number."""
        if not scored.pieces:
            self.blank.add(number)
            return
        self.n_pairs += 1
        self.n_pieces += len(scored.pieces)
        self.n_words += scored.n_words
        self.log_prob += scored.log_prob
        if scored.cut:
            self.cut.add(number)

    def perplexity(self, n: int) -> float:
        """Return the perplexity per piece or word, given the number `n` of pieces or words."""
        return math.exp(min(-self.log_prob / max(n, 1), 700.0))

    def lines(self) -> Iterator[str]:
        """Yield messages about blank and truncated pairs, and the totals, in which ends of sentence count as words."""
        if self.blank.n:
            what = "with a blank side" if self._noun == "pair" else "blank"
            yield f"{amount(self.blank.n, self._noun)} {what}, not scored: {self.blank.first}"
        if self.cut.n:
            yield cut_message(self.cut, self._noun)
        if not self.n_pairs:
            yield f"no {self._noun} was scored"
            return
        yield (
            f"log-probability {self.log_prob:,.2f}, perplexity {self.perplexity(self.n_pieces):.4g} per piece, "
            f"{self.perplexity(self.n_words):.4g} per word ({self.n_pairs:,} {self._noun}s, {self.n_pieces:,} pieces, "
            f"{self.n_words:,} words, ends of sentence counted)"
        )
