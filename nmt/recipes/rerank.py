"""`nmt rerank`: choose among the candidate translations of each line by the scores of several runs.

This is noisy-channel reranking (Yee et al., 2019). Shapes have F features, L lines, K candidates of the line with the
most, and C counts of a metric. The counts of each candidate are computed once, so that the score of a choice is the
score of a sum over lines.

Log-probabilities are divided by the length penalty of the search, as its scores are: with the default settings they are
means per piece, with `search.length_penalty` 0 they are sums.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice, tee
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import FiniteFloat

from nmt import __version__
from nmt.console import Progress, aligned, n_lines, printable, say
from nmt.errors import ConfigError, DataError
from nmt.evaluate.metrics import Floats, LineCounts, Metric, MetricName, count_lines, few_four_grams, metric_name
from nmt.evaluate.run import describe_search
from nmt.files.document import Document, read_document
from nmt.files.write import open_output
from nmt.runs.model import ModelRef, Origin
from nmt.search.settings import SearchConfig
from nmt.search.step import length_penalty
from nmt.text.lines import bounded_list, read_aligned, read_lines
from nmt.text.tokenizer import is_blank
from nmt.text.words import beginning
from nmt.translate.files import Warnings
from nmt.translate.language_model import LanguageModel
from nmt.translate.loading import Translator
from nmt.translate.score import Scored
from nmt.translate.types import WINDOW, Line

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class CandidateTable:
    """The candidates of lines and their features. A line with fewer than K candidates repeats its last one."""

    texts: Sequence[Sequence[str]]
    """The K candidates of each of the L lines."""
    values: Floats
    """The features (F, L, K), of which the first is the score of search."""

    def choose_candidates(self, weights: Sequence[float]) -> Ints:
        """Return the index (L,) of each line's candidate with the highest weighted sum, or the first of several."""
        total = np.zeros(self.values.shape[1:])
        for weight, values in zip(weights, self.values, strict=True):
            total += weight * values
        chosen: Ints = total.argmax(1)
        return chosen


def make_table(lists: Sequence[NBest], features: Sequence[Feature]) -> CandidateTable:
    """Compute the features of the candidates of one or more lines.

    A blank candidate has the worst values of its line.
    """
    pairs = []
    for line, candidates in lists:
        pairs += [(line, candidate) for candidate in candidates]
    sizes = np.array([len(candidates) for _, candidates in lists])
    first = np.cumsum(sizes) - sizes
    rows = first[:, None] + np.minimum(np.arange(sizes.max()), sizes[:, None] - 1)  # (L, K), of `pairs`
    values = np.array([feature.values(pairs) for feature in features], np.float64)[:, rows]
    worst = np.where(np.isnan(values), np.inf, values).min(2, keepdims=True)
    values = np.where(np.isnan(values), np.where(np.isinf(worst), 0.0, worst), values)
    return CandidateTable([[pairs[row][1].text for row in of_line] for of_line in rows], values)


def rerank(lists: Iterable[NBest], features: Sequence[Feature], weights: Sequence[float]) -> Iterator[tuple[str, int]]:
    """Yield the text and the index of the candidate chosen for each line. `WINDOW` lines are read ahead."""
    stream = iter(lists)
    while window := list(islice(stream, WINDOW)):
        table = make_table(window, features)
        for texts, number in zip(table.texts, table.choose_candidates(weights).tolist(), strict=True):
            yield texts[number], number


WEIGHTS_FORMAT = 1


class WeightsFile(Document):
    """The keys of a weights file that `read_weights` needs; `tune_weights` returns the full content."""

    format: int
    weights: dict[str, FiniteFloat]


def read_weights(path: Path, features: Sequence[Feature]) -> tuple[float, ...]:
    """Read the weights of these features. Raises DataError if the file is missing, damaged or has other features."""
    missing = f"{path}: no such file; create it with --tune"
    weights = read_document(
        path, WeightsFile, DataError, "; tune again with --tune", (WEIGHTS_FORMAT,), missing
    ).weights
    names = [feature.name for feature in features]
    if weights.keys() != {*names}:
        raise DataError(
            f"{path}: has weights for {', '.join(weights)}, but these runs need {', '.join(names)}; tune again, or use "
            "the same runs"
        )
    return tuple(weights[name] for name in names)


