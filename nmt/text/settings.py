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
    prepare --tokenizer-from`, a smaller vocabulary grows to this size by pieces of new languages. An imported one first
    gets the letters that it lacks, and letters of new languages in any case."""
    like: dict[str, str] = Field(default_factory=dict)
    """For each language that is new to the model of `--tokenizer-from`, a similar language that the model knows, such
    as {tyv_Cyrl: kaz_Cyrl}. The tag of the new language starts as the other's; in M2M-100, which has a fixed list of
    tags, the new language uses it."""
    joint: bool = True
    """Whether both languages share one vocabulary; if false, each language has its own."""
