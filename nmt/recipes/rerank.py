"""`nmt rerank`: several runs choose among the candidate translations of one (noisy-channel reranking).

Shapes are written with F features, L lines, and K candidates of the line that has most.

What each candidate contributes to the score is counted once, so that the score of a choice is a sum over lines.
Shapes are written with F features, L lines, K candidates, and C counts of a metric.

All that are log-probabilities are divided by the length penalty of the search, as the scores of search are: with the
default settings they are means per piece (Yee et al., 2019), with `search.length_penalty` 0 they are sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice, tee
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field, FiniteFloat

from nmt import __version__
from nmt.config import SearchConfig
from nmt.console import Progress, aligned, n_lines, printable, say
from nmt.errors import ConfigError, DataError
from nmt.evaluate.line_statistics import Floats, LineCounts, Metric, corpus_scores, count_lines
from nmt.evaluate.metrics import MetricName, metric_name
from nmt.evaluate.run import describe_search
from nmt.files.document import Document, read_document
from nmt.files.write import open_output
from nmt.runs.info import EnsembleMember
from nmt.runs.model import Origin
from nmt.search.step import length_penalty
from nmt.text.lines import bounded_list, read_aligned, read_lines
from nmt.text.tokenizer import is_blank
from nmt.translate.files import Warnings
from nmt.translate.language_model import LanguageModel
from nmt.translate.score import Scored
from nmt.translate.translator import Translator
from nmt.translate.types import WINDOW, Line

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Table:
    """Candidates of lines. In lists shorter than K the last one is repeated."""

    texts: Sequence[Sequence[str]]
    """K for each of the L lines."""
    values: Floats
    """(F, L, K); the first feature is the score of search."""

    def choose(self, weights: Sequence[float]) -> Ints:
        """Return the number (L,) of each line's candidate with the highest weighted sum, the first of several."""
        total = np.zeros(self.values.shape[1:])
        for weight, values in zip(weights, self.values, strict=True):
            total += weight * values
        chosen: Ints = total.argmax(1)
        return chosen


def make_table(lists: Sequence[NBest], features: Sequence[Feature]) -> Table:
    """Compute the features of candidates; there is at least one line. A blank candidate is as bad as the worst of its
    line.
    """
    pairs = [(line, candidate) for line, candidates in lists for candidate in candidates]
    sizes = np.array([len(candidates) for _, candidates in lists])
    first = np.cumsum(sizes) - sizes
    rows = first[:, None] + np.minimum(np.arange(sizes.max()), sizes[:, None] - 1)  # (L, K), of `pairs`
    values = np.array([feature.values(pairs) for feature in features], np.float64)[:, rows]
    worst = np.where(np.isnan(values), np.inf, values).min(2, keepdims=True)
    values = np.where(np.isnan(values), np.where(np.isinf(worst), 0.0, worst), values)
    return Table([[pairs[row][1].text for row in of_line] for of_line in rows], values)


def rerank(lists: Iterable[NBest], features: Sequence[Feature], weights: Sequence[float]) -> Iterator[tuple[str, int]]:
    """Yield for each line the text of the chosen candidate, and its number from 0; `WINDOW` lines are read ahead."""
    stream = iter(lists)
    while window := list(islice(stream, WINDOW)):
        table = make_table(window, features)
        for texts, number in zip(table.texts, table.choose(weights).tolist(), strict=True):
            yield texts[number], number


FORMAT = 1


class WeightsFile(Document):
    """The weights of features, and how they were tuned."""

    format: int
    nmt: str
    """The version of nmt."""
    weights: dict[str, FiniteFloat]
    metric: str
    signature: str
    direct: float
    """The score on the development set by search alone."""
    reranked: float
    """With these weights."""
    oracle: float
    """With the candidates that have the highest chrF of their line."""
    src: str
    ref: str
    lines: int
    candidates: int
    """Of all lines."""
    n_best: int | None
    """None if the candidates were read from a file."""
    search: str
    tried: int
    """Number of weights that were tried."""
    seed: int
    run: list[EnsembleMember]
    reverse: list[EnsembleMember]
    rescore: dict[str, list[EnsembleMember]]
    """By the names of their features."""
    lm: dict[str, EnsembleMember] = Field({})
    """The same of language models."""