N_RANDOM = 1000
"""Number of random weights to try."""
N_STARTS = 5
"""Number of the best random weights, which are then improved one weight at a time."""
FINEST = 1 / 64
"""Smallest change of a weight, in units that make a feature vary as much as the score of search."""
SEED = 1

FeatureWeights = tuple[float, ...]


@dataclass(frozen=True)
class Counts:
    """The counts of each candidate from which a metric is computed."""

    metric: Metric
    counts: Floats
    """The counts (L, K, C)."""

    @classmethod
    def of(cls, metric: MetricName, table: CandidateTable, refs: Sequence[str], tgt_lang: str | None) -> Counts:
        """Compare the candidates with the reference of each line. Raises DataError if their numbers differ."""
        by_rank = count_lines(metric, [*zip(*table.texts, strict=True)], refs, tgt_lang)
        return cls(by_rank[0].metric, np.stack([of_rank.counts for of_rank in by_rank], 1))

    def score(self, chosen: Ints) -> float:
        """Return the corpus score of the candidates with these indices (L,)."""
        return LineCounts(self.metric, self.counts[np.arange(len(chosen)), chosen]).score()

    def best(self) -> Ints:
        """Return the index (L,) of each line's candidate with the highest segment score."""
        n_lines, n_candidates, _ = self.counts.shape
        scores = LineCounts(self.metric, self.counts.reshape(n_lines * n_candidates, -1)).line_scores()
        chosen: Ints = scores.reshape(n_lines, n_candidates).argmax(1)
        return chosen


@dataclass(frozen=True)
class Tuned:
    """Tuned weights, with scores on the development set."""

    weights: FeatureWeights
    metric: Metric
    direct: float
    """The score of the ranking by search."""
    reranked: float
    """The score with the tuned weights."""
    oracle: float
    """The score of the candidates with the highest chrF of their line."""


def tune(
    table: CandidateTable, features: Sequence[Feature], refs: Sequence[str], metric: MetricName, tgt_lang: str | None
) -> Tuned:
    """Find the feature weights with the best score. The first feature, the score of search, has the weight 1.

    Raises DataError if the numbers of lines and references differ.
    """
    counts = Counts.of(metric, table, refs, tgt_lang)
    by_chrf = counts if metric == "chrf" else Counts.of("chrf", table, refs, tgt_lang)
    weights, scores = find_weights(table, features, counts.score)
    return Tuned(
        weights, counts.metric, scores[direct_weights(features)], scores[weights], counts.score(by_chrf.best())
    )


def direct_weights(features: Sequence[Feature]) -> FeatureWeights:
    """Return the weights that preserve the ranking by the search score."""
    return 1.0, *(0.0 for _ in features[1:])


def find_weights(
    table: CandidateTable, features: Sequence[Feature], score: Callable[[Ints], float]
) -> tuple[FeatureWeights, dict[FeatureWeights, float]]:
    """Return the weights with the best score of the chosen candidates, and the scores of all weights tried.

    The ranking by search and the default weights are always tried.
    """
    units = _units(table)
    scores = {}
    tunable = range(1, len(features))

    def try_weights(weights: FeatureWeights) -> float:
        if weights not in scores:
            scores[weights] = score(table.choose_candidates(weights))
        return scores[weights]

    def changed(weights: FeatureWeights, at: int, by: float) -> FeatureWeights:
        value = weights[at] + by * units[at]
        if not features[at].is_signed:
            value = max(value, 0.0)
        return *weights[:at], float(f"{value:.4g}"), *weights[at + 1 :]

    search_only = direct_weights(features)
    try_weights(search_only)
    try_weights((1.0, *(feature.default for feature in features[1:])))
    rng = np.random.default_rng(SEED)
    for _ in range(N_RANDOM):
        weights = search_only
        for at in tunable:
            if rng.random() < 0.8:  # else it stays 0
                sign = rng.choice([-1, 1]) if features[at].is_signed else 1
                weights = changed(weights, at, sign * rng.exponential())
        try_weights(weights)
    for weights in sorted(scores, key=lambda tried: -scores[tried])[:N_STARTS]:
        step = 1.0
        while step >= FINEST:
            neighbours = []
            for at in tunable:
                neighbours += [changed(weights, at, step), changed(weights, at, -step)]
            best = max(neighbours, key=try_weights)
            if scores[best] > scores[weights]:
                weights = best
            else:
                step /= 2
    return max(scores, key=lambda tried: scores[tried]), scores


