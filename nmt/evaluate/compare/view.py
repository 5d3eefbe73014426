"""The content of the page of a comparison: lines, words, n-grams, parts of the test set, training text and settings."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nmt.config.load import load_saved_config
from nmt.console import printable_sentence
from nmt.data.corpus import Manifest, read_manifest
from nmt.errors import DataError, NmtError
from nmt.evaluate.compare.systems import Comparison, Group, Result, System
from nmt.evaluate.line_statistics import Floats, LineCounts
from nmt.evaluate.significance import Interval, bootstrap_scores, interval
from nmt.files.read import open_regular
from nmt.layout import DataDir, RunDir
from nmt.runs.info import read_info
from nmt.runs.log import learning_curve
from nmt.text.words import UNSPACED

_SPACE = r" \u00a0\u1680\u2000-\u200a\u202f\u205f"
_PUNCTUATION = r"!-\/:-@\[-`\{-~\u00a1-\u00bf\u2010-\u2027\u2030-\u205e\u060c\u061b\u061f\u06d4\u0964"
_MARKS = "".join(  # of the scripts without spaces, which stay with their letters
    f"\\u{code:04x}"
    for code in [*range(0x0E00, 0x1100), *range(0x1780, 0x1800), *range(0x3000, 0x3100)]
    if unicodedata.category(chr(code)).startswith("M")
)
PATTERN = rf"[{UNSPACED}][{_MARKS}]*|[{_PUNCTUATION}]|[^{_SPACE}{_PUNCTUATION}{UNSPACED}]+"
"""A word, a mark of punctuation, or a character of a script without spaces between words."""
SCRIPT_PATTERN = re.sub(r"\\U000([0-9a-f]{5})", r"\\u{\1}", PATTERN)
"""The same for JavaScript."""
MOST_CELLS = 250_000
"""The largest table of two lines' words in which the script searches for a common subsequence."""

find_words = re.compile(PATTERN).findall


def join_words(words: Sequence[str]) -> str:
    """Join words with spaces, or without in scripts that have none."""
    return re.sub(rf"(?<=[{UNSPACED}]) (?=[{UNSPACED}])", "", " ".join(words))


SAMPLES = 1000
FEW = 10
_MOST = 6
"""Parts by length."""

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Part:
    """Some of the lines."""

    name: str
    rows: Rows


@dataclass(frozen=True)
class PartScore:
    """Scores of some of the lines, by group; differences from the baseline, None for the baseline itself.

    There are no intervals of fewer lines than FEW.
    """

    name: str
    n_lines: int
    values: list[float]
    differences: list[tuple[float, Interval | None] | None]


def by_length(lengths: Sequence[int]) -> list[Part]:
    """Divide lines by length into parts of about as many lines each."""
    values = np.asarray(lengths)
    edges = np.unique(np.quantile(values, np.arange(1, _MOST) / _MOST, method="inverted_cdf"))
    number = np.searchsorted(edges, values)
    parts = []
    for part in np.unique(number):
        rows = np.flatnonzero(number == part)
        low, high = int(values[rows].min()), int(values[rows].max())
        parts.append(Part(f"{low:,}–{high:,}" if low < high else f"{low:,}", rows))
    return parts


def part_scores(view: View, result: Result, parts: Iterable[Part]) -> Iterator[PartScore]:
    """Yield the scores of parts, with intervals of the differences by paired bootstrap."""
    for part in parts:
        counts = [replace(counts, counts=counts.counts[part.rows]) for counts in view.counts(result)]
        values = [system.score() for system in counts]
        drawn = bootstrap_scores(counts, SAMPLES, view.comparison.seed) if len(part.rows) >= FEW else None
        differences: list[tuple[float, Interval | None] | None] = []
        for number, value in enumerate(values):
            of_lines = None if drawn is None else interval(drawn[number] - drawn[view.baseline])
            differences.append(None if number == view.baseline else (value - values[view.baseline], of_lines))
        yield PartScore(part.name, len(part.rows), values, differences)


ORDERS = 4
MOST = 15