def read_weights(path: Path, features: Sequence[Feature]) -> tuple[float, ...]:
    """Read the weights of these features. Raises DataError if the file is missing, damaged or has those of others."""
    missing = f"{path}: no such file; --tune writes it"
    weights = read_document(path, WeightsFile, DataError, "; tune again with --tune", (FORMAT,), missing).weights
    names = [feature.name for feature in features]
    if weights.keys() != {*names}:
        held, given = ", ".join(weights), ", ".join(names)
        raise DataError(f"{path}: has weights of {held}, these runs give {given}; tune again, or name the same runs")
    return tuple(weights[name] for name in names)


N_RANDOM = 1000
"""Random weights that are tried."""
N_STARTS = 5
"""The best of these are improved one weight at a time."""
FINEST = 1 / 64
"""Smallest step of a weight, in units: with a weight of one unit a feature varies as much as the score of search."""
SEED = 1

Weights = tuple[float, ...]


@dataclass(frozen=True)
class Counts:
    """The contribution of each candidate to a metric."""

    metric: Metric
    counts: Floats
    """(L, K, C)"""

    @classmethod
    def of(cls, metric: MetricName, table: Table, refs: Sequence[str], tgt_lang: str | None) -> Counts:
        """Count by the references of the lines. Raises DataError if there is not one for each."""
        by_rank = count_lines(metric, [*zip(*table.texts, strict=True)], refs, tgt_lang)
        return cls(by_rank[0].metric, np.stack([each.counts for each in by_rank], 1))

    def score(self, chosen: Ints) -> float:
        """Return the corpus score of one candidate (L,) of each line."""
        return LineCounts(self.metric, self.counts[np.arange(len(chosen)), chosen]).score()

    def best(self) -> Ints:
        """Return the number (L,) of each line's candidate with the highest score of its own."""
        n_lines, n_candidates, _ = self.counts.shape
        scores = corpus_scores(self.metric.formula, self.counts.reshape(n_lines * n_candidates, -1))
        chosen: Ints = scores.reshape(n_lines, n_candidates).argmax(1)
        return chosen


@dataclass(frozen=True)
class Tuned:
    """Weights, and their score on the development set."""

    weights: Weights
    metric: Metric
    direct: float
    """The score of the ranking by search."""
    reranked: float
    oracle: float
    """The score of the candidates that have the highest chrF of their line."""
    n_tried: int


def tune(
    table: Table, features: Sequence[Feature], refs: Sequence[str], metric: MetricName, tgt_lang: str | None
) -> Tuned:
    """Find the weights of features with the best score; that of the first, the score of search, is 1.

    Raises DataError if there is not one reference for each line.
    """
    counts = Counts.of(metric, table, refs, tgt_lang)
    by_chrf = counts if metric == "chrf" else Counts.of("chrf", table, refs, tgt_lang)
    weights, scores = find_weights(table, features, counts.score)
    return Tuned(
        weights, counts.metric, scores[direct_weights(features)], scores[weights], counts.score(by_chrf.best()),
        len(scores),
    )  # fmt: skip


def direct_weights(features: Sequence[Feature]) -> Weights:
    """Return the weights that keep the ranking of search."""
    return 1.0, *(0.0 for _ in features[1:])


def find_weights(
    table: Table, features: Sequence[Feature], score: Callable[[Ints], float]
) -> tuple[Weights, dict[Weights, float]]:
    """Return the weights whose choice has the best score, the first of several, and the scores of all that were tried.

    The ranking by search and the default weights are among them.
    """
    units, lowest = _units(table), [-np.inf if feature.is_signed else 0.0 for feature in features]
    scores: dict[Weights, float] = {}

    def try_weights(weights: Weights) -> float:
        if weights not in scores:
            scores[weights] = score(table.choose(weights))
        return scores[weights]

    def changed(weights: Weights, at: int, by: float) -> Weights:
        value = max(weights[at] + by * units[at], lowest[at])
        return *weights[:at], float(f"{value:.4g}"), *weights[at + 1 :]

    search_alone = direct_weights(features)
    try_weights(search_alone)
    try_weights((1.0, *(feature.default for feature in features[1:])))
    rng = np.random.default_rng(SEED)
    for _ in range(N_RANDOM):
        weights = search_alone
        for at in range(1, len(features)):
            if rng.random() < 0.8:  # else it stays 0
                sign = rng.choice([-1, 1]) if features[at].is_signed else 1
                weights = changed(weights, at, sign * rng.exponential())
        try_weights(weights)
    for weights in sorted(scores, key=lambda tried: -scores[tried])[:N_STARTS]:
        step = 1.0
        while step >= FINEST:
            others = [changed(weights, at, by) for at in range(1, len(features)) for by in (step, -step)]
            best = max(others, key=try_weights)
            weights, step = (best, step) if scores[best] > scores[weights] else (weights, step / 2)
    return max(scores, key=lambda tried: scores[tried]), scores