def _units(table: CandidateTable) -> Floats:
    """Return weights (F,) that make each feature vary within lines as much as the first; 0 for a constant feature."""
    centred = table.values - table.values.mean(2, keepdims=True)
    spread = np.sqrt((centred**2).mean((1, 2)))
    units: Floats = np.divide(spread[0], spread, out=np.zeros_like(spread), where=spread > 0)
    return units


COLUMNS = "line number, score, log-probability and translation, separated by tabs (nmt translate --n-best)"


@dataclass(frozen=True)
class Candidate:
    """A candidate translation of a line."""

    text: str
    score: float
    """The score of search."""


class NBest(NamedTuple):
    """A line with its candidate translations; a blank line has one blank candidate."""

    source: str
    candidates: Sequence[Candidate]
    """Candidates with different texts, in the order of the search."""


def translated(
    translator: Translator, lines: Iterable[str], search: SearchConfig, n_best: int, progress: Progress | None = None
) -> Iterator[NBest]:
    """Yield up to `n_best` translations of each line. Warnings are printed at the end.

    Raises ConfigError if the settings of the search are incompatible.
    """
    warnings = Warnings()
    lines, sources = tee(lines)
    by_line = translator.translate_lines(lines, search, n_best, progress)
    for number, (source, translations) in enumerate(zip(sources, by_line, strict=True), start=1):
        warnings.add(number, Line(source), translations)
        candidates = [Candidate(translation.text, translation.score) for translation in translations]
        yield _n_best(source, candidates)
    for warning in warnings.finish():
        say(warning)


def read_n_best(path: Path, lines: Iterable[str], source: Path) -> Iterator[NBest]:
    """Read the candidates of the lines of `source`.

    Raises DataError if a row was not written by `nmt translate --n-best`, or if lines are missing or out of order.
    """
    rows = (_parsed(row, f"{path}: line {number}") for number, row in enumerate(read_lines(path), start=1))
    groups = groupby(rows, key=lambda row: row[0])
    n_lines = 0
    for n_lines, line in enumerate(lines, start=1):
        number, group = next(groups, (None, ()))
        if number != n_lines:
            instead = "the end of the file" if number is None else f"line {number}"
            raise DataError(f"{path}: no candidates for line {n_lines} of {source}, found {instead} instead")
        yield _n_best(line, (candidate for _, candidate in group))
    if extra := next(groups, None):
        raise DataError(f"{path}: has candidates for line {extra[0]}, but {source} has {n_lines} lines")


def _n_best(source: str, candidates: Iterable[Candidate]) -> NBest:
    different: dict[str, Candidate] = {}
    for candidate in candidates:
        different.setdefault(candidate.text, candidate)
    if is_blank(source):
        return NBest(source, (Candidate("", 0.0),))
    return NBest(source, tuple(different.values()))


def _parsed(row: str, where: str) -> tuple[int, Candidate]:
    try:
        number, score, _, text = row.split("\t", 3)
        if re.match(r"\d+\.\d\t", text):
            raise DataError(f"{where} has a column of confidence; translate without --confidence")
        parsed = int(number), Candidate(text, float(score))
    except ValueError:
        raise DataError(f"{where} is {beginning(row, 40)!r}, expected {COLUMNS}") from None
    if not math.isfinite(parsed[1].score):
        raise DataError(f"{where} has the score {score}; it must be a finite number")
    return parsed


CandidatePairs = Sequence[tuple[str, Candidate]]
"""Pairs of a line and one of its candidates."""


@dataclass(frozen=True)
class Feature:
    """A function that gives each candidate a number, to compare the candidates of a line."""

    name: str
    values: Callable[[CandidatePairs], Sequence[float]]
    """Return the values of pairs, NaN if the candidate is blank."""
    default: float = 1.0
    """The weight without tuning."""
    is_signed: bool = False
    """Whether the weight may be negative."""


def direct() -> Feature:
    """Return a feature: the score of the search that found the candidate."""
    return Feature("direct", lambda pairs: [candidate.score for _, candidate in pairs])


