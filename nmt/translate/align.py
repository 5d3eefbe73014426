"""Word alignments of translations from the attention of the model.

Words are separated by white space, which includes control characters, as for the tokenizer.

Legend: S source and T target pieces, `</s>` counted; I words of a source, J words of its translation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nmt.search.forced import ForcedDecoder
from nmt.search.rules import ShouldStop
from nmt.search.step import Pair
from nmt.text.inline import marked, without_translations
from nmt.text.tokenizer import CONTROL, N_SPECIAL, Tokenizer
from nmt.translate.types import Translation

Floats = npt.NDArray[np.float32]

# The space before a word is the start of its first piece, or a piece of its own.
_WORD = re.compile(r" ?\S+")


@dataclass(frozen=True)
class Attention:
    """Cross-attention in one pair: `weights` (T, S), whose rows sum to 1."""

    src_pieces: list[str]
    tgt_pieces: list[str]
    weights: Floats


def attention_of(decoder: ForcedDecoder, src: Tokenizer, tgt: Tokenizer, pair: Pair) -> Attention:
    """Compute the attention of the models of `decoder` in one pair."""
    [weights] = decoder.attention([pair])
    return Attention([*src.pieces(pair[0]), "</s>"], [*tgt.pieces(pair[1]), "</s>"], weights.numpy())


def alignments(
    decoder: ForcedDecoder,
    src: Tokenizer,
    tgt: Tokenizer,
    lines: Sequence[str],
    translations: Sequence[Translation],
    should_stop: ShouldStop | None = None,
) -> list[list[tuple[int, int]]]:
    """Return for each line and its translation pairs of aligned words (source, target), from 0, in target order.

    Each target word is aligned to the source word with the largest share of its pieces' attention, or to none if `</s>`
    and white space outside words have more. Each part of a line that was split has its own attention. `should_stop` is
    that of `ForcedDecoder.attention`.
    """
    by_line = [[(part.src_ids, part.tgt_ids) for part in translation.parts] for translation in translations]
    weights = iter(decoder.attention([pair for pairs in by_line for pair in pairs], should_stop))
    aligned = []
    for line, translation, pairs in zip(lines, translations, by_line, strict=True):
        parts = [_Part(next(weights).numpy(), src_word_shares(src, s), word_shares(tgt, t)) for s, t in pairs]
        first_i = _first_words(line, [src.decode(without_translations(ids)) for ids, _ in pairs])
        first_j = _first_words(translation.text, [tgt.decode(ids) for _, ids in pairs])
        aligned.append(_aligned(parts, first_i, first_j))
    return aligned


def pharaoh(aligned: Iterable[tuple[int, int]]) -> str:
    """Format one line as Pharaoh does: `0-0 2-1` (source word, target word)."""
    return " ".join(f"{i}-{j}" for i, j in aligned)


class _Part(NamedTuple):
    weights: Floats  # (T, S)
    src_shares: Floats  # (I, S - 1)
    tgt_shares: Floats  # (J, T - 1)


def _first_words(line: str, parts: Sequence[str]) -> list[int]:
    """Return the index in `line` of the first word of each of its parts; a word cut by a boundary is in both."""
    line = CONTROL.sub(" ", line)
    firsts = []
    end = n_words = 0  # words that begin before `end`
    for part in parts:
        start = line.find(part, end)
        start = end if start < 0 else start  # a line may be cut inside a character
        n_words += _n_words(line, end, start)
        firsts.append(n_words - int(_is_within_word(line, start)))
        end = start + len(part)
        n_words += _n_words(line, start, end)
    return firsts


def _n_words(line: str, start: int, end: int) -> int:
    """Count the words of a line that begin between `start` and `end`."""
    return len(line[start:end].split()) - int(end > start and _is_within_word(line, start))


def _is_within_word(line: str, index: int) -> bool:
    around = line[max(index - 1, 0) : index + 1]
    return len(around) == 2 and not any(map(str.isspace, around))


def _aligned(parts: Sequence[_Part], first_i: Sequence[int], first_j: Sequence[int]) -> list[tuple[int, int]]:
    """Return the aligned words of a line; `first_i` and `first_j` are the indices of the first words of its parts."""
    # by target word, which is in several parts if a boundary cuts it; a matrix of all words would take gigabytes for a
    # long paragraph of a document
    by_target: dict[int, list[tuple[int, Floats, float]]] = {}
    for (weights, src_shares, tgt_shares), i, j in zip(parts, first_i, first_j, strict=True):
        by_piece = tgt_shares @ weights[:-1]  # (J, S)
        by_word = by_piece[:, :-1] @ src_shares.T  # (J, I)
        elsewhere = by_piece.sum(1) - by_word.sum(1)
        for row, (to_words, other) in enumerate(zip(by_word, elsewhere.tolist(), strict=True)):
            by_target.setdefault(j + row, []).append((i, to_words, other))
    aligned = []
    for j, found in sorted(by_target.items()):
        start = min(i for i, _, _ in found)
        total = np.zeros(max(i + len(to_words) for i, to_words, _ in found) - start, np.float32)
        for i, to_words, _ in found:
            total[i - start : i - start + len(to_words)] += to_words
        if len(total) and total.max() > sum(other for _, _, other in found):
            aligned.append((start + int(total.argmax()), j))
    return aligned


def word_shares(tokenizer: Tokenizer, ids: Sequence[int]) -> Floats:
    """Return the share of each piece that belongs to each word: (words, pieces).

    A piece of several words is divided equally. A piece of white space belongs to no word, unless it is the space
    directly before one.
    """
    spelled = [_spelling(i, piece) for i, piece in zip(ids, tokenizer.pieces(ids), strict=True)]
    piece_of_byte = np.repeat(np.arange(len(ids)), [len(piece) for piece in spelled])
    text = b"".join(spelled).decode(errors="surrogateescape")  # an invalid byte counts as a character
    n_bytes = [len(character.encode(errors="surrogateescape")) for character in text]
    byte_of_character = np.cumsum([0, *n_bytes])
    words = list(_WORD.finditer(CONTROL.sub(" ", text)))
    shares = np.zeros((len(words), len(ids)), dtype=np.float32)
    for row, word in zip(shares, words, strict=True):
        start, end = byte_of_character[[word.start(), word.end()]]
        row[piece_of_byte[start:end]] = 1.0
    normalised: Floats = shares / np.maximum(shares.sum(0), 1.0)
    return normalised


def src_word_shares(tokenizer: Tokenizer, ids: Sequence[int]) -> Floats:
    """Like `word_shares`, for a source: the translation of a term inline belongs to the words of the term."""
    terms = marked(ids)
    is_given = np.zeros(len(ids), np.bool_)
    for _, translation in terms:
        is_given[translation] = True
    of_words = word_shares(tokenizer, without_translations(ids))
    shares = np.zeros((len(of_words), len(ids)), dtype=np.float32)
    shares[:, ~is_given] = of_words
    for term, translation in terms:
        by_word = shares[:, term].sum(1, keepdims=True)
        shares[:, translation] = by_word / np.maximum(by_word.sum(), 1.0)
    return shares


def _spelling(i: int, piece: str) -> bytes:
    """Return the bytes of a piece; empty for special tokens."""
    if i < N_SPECIAL:
        return b""
    return bytes([i - N_SPECIAL]) if i < N_SPECIAL + 256 else piece.replace("\u2581", " ").encode()
