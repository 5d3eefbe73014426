"""Word alignments of translations, derived from the attention of the model.

Words are separated by white space, which includes control characters, as for the tokenizer.

Legend: S source and T target pieces, including `</s>`; I words of a source, J words of its translation.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from nmt.search.forced import ForcedDecoder
from nmt.search.rules import ShouldStop
from nmt.text.constraints import marked, without_translations
from nmt.text.ids import N_SPECIAL, SEPARATOR
from nmt.text.imported import ImportedTokenizer
from nmt.text.tokenizer import CONTROL, Tokenizer
from nmt.translate.types import Translation

Floats = npt.NDArray[np.float32]
WordSpan = tuple[int, int]

# The space before a word is the start of its first piece, or a piece of its own.
_WORD = re.compile(r" ?\S+")


def alignments(
    decoder: ForcedDecoder,
    src: Tokenizer,
    tgt: Tokenizer,
    lines: Sequence[str],
    translations: Sequence[Translation],
    should_stop: ShouldStop | None = None,
) -> list[list[tuple[int, int]]]:
    """Return the pairs of aligned words (source, target) of each line, numbered from 0, in target order.

    Each target word is aligned to the source word with the largest share of its pieces' attention, or to no word if
    `</s>` and white space outside words receive more. The parts of a line that was split are aligned separately; each
    word of a copied part is aligned to itself.
    `should_stop` is passed to `ForcedDecoder.attention`.
    """
    all_parts = chain.from_iterable(translation.parts for translation in translations)
    pairs = [(part.src_ids, part.tgt_ids) for part in all_parts if part.match != "copied"]
    weights = iter(decoder.attention(pairs, should_stop))
    aligned = []
    for line, translation in zip(lines, translations, strict=True):
        parts = translation.parts
        first_i = _first_words(line, [part.text for part in parts])
        tgt_parts = [part.text if part.match == "copied" else tgt.decode(part.tgt_ids) for part in parts]
        first_j = _first_words(translation.text, tgt_parts)
        source_words: dict[int, int] = {}  # a word cut by a boundary is aligned in the first part
        for part, i, j in zip(parts, first_i, first_j, strict=True):
            words = CONTROL.sub(" ", part.text).split()
            if part.match == "copied":
                source_words |= {j + n: i + n for n in range(len(words))}
                continue
            read = [number for number, word in enumerate(words) if src.as_read(word)]  # a tatweel alone is not
            by_piece = word_shares(tgt, part.tgt_ids) @ next(weights).numpy()[:-1]  # (J, S)
            by_word = by_piece[:, :-1] @ src_word_shares(src, part.src_ids, part.text).T  # (J, I)
            for row, (to_words, total) in enumerate(zip(by_word, by_piece.sum(1), strict=True)):
                if len(to_words) and to_words.max() > total - to_words.sum():
                    source_words.setdefault(j + row, i + read[to_words.argmax()])
        aligned.append([(i, j) for j, i in sorted(source_words.items())])
    return aligned


def word_spans(text: str) -> list[WordSpan]:
    """Return the start and end of each word in code points."""
    return [match.span() for match in re.finditer(r"\S+", CONTROL.sub(" ", text))]


def pharaoh(aligned: Iterable[tuple[int, int]]) -> str:
    """Format the aligned words of a line in Pharaoh format: `0-0 2-1` (source word, target word)."""
    return " ".join(f"{i}-{j}" for i, j in aligned)


def _first_words(line: str, parts: Sequence[str]) -> list[int]:
    """Return the index in `line` of the first word of each part; a word cut by a boundary belongs to both parts."""
    line = CONTROL.sub(" ", line)
    words = word_spans(line)
    firsts = []
    end = 0
    for part in parts:
        start = max(line.find(CONTROL.sub(" ", part), end), end)  # not found if the line is cut inside a character
        firsts.append(bisect_right(words, start, key=lambda word: word[1]))
        end = start + len(part)
    return firsts


def word_shares(tokenizer: Tokenizer, ids: Sequence[int]) -> Floats:
    """Return the share of each piece that belongs to each word, of shape (words, pieces).

    A piece that spans several words is divided equally among them. A piece of white space belongs to no
    word, unless it is the space directly before one.
    """
    spelled = [_spelling(tokenizer, i, piece) for i, piece in zip(ids, tokenizer.pieces(ids), strict=True)]
    piece_of_byte = np.repeat(np.arange(len(ids)), [len(piece) for piece in spelled])
    text = b"".join(spelled).decode(errors="surrogateescape")  # an invalid byte counts as a character
    n_bytes = [len(character.encode(errors="surrogateescape")) for character in text]
    byte_of_character = np.cumsum([0, *n_bytes])
    words = list(_WORD.finditer(CONTROL.sub(" ", text)))
    shares = np.zeros((len(words), len(ids)), dtype=np.float32)
    for row, word in zip(shares, words, strict=True):
        start, end = byte_of_character[[word.start(), word.end()]]
        row[piece_of_byte[start:end]] = 1.0
    return _divided(shares)


def src_word_shares(tokenizer: Tokenizer, ids: Sequence[int], text: str) -> Floats:
    """Return the share of each source piece that belongs to each word, of shape (words, pieces); see `word_shares`.

    An inline translation belongs to the words of its term. The words come from `text`, as the ids do: an
    imported tokenizer may normalise one word to several or to none.
    """
    if isinstance(tokenizer, ImportedTokenizer):
        text = tokenizer.as_read(text)
        words = [match.span() for match in _WORD.finditer(CONTROL.sub(" ", text))]
        starts, ends = np.array(words, np.int64).reshape(-1, 1, 2).T  # (1, words) each
        spans = np.array(tokenizer.spans(text, ids), np.int64).reshape(-1, 2)
        touched = np.minimum(ends.T, spans[:, 1]) > np.maximum(starts.T, spans[:, 0])
        return _divided(touched.astype(np.float32))
    if SEPARATOR in ids:  # the translation of a similar text belongs to no word
        n = ids.index(SEPARATOR)
        return np.pad(src_word_shares(tokenizer, ids[:n], text), ((0, 0), (0, len(ids) - n)))
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


def _divided(shares: Floats) -> Floats:
    """Divide each piece equally among its words."""
    divided: Floats = shares / np.maximum(shares.sum(0), 1.0)
    return divided


def _spelling(tokenizer: Tokenizer, i: int, piece: str) -> bytes:
    """Return the bytes of a piece; empty for special tokens and tags."""
    if tokenizer.is_special(i):
        return b""
    return bytes([i - N_SPECIAL]) if i < tokenizer.first_learned else piece.replace("\u2581", " ").encode()