def rescored(name: str, translator: Translator, search: SearchConfig, is_reverse: bool = False) -> Feature:
    """Return a feature: the log-probability of the candidate given the line or, if `is_reverse`, vice versa.

    A reverse translator has the opposite direction. Tags that the translator does not know are left out.
    """

    known = [tag for tag in search.tags or () if tag in translator.tokenizers.tags]
    search = search.model_copy(update={"tags": known})
    if is_reverse:
        search = search.model_copy(update={"to": None})

    def score(pairs: CandidatePairs, progress: Progress) -> Iterable[Scored]:
        sides = [(line, candidate.text) for line, candidate in pairs]
        if is_reverse:
            sides = [(translation, line) for line, translation in sides]
        return translator.score(sides, search, progress)

    return _scored(name, score)


def fluency(name: str, language_model: LanguageModel, search: SearchConfig) -> Feature:
    """Return a feature: the log-probability of the candidate by a language model."""
    return _scored(
        name, lambda pairs, progress: language_model.score([pair[1].text for pair in pairs], search, progress)
    )


def _scored(name: str, score: Callable[[CandidatePairs, Progress], Iterable[Scored]]) -> Feature:
    """Return a feature of the scores of a model, which prints how many candidates were scored only in part."""

    def values(pairs: CandidatePairs) -> list[float]:
        with Progress(f"scoring, {name}", len(pairs), "candidates") as progress:
            scored = [*score(pairs, progress)]
            if n_cut := sum(result.cut for result in scored):
                say(
                    f"{name}: {n_cut:,} candidates were scored only in part; they or their lines exceed the maximum "
                    "length"
                )
        return [result.score for result in scored]

    return Feature(name, values)


def length(translator: Translator, search: SearchConfig) -> Feature:
    """Return a feature: the number of pieces of the candidate with `</s>`, divided by the line's length penalty."""
    src, tgt = translator.tokenizers.sides(translator.config.data.direction)

    def values(pairs: CandidatePairs) -> list[float]:
        lines = src.encode_all([line for line, _ in pairs])
        candidates = tgt.encode_all([candidate.text for _, candidate in pairs])
        return [(len(t) + 1) / length_penalty(len(s) + 1, search) for s, t in zip(lines, candidates, strict=True)]

    return Feature("length", values, default=0.0, is_signed=True)


OWN_NAMES = ("direct", "channel", "length")


@dataclass(frozen=True)
class Runs:
    """The translators that score candidates."""

    direct: Translator
    """The translator that also produces the candidates, unless they are read from a file."""
    reverse: Translator
    rescoring: Mapping[str, Translator]
    """Further translators of the same direction, by the names of their features."""
    language_models: Mapping[str, LanguageModel]
    """Language models of the target language, by the names of their features."""

    @classmethod
    def load(
        cls,
        model: ModelRef,
        reverse: Sequence[Path],
        rescoring: Sequence[Path],
        language_models: Sequence[Path],
        precision: str,
    ) -> Runs:
        """Load the runs; several for `reverse` form an ensemble.

        Raises ConfigError for a run of the wrong direction or language or for equal names, and what `Translator.load`
        raises.
        """
        options = {**dict.fromkeys(language_models, "--lm"), **dict.fromkeys(rescoring, "--rescore")}
        names = [path.resolve().name for path in (*rescoring, *language_models)]
        for path, name in zip((*rescoring, *language_models), names, strict=True):
            if name in OWN_NAMES or names.count(name) > 1:
                of = "a feature" if name in OWN_NAMES else "another --rescore or --lm"
                raise ConfigError(f"{options[path]} {path}: {of} has the same name, {name}; rename the run")
        translator = Translator.load(model, precision=precision)
        data = translator.config.data
        reverse_translator = Translator.load_for(f"{data.tgt}-{data.src}", "--reverse", reverse, precision)
        translators = {}
        for path in rescoring:
            translators[path.resolve().name] = Translator.load_for(data.direction, "--rescore", [path], precision)
        models = {path.resolve().name: _load_language_model(path, data.tgt, precision) for path in language_models}
        return cls(translator, reverse_translator, translators, models)

    def features(self, search: SearchConfig) -> list[Feature]:
        """Return the features; the search score is the first."""
        features = [direct(), rescored("channel", self.reverse, search, is_reverse=True)]
        features += [rescored(name, translator, search) for name, translator in self.rescoring.items()]
        features += [fluency(name, model, search) for name, model in self.language_models.items()]
        return [*features, length(self.direct, search)]


