"""Systems to compare, in groups: files of translations, or runs that translate a test set, and notes on both."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from glob import glob, has_magic
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.config import Config
from nmt.config.load import load_saved_config
from nmt.config.messages import differences
from nmt.console import listed, say
from nmt.data.manifest import read_contents
from nmt.errors import ConfigError, DataError, NmtError
from nmt.evaluate.comet import NeuralMetrics, SegmentScores
from nmt.evaluate.metrics import References, Texts, as_tuple, blank_references_note
from nmt.evaluate.notes import line_notes, style_notes
from nmt.evaluate.report import language_of_files, read_references
from nmt.files.read import open_regular, reading
from nmt.files.write import open_output
from nmt.languages.directions import sides_of
from nmt.layout import DataDir, RunDir
from nmt.runs.info import read_info
from nmt.search.settings import SearchConfig

if TYPE_CHECKING:  # these import torch, which files of translations do not need
    from nmt.data.corpus import Corpus
    from nmt.runs.model import ModelRef


@dataclass(frozen=True)
class TextToTranslate:
    """A test set, the same for all systems."""

    name: str
    """The name of the split, or of the file of references."""
    references: References
    sources: Texts | None = None
    languages: tuple[str, str] | None = None
    """The source and the target language; None if only files are known."""
    notes: tuple[str, ...] = ()
    """Notes for the reader, such as the number of lines that are in training text."""
    seen: frozenset[int] = frozenset()
    """Numbers of the lines, from 0, whose source or reference is in the training text of a run."""
    tgt_lang: str | None = None
    """The language by which files are scored."""
    fair: str = ""
    """The text to compare on instead, if more than a few of the lines are in training text."""


@dataclass(frozen=True)
class System:
    """A system with its translations of the test set."""

    name: str
    translations: Texts
    run: Path | None = None
    step: int | None = None
    weights: str | None = None
    """The kind of weights: raw, ema or average."""
    search: str | None = None
    precision: str | None = None
    segment_scores: Mapping[str, SegmentScores] = field(default_factory=dict)
    """Line scores by further metrics, by the name of the metric."""


@dataclass(frozen=True)
class Group:
    """A group of systems that differ only in their seed, or a single system."""

    name: str
    systems: tuple[System, ...]


Members = Mapping[str, Sequence[Path]]
"""The runs or files of each group, by the name of the group. A single run or file is a group of one."""


def all_paths(members: Members) -> list[Path]:
    """Return the runs or files of all groups."""
    return [*chain.from_iterable(members.values())]


def single_members(paths: Sequence[Path]) -> dict[str, list[Path]]:
    """Return a group for each run or file. Raises ConfigError unless there are at least two, all of them different."""
    if len(paths) < 2:
        raise ConfigError(f"a comparison needs at least two systems, found {' '.join(map(str, paths)) or 'none'}")
    _refuse_repeated(paths)
    return {name: [path] for name, path in zip(distinct_names(paths), paths, strict=True)}


def group_members(values: Sequence[str]) -> dict[str, list[Path]]:
    """Parse groups written as `NAME=A,B,C`. A pattern such as `runs/plain-*` stands for all paths that match.

    Raises ConfigError if a group is written in another way, given twice or empty.
    """
    members: dict[str, list[Path]] = {}
    for value in values:
        name, equals, listed = value.partition("=")
        if not (equals and name and listed.strip(",")):
            raise ConfigError(f"--group {value}: write it as NAME=A,B,C")
        if name in members:
            raise ConfigError(f"--group {name} is given twice: list all its systems in one option, {name}=A,B,C")
        members[name] = list(_listed(listed.split(",")))
        if not members[name]:
            raise ConfigError(f"--group {value}: no run or file matches")
    return members


def check_groups(members: Members) -> None:
    """Raise ConfigError unless there are at least two groups of at least two runs or files, all of them different."""
    for name, paths in members.items():
        if len(paths) < 2:
            raise ConfigError(
                f"group {name} has only {paths[0]}: a group needs at least two runs that differ in their seed; compare "
                "single systems without --group"
            )
    if len(members) < 2:
        raise ConfigError(f"a comparison needs at least two groups, found only {', '.join(members)}")
    _refuse_repeated(all_paths(members))


def _listed(parts: Sequence[str]) -> Iterator[Path]:
    """Yield the paths of a comma-separated list. A path may itself have commas, such as `seed=1,peak_lr=3e-4`."""
    while parts:
        n = len(parts)
        while n > 1 and not _matching(",".join(parts[:n])):
            n -= 1
        path = ",".join(parts[:n])
        parts = parts[n:]
        if has_magic(path):
            yield from _matching(path)
        elif path:
            yield Path(path)


def _matching(pattern: str) -> list[Path]:
    return [Path(path) for path in sorted(glob(pattern))]  # noqa: PTH207  (pathlib's are relative)


def _refuse_repeated(paths: Sequence[Path]) -> None:
    seen: dict[Path, Path] = {}
    for path in paths:
        if (first := seen.setdefault(path.resolve(), path)) is not path:
            same = f"{path} is given twice" if first == path else f"{first} and {path} are the same"
            raise ConfigError(f"{same}: a system cannot be compared with itself; list it once")


def distinct_names(paths: Sequence[Path]) -> list[str]:
    """Return distinct names of paths: the last part of each path, or as many parts as are needed."""
    parts = [path.absolute().parts for path in paths]
    n = 1
    while len({part[-n:] for part in parts}) < len({*parts}):
        n += 1
    return [Path(*part[-n:]).as_posix() for part in parts]


def find_baseline(name: str | None, members: Members) -> int:
    """Return the position of the group with this name or path, by default the first one.

    Raises ConfigError if there is no such group.
    """
    if name is None:
        return 0
    for position, (group, paths) in enumerate(members.items()):
        if name == group or [path.resolve() for path in paths] == [Path(name).resolve()]:
            return position
    raise ConfigError(f"--baseline {name}: no such system; the systems are {', '.join(members)}")


def _grouped(systems: Sequence[System], members: Members) -> tuple[Group, ...]:
    """Return systems, which are in the order of `members`, as groups."""
    remaining = iter(systems)
    groups = [Group(name, tuple(islice(remaining, len(paths)))) for name, paths in members.items()]
    return tuple(groups)


def all_systems(groups: Sequence[Group]) -> list[System]:
    """Return the systems of all groups."""
    return [*chain.from_iterable(group.systems for group in groups)]


def read_systems(
    members: Members, refs: Sequence[Path], src: Path | None = None, to: str | None = None, lowercase: bool = False
) -> tuple[TextToTranslate, tuple[Group, ...]]:
    """Read files of translations, one or several files of references, and a file of sources if there is one.

    `to` is the language, by default as in `language_of_files`; for `lowercase` see `check_alike`.

    Raises DataError as `read_references` and `check_alike` do.
    """
    hyps = all_paths(members)
    references, texts = read_references(refs, [*hyps, *filter(None, [src])])
    tgt_lang = to or language_of_files([*hyps, *refs], references)
    sources = texts[-1] if src else None
    text = TextToTranslate(" ".join(map(str, refs)), references, sources, tgt_lang=tgt_lang)
    systems = [System(*pair) for pair in zip(distinct_names(hyps), texts, strict=False)]
    return check_alike(text, systems, lowercase), _grouped(systems, members)


def check_alike(text: TextToTranslate, systems: Sequence[System], lowercase: bool = False) -> TextToTranslate:
    """Check that systems do not differ in tokenisation or case, and add notes on their lines to the text.

    Raises DataError if only some files differ from the references in tokenisation or, unless it is ignored, case. For
    runs this is a note, because tokenisation and case are part of their quality.
    """
    notes = [*text.notes]
    if blank := blank_references_note(text.references, [system.translations for system in systems]):
        notes.append(blank)
    are_files = systems[0].run is None
    problems = defaultdict[str, list[str]](list)
    for system in systems:
        styles = style_notes(system.translations, text.references, lowercase)
        of_lines = line_notes(system.translations, text.references, text.tgt_lang, are_files)
        notes += [f"{system.name}: {note}" for note in (*of_lines, *styles.values())]
        for style, note in styles.items():
            problems[style].append(f"{system.name}: {note}")
    for of_style in problems.values():
        if are_files and len(of_style) < len(systems):
            raise DataError(of_style[0])
    return replace(text, notes=tuple(notes))


def with_segment_scores(text: TextToTranslate, groups: Sequence[Group], neural: NeuralMetrics) -> tuple[Group, ...]:
    """Return the groups with line scores by further metrics. Raises DataError as `NeuralMetrics.score` does."""
    translations = {system.name: system.translations for system in all_systems(groups)}
    scores = neural.score(text.sources or (), text.references, translations)
    scored = []
    for group in groups:
        systems = [replace(system, segment_scores=scores[system.name]) for system in group.systems]
        scored.append(Group(group.name, tuple(systems)))
    return tuple(scored)


# --- Runs ---


@dataclass(frozen=True)
class Translating:
    """Settings for the translation of the test set."""

    search: Callable[[Config], SearchConfig]
    """A function from the configuration of a run to its search settings. It raises ConfigError."""
    model: ModelRef
    """The weights and languages of all runs, without their paths."""
    split: str | None = None
    """The split to translate, by default the only test set."""
    data: Path | None = None
    """The data directory, by default the training data of each run."""
    precision: str = "auto"
    output: Path | None = None
    """A directory for the translations, one file NAME.LANGUAGE for each run."""
    lowercase: bool = False
    """Whether case is ignored; see `check_alike`."""


@dataclass(frozen=True)
class _Run:
    """A run that can translate the test set."""

    name: str
    path: Path
    config: Config
    search: SearchConfig
    corpus: Corpus
    text: TextToTranslate


def for_directions(members: Members, settings: Translating) -> list[Translating]:
    """Return the settings for each direction to compare: those with the given languages that all runs have and that
    have the split.

    Raises ConfigError if the runs have no direction in common, and DataError if there is no data directory or none of
    the directions is in it.
    """
    from nmt.evaluate.run import choose_split, open_each
    from nmt.runs.data import OtherPairError, open_corpus

    paths = [path for path in all_paths(members) if RunDir(path).config.is_file()]
    configs = [load_saved_config(RunDir(path).config).data for path in paths]
    if not any(config.has_several_directions for config in configs):
        return [settings]
    of_all = set.intersection(*({*config.all_directions} for config in configs))
    to = settings.model.to
    source = settings.model.source
    common = []
    for direction in configs[0].all_directions:
        src, tgt = direction.split("-")
        if direction in of_all and to in (None, tgt) and source in (None, src):
            common.append(direction)
    if not common and (to, source) != (None, None):
        return [settings]  # perhaps zero-shot
    if not common:
        raise ConfigError("the runs have no direction in common")

    def corpus_for(direction: str) -> Corpus:
        return open_corpus(RunDir(paths[0]), sides_of(direction), settings.data)

    opened = open_each(common, corpus_for, OtherPairError)
    having = open_each(opened, lambda pair: pair[1].in_one_file(choose_split(pair[1], settings.split)), DataError)
    pairs = [direction.split("-") for (direction, _), _ in having]
    return [replace(settings, model=replace(settings.model, to=tgt, source=src)) for src, tgt in pairs]


def translate_runs(members: Members, settings: Translating) -> tuple[TextToTranslate, tuple[Group, ...]]:
    """Translate the same split with each run. All runs are checked before the first one translates.

    Raises CheckpointError or DataError if a run or a data directory is missing or damaged, ConfigError for invalid
    search settings, and DataError if the runs translate in different directions or their test sets differ.
    """
    paths = all_paths(members)
    runs = [_open(name, path, settings) for name, path in zip(distinct_names(paths), paths, strict=True)]
    text = runs[0].text
    for other in runs[1:]:
        _check_same_test(runs[0], other)
    if settings.output is not None:
        settings.output.mkdir(parents=True, exist_ok=True)
    systems = [_translate(run, settings) for run in runs]
    notes = [*_notes_on_text(runs), *_notes_on_translating(systems)]
    remaining = iter(runs)
    for name, of_group in members.items():
        notes += _notes_on_group(name, [*islice(remaining, len(of_group))])
    seen = frozenset[int]() if text.name == "train" else _find_in_training_texts(runs, notes)
    fair = _fair_data(runs, settings) if len(seen) >= SEEN * len(text.references) else ""
    text = replace(text, notes=tuple(notes), seen=seen, fair=fair)
    return check_alike(text, systems, settings.lowercase), _grouped(systems, members)


def _open(name: str, path: Path, settings: Translating, *, warn: bool = True) -> _Run:
    if path.is_file():
        raise DataError(f"{path}: is a file, not a run directory; compare files of translations with --hyp A B --ref F")
    from nmt.evaluate.run import choose_split
    from nmt.runs.data import open_corpus
    from nmt.runs.model import open_saved

    saved = open_saved(settings.model.at(path))
    saved.check_translates()
    data = saved.config.data
    search = settings.search(saved.config)
    corpus = open_corpus(RunDir(path), data.sides, settings.data, warn=warn)
    split = corpus.in_one_file(choose_split(corpus, settings.split))
    corpus.verify(split.name, ("text",))
    text = TextToTranslate(split.name, split.text(data.tgt), split.text(data.src), data.sides)
    return _Run(name, path, saved.config, search.with_tags(data.tags_of(split.name)), corpus, text)


def _check_same_test(first: _Run, other: _Run) -> None:
    """Raise DataError unless both runs translate the same sources in the same direction, with the same references."""
    src_tgt = first.config.data.direction
    other_src_tgt = other.config.data.direction
    if src_tgt != other_src_tgt:
        problem = f"{first.path} translates {src_tgt}, {other.path} {other_src_tgt}"
        raise DataError(f"{problem}: all runs must have the same direction")
    if first.text.name != other.text.name:
        raise DataError(
            f"the only test set of {first.path} is {first.text.name}, but that of {other.path} is {other.text.name}: "
            "choose a split with --split, or one data directory for all runs with --data"
        )
    if first.text != other.text:
        side = "references" if first.text.sources == other.text.sources else "sources"
        raise DataError(
            f"{first.path} and {other.path} have different {side} in {first.text.name} "
            f"({first.corpus.directory.path}, {other.corpus.directory.path}): choose a data directory with --data"
        )


def _translate(run: _Run, settings: Translating) -> System:
    """Translate the test set with a run, and write the translations to a file if there is an output directory."""
    from nmt.evaluate.run import subject_of, translate_text
    from nmt.translate.configured import source_lines
    from nmt.translate.loading import Translator

    translator = Translator.load(settings.model.at(run.path), precision=settings.precision)
    say(f"{run.name}: translating {run.text.name}")
    lines = source_lines(run.corpus, run.config.data, run.config.training.reads_similar, run.text.name)
    translations = translate_text(translator, lines, run.text.name, run.search)
    if settings.output is not None:
        name = f"{run.name.replace('/', '-')}.{run.config.data.translation_suffix}"
        with open_output(settings.output / name) as file:
            file.writelines(f"{line}\n".encode() for line in translations)
    subject = subject_of(translator, run.search)
    return System(
        run.name, translations, run.path, subject.step, subject.weights, subject.search, subject.precision
    )  # fmt: skip


def _notes_on_text(runs: Sequence[_Run]) -> Iterator[str]:
    """Yield a note if the split is not a test set."""
    split = runs[0].text.name
    if split == "valid":
        yield "valid is the development set, on which the weights were chosen: a test set gives unbiased scores"
    if split == "train":
        yield "train is the training text: scores on it say nothing about other text"


def _notes_on_translating(systems: Sequence[System]) -> Iterator[str]:
    for fact in ("search", "precision"):
        by_system = {system.name: getattr(system, fact) for system in systems}
        if len({*by_system.values()}) > 1:
            facts = "; ".join(f"{name}: {value}" for name, value in by_system.items())
            yield f"the runs translate with different {fact}: {facts}"


def _notes_on_group(name: str, runs: Sequence[_Run]) -> Iterator[str]:
    """Yield notes if the runs of a group share a seed, or differ in more than the seed."""
    seeds = [run.config.training.seed for run in runs]
    if len({*seeds}) < len(seeds):
        seed_of = ", ".join(f"{run.name} {seed}" for run, seed in zip(runs, seeds, strict=True))
        yield f"group {name}: runs have the same training.seed ({seed_of}): variation between seeds is underestimated"
    first, *trees = (run.config.model_dump(mode="json") for run in runs)
    keys = set()
    for tree in trees:
        keys |= {change.key for change in differences(first, tree)}
    keys -= {"training.seed", "training.run_dir", "data.dir"}
    if keys:
        yield f"group {name}: its runs differ in more than the seed: {', '.join(sorted(keys))}"


SEEN = 0.01
"""The share of lines in training text from which a verdict says little about new text."""


def _find_in_training_texts(runs: Sequence[_Run], notes: list[str]) -> frozenset[int]:
    """Return the test lines whose source or reference is in the training text of a run, and append notes on them."""
    text = runs[0].text
    seen = frozenset[int]()
    names_of = defaultdict[str, list[str]](list)
    for run in runs:
        names_of[read_info(RunDir(run.path)).data_dir].append(run.name)
    if imported := names_of.pop("", None):
        notes.append(
            f"the training text of {listed(imported, last='and')} (imported) is unknown and may contain lines of "
            f"{text.name}"
        )
    src, tgt = runs[0].config.data.sides
    sides = {src: text.sources or (), tgt: [as_tuple(reference)[0] for reference in text.references]}
    for directory, names in names_of.items():
        training_text = "the training text"
        if len(names_of) > 1:
            training_text += f" of {listed(names, last='and')}"
        try:
            lines = find_in_training_text(DataDir(Path(directory)), sides)
        except NmtError as error:
            notes.append(f"cannot check whether {training_text} contains lines of {text.name}: {error}")
            continue
        seen |= lines
        notes.append(
            f"{len(lines):,} of the {len(text.references):,} lines of {text.name} are in {training_text} (exact "
            "matches): source, reference or both"
        )
    return seen


def _fair_data(runs: Sequence[_Run], settings: Translating) -> str:
    """Return which data directory of the runs has a test set of which few lines are in their training texts; if there
    is none, how to make one."""
    config_of = {read_info(RunDir(run.path)).data_dir: run.config.data for run in runs}
    config_of.pop("", None)  # of imported runs
    for data, config in config_of.items():
        for split in (*config.test, *config.drawn):
            with suppress(NmtError):
                other = replace(settings, data=Path(data), split=split)
                there = [_open(run.name, run.path, other, warn=False) for run in runs]
                if len(_find_in_training_texts(there, [])) < SEEN * len(there[0].text.references):
                    return f"For a fair comparison, use --data {data} --split {split}."
    text = f"{runs[0].text.name} of {runs[0].corpus.directory.path}"
    return f"For a fair comparison, train on data with {text} in data.test: nmt prepare then leaves its lines out."


def find_in_training_text(directory: DataDir, sides: Mapping[str, Texts]) -> frozenset[int]:
    """Return the indices of the lines whose source or reference is in the training text of a data directory.

    `sides` maps each language to its lines; blank lines are ignored.

    Raises DataError if the text is missing or damaged.
    """
    contents = read_contents(directory)
    seen = set()
    for pair, manifest in contents.manifests.items():
        folder = contents.folders[pair]
        if "train" not in manifest.splits:
            raise DataError(f"{folder.path}: has no training text")
        shards = manifest.splits["train"].shards
        names = ["train"]
        if shards is not None:
            names = [shard.name for shard in shards]
        for language in sides.keys() & {*manifest.languages}:
            numbers_of = defaultdict[bytes, list[int]](list)
            for number, line in enumerate(sides[language]):
                numbers_of[line.encode() + b"\n"].append(number)
            numbers_of.pop(b"\n", None)
            for name in names:
                path = folder.text(name, language)
                with reading(path), open_regular(path) as file:
                    for read_line in file:
                        if numbers := numbers_of.get(read_line):
                            seen.update(numbers)
    return frozenset(seen)
