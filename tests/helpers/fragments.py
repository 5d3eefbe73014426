"""Pieces of text that are hard to tokenise, for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

SPACE_SIGN = "\u2581"


# what SentencePiece or a careless reader would change, mixed with ordinary letters and any other character
tricky = st.sampled_from([*" \t\u00a0\u2028\u2029\u3000\ufeff\ufffd\u2581\u2585\u0301\u200b\ue000…ﬁ\U0001f600aé字<>"])


anything = st.characters(exclude_categories=["Cs", "Cc"])
parts = st.one_of(
    tricky, anything, st.sampled_from(["<s>", "</s>", "<pad>", "<unk>", "<0x41>", "<reserved_0>", "Hund"])
)
