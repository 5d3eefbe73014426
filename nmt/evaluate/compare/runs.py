"""Translation of a test set by the runs that are compared, and notes on the runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nmt.config import Config, SearchConfig
from nmt.config.load import load_saved_config
from nmt.config.messages import differences
from nmt.console import say
from nmt.data.corpus import Corpus, read_manifest, read_pairs_manifest
from nmt.errors import ConfigError, DataError, NmtError
from nmt.evaluate.compare.screen import listed
from nmt.evaluate.compare.systems import Members, System, TextToTranslate, all_paths, distinct_names
from nmt.evaluate.run import OtherPairError, choose_split, open_corpus, open_each, subject_of, translate_text
from nmt.files.read import open_regular, reading
from nmt.files.write import open_output
from nmt.layout import DataDir, RunDir
from nmt.runs.info import read_info
from nmt.runs.model import ModelRef, open_saved
from nmt.translate.source_lines import source_lines
from nmt.translate.translator import Translator

_OF_EACH_RUN = {"training.seed", "training.run_dir", "data.dir"}


@dataclass(frozen=True)
class Translating:
    """Settings for the translation of the test set."""

    search: Callable[[Config], SearchConfig]
    """A function from the configuration of a run to its search settings. It raises ConfigError."""
    split: str | None = None
    """The split to translate, by default the only test set."""
    data: Path | None = None
    """The data directory, by default the training data of each run."""
    model: ModelRef = field(default_factory=ModelRef)
    """The weights and languages of all runs, without their paths."""
    precision: str = "auto"
    output: Path | None = None
    """A directory for the translations, one file NAME.LANGUAGE for each run."""


@dataclass(frozen=True)
class _Run:
    """A run that can translate the test set."""

    name: str
    path: Path
    config: Config
    search: SearchConfig
    corpus: Corpus
    split: str
    sources: list[str]
    references: list[str]


def common_directions(members: Members, how: Translating) -> list[tuple[str | None, str | None]]:
    """Return the target and source language of each direction to compare: those with the given languages that all runs
    have and that have the split.

    Raises ConfigError if the runs have no direction in common, and DataError if there is no data directory or none of
    the directions is in it.
    """
    paths = [path for path in all_paths(members) if RunDir(path).config.is_file()]
    configs = [load_saved_config(RunDir(path).config).data for path in paths]
    if not any(config.has_several_directions for config in configs):
        return [(how.model.to, how.model.source)]
    first, *others = (config.directions for config in configs)
    pairs = [direction.split("-") for direction in first if all(direction in other for other in others)]
    to, source = how.model.to, how.model.source
    common = [f"{src}-{tgt}" for src, tgt in pairs if to in (None, tgt) and source in (None, src)]
    if not common and (to, source) != (None, None):
        return [(how.model.to, how.model.source)]  # perhaps zero-shot
    if not common:
        raise ConfigError("the runs have no direction in common")

    def corpus_for(direction: str) -> Corpus:
        return open_corpus(RunDir(paths[0]), configs[0].towards(direction).sides, how.data)

    opened = open_each(common, corpus_for, OtherPairError)
    having = open_each(opened, lambda pair: pair[1].in_one_file(choose_split(pair[1], how.split)), DataError)
    return [(tgt, src) for src, tgt in (direction.split("-") for (direction, _), _ in having)]


def translate_runs(members: Members, how: Translating) -> tuple[TextToTranslate, list[System]]:
    """Translate the same split with each run. All runs are checked before the first one translates.

    Raises CheckpointError or DataError if a run or a data directory is missing or damaged, ConfigError for invalid
    search settings, and DataError if the runs translate in different directions or their test sets differ.
    """
    paths = all_paths(members)
    first, *others = runs = [_open(name, path, how) for name, path in zip(distinct_names(paths), paths, strict=True)]
    for other in others:
        _check_same_test(first, other)
    if how.output is not None:
        how.output.mkdir(parents=True, exist_ok=True)
    systems = [_translate(run, how) for run in runs]
    notes, rest = [*_notes_on_text(runs), *_notes_on_translating(systems)], iter(runs)
    for name, of_group in members.items():
        notes += _notes_on_group(name, [next(rest) for _ in of_group])
    seen = _find_in_training_texts(runs, notes)
    languages = first.config.data.sides
    text = TextToTranslate(first.split, tuple(first.references), tuple(first.sources), languages, tuple(notes), seen)
    return text, systems


def _open(name: str, path: Path, how: Translating) -> _Run:
    if path.is_file():
        raise DataError(f"{path}: is a file, not a run directory; compare files of translations with --hyp A B --ref F")
    saved = open_saved(how.model.at(path))
    saved.check_translates()
    config = saved.config
    search = how.search(config)
    corpus = open_corpus(RunDir(path), config.data.sides, how.data)
    split = corpus.in_one_file(choose_split(corpus, how.split))
    corpus.verify(split.name, ("text",))
    sources, references = split.text(config.data.src), split.text(config.data.tgt)
    search = search.with_tags(config.data.tags_of(split.name))
    return _Run(name, path, config, search, corpus, split.name, sources, references)


def _check_same_test(first: _Run, other: _Run) -> None:
    """Raise DataError unless both runs translate the same sources in the same direction, with the same references."""
    one, another = first.config.data.direction, other.config.data.direction
    if one != another:
        raise DataError(f"{first.path} translates {one}, {other.path} {another}: all runs must have the same direction")
    if first.split != other.split:
        raise DataError(
            f"the only test set of {first.path} is {first.split}, but that of {other.path} is {other.split}: "
            "choose a split with --split, or one data directory for all runs with --data"
        )
    for what in ("sources", "references"):
        if getattr(first, what) != getattr(other, what):
            raise DataError(
                f"{first.path} and {other.path} have different {what} in {first.split} "
                f"({first.corpus.directory.path}, {other.corpus.directory.path}): choose a data directory with --data"
            )


def _translate(run: _Run, how: Translating) -> System:
    """Translate the test set with a run, and write the translations to a file if there is an output directory."""
    translator = Translator.load(how.model.at(run.path), precision=how.precision)
    say(f"{run.name}: translating {run.split}")
    lines = source_lines(run.corpus, run.config, run.split)
    translations = tuple(translate_text(translator, lines, run.split, run.search))
    if how.output is not None:
        with open_output(how.output / f"{run.name.replace('/', '-')}.{run.config.data.translation_suffix}") as file:
            file.writelines(f"{line}\n".encode() for line in translations)
    used = subject_of(translator, run.search)
    return System(run.name, translations, run.path, used.step, used.weights, used.search, used.precision)


def _notes_on_text(runs: Sequence[_Run]) -> Iterator[str]:
    """Yield notes if the split was seen in training, or may overlap with training text."""
    split = runs[0].split
    if split == "valid":
        yield "valid is the development set, on which the weights were chosen: a test set gives unbiased scores"
    if split == "train":
        yield "train is the training text: scores on it say nothing about other text"
        return
    others = [
        run.name
        for run in runs
        if read_info(RunDir(run.path)).corpus not in ("", run.corpus.fingerprint, run.corpus.whole)
    ]
    if others:
        verb = "was" if len(others) == 1 else "were"
        yield (
            f"{', '.join(others)} {verb} trained on a different data directory than the one with {split}: the training "
            f"text may contain lines of {split}"
        )


def _notes_on_translating(systems: Sequence[System]) -> Iterator[str]:
    for what in ("search", "precision"):
        by_system = {system.name: getattr(system, what) for system in systems}
        if len({*by_system.values()}) > 1:
            listed = "; ".join(f"{name}: {value}" for name, value in by_system.items())
            yield f"the runs translate with different {what}: {listed}"


def _notes_on_group(name: str, runs: Sequence[_Run]) -> Iterator[str]:
    """Yield notes if the runs of a group share a seed, or differ in more than the seed."""
    seeds = [run.config.training.seed for run in runs]
    if len({*seeds}) < len(seeds):
        listed = ", ".join(f"{run.name} {seed}" for run, seed in zip(runs, seeds, strict=True))
        yield f"group {name}: runs have the same training.seed ({listed}): variation between seeds is underestimated"
    first, *others = (run.config.model_dump(mode="json") for run in runs)
    keys = {each.key for other in others for each in differences(first, other)} - _OF_EACH_RUN
    if keys:
        yield f"group {name}: its runs differ in more than the seed: {', '.join(sorted(keys))}"


def _find_in_training_texts(runs: Sequence[_Run], notes: list[str]) -> frozenset[int]:
    """Return the test lines whose source or reference is in the training text of a run, and append notes on them."""
    first, names_of, seen = runs[0], defaultdict[str, list[str]](list), frozenset[int]()
    for run in runs:
        names_of[read_info(RunDir(run.path)).data_dir].append(run.name)
    if first.split == "train":
        return seen
    if imported := names_of.pop("", None):
        verb = "was" if len(imported) == 1 else "were"
        notes.append(
            f"{listed(imported)} {verb} imported: the training text is unknown and may contain lines of {first.split}"
        )
    for directory, names in names_of.items():
        text = "the training text" if len(names_of) == 1 else f"the training text of {listed(names)}"
        sides = dict(zip(first.config.data.sides, (first.sources, first.references), strict=True))
        try:
            found = find_in_training_text(DataDir(Path(directory)), sides)
        except NmtError as error:
            notes.append(f"cannot check whether {text} contains lines of {first.split}: {error}")
            continue
        seen |= found
        notes.append(
            f"{len(found):,} of the {len(first.sources):,} lines of {first.split} are in {text} (exact matches): "
            "source, reference or both"
        )
    return seen


def find_in_training_text(directory: DataDir, sides: Mapping[str, Sequence[str]]) -> frozenset[int]:
    """Return the indices of the lines whose source or reference is in the training text of a data directory.

    `sides` maps each language to its lines; blank lines are ignored.

    Raises DataError if the text is missing or damaged.
    """
    if directory.pairs.is_file():
        found = frozenset[int]()
        for pair in read_pairs_manifest(directory).pairs:
            own = {language: lines for language, lines in sides.items() if language in pair.split("-")}
            found |= find_in_training_text(DataDir(directory.path / pair), own)
        return found
    manifest, seen = read_manifest(directory), set[int]()
    if "train" not in manifest.splits:
        raise DataError(f"{directory.path}: has no training text")
    shards = manifest.splits["train"].shards
    for language, lines in sides.items():
        wanted = defaultdict[bytes, list[int]](list)
        for number, line in enumerate(lines):
            wanted[line.encode() + b"\n"].append(number)
        wanted.pop(b"\n", None)
        for name in ["train"] if shards is None else [shard.name for shard in shards]:
            path = directory.text(name, language)
            with reading(path), open_regular(path) as file:
                seen.update(number for line in file for number in wanted.get(line, ()))
    return frozenset(seen)
