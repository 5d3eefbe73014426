"""The compared systems: their names, groups and scores, and checks that they are comparable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from glob import glob, has_magic
from pathlib import Path

from nmt.console import amount
from nmt.errors import ConfigError, DataError
from nmt.evaluate.comet import NeuralMetrics, SegmentScores
from nmt.evaluate.line_statistics import LineCounts, Metric
from nmt.evaluate.metrics import Reference, looks_lowercased, looks_tokenized
from nmt.evaluate.significance import Interval
from nmt.text.lines import bounded_list, read_lines


@dataclass(frozen=True)
class TextToTranslate:
    """A test set, the same for all systems."""

    name: str
    """The split, or the file of references."""
    references: tuple[Reference, ...]
    sources: tuple[str, ...] | None = None
    languages: tuple[str, str] | None = None
    """Source and target; None if only files are known."""
    notes: tuple[str, ...] = ()
    """Remarks for the reader, such as how much of the text is in training text."""
    seen: frozenset[int] = frozenset()
    """Numbers of the lines, from 0, whose source or reference is in the training text of a run."""


@dataclass(frozen=True)
class System:
    """One system's translations of the test set."""

    name: str
    translations: tuple[str, ...]
    run: Path | None = None
    step: int | None = None
    weights: str | None = None
    """raw, ema or average."""
    search: str | None = None
    precision: str | None = None
    segment_scores: Mapping[str, SegmentScores] = field(default_factory=dict)
    """Scores of the lines by other metrics, by the metric's name."""


@dataclass(frozen=True)
class Group:
    """Systems that differ only in their seed; a single system is a group of one."""

    name: str
    systems: tuple[System, ...]


@dataclass(frozen=True)
class GroupScore:
    """A group's score by a metric: the mean over its systems."""

    value: float
    interval: Interval
    """Over lines: where the score would be on other lines of the same kind."""
    by_system: tuple[float, ...]
    seed_deviation: float | None
    """Standard deviation over systems; None for one."""


@dataclass(frozen=True)
class Difference:
    """A group's score minus the baseline's."""

    value: float
    interval: Interval
    """Over lines; over lines and seeds if both groups have at least three systems."""
    p: float | None
    """Two-sided: by approximate randomization for single systems, by the t distribution over lines and seeds for groups
    of at least three; None where neither applies."""
    p_holm: float | None
    """p, corrected for the number of groups that are compared with the baseline."""
    line_error: float
    """Standard error over lines."""
    seed_error: float | None
    """Standard error over seeds; None unless both groups have several systems."""
    degrees_of_freedom: float | None
    """Of the t distribution; None if p is not from it."""
    advice: str | None
    """Whether more seeds or more lines would tell the difference better, as a sentence; None if p is not over seeds."""


@dataclass(frozen=True)
class Result:
    """The comparison by one metric."""

    metric: Metric
    scores: tuple[GroupScore, ...]
    """In the order of the groups."""
    differences: tuple[Difference | None, ...]
    """In the order of the groups; None for the baseline."""
    counts: tuple[tuple[LineCounts, ...], ...] = field(repr=False)
    """What each line contributes, by group and system: the page scores parts of the test set with it."""


@dataclass(frozen=True)
class Comparison:
    """Everything that `nmt compare` reports."""

    text: TextToTranslate
    groups: tuple[Group, ...]
    baseline: int
    """Position of the baseline among the groups."""
    results: tuple[Result, ...]
    trials: int
    seed: int
    notes: tuple[str, ...] = ()
    """What the reader should know, such as what one training cannot show."""


def with_segment_scores(text: TextToTranslate, systems: Sequence[System], neural: NeuralMetrics) -> list[System]:
    """Return the systems with their scores by further metrics. Raises DataError as `NeuralMetrics.score` does."""
    translations = {system.name: system.translations for system in systems}
    scores = neural.score(text.sources or (), text.references, translations)
    return [replace(system, segment_scores=scores[system.name]) for system in systems]


Members = Mapping[str, Sequence[Path]]
"""The runs or files of each group; a single one is a group of one, and has its name."""


def single_members(paths: Sequence[Path]) -> dict[str, list[Path]]:
    """Return each run or file as a group of its own. Raises ConfigError unless there are two, all of them different."""
    if len(paths) < 2:
        raise ConfigError([f"{' '.join(map(str, paths)) or 'nothing'}: a comparison needs at least two systems"])
    _refuse_repeated(paths)
    return {name: [path] for name, path in zip(distinct_names(paths), paths, strict=True)}


