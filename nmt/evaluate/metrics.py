"""BLEU, chrF and TER with their signatures, computed by sacrebleu; accuracy, macro F1 and calibration of classes.

By default, scores are case-sensitive and computed on detokenised text.

Shapes are written with L lines, K counts of a metric and S selections of lines; N texts and C classes.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from nmt.errors import DataError
from nmt.evaluate.ter import FastTER
from nmt.languages.codes import is_spaced, macrolanguage_of, script_of_text, scripts_of

Floats = npt.NDArray[np.float64]

Formula = Literal["bleu", "chrf", "ter", "mean"]
"""How a corpus score is computed from sums over lines; `mean` is the mean of line scores, as for neural metrics."""

MetricName = Literal["bleu", "chrf", "chrf++", "ter"]
METRIC_FACTS: dict[MetricName, tuple[str, Formula]] = {
    "bleu": ("BLEU", "bleu"),
    "chrf": ("chrF", "chrf"),
    "chrf++": ("chrF++", "chrf"),
    "ter": ("TER", "ter"),
}
"""The usual spelling of the name of each metric, and how it is computed from sums."""
METRICS: tuple[MetricName, ...] = ("bleu", "chrf", "ter")
"""The metrics that are computed by default."""

Reference = str | tuple[str, ...]
"""The reference of a line, or its several references."""
References: TypeAlias = Sequence[Reference]
Texts: TypeAlias = Sequence[str]
"""The lines of a text."""

TOKENIZERS = ("13a", "intl", "zh", "char", "none")
"""Tokenizers for BLEU, described in the documentation of sacrebleu."""


@dataclass(frozen=True)
class Score:
    """A corpus-level score."""

    metric: str
    """The name in `METRIC_FACTS`, or the name of another metric."""
    value: float
    """0 to 100 for BLEU and chrF, edits per 100 words (or characters) of the reference for TER; other metrics have
    other scales."""
    signature: str
    """The signature of sacrebleu or of another metric. Scores with different signatures are not comparable."""
    higher_is_better: bool


def as_tuple(reference: Reference) -> tuple[str, ...]:
    """Return the reference or references of a line as a tuple."""
    return (reference,) if isinstance(reference, str) else reference


def reference_lines(references: References) -> list[str]:
    """Return all references of all lines."""
    return [*chain.from_iterable(map(as_tuple, references))]


def metric_name(metric: str) -> str:
    """Return the usual spelling of the name of a metric, such as chrF."""
    return METRIC_FACTS[metric][0] if metric in METRIC_FACTS else metric


def default_tokenizer(tgt_lang: str | None) -> str:
    """Return the default BLEU tokenizer for a target language: 13a if its words are separated by spaces."""
    code = tgt_lang or ""
    if macrolanguage_of(code) == "zh":
        return "zh"
    # spaces in Korean separate larger units than words; sacrebleu's own tokenizers of Japanese and Korean need MeCab
    return "13a" if is_spaced(code) and "Hang" not in scripts_of(code) else "char"


def check_tokenizer(tokenize: str | None) -> None:
    """Raise DataError unless `tokenize` is None or the name of a BLEU tokenizer."""
    if tokenize is not None and tokenize not in TOKENIZERS:
        raise DataError(f"tokenize: {tokenize!r} is not one of {', '.join(TOKENIZERS)}")


def no_match_note(scores: Mapping[str, float]) -> str | None:
    """Return a note on the usual causes of a BLEU score that is printed as 0.00, with a chrF that unrelated lines of a
    language have, too; None for other scores."""
    if scores["bleu"] >= 0.005 or scores["chrf"] >= 25:
        return None
    reasons = "too few updates, text in another language (data.direction), or lines that are not aligned"
    return f"BLEU 0.00: no translation matches its reference; usual reasons: {reasons}"


def use_of(scores: Mapping[str, float], n_lines: int, tokenizer: str) -> str:
    """Return a line on the usual use of translations with this BLEU; docs/evaluating.md has the sources.

    If chrF contradicts a low BLEU, because half of the character n-grams match, the line says so instead.

    scores: by metric. tokenizer: the name of the BLEU tokenizer, or a signature with it.
    """
    bleu = scores["bleu"]
    if bleu < 10 and scores["chrf"] >= 50:
        return "BLEU is low, but chrF is not: read some of the translations"
    use = ("unusable", "at best the gist", "good enough to edit", "good")[bisect((10, 30, 50), round(bleu, 1))]
    caveat = "; with few lines or by characters, it says less" if n_lines < 100 or "13a" not in tokenizer else ""
    return f"BLEU {bleu:.1f} usually means: {use} (docs/evaluating.md; not for comparing test sets{caveat})"


def few_four_grams(refs: References, tgt_lang: str | None, tokenize: str | None = None) -> str | None:
    """Return why BLEU says little about translations of these lines, such as terms; None if it says enough.

    BLEU is the geometric mean of the precisions of 1- to 4-grams. If no hypothesis has four tokens, it is 0 even if all
    are correct, and hypotheses that are too long can raise it. BLEU says little if less than a tenth of the lines have
    a reference of four tokens: of two systems, it then prefers the worse one more often than chrF does (28 % of pairs
    without such lines, chrF 0 %), and from a tenth on about as often (scripts/results/short_references.md). The
    arguments are described at `corpus_score`; with the tokenizers zh and char, characters are tokens.
    """
    tokenizer = BLEU(tokenize=tokenize or default_tokenizer(tgt_lang), force=True).tokenizer
    n = 0
    for reference in refs:
        n += any(len(tokenizer(text).split()) >= _BLEU_ORDERS for text in as_tuple(reference))
        if 10 * n >= len(refs):
            return None
    if not refs:
        return None
    return f"BLEU says little: {n:,} of {len(refs):,} references have four tokens or more"


def blank_references_note(refs: References, systems: Sequence[Texts]) -> str | None:
    """Return a note on lines with a blank reference, which sacrebleu does not leave out; None without such lines.

    Lines without any text, in all references and in the translations of all systems, change no score.
    """
    n = 0
    for reference, *translations in zip(map(as_tuple, refs), *systems, strict=True):
        n += not all(map(str.strip, reference)) and any(map(str.strip, (*reference, *translations)))
    what = "a blank reference counts as one without words, as in sacrebleu, which makes scores misleading"
    return f"{what}; leave such lines out (lines: {n:,})" if n else None


def unspaced_notes(refs: References, tgt_lang: str | None, tokenize: str | None = None) -> Iterator[str]:
    """Yield a note if BLEU divides at spaces text that is written without them, for which it is misleading."""
    tokenize = tokenize or default_tokenizer(tgt_lang)
    text = " ".join(reference_lines(refs))
    script = script_of_text([text], 0.5)
    if tokenize not in ("zh", "char") and not is_spaced(f"und_{script}") and len(text) > 10 * len(text.split()):
        yield (
            f"BLEU with tokenize={tokenize} divides at spaces, but this text has none between words: use --tokenize "
            f"char, or a language code that names the script, as in xx_{script}"
        )


def looks_tokenized(lines: Texts) -> bool:
    """Return whether at least a tenth of the lines end in a full stop after a space, as in tokenised text."""
    return 10 * sum(line.endswith(" .") for line in lines) >= len(lines) > 0


def corpus_score(
    metric: MetricName,
    hyps: Texts,
    refs: References,
    tgt_lang: str | None = None,
    lowercase: bool = False,
    tokenize: str | None = None,
) -> Score:
    """Score hypotheses against references, line by line, with sacrebleu (Post, 2018, arXiv:1804.08771).

    Args:
        metric: one of `METRIC_FACTS`.
        hyps: the translations.
        refs: the references, the same number for each line (`nrefs:2` in the signature); a blank one counts as one
            without words.
        tgt_lang: the target language, which determines the BLEU tokenizer unless `tokenize` is given.
        lowercase: whether to ignore case.
        tokenize: the BLEU tokenizer.

    Raises DataError if the numbers of lines differ (sacrebleu would truncate) or are 0, or if the tokenizer is unknown.
    """
    check_lines(hyps, refs)
    scorer = make_scorer(metric, refs, tgt_lang, lowercase, tokenize)
    result = scorer.corpus_score(hyps, None)
    return Score(metric, result.score, f"{result.name}|{scorer.get_signature()}", higher_is_better=metric != "ter")


def check_lines(hyps: Texts, refs: References) -> None:
    """Raise DataError unless there are as many hypotheses as references, and at least one."""
    if len(hyps) != len(refs):
        raise DataError(f"found {len(hyps)} hypotheses, but {len(refs)} references; the numbers must be equal")
    if not hyps:
        raise DataError("no hypotheses and no references: there is nothing to score")


def make_scorer(
    metric: MetricName,
    refs: References,
    tgt_lang: str | None = None,
    lowercase: bool = False,
    tokenize: str | None = None,
) -> BLEU | CHRF | FastTER:
    """Return sacrebleu's scorer of a metric for these references. The arguments are described at `corpus_score`.

    Raises DataError if the tokenizer is unknown.
    """
    check_tokenizer(tokenize)
    streams = list(zip(*map(as_tuple, refs), strict=True))
    match metric:
        case "bleu":
            # force: no warning of sacrebleu about tokenised text for every score; callers of this function warn once
            tokenize = tokenize or default_tokenizer(tgt_lang)
            return BLEU(lowercase=lowercase, force=True, tokenize=tokenize, references=streams)
        case "chrf":
            return CHRF(lowercase=lowercase, references=streams)
        case "chrf++":
            return CHRF(word_order=2, lowercase=lowercase, references=streams)
        case "ter":
            # without spaces, a sentence would be a single word; sacrebleu divides text with Chinese characters only
            code = tgt_lang or ""
            is_han = "Hani" in scripts_of(code)
            return FastTER(
                not is_spaced(code) and not is_han,
                case_sensitive=not lowercase, normalized=is_han, asian_support=is_han, references=streams,
            )  # fmt: skip


# --- The contribution of each line to a corpus score, from which the score of any selection of lines is computed ---

_BLEU_ORDERS = 4


@dataclass(frozen=True)
class Metric:
    """A metric by which systems are compared."""

    name: str
    """The name in `METRIC_FACTS`, or the name of the segment scores."""
    formula: Formula
    signature: str
    """The signature of the metric. Scores with different signatures are not comparable."""
    higher_is_better: bool


@dataclass(frozen=True)
class LineCounts:
    """The contribution of each line of a system's translations to a corpus score."""

    metric: Metric
    counts: Floats
    """The counts (L, K); with the formula `mean`, a column of scores and a column of ones."""

    def score(self) -> float:
        """Return the corpus score of all lines."""
        return float(self.scores(self.counts.sum(0, keepdims=True))[0])

    def scores(self, sums: Floats) -> Floats:
        """Return the corpus scores (S,) for sums of counts (S, K), as sacrebleu computes them."""
        match self.metric.formula:
            case "bleu":
                return _bleu(sums)
            case "chrf":
                return chrf(sums[:, 0::3], sums[:, 1::3], sums[:, 2::3])
            case "ter":
                edits = sums[:, 0]
                length = sums[:, 1]
                with np.errstate(divide="ignore", invalid="ignore"):
                    return np.where(length > 0, 100 * edits / length, np.where(edits > 0, 100.0, 0.0))
            case "mean":
                return sums[:, 0] / sums[:, 1]

    def line_scores(self) -> Floats:
        """Return the score of each single line, (L,)."""
        return self.scores(self.counts)


