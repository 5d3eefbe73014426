"""Scoring: how probable a model finds given translations of given texts, as a whole and piece by piece."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from nmt.config import SearchConfig
from nmt.console import Progress
from nmt.errors import DataError
from nmt.files.write import open_output
from nmt.search.forced import ForcedDecoder
from nmt.search.step import length_penalty
from nmt.text.lines import read_aligned
from nmt.text.tokenizer import Tokenizer, is_blank

WINDOW = 4096
"""Pairs that are sorted by length together."""

END = "</s>"


@dataclass(frozen=True)
class Scored:
    """What a model makes of one pair of lines."""

    pieces: tuple[str, ...]
    """Those of the target as `Tokenizer.pieces` gives them, and `</s>`; none if a side is blank."""
    log_probs: tuple[float, ...]
    """Of each piece, given the source and the pieces before it (nats)."""
    score: float
    """What search ranks by: log_prob divided by the length penalty. NaN if a side is blank."""
    n_words: int
    """Words of the target, as far as it was read, and one for the end of sentence if that was scored."""
    cut: bool = False
    """True if a side has more pieces than the model takes: only their start was read. Of a target that is cut the end
    of sentence is not scored."""

    @property
    def log_prob(self) -> float:
        """The sum over all pieces (nats). NaN if a side is blank."""
        return math.fsum(self.log_probs) if self.pieces else math.nan


BLANK = Scored((), (), math.nan, 0)
"""There is nothing to translate, or nothing that a model would ever say: it is not asked."""


def score_pairs(
    decoder: ForcedDecoder,
    src: Tokenizer,
    tgt: Tokenizer,
    search: SearchConfig,
    longest: int,
    pairs: Iterable[tuple[str, str]],
    window: int = WINDOW,
    progress: Progress | None = None,
) -> Iterator[Scored]:
    """Of each pair of a source and a target line, in order, what the models of `decoder` make of it.

    `search` has the length penalty. At most `longest` pieces of a line are read. `window` pairs are read ahead and
    sorted by length. `progress` is told of pairs as they are scored, which is in another order.
    """
    stream = iter(pairs)
    while chunk := list(islice(stream, window)):
        asked = [row for row, pair in enumerate(chunk) if not any(map(is_blank, pair))]
        src_ids, tgt_ids = src.encode_all([chunk[i][0] for i in asked]), tgt.encode_all([chunk[i][1] for i in asked])
        found = [BLANK] * len(chunk)
        ids = [(s[:longest], t[:longest]) for s, t in zip(src_ids, tgt_ids, strict=True)]
        if progress is not None:
            progress.add(len(chunk) - len(asked))
        by_piece = decoder.log_probs(ids, progress)
        for row, s, t, values in zip(asked, src_ids, tgt_ids, by_piece, strict=True):
            found[row] = _scored(tgt, t[:longest], values, search, len(s) > longest, len(t) > longest)
        yield from found


def _scored(
    tgt: Tokenizer, ids: Sequence[int], values: Sequence[float], search: SearchConfig, src_cut: bool, tgt_cut: bool
) -> Scored:
    end = () if tgt_cut else (END,)
    pieces = (*tgt.pieces(ids), *end)
    values = tuple(values[: len(pieces)])
    score = math.fsum(values) / length_penalty(len(pieces), search)
    return Scored(pieces, values, score, len(tgt.decode(ids).split()) + len(end), src_cut or tgt_cut)


# --- files ----------------------------------------------------------------------------------------


def read_pairs(source: Path, reference: Path) -> Iterator[tuple[str, str]]:
    """Line n of one file with line n of the other. Raises DataError if one is missing, is not UTF-8 text, or has more
    lines than the other, which is found at the end."""
    for path in (source, reference):
        if not path.exists():
            raise DataError(f"{path}: no such file")
    return read_aligned(source, reference)


def write_scores(scored: Iterable[Scored], target: Path | str, tokens: bool = False) -> Totals:
    """Write a line for each pair into a file, or to standard output (`-`), and add them up.

    Three tab-separated columns: score, log-probability, number of pieces (`nan`, `nan`, `0` for a pair with a blank
    side); with `tokens` a JSON object with pieces and their log-probabilities (null in place of NaN, which is no JSON),
    and whether a side was cut.
    A file is written as F.part and renamed at the end. Raises DataError if it cannot be written.
    """
    totals = Totals()
    render = _json if tokens else _row
    with open_output(target) as out:
        for number, each in enumerate(scored, start=1):
            totals.add(number, each)
            out.write(render(each).encode() + b"\n")
    return totals


def _row(scored: Scored) -> str:
    return f"{scored.score:.6f}\t{scored.log_prob:.6f}\t{len(scored.pieces)}"


def _json(scored: Scored) -> str:
    asked = bool(scored.pieces)
    return json.dumps(
        {
            "score": round(scored.score, 6) if asked else None,
            "log_prob": round(scored.log_prob, 6) if asked else None,
            "pieces": scored.pieces,
            "log_probs": [round(value, 6) for value in scored.log_probs],
            "cut": scored.cut,
        },
        ensure_ascii=False,
    )


@dataclass
class Numbers:
    """How many lines there are of a kind, and the numbers of the first ten: a text may be endless."""

    n: int = 0
    first: str = ""

    def add(self, number: int) -> None:
        """One more."""
        self.n += 1
        if self.n <= 11:
            self.first += f"{', ' if self.first else ''}{number if self.n <= 10 else '…'}"

    def count(self, noun: str) -> str:
        """`1 pair`, `12 pairs`."""
        return f"{self.n:,} {noun}{'s' if self.n > 1 else ''}"


class Totals:
    """What the pairs of a text have together, and what a user should know about them."""

    def __init__(self) -> None:
        self.n_pairs = self.n_pieces = self.n_words = 0
        self.log_prob = 0.0
        self.blank, self.cut = Numbers(), Numbers()

    def add(self, number: int, scored: Scored) -> None:
        """Take note of the pair of lines with this number."""
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
        """exp of the mean negative log-probability of `n` pieces or words."""
        return math.exp(min(-self.log_prob / max(n, 1), 700.0))

    def lines(self) -> Iterator[str]:
        """For the screen: what is left out or cut, then the totals; ends of sentence count as pieces and as words."""
        if self.blank.n:
            yield f"{self.blank.count('pair')} with a blank side, not scored: {self.blank.first}"
        if self.cut.n:
            yield (
                f"{self.cut.count('pair')} with more pieces on a side than the model takes (model.max_positions, or "
                f"a multiple of data.max_pieces), scored as far as that: {self.cut.first}"
            )
        if not self.n_pairs:
            yield "no pair was scored"
            return
        yield (
            f"log-probability {self.log_prob:,.2f}, perplexity {self.perplexity(self.n_pieces):.4g} per piece, "
            f"{self.perplexity(self.n_words):.4g} per word ({self.n_pairs:,} pairs, {self.n_pieces:,} pieces, "
            f"{self.n_words:,} words, ends of sentence counted)"
        )
