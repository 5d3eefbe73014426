"""Terms as phrases of token ids, and the beam and settings that a search constrained by phrases needs."""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch
from torch import Tensor

from nmt.config import SearchConfig
from nmt.text.tokenizer import CONTROL, Tokenizer
from nmt.text.words import UNSPACED

Phrases = Sequence[Sequence[int]]
"""The phrases of a sentence, as ids; one required twice is in it twice, and an empty one has no effect."""

_FOLLOWS_DIRECTLY = re.compile(rf"[{UNSPACED},;!?)\]}}…]|\.(?!\d)|:(?!\w)|%(?![\w({{])|[-'’](?=[^\W\d_])")
"""The start of a term that is not separated by a space from the word before it."""
_ANCHOR = "a"

PENALTY_SHARE = 0.4
"""Factor on the length penalty's exponent; with it, translations constrained by terms of the references are as long as
the references, on Multi30k."""
MAX_BANK_IDS = 8
"""Hypotheses inside a phrase are in different banks up to this many of its ids: the rest of a long one is near certain.
"""


def term_ids(tokenizer: Tokenizer, term: str) -> list[int]:
    """Return the ids of a term as in the middle of a sentence, none of them special; empty for a blank term.

    White space around it is stripped; a space precedes it, except for punctuation.
    """
    text = CONTROL.sub(" ", term).strip()
    if _FOLLOWS_DIRECTLY.match(text):
        anchor, ids = tokenizer.encode(_ANCHOR), tokenizer.encode(_ANCHOR + text)
        if ids[: len(anchor)] == anchor:
            return ids[len(anchor) :]
    return tokenizer.encode(text)


def word_parts(tokenizer: Tokenizer) -> Tensor:
    """Return a mask (V,), True at tokens that continue the word before them.

    They start with a digit or a cased letter. Letters without case belong to scripts that may write words without
    spaces.
    """
    return torch.tensor([_continues_word(piece) for piece in tokenizer.pieces(range(len(tokenizer)))])


def _continues_word(piece: str) -> bool:
    start = re.sub(f"[{UNSPACED}]", "", piece[:1])
    return start.isdecimal() or start.lower() != start.upper()


def n_within(phrase: Sequence[int], other: Sequence[int], tokenizer: Tokenizer) -> int:
    """Count how often a phrase occurs inside a longer one, as the search counts: without overlapping itself, and where
    the token after it does not continue its last word."""
    n, start = 0, 0
    while phrase and len(phrase) < len(other) and start + len(phrase) <= len(other):
        end = start + len(phrase)
        occurs = list(other[start:end]) == list(phrase)
        if occurs and not any(map(_continues_word, tokenizer.pieces(other[end : end + 1]))):
            n, start = n + 1, end
        else:
            start += 1
    return n


def total_length(phrases: Phrases) -> int:
    """Return the number of ids that the phrases of a sentence may add to its translation."""
    return sum(map(len, phrases))


def beam_for(phrases: Phrases, beam: int) -> int:
    """Return the beam size that searches a sentence with these phrases as well as `beam` does one without phrases.

    It has about one hypothesis more for every bank, rounded up to a multiple of `beam` so that sentences can share
    batches.
    """
    n_banks = sum(min(len(phrase), MAX_BANK_IDS + 1) for phrase in phrases)
    return beam * (1 + -(-n_banks // beam))


def with_phrases(config: SearchConfig, beam: int) -> SearchConfig:
    """Return `config` adapted to sentences with phrases, to be searched with `beam` (see `beam_for`).

    The number of finished hypotheses that ends a search is unchanged. Length is rewarded less: the cost of unlikely
    phrases does not grow with length, so a penalty that divides it would reward padding.
    """
    changes = {
        "beam": beam,
        "patience": config.patience * config.beam / beam,
        "length_penalty": PENALTY_SHARE * config.length_penalty,
    }
    return config.model_copy(update=changes)
