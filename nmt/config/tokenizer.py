"""Settings of the tokenizer."""

from __future__ import annotations

from pydantic import Field

from nmt.config.section import Section


class TokenizerConfig(Section):
    """The SentencePiece BPE tokenizer, trained on the cleaned training text."""

    vocab_size: int = Field(10_000, ge=300, le=1_000_000)
    """Number of pieces, including the 256 bytes and the special pieces. A small corpus may yield fewer."""
    joint: bool = True
    """Whether both languages share one vocabulary; if false, each language has its own."""
