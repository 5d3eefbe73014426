"""Terms of a translation as phrases of ids, and what a search for translations that hold them needs."""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch
from torch import Tensor

from nmt.config import SearchConfig
from nmt.text.tokenizer import CONTROL, Tokenizer
from nmt.text.words import UNSPACED

Phrases = Sequence[Sequence[int]]
"""The phrases of a sentence, as ids; one that is asked for twice is in it twice, and an empty one asks for nothing."""

_FOLLOWS_DIRECTLY = re.compile(rf"[{UNSPACED},;!?)\]}}…]|\.(?!\d)|:(?!\w)|%(?![\w({{])|[-'’](?=[^\W\d_])")
"""The start of a term that is written without a space after the word before it."""
_ANCHOR = "a"

PENALTY_SHARE = 0.4
"""Of the length penalty's exponent: with terms of the references, translations are then as long as those, on Multi30k.
"""
TOLD_APART = 8
"""Hypotheses within a phrase are of different banks up to so many ids of it: the rest of a long one is all but certain.
"""


def term_ids(tokenizer: Tokenizer, term: str) -> list[int]:
    """The ids of a term as they stand within a sentence, none of them special; nothing for a blank term.

    White space around it goes; but for punctuation, a space stands before it.
    """
    text = CONTROL.sub(" ", term).strip()
    if _FOLLOWS_DIRECTLY.match(text):
        anchor, ids = tokenizer.encode(_ANCHOR), tokenizer.encode(_ANCHOR + text)
        if ids[: len(anchor)] == anchor:
            return ids[len(anchor) :]
    return tokenizer.encode(text)


def word_parts(tokenizer: Tokenizer) -> Tensor:
    """(V,) True at pieces that go on with the word before them: they start with a digit or a letter of two cases.

    Letters without case are of scripts that may write words without a space between them.
    """
    return torch.tensor([_goes_on(piece) for piece in tokenizer.pieces(range(len(tokenizer)))])


def _goes_on(piece: str) -> bool:
    start = re.sub(f"[{UNSPACED}]", "", piece[:1])
    return start.isdecimal() or start.lower() != start.upper()


def n_within(phrase: Sequence[int], other: Sequence[int], tokenizer: Tokenizer) -> int:
    """How often a phrase stands within a longer one, as the search counts it: without overlapping itself, and where no
    piece follows that goes on with its last word."""
    n, start = 0, 0
    while phrase and len(phrase) < len(other) and start + len(phrase) <= len(other):
        end = start + len(phrase)
        stands = list(other[start:end]) == list(phrase)
        if stands and not any(map(_goes_on, tokenizer.pieces(other[end : end + 1]))):
            n, start = n + 1, end
        else:
            start += 1
    return n


def room(phrases: Phrases) -> int:
    """How many ids the phrases of a sentence may add to its translation."""
    return sum(map(len, phrases))


def width(phrases: Phrases, beam: int) -> int:
    """The beam that a sentence with these phrases needs to be searched as well as one without them by `beam`.

    About a place for every bank beside the beam's own, in multiples of `beam` so that sentences can share batches.
    """
    n_banks = sum(min(len(phrase), TOLD_APART + 1) for phrase in phrases)
    return beam * (1 + -(-n_banks // beam))


def with_phrases(config: SearchConfig, beam: int) -> SearchConfig:
    """The settings for sentences with phrases, to be searched in `beam` (see `width`), from those for others, `config`.

    As many hypotheses end a search as there. Length is rewarded less: the cost of unlikely phrases does not grow with
    length, and a penalty that divides it would be a reward for padding.
    """
    changes = {
        "beam": beam,
        "patience": config.patience * config.beam / beam,
        "length_penalty": PENALTY_SHARE * config.length_penalty,
    }
    return config.model_copy(update=changes)
