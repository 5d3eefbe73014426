"""Settings of the tokenizer."""

from __future__ import annotations

from pydantic import Field

from nmt.config.section import Section


class TokenizerConfig(Section):
    """SentencePiece BPE, trained on the cleaned training text only."""

    vocab_size: int = Field(10_000, ge=300, le=1_000_000)
    """Number of pieces, including the 256 bytes and the special ones; fewer if the corpus is too small for so many."""
    joint: bool = True
    """One vocabulary for both languages (true) or one per language (false)."""