def _load_language_model(path: Path, language: str, precision: str) -> LanguageModel:
    model = LanguageModel.load(path, precision=precision)
    learned = model.config.learned_languages
    if language not in learned:
        raise ConfigError(f"--lm {path}: was trained on {' and '.join(learned)}, not on {language}")
    return model


@dataclass(frozen=True)
class Reranking:
    """A text to rerank, and the origin of its candidates."""

    runs: Runs
    search: SearchConfig
    source: Path
    n_best: int | None
    """Number of candidates per line; None if they are read from `n_best_file`."""
    n_best_file: Path | None = None

    def lists(self, lines: Iterable[str]) -> Iterator[NBest]:
        """Yield the candidates of each line of the text. Raises ConfigError or DataError."""
        if self.n_best_file is not None:
            yield from read_n_best(self.n_best_file, lines, self.source)
        elif self.n_best is not None:
            with Progress("translating", n_lines(self.source)) as progress:
                yield from translated(self.runs.direct, lines, self.search, self.n_best, progress)


def rerank_file(request: Reranking, weights: Sequence[float], output: Path | str) -> None:
    """Write the chosen translation of each line; blank lines remain blank. Raises ConfigError or DataError."""
    features = request.runs.features(request.search)
    n_written = n_changed = 0
    with open_output(output) as out:
        for text, number in rerank(request.lists(read_lines(request.source)), features, weights):
            out.write(f"{text}\n".encode())
            n_written += 1
            if number > 0:
                n_changed += 1
    say(f"lines {n_written:,}, {n_changed:,} of them with another candidate than the first")


def tune_weights(request: Reranking, reference: Path, metric: MetricName | None) -> tuple[dict[str, object], list[str]]:
    """Tune the weights of the features on a text with references; without a metric, by BLEU or, where it says little,
    by chrF.

    Return the content of the weights file, and lines to print. Raises ConfigError or DataError.
    """
    pairs = bounded_list(read_aligned(request.source, reference), str(request.source))
    if not pairs:
        raise DataError(f"{request.source}: is empty; there is nothing to tune on")
    runs = request.runs
    refs = [ref for _, ref in pairs]
    tgt_lang = runs.direct.config.data.tgt
    note = few_four_grams(refs, tgt_lang)
    metric = metric or ("chrf" if note else "bleu")
    if note:
        say(f"warning: {note}; the weights are tuned by {metric_name(metric)}")
    features = runs.features(request.search)
    lists = list(request.lists(line for line, _ in pairs))
    tuned = tune(make_table(lists, features), features, refs, metric, tgt_lang)
    weights = dict(zip([feature.name for feature in features], tuned.weights, strict=True))
    members = {}
    for name, translator in {"direct": runs.direct, "channel": runs.reverse, **runs.rescoring}.items():
        members[name] = _members(*translator.origins)
    for name, model in runs.language_models.items():
        members[name] = _members(model.origin)
    content = {
        "format": WEIGHTS_FORMAT,
        "nmt": __version__,
        "weights": weights,
        "metric": metric,
        "signature": tuned.metric.signature,
        "direct": tuned.direct,
        "reranked": tuned.reranked,
        "oracle": tuned.oracle,
        "src": printable(str(request.source)),
        "ref": printable(str(reference)),
        "lines": len(lists),
        "search": describe_search(request.search),
        "runs": members,
    }
    per_line = sum(len(candidates) for _, candidates in lists) / len(lists)
    rows = [
        ("direct", f"{tuned.direct:.2f}", "ranking by the score of search"),
        ("reranked", f"{tuned.reranked:.2f}", f"{tuned.reranked - tuned.direct:+.2f}"),
        ("oracle", f"{tuned.oracle:.2f}", "the candidate with the highest chrF of each line"),
    ]
    weighted = ", ".join(f"{name} {weight:g}" for name, weight in weights.items())
    lines = [
        f"{metric_name(metric)} of {reference}, {len(lists):,} lines, {per_line:.1f} candidates per line",
        *aligned(rows, right=(1,)),
        f"weights: {weighted}",
        tuned.metric.signature,
    ]
    return content, lines


def _members(*origins: Origin) -> list[dict[str, object]]:
    """Return the run, step and kind of weights of each member of an ensemble."""
    return [{"run": printable(str(origin.run)), "step": origin.step, "weights": origin.weights} for origin in origins]
