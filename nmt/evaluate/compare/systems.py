"""Systems to compare: names, groups and scores, reading of files, and checks that they are comparable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from glob import glob, has_magic
from pathlib import Path

from nmt.errors import ConfigError, DataError
from nmt.evaluate.comet import NeuralMetrics, SegmentScores
from nmt.evaluate.line_statistics import LineCounts, Metric
from nmt.evaluate.metrics import Reference, as_tuple, blank_references_note, looks_lowercased, looks_tokenized
from nmt.evaluate.report import language_of_files, read_texts
from nmt.evaluate.significance import Interval


@dataclass(frozen=True)
class TextToTranslate:
    """A test set, the same for all systems."""

    name: str
    """The name of the split, or of the file of references."""
    references: tuple[Reference, ...]
    sources: tuple[str, ...] | None = None
    languages: tuple[str, str] | None = None
    """The source and the target language; None if only files are known."""
    notes: tuple[str, ...] = ()
    """Notes for the reader, such as the number of lines that are in training text."""
    seen: frozenset[int] = frozenset()
    """Numbers of the lines, from 0, whose source or reference is in the training text of a run."""
    tgt_lang: str | None = None
    """The language by which files are scored."""


@dataclass(frozen=True)
class System:
    """A system with its translations of the test set."""

    name: str
    translations: tuple[str, ...]
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


@dataclass(frozen=True)
class GroupScore:
    """The score of a group by a metric: the mean over its systems."""

    value: float
    interval: Interval
    """95 % interval of the score on other lines of the same kind."""
    by_system: tuple[float, ...]
    seed_deviation: float | None
    """Standard deviation over the systems; None for a single system."""


@dataclass(frozen=True)
class Difference:
    """The score of a group minus the score of the baseline."""

    value: float
    interval: Interval
    """95 % interval over lines, or over lines and seeds if both groups have at least three systems."""
    p: float | None
    """Two-sided p-value: by approximate randomization over lines for single systems, by the t distribution over lines
    and seeds for groups of at least three; otherwise None."""
    p_holm: float | None
    """The p-value corrected for the number of comparisons with the baseline (Holm, 1979)."""
    line_error: float
    """Standard error over lines."""
    seed_error: float | None
    """Standard error over seeds; None unless both groups have several systems."""
    degrees_of_freedom: float | None
    """The degrees of freedom of the t distribution; None if it was not used."""
    advice: str | None
    """Advice on whether more runs or more lines would make the interval narrower; None if p is not over seeds."""


@dataclass(frozen=True)
class Result:
    """The results of a comparison by one metric."""

    metric: Metric
    scores: tuple[GroupScore, ...]
    """The score of each group."""
    differences: tuple[Difference | None, ...]
    """The difference of each group from the baseline; None for the baseline."""
    counts: tuple[tuple[LineCounts, ...], ...] = field(repr=False)
    """The line counts by group and system, with which the page scores parts of the test set."""


@dataclass(frozen=True)
class Comparison:
    """The results of a comparison by all metrics."""

    text: TextToTranslate
    groups: tuple[Group, ...]
    baseline: int
    """The position of the baseline among the groups."""
    results: tuple[Result, ...]
    trials: int
    seed: int
    notes: tuple[str, ...] = ()
    """Notes for the reader, such as the limits of a comparison of single runs."""


def with_segment_scores(text: TextToTranslate, systems: Sequence[System], neural: NeuralMetrics) -> list[System]:
    """Return the systems with line scores by further metrics. Raises DataError as `NeuralMetrics.score` does."""
    translations = {system.name: system.translations for system in systems}
    scores = neural.score(text.sources or (), text.references, translations)
    return [replace(system, segment_scores=scores[system.name]) for system in systems]


Members = Mapping[str, Sequence[Path]]
"""The runs or files of each group, by the name of the group. A single run or file is a group of one."""


def all_paths(members: Members) -> list[Path]:
    """Return the runs or files of all groups."""
    return [path for paths in members.values() for path in paths]


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
        n = next((n for n in range(len(parts), 1, -1) if _matching(",".join(parts[:n]))), 1)
        path, parts = ",".join(parts[:n]), parts[n:]
        yield from _matching(path) if has_magic(path) else [Path(path)] if path else []


def _matching(pattern: str) -> list[Path]:
    return [Path(path) for path in sorted(glob(pattern))]  # noqa: PTH207  (those of pathlib are relative)


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


def find_baseline(wanted: str | None, members: Members) -> int:
    """Return the position of the group with the name or path `wanted`, by default the first one.

    Raises ConfigError if there is no such group.
    """
    if wanted is None:
        return 0
    for position, (name, paths) in enumerate(members.items()):
        if wanted == name or [path.resolve() for path in paths] == [Path(wanted).resolve()]:
            return position
    raise ConfigError(f"--baseline {wanted}: no such system; the systems are {', '.join(members)}")


def grouped(systems: Sequence[System], members: Members) -> tuple[Group, ...]:
    """Return systems as groups; the systems are in the order of `members`."""
    rest = iter(systems)
    return tuple(Group(name, tuple(next(rest) for _ in paths)) for name, paths in members.items())


def read_systems(
    members: Members, refs: Sequence[Path], src: Path | None = None, to: str | None = None
) -> tuple[TextToTranslate, list[System]]:
    """Read files of translations, one or several files of references, and a file of sources if there is one.

    `to` is the language, by default that of `language_of_files`.

    Raises DataError as `read_texts` does.
    """
    hyps = all_paths(members)
    texts = [*map(tuple, read_texts([*refs, *hyps, *filter(None, [src])]))]
    of_refs, of_hyps = texts[: len(refs)], texts[len(refs) : len(refs) + len(hyps)]
    references = tuple(zip(*of_refs, strict=True)) if len(refs) > 1 else of_refs[0]
    tgt_lang = to or language_of_files([*hyps, *refs], references)
    text = TextToTranslate(" ".join(map(str, refs)), references, texts[-1] if src else None, tgt_lang=tgt_lang)
    return text, [System(*pair) for pair in zip(distinct_names(hyps), of_hyps, strict=True)]


def check_alike(text: TextToTranslate, systems: Sequence[System], lowercase: bool = False) -> TextToTranslate:
    """Check that systems do not differ in tokenisation or case, and add notes on both to the text.

    Raises DataError if some files look tokenised and others do not, or, unless case is ignored, lower-cased. For runs
    this is a note, because tokenisation and case are part of their quality.
    """
    references = [line for reference in text.references for line in as_tuple(reference)]
    blank = blank_references_note(text.references, [system.translations for system in systems])
    notes = [*text.notes, *filter(None, [blank])]
    for looks, what, advice in (
        (looks_tokenized, "tokenised", "detokenise it"),
        (looks_lowercased, "lower-cased", "restore its case, or ignore case with --lowercase"),
    ):
        if lowercase and looks is looks_lowercased:
            continue
        marked = [system for system in systems if looks(system.translations)]
        plain = [system for system in systems if system not in marked]
        if marked and plain:
            problem = f"{marked[0].name} looks {what}, {plain[0].name} does not"
            if marked[0].run is None:
                raise DataError(f"{problem}: {advice}")
            notes.append(f"{problem}: this changes the scores")
        elif bool(marked) != looks(references):
            which, other = ("translations", "references") if marked else ("references", "translations")
            notes.append(f"the {which} look {what}, the {other} do not: these scores are misleading")
    return replace(text, notes=tuple(notes))
