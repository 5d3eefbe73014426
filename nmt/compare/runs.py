"""Runs as systems: each translates the same test set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt.compare.systems import Members, distinct_names
from nmt.compare.types import System, TextToTranslate
from nmt.config import Config, SearchConfig
from nmt.console import say
from nmt.data.corpus import Corpus
from nmt.errors import DataError
from nmt.evaluate.run import choose_split, describe_search, open_corpus, translate_text
from nmt.files.write import open_output
from nmt.layout import RunDir
from nmt.runs.model import open_saved
from nmt.translate.translator import Translator


@dataclass(frozen=True)
class Translating:
    """How runs translate the test set."""

    search: Callable[[Config], SearchConfig]
    """Return the settings of the search of a run, whose configuration it is given. Raises ConfigError."""
    split: str | None = None
    """By default the only test set."""
    data: Path | None = None
    """By default each run's own data directory."""
    checkpoint: str = "best"
    weights: str = "auto"
    precision: str = "auto"
    output: Path | None = None
    """A directory for the translations, NAME.LANGUAGE of each run."""


@dataclass(frozen=True)
class _Run:
    """A run that can translate the test set."""

    path: Path
    config: Config
    corpus: Corpus
    split: str
    sources: list[str]
    references: list[str]


def translate_runs(members: Members, how: Translating) -> tuple[TextToTranslate, list[System]]:
    """Have each run translate the same split of its data directory. All is checked before the first translates.

    Raises CheckpointError or DataError for a run or a data directory that is missing or damaged, ConfigError for
    settings of the search; DataError if the runs translate in different directions or their test sets differ.
    """
    paths = [path for run_paths in members.values() for path in run_paths]
    first, *others = runs = [_open(path, how) for path in paths]
    for other in others:
        _check_same_test(first, other)
    names = distinct_names(paths)
    if how.output is not None:
        how.output.mkdir(parents=True, exist_ok=True)
    systems = [_translate(name, run, how) for name, run in zip(names, runs, strict=True)]
    data = first.config.data
    return TextToTranslate(
        first.split, tuple(first.references), tuple(first.sources), (data.src, data.tgt), _notes(first, systems)
    ), systems


def _open(path: Path, how: Translating) -> _Run:
    config = open_saved(path, how.checkpoint, how.weights).config
    how.search(config)
    corpus = open_corpus(RunDir(path), config.data.languages, how.data)
    name = choose_split(corpus, how.split)
    if name not in corpus.splits:
        where = corpus.directory.path
        raise DataError(f"{path}: its data directory {where} has no split {name}; it has {', '.join(corpus.splits)}")
    split = corpus.in_one_file(name)
    corpus.verify(name, ("text",))
    return _Run(path, config, corpus, name, split.text(config.data.src), split.text(config.data.tgt))


def _check_same_test(first: _Run, other: _Run) -> None:
    """Raise DataError unless both translate the same text in the same direction, against the same references."""
    one, another = first.config.data.direction, other.config.data.direction
    if one != another:
        raise DataError(f"{first.path} translates {one}, {other.path} {another}: a comparison takes one direction")
    if first.split != other.split:
        raise DataError(
            f"the only test set of {first.path} is {first.split}, that of {other.path} {other.split}: "
            "choose one with --split, or a data directory for all with --data"
        )
    for what, these, those in (
        ("sources", first.sources, other.sources),
        ("references", first.references, other.references),
    ):
        if these != those:
            raise DataError(
                f"{first.path} and {other.path} have other {what} in {first.split} "
                f"({first.corpus.directory.path}, {other.corpus.directory.path}): choose one with --data"
            )


def _translate(name: str, run: _Run, how: Translating) -> System:
    """Return the system of a run, and write its translations if they are wanted."""
    translator = Translator.load(run.path, how.checkpoint, how.weights, precision=how.precision)
    origin, search = translator.origin, how.search(run.config)
    assert origin is not None, "the translator was loaded from a run"
    say(f"{name}: translating {run.split}")
    translations = tuple(translate_text(translator, run.sources, run.split, search))
    if how.output is not None:
        with open_output(how.output / f"{name.replace('/', '-')}.{run.config.data.tgt}") as file:
            file.writelines(f"{line}\n".encode() for line in translations)
    return System(
        name, translations, run.path, origin.step, origin.weights, describe_search(search), translator.precision
    )


def _notes(first: _Run, systems: Sequence[System]) -> tuple[str, ...]:
    """Return what the reader should know of the test set and of how it was translated."""
    notes = []
    if first.split == "valid":
        notes.append("valid is the development set: the weights were chosen by it; a test set shows what is new")
    if first.split == "train":
        notes.append("train is what the models were trained on: these scores say nothing about new text")
    for what in ("search", "precision"):
        by_system = {system.name: getattr(system, what) for system in systems}
        if len({*by_system.values()}) > 1:
            listed = "; ".join(f"{name}: {value}" for name, value in by_system.items())
            notes.append(f"the systems differ in their {what}, too: {listed}")
    return tuple(notes)
