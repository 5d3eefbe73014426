"""The description of a toolkit, which imports only the standard library because it is read in every environment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from scripts.bench.task import MAX_OUTPUT, Plan


class Counts(NamedTuple):
    """Counts of one batch. Positions are those of the padded tensor, padding included; 0 where they are unknown.

    Target tokens are those of the labels: the pieces and one end of sentence for each pair.
    """

    pairs: int
    tgt: int
    tgt_positions: int
    src: int
    src_positions: int

    def plus(self, other: Counts) -> Counts:
        """Return the sum."""
        return Counts(*(a + b for a, b in zip(self, other, strict=True)))


NOTHING = Counts(0, 0, 0, 0, 0)


@dataclass(frozen=True)
class Training:
    """Training with a toolkit: its arguments, and the function that learns from a batch."""

    entry: str
    """`module:function`, what its own command runs; sys.argv holds the arguments."""
    step: str
    """`module:Class.method`, which is called once with every batch before the optimizer's step."""
    count: Callable[..., Counts]
    """The counts of a call of `step`, whose arguments it is given."""
    arguments: Callable[[Path, Path, Plan], list[str]]
    """(folder of the text, empty folder of the run, how long) -> command-line arguments; writes its configuration."""
    variables: Callable[[], dict[str, str]] = dict
    """Environment variables that its own command sets before it loads torch, which the probe loads first."""
    at_least: float = 0.0
    """Seconds that must be measured, where the speed changes with a longer period."""
    is_program: bool = False
    """Whether it trains in another program, so that a call of `step` reports a whole optimizer step."""


@dataclass(frozen=True)
class Search:
    """Settings of a search; hypotheses are ranked by mean log-probability per piece, which every toolkit offers."""

    beam: int
    batch: int
    """Sentences; 1: the next begins when one is done."""
    pieces: int = 0
    """Exact length of every translation without end of sentence; 0: the search decides."""

    @property
    def longest(self) -> int:
        """Pieces at most."""
        return self.pieces or MAX_OUTPUT


class Output(NamedTuple):
    """A translation: pieces with blanks between them, or plain text; and how many pieces it has."""

    text: str
    pieces: int


def spelled(words: Sequence[str]) -> Output:
    """The output of these pieces."""
    return Output(" ".join(words), len(words))


class Loaded(NamedTuple):
    """A model that is ready."""

    translate: Callable[[Sequence[str]], list[Output]]
    """Lines -> a translation for each, in their order."""
    note: str = ""
    """A choice that the toolkit made by itself, such as the number format."""


@dataclass(frozen=True)
class Decoding:
    """Translation with a toolkit. All its functions but `export` run in its own environment."""

    load: Callable[[Path, Path, Search], Loaded]
    """(folder of the run, folder of the text, search) -> a model; only its start-up time has this in it."""
    model: str
    """The name of the toolkit whose training made the run; arms of one toolkit share it."""
    source: str = "pieces.test"
    """The file of the text that it reads, without the language."""
    pieces: str = "bpe.model"
    """The SentencePiece model in the folder of the text that its pieces are of; empty: its outputs are plain text."""
    forces: bool = True
    """Whether the length of translations can be fixed."""
    remark: str = ""
    """A note for the table of fixed lengths."""
    kind: str = "float32"
    """Number format of the matrix products."""
    export: Callable[[Path, Path], list[str]] | None = None
    """(folder of the run, folder to write) -> arguments of `nmt`; `load` gets that folder instead of the run's."""
    exported: str = ""
    """Name of the folder that `export` writes."""


@dataclass(frozen=True)
class Peer:
    """A toolkit, or an arm of one, and how it is installed."""

    name: str
    """Name in `--peers` and in file names."""
    title: str
    """Name in the tables."""
    training: Training | None = None
    decoding: Decoding | None = None
    environment: str = ""
    """The name of its environment; empty: the Python that runs the benchmark."""
    requirements: tuple[str, ...] = ()
    """Packages installed with all dependencies, at a fixed version of torch."""
    alone: tuple[str, ...] = ()
    """Packages installed after that without dependencies, because they require another torch."""
    torch: bool = True
    """Whether it runs on PyTorch."""
    patch: Callable[[Path], None] | None = None
    """Makes it run on this Python and torch: gets the folder site-packages of its environment."""
    convert: Callable[[Path, Path], list[str]] | None = None
    """(folder of the text, folder to write) -> a command of its environment that writes the toolkit's own format."""
    converted: str = ""
    """The folder in the text's that `convert` writes; arms of one toolkit share it."""