def count_lines(
    metric: MetricName,
    systems: Sequence[Texts],
    refs: References,
    tgt_lang: str | None = None,
    lowercase: bool = False,
    tokenize: str | None = None,
) -> list[LineCounts]:
    """Count the n-grams or edits of each line of each system, as sacrebleu does.

    The other arguments are described at `corpus_score`. Raises DataError as `corpus_score` does.
    """
    for hyps in systems:
        check_lines(hyps, refs)
    scorer = make_scorer(metric, refs, tgt_lang, lowercase, tokenize)
    # the methods that sacrebleu's own paired tests use; there are no public ones
    counts = [scorer._extract_corpus_statistics(hyps, None) for hyps in systems]
    name = scorer._aggregate_and_compute(counts[0]).name
    counted = Metric(metric, METRIC_FACTS[metric][1], f"{name}|{scorer.get_signature()}", metric != "ter")
    return [LineCounts(counted, np.array(of_system, np.float64)) for of_system in counts]


def of_line_scores(name: str, scores: Sequence[float], signature: str, higher_is_better: bool = True) -> LineCounts:
    """Return the line counts of a metric whose corpus score is the mean of its line scores."""
    values = np.asarray(scores, np.float64)
    return LineCounts(Metric(name, "mean", signature, higher_is_better), np.stack([values, np.ones_like(values)], 1))


