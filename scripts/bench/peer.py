"""What is known of a toolkit. This is read in every toolkit's environment: only the standard library is imported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


class Counts(NamedTuple):
    """What one batch holds. A slot is a position of the padded tensor, with a token or without.

    Target tokens are those of the labels: the pieces and one end of sentence for each pair.
    """

    pairs: int
    tgt: int
    tgt_slots: int
    src: int
    src_slots: int

    def plus(self, other: Counts) -> Counts:
        """Both together."""
        return Counts(*(mine + its for mine, its in zip(self, other, strict=True)))


NOTHING = Counts(0, 0, 0, 0, 0)


@dataclass(frozen=True)
class Training:
    """How a toolkit trains: what it is started with, and where it learns from a batch."""

    entry: str
    """`module:function`, what its own command runs; sys.argv holds the arguments."""
    step: str
    """`module:Class.method`, which is called once with every batch before the optimizer's step."""
    count: Callable[..., Counts]
    """The counts of a call of `step`, whose arguments it is given."""
    arguments: Callable[[Path, Path], list[str]]
    """(folder of the text, empty folder of the run) -> command-line arguments; writes its configuration file."""
    variables: Callable[[], dict[str, str]] = dict
    """Environment variables that its own command sets before it loads torch, which the probe loads first."""
    at_least: float = 0.0
    """Seconds that must be measured, where the speed changes with a longer period."""


@dataclass(frozen=True)
class Peer:
    """A toolkit, or an arm of one, and how it is installed."""

    name: str
    """What `--peers` and file names call it."""
    title: str
    """What the table calls it."""
    training: Training
    environment: str = ""
    """The name of its environment; empty: the Python that runs the benchmark."""
    requirements: tuple[str, ...] = ()
    """What is installed with all dependencies; the version of torch is held."""
    alone: tuple[str, ...] = ()
    """What is installed after that and without dependencies, because it asks for another torch than this."""
    patch: Callable[[Path], None] | None = None
    """Makes it run on this Python and torch: gets the folder site-packages of its environment."""
    convert: Callable[[Path, Path], list[str]] | None = None
    """(folder of the text, folder to write) -> a command of its environment that writes the toolkit's own format."""
    converted: str = ""
    """The folder in the text's that `convert` writes; arms of one toolkit share it."""