class NGram(NamedTuple):
    """How often an n-gram is in the references, and in the translations, clipped line by line to the reference."""

    words: Words
    n_reference: int
    n_baseline: int
    n_other: int

    @property
    def shown(self) -> str:
        """The n-gram as text."""
        return join_words(self.words)

    @property
    def gain(self) -> int:
        """How much more often it occurs in the other system than in the baseline."""
        return self.n_other - self.n_baseline


def won_and_lost(
    references: Sequence[Words], baseline: Sequence[Words], other: Sequence[Words]
) -> tuple[list[NGram], list[NGram]]:
    """Return the n-grams that the other system has more often, and those that the baseline has more often.

    An n-gram that is part of a longer one with the same gain, or the other way round, is left out.
    """
    totals = [Counter[Words](), Counter[Words](), Counter[Words]()]
    for reference, *translations in zip(references, baseline, other, strict=True):
        own = _n_grams(reference)
        totals[0].update(own)
        for total, words in zip(totals[1:], translations, strict=True):
            total.update(own & _n_grams(words))
    every = [NGram(words, n, totals[1][words], totals[2][words]) for words, n in totals[0].items()]
    found = [each for each in every if each.gain]
    found.sort(key=lambda each: (-abs(each.gain), -len(each.words)))
    return _distinct(each for each in found if each.gain > 0), _distinct(each for each in found if each.gain < 0)


def _n_grams(words: Words) -> Counter[Words]:
    return Counter(words[i : i + order] for order in range(1, ORDERS + 1) for i in range(len(words) - order + 1))


def _distinct(n_grams: Iterable[NGram]) -> list[NGram]:
    """Return the first n-grams, without those that are part of another with the same gain."""
    chosen: list[NGram] = []
    for each in n_grams:
        if len(chosen) == MOST:
            break
        if not any(other.gain == each.gain and _overlap(other.words, each.words) for other in chosen):
            chosen.append(each)
    return chosen


def _overlap(first: Words, second: Words) -> bool:
    short, long = sorted((first, second), key=len)
    return any(long[start : start + len(short)] == short for start in range(len(long) - len(short) + 1))


MOST_LINES = 10_000_000
"""Lines of the training text that are compared with those of the test set."""
MOST_COUNTED = 300_000
"""Lines whose words are counted."""
FREQUENCIES = (0, 1, 4, 19, 99, 999)
"""The last frequency of each class of words but the last class."""


@dataclass(frozen=True)
class TrainingText:
    """A training text, compared with a test set."""

    directory: DataDir
    n_lines: int
    """Of it, those that were compared with the test set."""
    all_lines: int
    n_counted: int
    """Of it, those whose words were counted."""
    frequencies: Counter[str]
    """How often the words of the references occur."""
    seen: tuple[frozenset[int], frozenset[int]]
    """The numbers of the lines whose source, and whose reference, is a line of the training text."""