def _bleu(sums: Floats) -> Floats:
    """Compute BLEU with exponential smoothing (mteval-v13a) from lengths and n-gram matches and totals by order."""
    n_hyp = sums[:, 0]
    n_ref = sums[:, 1]
    matches = sums[:, 2 : 2 + _BLEU_ORDERS]
    totals = sums[:, 2 + _BLEU_ORDERS :]
    halvings = np.cumsum((matches == 0) & (totals > 0), axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        precisions = np.where(matches > 0, matches, 0.5**halvings) / totals
        logs = np.where(totals > 0, np.log(precisions), -np.inf).sum(1) / _BLEU_ORDERS
        penalty = np.where(n_hyp < n_ref, np.exp(1 - n_ref / n_hyp), 1.0)
    return np.where(matches.any(1), 100 * penalty * np.exp(logs), 0.0)


def chrf(n_hyp: Floats, n_ref: Floats, n_match: Floats) -> Floats:
    """Compute chrF with beta 2 from the n-gram counts of each order in the hypothesis, the reference and both.

    chrF is the F-score of the mean precision and recall of character n-grams (Popović, 2015). The orders are the last
    dimension, the others are broadcast.
    """
    counted = (n_hyp > 0) & (n_ref > 0)
    n_orders = np.maximum(counted.sum(-1), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.where(counted, n_match / n_hyp, 0.0).sum(-1) / n_orders
        recall = np.where(counted, n_match / n_ref, 0.0).sum(-1) / n_orders
        score = 500 * precision * recall / (4 * precision + recall)
    return np.where(precision + recall > 0, score, 0.0)


# --- Classes ---

Probabilities = npt.NDArray[np.floating[Any]]
Classes = npt.NDArray[np.int64]

BINS = 15
"""Number of bins of the expected calibration error."""


@dataclass(frozen=True)
class ClassScores:
    """Scores of a classifier on a text. All but the matrix are between 0 and 1."""

    accuracy: float
    """Share of texts whose most probable class is correct."""
    macro_f1: float
    """Mean over the classes of the harmonic mean of precision and recall."""
    calibration_error: float
    """Expected calibration error (Guo et al., 2017): mean difference between the probability of the predicted class and
    the share of correct predictions, over 15 bins of equal width, weighted by their numbers of texts."""
    confusion: Classes
    """Number of texts of each class (row) that were predicted as each class (column), (C, C)."""


def class_scores(probabilities: Probabilities, labels: Classes) -> ClassScores:
    """Score the class probabilities (N, C) of texts whose correct classes are `labels` (N,).

    A class that neither occurs nor is predicted is left out of the mean F1.
    """
    n_classes = probabilities.shape[1]
    predicted = probabilities.argmax(1)
    confidence = probabilities.max(1).astype(np.float64)
    confusion = np.zeros((n_classes, n_classes), np.int64)
    np.add.at(confusion, (labels, predicted), 1)
    right = confusion.diagonal()
    of_class = confusion.sum(1)
    of_prediction = confusion.sum(0)
    occurs = of_class + of_prediction > 0
    f1 = 2 * right[occurs] / (of_class + of_prediction)[occurs]
    bins = np.clip(np.ceil(confidence * BINS).astype(np.int64) - 1, 0, BINS - 1)  # a bin is open below
    is_right = (predicted == labels).astype(np.float64)
    gaps = np.bincount(bins, is_right - confidence, BINS)  # the difference of the means, times the number of texts
    return ClassScores(
        accuracy=float(is_right.mean()),
        macro_f1=float(f1.mean()),
        calibration_error=float(np.abs(gaps).sum() / len(labels)),
        confusion=confusion,
    )