def _units(table: Table) -> Floats:
    """Return for each feature (F,) the weight with which it varies within lines as much as the first; 0 if it does not
    vary."""
    centred = table.values - table.values.mean(2, keepdims=True)
    spread = np.sqrt((centred**2).mean((1, 2)))
    units: Floats = np.divide(spread[0], spread, out=np.zeros_like(spread), where=spread > 0)
    return units


COLUMNS = "line number, score, log-probability and translation, separated by tabs (nmt translate --n-best)"


class Candidate(NamedTuple):
    """A translation of a line."""

    text: str
    score: float
    """That of search."""


class NBest(NamedTuple):
    """A line and its candidates, at least one; a blank line has a blank one."""

    source: str
    candidates: Sequence[Candidate]
    """With different texts; those of beam search best first."""


def translated(
    translator: Translator, lines: Iterable[str], search: SearchConfig, n_best: int, progress: Progress | None = None
) -> Iterator[NBest]:
    """Translate lines into up to `n_best` candidates each. Warnings are printed at the end.

    Raises ConfigError if the settings of the search are incompatible.
    """
    warnings = Warnings()
    lines, sources = tee(lines)
    by_line = translator.translate_lines(lines, search, n_best, progress)
    for number, (source, translations) in enumerate(zip(sources, by_line, strict=True), start=1):
        warnings.add(number, Line(source), translations)
        yield _n_best(source, (Candidate(each.text, each.score) for each in translations))
    for warning in warnings.lines():
        say(warning)


def read_n_best(path: Path, lines: Iterable[str], source: Path) -> Iterator[NBest]:
    """Read the candidates of the lines of `source`.

    Raises DataError if a row is none of `nmt translate --n-best`, or if the rows are not those of these lines in their
    order.
    """
    rows = (_parsed(row, f"{path}: line {number}") for number, row in enumerate(read_lines(path), start=1))
    groups = groupby(rows, key=lambda row: row[0])
    n_lines = 0
    for n_lines, line in enumerate(lines, start=1):
        number, group = next(groups, (None, ()))
        if number != n_lines:
            instead = "the end" if number is None else f"those of line {number}"
            raise DataError(f"{path}: no candidates of line {n_lines} of {source}, found {instead} in their place")
        yield _n_best(line, (candidate for _, candidate in group))
    if rest := next(groups, None):
        raise DataError(f"{path}: has candidates of line {rest[0]}, but {source} has {n_lines} lines")


def _n_best(source: str, candidates: Iterable[Candidate]) -> NBest:
    different: dict[str, Candidate] = {}
    for candidate in candidates:
        different.setdefault(candidate.text, candidate)
    return NBest(source, (Candidate("", 0.0),) if is_blank(source) else tuple(different.values()))


def _parsed(row: str, where: str) -> tuple[int, Candidate]:
    try:
        number, score, _, text = row.split("\t", 3)
        parsed = int(number), Candidate(text, float(score))
    except ValueError:
        raise DataError(f"{where} is {row[:40]!r}, expected {COLUMNS}") from None
    if not math.isfinite(parsed[1].score):
        raise DataError(f"{where} has the score {score}: not a number to rank by")
    return parsed


Pairs = Sequence[tuple[str, Candidate]]
"""Lines, each with one of its candidates."""


@dataclass(frozen=True)
class Feature:
    """A number for each candidate, by which those of a line are compared."""

    name: str
    values: Callable[[Pairs], Sequence[float]]
    """NaN where a side is blank."""
    default: float = 1.0
    """The weight if none is tuned."""
    is_signed: bool = False
    """Whether the weight may be negative."""


def direct() -> Feature:
    """The score of the search that found the candidate."""
    return Feature("direct", lambda pairs: [candidate.score for _, candidate in pairs])