def group_members(values: Sequence[str]) -> dict[str, list[Path]]:
    """Parse groups, each written as `NAME=A,B,C`; a pattern such as `runs/plain-*` is replaced by what it matches.

    Raises ConfigError as `check_groups` does.
    """
    members: dict[str, list[Path]] = {}
    for value in values:
        name, equals, listed = value.partition("=")
        if not (equals and name and listed.strip(",")):
            raise ConfigError([f"--group {value}: write it as NAME=A,B,C"])
        if name in members:
            raise ConfigError([f"--group {name} is given twice: list all its systems once, {name}=A,B,C"])
        members[name] = list(_listed(listed.split(",")))
        if not members[name]:
            raise ConfigError([f"--group {value}: matches no run or file"])
    check_groups(members)
    return members


def check_groups(members: Members) -> None:
    """Raise ConfigError unless there are two groups, each has at least two runs or files, and all are different."""
    for name, paths in members.items():
        if len(paths) < 2:
            raise ConfigError([
                f"group {name} has {paths[0]} only: a group needs at least two that differ in their seed; compare "
                "single systems without groups"
            ])  # fmt: skip
    if len(members) < 2:
        raise ConfigError([f"group {', '.join(members)}: a comparison needs at least two groups"])
    _refuse_repeated([path for paths in members.values() for path in paths])


def _listed(parts: Sequence[str]) -> Iterator[Path]:
    """Yield the paths of a list separated by commas, which may also be in a path: `seed=1,peak_lr=3e-4` of a sweep."""
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
            raise ConfigError([f"{same}: a system cannot be compared with itself; name it once"])


def distinct_names(paths: Sequence[Path]) -> list[str]:
    """Return distinct names: the last part of each path, or as many parts as necessary."""
    parts = [path.absolute().parts for path in paths]
    n = 1
    while len({part[-n:] for part in parts}) < len({*parts}):
        n += 1
    return [Path(*part[-n:]).as_posix() for part in parts]


def find_baseline(wanted: str | None, members: Members) -> int:
    """Return the position of the group that `wanted` names, by its name or path; by default the first.

    Raises ConfigError if there is none.
    """
    if wanted is None:
        return 0
    for position, (name, paths) in enumerate(members.items()):
        if wanted == name or [path.resolve() for path in paths] == [Path(wanted).resolve()]:
            return position
    raise ConfigError([f"--baseline {wanted}: is not one of {', '.join(members)}"])


def grouped(systems: Sequence[System], members: Members) -> tuple[Group, ...]:
    """Return the groups of systems, which are in the order of `members`."""
    rest = iter(systems)
    return tuple(Group(name, tuple(next(rest) for _ in paths)) for name, paths in members.items())


def read_systems(
    members: Members, refs: Sequence[Path], src: Path | None = None
) -> tuple[TextToTranslate, list[System]]:
    """Read files of translations with one or several files of references, and of sources if known.

    Raises DataError if a file is missing, is not UTF-8 text, is empty, or differs in its number of lines.
    """
    hyps = [path for paths in members.values() for path in paths]
    first, *others = read = [(path, _read(path)) for path in (*refs, *hyps, *([src] if src else []))]
    for path, lines in others:
        if len(lines) != len(first[1]):
            raise DataError(
                f"{path} has {amount(len(lines), 'line')}, {first[0]} {len(first[1]):,}: they must pair line by line"
            )
    by_path = dict(read)
    references = tuple(zip(*(by_path[path] for path in refs), strict=True)) if len(refs) > 1 else tuple(first[1])
    text = TextToTranslate(" ".join(map(str, refs)), references, tuple(by_path[src]) if src else None)
    systems = [System(name, tuple(by_path[path])) for name, path in zip(distinct_names(hyps), hyps, strict=True)]
    return text, systems


def _read(path: Path) -> list[str]:
    if path.is_dir():
        raise DataError(f"{path}: is a directory; to compare runs, leave out --ref: their test set has the references")
    lines = bounded_list(read_lines(path), str(path))
    if not lines:
        raise DataError(f"{path}: is empty")
    return lines


def check_alike(text: TextToTranslate, systems: Sequence[System], lowercase: bool = False) -> TextToTranslate:
    """Return the text with notes on tokenised or lower-cased lines.

    Raises DataError if some files are tokenised and others are not, or, unless case is ignored, lower-cased. Of runs it
    is a note: what they translate into is a part of how good they are.
    """
    references = [line for ref in text.references for line in ((ref,) if isinstance(ref, str) else ref)]
    notes = list(text.notes)
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
            notes.append(f"{problem}: that alone makes scores differ")
        elif bool(marked) != looks(references):
            which, other = ("translations", "references") if marked else ("references", "translations")
            notes.append(f"the {which} look {what}, the {other} do not: these scores mean little")
    return replace(text, notes=tuple(notes))
