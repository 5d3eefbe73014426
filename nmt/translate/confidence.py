"""Confidence in a translation: its expected chrF, estimated from what the model knows without a reference.

`nmt calibrate` (`nmt.evaluate.calibration`) learns maps from features of a translation to the chrF that it can expect,
and writes them into the run. A confidence is not a probability: 60 means that translations like this one had a chrF of
about 60 on average.

Shapes have L lines.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nmt.config import Config
from nmt.console import say
from nmt.errors import CheckpointError, ConfigError
from nmt.files.document import Document, read_document
from nmt.layout import RunDir
from nmt.runs.info import Weights
from nmt.runs.model import Origin
from nmt.search.forced import ForcedDecoder
from nmt.search.settings import SearchConfig
from nmt.translate.mbr import pairwise
from nmt.translate.translator import LineTranslator
from nmt.translate.types import Confidence, Translation

Floats = npt.NDArray[np.float64]

CALIBRATION_FORMAT = 2
_LEAST = 4  # the inverse of the share of least probable pieces


class Map(Document):
    """A map from features of a translation to its expected chrF: a weighted sum, then an isotonic function."""

    weights: dict[str, float]
    """The weight of each feature."""
    offset: float
    sums: list[float]
    """Weighted sums, in ascending order, at which the function is known; it is linear between and constant outside."""
    values: list[float]
    """The expected chrF at each of these sums, 0-100."""
    correlation: float
    """Spearman's rank correlation with the chrF of lines that the map was not fitted to."""
    low: float
    """A quarter of these lines have a lower confidence."""

    def expected(self, features: Mapping[str, Floats]) -> Floats:
        """Return the expected chrF (L,) given features (L,) by name, of which others are ignored."""
        columns = np.stack([features[name] for name in self.weights], 1)
        return np.interp(columns @ [*self.weights.values()] + self.offset, self.sums, self.values)


class Calibration(Document):
    """The maps of one direction of a run, in calibration-DIRECTION.json."""

    format: int
    step: int
    weights: Weights
    """The step and the kind of the weights that were calibrated, for messages."""
    tensors: str
    """The fingerprint of these weights."""
    text: str
    """The split or file with whose lines the maps were made."""
    n_lines: int
    metric: str
    """The signature of chrF."""
    reverse: str | None = None
    """The path of the run of the opposite direction that is a feature of both maps."""
    samples: int = 0
    """Number of sampled translations of a line, with which the translation is compared; 0: not a feature."""
    forced: Map
    """The map with the probability of each piece, which PyTorch computes."""
    searched: Map
    """The map with only the total probability, which every engine reports."""


@dataclass(frozen=True)
class Measure:
    """Computes the features of translations."""

    translator: LineTranslator
    search: SearchConfig
    decoder: ForcedDecoder | None
    """Computes the probability of each piece; None if PyTorch is not used."""
    reverse: LineTranslator | None = None
    samples: int = 0

    def features(self, lines: Sequence[str], translations: Sequence[Translation]) -> dict[str, Floats]:
        """Return the features (L,) of translations of lines, by name; the model must have translated a part of each.

        log_prob: the mean log-probability per piece; length: the logarithm of the number of source pieces; ratio: the
        logarithm of the number of translated pieces per source piece; least, minimum: the mean log-probability of the
        least probable quarter of the pieces, and of the least probable one; reverse: the mean log-probability per piece
        of the line given its translation; agreement: the mean chrF with samples.
        """
        n_src = np.array([_n_pieces(part.src_ids for part in translation.searched) for translation in translations])
        n_tgt = np.array([_n_pieces(part.tgt_ids for part in translation.searched) for translation in translations])
        total = np.array([translation.log_prob for translation in translations])
        features = {"log_prob": total / n_tgt, "length": np.log(n_src), "ratio": np.log(n_tgt / n_src)}
        if self.decoder is not None:
            features |= self._by_piece(translations)
        if self.reverse is not None:
            pairs = zip((translation.text for translation in translations), lines, strict=True)
            scored = self.reverse.score(pairs)
            per_piece = np.array([pair.log_prob / max(len(pair.pieces), 1) for pair in scored])
            features["reverse"] = np.where(np.isnan(per_piece), -10.0, per_piece)  # NaN: of a blank translation
        if self.samples:
            search = self.search.model_copy(update={"sample": True, "mbr": "none", "protect": False})
            drawn = self.translator.translate_lines(lines, search, self.samples)
            agreements = []
            for translation, samples in zip(translations, drawn, strict=True):
                texts = [candidate.text for candidate in (translation, *samples)]
                agreements.append(pairwise(texts)[0, 1:].mean())
            features["agreement"] = np.array(agreements)
        return features

    def _by_piece(self, translations: Sequence[Translation]) -> dict[str, Floats]:
        assert self.decoder is not None
        n_given = len(self.translator.tokenizers[self.translator.conventions.tgt].opening)
        parts = [part for translation in translations for part in translation.searched]
        values = iter(self.decoder.log_probs([(part.src_ids, part.tgt_ids) for part in parts]))
        least = []
        minimum = []
        for translation in translations:
            of_line = islice(values, len(translation.searched))
            pieces = np.sort(np.concatenate([of_part[n_given:] for of_part in of_line]))
            least.append(pieces[: math.ceil(len(pieces) / _LEAST)].mean())
            minimum.append(pieces[0])
        return {"least": np.array(least), "minimum": np.array(minimum)}