def channel(reverse: Translator, search: SearchConfig) -> Feature:
    """Log-probability of the line as a translation of the candidate, by a run of the opposite direction."""

    def values(pairs: Pairs) -> list[float]:
        return _scores("channel", reverse, [(candidate.text, line) for line, candidate in pairs], search)

    return Feature("channel", values)


def rescored(name: str, translator: Translator, search: SearchConfig) -> Feature:
    """Log-probability of the candidate by another run of the same direction."""

    def values(pairs: Pairs) -> list[float]:
        return _scores(name, translator, [(line, candidate.text) for line, candidate in pairs], search)

    return Feature(name, values)


def fluency(name: str, language_model: LanguageModel, search: SearchConfig) -> Feature:
    """Log-probability of the candidate by a language model."""

    def values(pairs: Pairs) -> list[float]:
        with Progress(f"scoring, {name}", len(pairs), "candidates") as progress:
            lines = [candidate.text for _, candidate in pairs]
            return _values(name, language_model.score(lines, search, progress))

    return Feature(name, values)


def length(translator: Translator, search: SearchConfig) -> Feature:
    """The pieces of the candidate, `</s>` counted, divided by the length penalty of the line."""
    src, tgt = (translator.tokenizers[language] for language in translator.config.data.sides)

    def values(pairs: Pairs) -> list[float]:
        lines = src.encode_all([line for line, _ in pairs])
        candidates = tgt.encode_all([candidate.text for _, candidate in pairs])
        return [(len(t) + 1) / length_penalty(len(s) + 1, search) for s, t in zip(lines, candidates, strict=True)]

    return Feature("length", values, default=0.0, is_signed=True)


def _scores(name: str, translator: Translator, pairs: Sequence[tuple[str, str]], search: SearchConfig) -> list[float]:
    with Progress(f"scoring, {name}", len(pairs), "candidates") as progress:
        return _values(name, translator.score(pairs, search, progress))


def _values(name: str, scored: Iterable[Scored]) -> list[float]:
    """Return the scores, and print how many candidates were cut."""
    scores, n_cut = [], 0
    for each in scored:
        scores.append(each.score)
        n_cut += each.cut
    if n_cut:
        say(f"{name}: candidates longer than the model allows, or of such lines, scored only in part: {n_cut:,}")
    return scores


OWN_NAMES = ("direct", "channel", "length")


@dataclass(frozen=True)
class Runs:
    """The translators that score candidates."""

    direct: Translator
    """Makes the candidates, too, unless they are read."""
    reverse: Translator
    others: Mapping[str, Translator]
    """Further ones of the direction of `direct`, by the names of their features."""
    language_models: Mapping[str, LanguageModel]
    """Of the language of the candidates, by the names of their features."""

    @classmethod
    def load(
        cls,
        run: Sequence[Path],
        reverse: Sequence[Path],
        others: Sequence[Path],
        language_models: Sequence[Path],
        precision: str,
    ) -> Runs:
        """Load runs; several for `run` or `reverse` are an ensemble.

        Raises ConfigError for a run of the wrong direction or language or two of one name, and as `Translator.load`.
        """
        named = [("--rescore", path) for path in others] + [("--lm", path) for path in language_models]
        names = [path.resolve().name for _, path in named]
        for name, (option, path) in zip(names, named, strict=True):
            if name in OWN_NAMES or names.count(name) > 1:
                of = "a feature" if name in OWN_NAMES else "another --rescore or --lm"
                raise ConfigError(
                    [f"{option} {path}: its weight has the same name as that of {of}, {name}; rename the run"]
                )
        translator = Translator.load(run, precision=precision)
        data = translator.config.data
        opposite = _load("--reverse", reverse, f"{data.tgt}-{data.src}", precision)
        scorers = [_load("--rescore", [path], data.direction, precision) for path in others]
        models = [_load_language_model(path, data.tgt, precision) for path in language_models]
        return cls(
            translator,
            opposite,
            dict(zip(names[: len(scorers)], scorers, strict=True)),
            dict(zip(names[len(scorers) :], models, strict=True)),
        )

    def features(self, search: SearchConfig) -> list[Feature]:
        """Return the features, the score of search first."""
        others = [rescored(name, translator, search) for name, translator in self.others.items()]
        fluent = [fluency(name, model, search) for name, model in self.language_models.items()]
        return [direct(), channel(self.reverse, search), *others, *fluent, length(self.direct, search)]