def read_training_text(
    directory: DataDir, languages: tuple[str, str], sides: tuple[Sequence[str], Sequence[str]], words: Collection[str]
) -> TrainingText:
    """Read the training text of a data directory, or its first lines if it is very large.

    Args:
        languages: source and target.
        sides: the test set's sources and references.
        words: what is counted on the target side.

    Raises DataError if the text is missing or damaged, or in other languages.
    """
    manifest = read_manifest(directory)
    if "train" not in manifest.splits or {*manifest.languages} != {*languages}:
        raise DataError(f"{directory.path}: holds no training text in {' and '.join(languages)}")
    all_lines = sum(n for _, n in _files(manifest))
    every = -(-min(all_lines, MOST_LINES) // MOST_COUNTED)
    frequencies: Counter[str] = Counter()
    seen, n_lines = [], 0
    for language, own in zip(languages, sides, strict=True):
        wanted = {line.encode(): False for line in own if line}
        n_lines = 0
        for line in _lines(directory, manifest, language):
            if line in wanted:
                wanted[line] = True
            if language == languages[1] and n_lines % every == 0:
                frequencies.update(filter(words.__contains__, find_words(line.decode(errors="replace"))))
            n_lines += 1
        seen.append(frozenset(number for number, line in enumerate(own) if wanted.get(line.encode())))
    return TrainingText(directory, n_lines, all_lines, -(-n_lines // every), frequencies, (seen[0], seen[1]))


def _files(manifest: Manifest) -> Iterator[tuple[str, int]]:
    """Yield the names and sizes of the parts of the training set."""
    train = manifest.splits["train"]
    if train.shards is None:
        yield "train", train.pairs
    else:
        yield from ((shard.name, shard.pairs) for shard in train.shards)


def _lines(directory: DataDir, manifest: Manifest, language: str) -> Iterator[bytes]:
    """Yield the first lines of the training text."""
    left = MOST_LINES
    for name, _ in _files(manifest):
        path = directory.text(name, language)
        try:
            with open_regular(path) as file:
                for line in file:
                    if left == 0:
                        return
                    left -= 1
                    yield line.removesuffix(b"\n")
        except OSError as error:
            raise DataError(f"{path}: {error.strerror}") from error


@dataclass(frozen=True)
class WordClass:
    """The words of the references that occur in the training text about as often."""

    name: str
    n: int
    """Occurrences in the references."""
    n_found: list[int]
    """By system: how many of them are in its translation of the line."""


def by_frequency(
    training: TrainingText, references: Sequence[Sequence[str]], systems: Sequence[Sequence[Sequence[str]]]
) -> list[WordClass]:
    """Count the reference words that also occur in the systems' translations of their lines.

    references: the words of each line; systems: the same of each system's translations.
    """
    n = [0] * (len(FREQUENCIES) + 1)
    n_found = [[0] * len(systems) for _ in n]
    for number, reference in enumerate(references):
        translated = [Counter(system[number]) for system in systems]
        for word, times in Counter(reference).items():
            frequency = training.frequencies[word]
            place = sum(frequency > most for most in FREQUENCIES)
            n[place] += times
            for system, counter in enumerate(translated):
                n_found[place][system] += min(times, counter[word])
    lows = [0, *(most + 1 for most in FREQUENCIES)]
    names = [f"{low:,}–{high:,}" if low < high else f"{low:,}" for low, high in zip(lows, FREQUENCIES, strict=False)]
    names.append(f"{lows[-1]:,} and more")
    return [WordClass(*row) for row in zip(names, n, n_found, strict=True) if row[1]]


_INFO = ("data_dir", "corpus", "tokenizer", "precision", "device_name", "torch", "initial")
_OF_EVERY_RUN = {"training.run_dir"}  # differs between any two runs


@dataclass(frozen=True)
class Trainings:
    """How the systems were trained, as far as it is recorded."""

    differences: list[tuple[str, list[str]]]
    """Settings, with their values by group: ? if it cannot be read, several of one group separated by semicolons."""
    curves: list[tuple[int, list[tuple[float, float]]]]
    """Steps and BLEU on the development set of each run, with the number of its group."""
    problems: list[str]
    n_runs: int


def read_trainings(comparison: Comparison) -> Trainings:
    """Read the configs and logs of the runs."""
    problems: list[str] = []
    settings = [_settings(group, problems) for group in comparison.groups]
    keys = dict.fromkeys(key for systems in settings for system in systems for key in system)
    differences = []
    for key in keys:
        values = [[*dict.fromkeys(system.get(key, "–") for system in systems)] for systems in settings]
        if len({tuple(own) for own in values if own}) > 1 or any(len(own) > 1 for own in values):
            differences.append((key, ["; ".join(own) or "?" for own in values]))
    runs = [(number, system) for number, group in enumerate(comparison.groups) for system in group.systems]
    curves = [(number, curve) for number, system in runs for curve in _curve(system, problems)]
    return Trainings(differences, curves, problems, sum(system.run is not None for _, system in runs))


def _settings(group: Group, problems: list[str]) -> list[dict[str, str]]:
    """Return the settings of each run of a group by dotted key."""
    settings = []
    for system in group.systems:
        if system.run is None:
            continue
        run = RunDir(system.run)
        try:
            tree = load_saved_config(run.config).model_dump(mode="json")
            info = read_info(run).model_dump(mode="json")
        except (NmtError, OSError) as error:
            problems.append(f"{system.name}: its settings cannot be read: {error}")
            continue
        flat = {**dict(_flat("", tree)), **{f"run.json: {key}": _value(info.get(key)) for key in _INFO}}
        settings.append({key: value for key, value in flat.items() if key not in _OF_EVERY_RUN})
    return settings


def _flat(prefix: str, tree: dict[str, object]) -> Iterator[tuple[str, str]]:
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            yield from _flat(f"{prefix}{key}.", value)
        else:
            yield f"{prefix}{key}", _value(value)


def _value(value: object) -> str:
    """Format a value as in YAML."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _curve(system: System, problems: list[str]) -> Sequence[list[tuple[float, float]]]:
    """Return the learning curve of a system, if it has one, by the best weights at each validation."""
    if system.run is None:
        return []
    try:
        points = learning_curve(RunDir(system.run))
    except (NmtError, OSError) as error:
        problems.append(f"{system.name}: no learning curve: {error}")
        return []
    return [[(float(point.step), max(point.bleu.values())) for point in points if point.bleu]]


Words = tuple[str, ...]


@dataclass(frozen=True)
class View:
    """A comparison, and the system of each group whose translations are shown."""

    comparison: Comparison
    shown: tuple[int, ...]
    """By group: the position of its system."""

    @property
    def baseline(self) -> int:
        """The position of the baseline among the groups."""
        return self.comparison.baseline

    @cached_property
    def others(self) -> list[int]:
        """The positions of the other groups."""
        return [number for number in range(len(self.names)) if number != self.baseline]

    @cached_property
    def names(self) -> list[str]:
        """The names of the groups."""
        return [group.name for group in self.comparison.groups]

    @cached_property
    def systems(self) -> list[System]:
        """The systems that are shown, by group."""
        return [group.systems[n] for group, n in zip(self.comparison.groups, self.shown, strict=True)]

    @cached_property
    def sources(self) -> list[str] | None:
        """The source of each line; like all text here, with control characters escaped."""
        sources = self.comparison.text.sources
        return None if sources is None else [*map(printable_sentence, sources)]

    @cached_property
    def unescaped_references(self) -> list[str]:
        """The first reference of each line."""
        return [ref if isinstance(ref, str) else ref[0] for ref in self.comparison.text.references]

    @cached_property
    def references(self) -> list[str]:
        """The first reference of each line, escaped."""
        return [*map(printable_sentence, self.unescaped_references)]

    @cached_property
    def translations(self) -> list[list[str]]:
        """The translation of each line, by group."""
        return [[*map(printable_sentence, system.translations)] for system in self.systems]

    @cached_property
    def reference_words(self) -> list[Words]:
        """The words of each reference."""
        return [tuple(find_words(line)) for line in self.references]

    @cached_property
    def translation_words(self) -> list[list[Words]]:
        """The words of each translation, by group."""
        return [[tuple(find_words(line)) for line in lines] for lines in self.translations]

    @cached_property
    def by_line(self) -> Result:
        """The result whose scores of lines are drawn: chrF, if it was computed."""
        results = self.comparison.results
        return next((result for result in results if result.metric.name == "chrf"), results[0])

    def counts(self, result: Result) -> list[LineCounts]:
        """Return the counts of the systems that are shown, by group."""
        return [counts[n] for counts, n in zip(result.counts, self.shown, strict=True)]

    def line_scores(self, result: Result) -> Floats:
        """Return the score of each single line, (groups, L)."""
        return np.stack([counts.line_scores() for counts in self.counts(result)])

    @cached_property
    def languages(self) -> tuple[str | None, str | None]:
        """Source and target, if they are known."""
        return self.comparison.text.languages or (None, None)

    @cached_property
    def gains(self) -> Floats:
        """How much better each group translates each line than the baseline, (groups, L)."""
        scores = self.line_scores(self.by_line)
        gains: Floats = scores - scores[self.baseline]
        return gains if self.by_line.metric.higher_is_better else -gains


def make_view(comparison: Comparison) -> View:
    """Choose a system of each group: the one whose score by the first metric is the median, or just below it."""
    first = comparison.results[0]
    return View(comparison, tuple(_median(score.by_system) for score in first.scores))


def _median(values: Sequence[float]) -> int:
    return sorted(range(len(values)), key=values.__getitem__)[(len(values) - 1) // 2]
