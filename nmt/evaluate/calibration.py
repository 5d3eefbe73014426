"""`nmt calibrate`: learn to estimate the chrF of translations without a reference.

The lines of a text are divided into two random halves. On one, a weighted sum of features is fitted to the chrF of each
translation by least squares, and then an isotonic, that is, nondecreasing function of this sum. The other half measures
how well the estimate orders translations that it was not fitted to.

Shapes have L lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nmt.console import Progress, aligned
from nmt.errors import DataError
from nmt.evaluate.metrics import Floats, LineCounts, count_lines
from nmt.evaluate.run import EvaluationText
from nmt.files.document import document_text
from nmt.files.write import replace_file
from nmt.search.settings import SearchConfig
from nmt.translate.confidence import CALIBRATION_FORMAT, Calibration, Map, Measure, calibration_path
from nmt.translate.loading import Translator

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MIN_LINES = 100
_SEED = 1
_GROUPS = 10
SEARCHED = ("log_prob", "length", "ratio", "reverse", "agreement")
"""The features that do not need the probability of each piece."""


@dataclass(frozen=True)
class Measured:
    """A map, and its confidences and the scores of the half of the lines that it was not fitted to."""

    map: Map
    confidences: Floats
    scores: Floats
    """The chrF of each line, (L,)."""
    surer: float
    """The chrF of the half of the lines with the higher confidence."""
    less_sure: float
    """The chrF of the other half."""

    def groups(self) -> list[tuple[float, float]]:
        """Return the mean confidence and the mean chrF of tenths of the lines, by confidence."""
        parts = np.array_split(np.argsort(self.confidences, kind="stable"), _GROUPS)
        return [(float(self.confidences[part].mean()), float(self.scores[part].mean())) for part in parts]


@dataclass(frozen=True)
class Calibrated:
    """The result of a calibration."""

    path: Path
    """The file with the calibration."""
    by_map: Mapping[str, Measured]
    """The measured maps, by what they need."""

    def lines(self) -> Iterator[str]:
        """Yield lines that describe the maps, and how reliable the first is."""
        rows = [["", "Spearman", "chrF of more confident half", "of other half", "features"]]
        for name, measured in self.by_map.items():
            figures = f"{measured.map.correlation:.2f}", f"{measured.surer:.1f}", f"{measured.less_sure:.1f}"
            rows.append([name, *figures, ", ".join(measured.map.weights)])
        yield from aligned(rows, (1, 2, 3))
        forced, *_ = self.by_map.values()
        yield f"mean of each tenth of these {len(forced.scores):,} lines, with PyTorch:"
        groups = [(f"{confidence:.1f}", f"{chrf:.1f}") for confidence, chrf in forced.groups()]
        yield from aligned([("confidence", "chrF"), *groups], (0, 1))


def calibrate(
    translator: Translator,
    search: SearchConfig,
    text: EvaluationText,
    reverse: tuple[Path, Translator] | None = None,
    samples: int = 0,
) -> Calibrated:
    """Translate a text with the single run of a translator, fit maps to the chrF of its lines, and write them.

    reverse: a run of the opposite direction, whose scores are a feature of the
    maps. samples: number of samples per line whose agreement is a feature; 0 for none. Raises DataError if the text has
    fewer than `MIN_LINES` lines that are not blank, ConfigError if the settings of the search are not supported.
    """
    with Progress(f"translating {text.name}", len(text.sources)) as progress:
        translated = translator.translate_lines(text.sources, search, progress=progress)
        best = [n_best[0] for n_best in translated]
    kept = [row for row in zip(text.sources, best, text.references, strict=True) if row[1].searched]
    if len(kept) < MIN_LINES:
        problem = f"has {len(kept)} lines with letters to translate; calibration needs at least {MIN_LINES}"
        raise DataError(f"{text.name}: {problem}")
    lines, translations, refs = zip(*kept, strict=True)
    measure = Measure(translator, search, translator.forced_decoder(search), reverse and reverse[1], samples)
    features = measure.features(lines, translations)
    texts = [translation.text for translation in translations]
    [counts] = count_lines("chrf", [texts], refs, translator.config.data.tgt)
    searched = {name: values for name, values in features.items() if name in SEARCHED}
    by_map = {"PyTorch": _measured(features, counts), "CTranslate2": _measured(searched, counts)}
    origin = translator.origin
    assert origin is not None, "the translator was loaded from a run"
    calibration = Calibration(
        format=CALIBRATION_FORMAT,
        step=origin.step,
        weights=origin.weights,
        tensors=translator.searcher.weights,
        text=text.name,
        n_lines=len(kept),
        metric=counts.metric.signature,
        reverse=None if reverse is None else str(reverse[0]),
        samples=samples,
        forced=by_map["PyTorch"].map,
        searched=by_map["CTranslate2"].map,
    )
    path = calibration_path(origin.run, translator.config, search)
    replace_file(path, document_text(calibration))
    return Calibrated(path, by_map)


def _measured(features: Mapping[str, Floats], counts: LineCounts) -> Measured:
    """Fit a map to a random half of the lines, and measure it on the other half."""
    scores = counts.line_scores()
    order = np.random.default_rng(_SEED).permutation(len(scores))
    half = len(scores) // 2
    fitted = order[:half]
    held_out = order[half:]
    columns = np.stack([*features.values(), np.ones(len(scores))], 1)  # (L, features + 1)
    *weights, offset = np.linalg.lstsq(columns[fitted], scores[fitted], rcond=None)[0].tolist()
    of_feature = dict(zip(features, weights, strict=True))
    sums, values = isotonic(columns[fitted] @ [*weights, offset], scores[fitted])
    rough = Map(
        weights=of_feature, offset=offset, sums=sums.tolist(), values=values.tolist(), correlation=0.0, low=0.0
    )  # fmt: skip
    confidences = rough.expected({name: of[held_out] for name, of in features.items()})
    by_confidence = held_out[np.argsort(confidences, kind="stable")]
    less_sure, surer = (LineCounts(counts.metric, counts.counts[n]).score() for n in np.array_split(by_confidence, 2))
    low = float(np.quantile(confidences, 0.25))
    fitted_map = rough.model_copy(update={"correlation": spearman(confidences, scores[held_out]), "low": low})
    return Measured(fitted_map, confidences, scores[held_out], surer, less_sure)


def isotonic(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return the nondecreasing function of x (L,) with the least squared distance from y (L,), as points to connect.

    Pools adjacent violators: neighbours whose values decrease share their mean. The points are the two ends of each
    pool, with different x in ascending order; their number is at most L.
    """
    places, index = np.unique(x, return_inverse=True)
    sizes = np.bincount(index)
    pools: list[tuple[float, int, int, int]] = []  # mean, number of values, first and last place
    for last, (mean, n) in enumerate(zip(np.bincount(index, y) / sizes, sizes.tolist(), strict=True)):
        first = last
        while pools and pools[-1][0] >= mean:
            before, n_before, first, _ = pools.pop()
            mean = (before * n_before + mean * n) / (n_before + n)
            n = n_before + n
        pools.append((float(mean), n, first, last))
    ends = {place: mean for mean, _, *pool in pools for place in pool}
    return places[[*ends]], np.array([*ends.values()])