def _load(option: str, paths: Sequence[Path], direction: str, precision: str) -> Translator:
    translator = Translator.load(paths, precision=precision)
    found = translator.config.data.direction
    if found != direction:
        raise ConfigError([f"{option} {paths[0]}: translates {found}, beside this --run it must be {direction}"])
    return translator


def _load_language_model(path: Path, language: str, precision: str) -> LanguageModel:
    model = LanguageModel.load(path, precision=precision)
    learned = model.config.learned_languages
    if language not in learned:
        raise ConfigError([f"--lm {path}: was trained on {' and '.join(learned)}, the candidates are {language}"])
    return model


@dataclass(frozen=True)
class Request:
    """A text to rerank, and the source of its candidates."""

    runs: Runs
    search: SearchConfig
    source: Path
    n_best: int | None
    """Candidates of a line; None if they are read from `n_best_file`."""
    n_best_file: Path | None = None

    def lists(self, lines: Iterable[str]) -> Iterator[NBest]:
        """Yield the candidates of each line of the text. Raises ConfigError or DataError."""
        if self.n_best_file is not None:
            yield from read_n_best(self.n_best_file, lines, self.source)
        elif self.n_best is not None:
            with Progress("translating", n_lines(self.source)) as progress:
                yield from translated(self.runs.direct, lines, self.search, self.n_best, progress)


def rerank_file(request: Request, weights: Sequence[float], output: Path | str) -> None:
    """Write the chosen translation of each line; blank lines stay blank. Raises ConfigError or DataError."""
    features = request.runs.features(request.search)
    n_written = n_changed = 0
    with open_output(output) as out:
        for text, number in rerank(request.lists(read_lines(request.source)), features, weights):
            out.write(f"{text}\n".encode())
            n_written += 1
            n_changed += number > 0
    say(f"lines {n_written:,}, {n_changed:,} of them with another translation than the first candidate")


def tune_weights(request: Request, reference: Path, metric: MetricName) -> WeightsFile:
    """Tune the weights of the features on a text with references. Raises ConfigError or DataError."""
    pairs = bounded_list(read_aligned(request.source, reference), str(request.source))
    if not pairs:
        raise DataError(f"{request.source}: is empty, there is nothing to tune on")
    runs, features = request.runs, request.runs.features(request.search)
    lists = list(request.lists(line for line, _ in pairs))
    table = make_table(lists, features)
    tuned = tune(table, features, [ref for _, ref in pairs], metric, runs.direct.config.data.tgt)
    return WeightsFile(
        format=FORMAT,
        nmt=__version__,
        weights=dict(zip([feature.name for feature in features], tuned.weights, strict=True)),
        metric=metric,
        signature=tuned.metric.signature,
        direct=tuned.direct,
        reranked=tuned.reranked,
        oracle=tuned.oracle,
        src=printable(str(request.source)),
        ref=printable(str(reference)),
        lines=len(lists),
        candidates=sum(len(candidates) for _, candidates in lists),
        n_best=request.n_best,
        search=describe_search(request.search),
        tried=tuned.n_tried,
        seed=SEED,
        run=_members(runs.direct),
        reverse=_members(runs.reverse),
        rescore={name: _members(translator) for name, translator in runs.others.items()},
        lm={name: _member(model.origin) for name, model in runs.language_models.items()},
    )


def _members(translator: Translator) -> list[EnsembleMember]:
    origins = [origin for origin in (translator.origin, *translator.others) if origin is not None]
    return list(map(_member, origins))


def _member(origin: Origin) -> EnsembleMember:
    return EnsembleMember(run=printable(str(origin.run)), step=origin.step, weights=origin.weights)


def screen(tuned: WeightsFile) -> list[str]:
    """Return what tuning has found as lines to print."""
    rows = [
        ("direct", f"{tuned.direct:.2f}", "by the score of search alone"),
        ("reranked", f"{tuned.reranked:.2f}", f"{tuned.reranked - tuned.direct:+.2f}"),
        ("oracle", f"{tuned.oracle:.2f}", "the candidate of each line that has the highest chrF"),
    ]
    per_line = tuned.candidates / tuned.lines
    return [
        f"{metric_name(tuned.metric)} of {tuned.ref}, {tuned.lines:,} lines, {per_line:.1f} candidates per line",
        *aligned(rows, right=(1,)),
        "weights: " + ", ".join(f"{name} {weight:g}" for name, weight in tuned.weights.items()),
        tuned.signature,
    ]