def _n_pieces(parts: Iterable[Sequence[int]]) -> int:
    """Return the number of pieces of parts, ends of sentence included."""
    return sum(len(ids) + 1 for ids in parts)


@dataclass(frozen=True)
class Estimator:
    """Estimates the confidence in translations."""

    map: Map
    measure: Measure

    def estimated(self, lines: Sequence[str], by_line: Iterable[Sequence[Translation]]) -> list[list[Translation]]:
        """Return the translations of each line with their confidence.

        It is None for a blank line, and for one that is taken from a translation memory.
        """
        estimated = [[*translations] for translations in by_line]
        texts = []
        searched = []
        places = []
        for row, (line, translations) in enumerate(zip(lines, estimated, strict=True)):
            for rank, translation in enumerate(translations):
                if translation.searched:
                    texts.append(line)
                    searched.append(translation)
                    places.append((row, rank))
        if searched:
            expected = self.map.expected(self.measure.features(texts, searched)).tolist()
            for (row, rank), translation, chrf in zip(places, searched, expected, strict=True):
                confidence = Confidence(chrf, chrf < self.map.low)
                estimated[row][rank] = replace(translation, confidence=confidence)
        return estimated


def calibration_path(run: Path, config: Config, search: SearchConfig) -> Path:
    """Return the file with the calibration of a run for one direction."""
    return RunDir(run).calibration(f"{config.data.src}-{search.to or config.data.tgt}")


def read_calibration(run: Path, config: Config, origin: Origin, tensors: str) -> Calibration:
    """Read the calibration of a run for one direction.

    origin, tensors: the weights in use and their fingerprint. Raises CheckpointError if the run was not calibrated or
    its calibration is damaged, ConfigError if it was calibrated with other weights.
    """
    path = calibration_path(run, config, config.search)
    advice = f"; create it with nmt calibrate --run {run}"
    missing = f"{run}: not calibrated for {path.stem.partition('-')[2]}{advice}"
    calibration = read_document(path, Calibration, CheckpointError, advice, (CALIBRATION_FORMAT,), missing)
    if tensors != calibration.tensors:
        calibrated = f"step {calibration.step} ({calibration.weights}, {calibration.tensors})"
        used = f"step {origin.step} ({origin.weights}, {tensors})"
        raise ConfigError(f"{path}: calibrated with the weights of {calibrated}, but {used} is used{advice}")
    return calibration


def portable_calibrations(run: Path, tensors: str) -> list[Path]:
    """Return the files with the calibrations of a run that were made with weights with this fingerprint and need no
    other run. A damaged one is left out, with a message."""
    paths = []
    again = "; create it again with nmt calibrate"
    for path in sorted(RunDir(run).calibrations()):
        try:
            calibration = read_document(path, Calibration, CheckpointError, again, (CALIBRATION_FORMAT,))
        except CheckpointError as error:
            say(f"left out: {error}")
            continue
        if calibration.tensors == tensors and calibration.reverse is None:
            paths.append(path)
    return paths