def spearman(x: Floats, y: Floats) -> float:
    """Return the rank correlation of x and y (L,), 0 if one of them is constant; equal values share their mean rank."""
    ranks = _ranks(x), _ranks(y)
    return float(np.corrcoef(*ranks)[0, 1]) if min(map(np.ptp, ranks)) > 0 else 0.0


def _ranks(values: Floats) -> Floats:
    _, index, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks: Floats = (ends - (counts - 1) / 2)[index]
    return ranks


def draw_reliability(measured: Measured, title: str) -> Figure:
    """Draw the mean chrF against the mean confidence of tenths of the lines, which ideally are equal."""
    from matplotlib.figure import Figure  # importing matplotlib takes 0.3 s

    figure = Figure(figsize=(4.5, 4.5), layout="constrained")
    axes = figure.subplots()
    axes.plot([0, 100], [0, 100], color="0.75", linewidth=1)
    axes.scatter(measured.confidences, measured.scores, s=4, color="0.6", linewidths=0, label="translation")
    axes.plot(*zip(*measured.groups(), strict=True), marker="o", label="mean of a tenth")
    axes.set(xlabel="confidence (expected chrF)", ylabel="chrF", title=title, xlim=(0, 100), ylim=(0, 100))
    axes.legend()
    return figure
