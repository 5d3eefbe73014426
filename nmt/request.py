"""What is asked of a translator, and what it answers.

A `Line` is what a user gives: text, and what its translation must be like. It becomes one or several `Sentence`s, which
are searched for, and their hypotheses become its `Translation`s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Line:
    """A line of text and what is asked of its translation."""

    text: str
    prefix: str = ""
    """The text that the translation starts with."""
    terms: tuple[str, ...] = ()
    """Texts that the translation must hold."""


@dataclass(frozen=True)
class Sentence:
    """A source sentence as search takes it; a long line has several."""

    text: str
    separator: str
    """The white space that follows it in its line."""
    src_ids: Sequence[int]
    """Without `</s>`; none for a blank one."""
    key: int
    """What its random draws depend on."""
    prefix: Sequence[int] = ()
    phrases: tuple[tuple[int, ...], ...] = ()
    """The terms."""
    cut: bool = False
    """True if the line had more ids than the model can make anything of."""


@dataclass(frozen=True)
class Part:
    """A source sentence and its translation, as ids without special ones."""

    src_ids: Sequence[int]
    tgt_ids: Sequence[int]


@dataclass(frozen=True)
class Translation:
    """One translation of one line."""

    text: str
    score: float
    """What is ranked: log_prob divided by the length penalty, and the coverage penalty."""
    log_prob: float
    """The sum over all pieces and ends of sentence (nats)."""
    finished: bool = True
    """False if it, or a part of it, was ended by the length limit."""
    cut: bool = False
    """True if only the start of the line was read: it has more pieces than the model can make anything of."""
    parts: tuple[Part, ...] = field(default=(), repr=False)
    """One for each sentence into which the line was split."""


BLANK = Translation("", 0.0, 0.0)
"""That of a blank line."""
