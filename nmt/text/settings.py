"""Settings of the tokenizer."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import Field

from nmt.section import Section

TokenizerKind: TypeAlias = Literal["bpe", "char"]


class TokenizerConfig(Section):
    """The SentencePiece tokenizer, trained on the cleaned training text or given."""

    kind: TokenizerKind = "bpe"
    """What the pieces are: bpe, frequent sequences of characters within a word; char, single characters, that is, code
    points: combining marks are pieces of their own. Lines then have many times more pieces (`data.max_pieces`)."""
    model: str | None = None
    """File of a SentencePiece model, unigram or BPE, relative to `data.root`, which is used instead of training one,
    with its normalisation; it determines the number of pieces. `nmt prepare --tokenizer-from` takes precedence."""
    vocab_size: int = Field(10_000, ge=300, le=1_000_000)
    """Number of pieces, including the 256 bytes and the special pieces. A small corpus may yield fewer. With `nmt
    prepare --tokenizer-from` and a new language in `data.directions`, the vocabulary grows to this size."""
    joint: bool = True
    """Whether both languages share one vocabulary; if false, each language has its own."""
