"""Pairs that a trained classifier holds for no translations. PyTorch is imported only where a corpus has this step."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel

from nmt.config import DataConfig
from nmt.errors import CheckpointError, ConfigError, NmtError

if TYPE_CHECKING:
    from nmt.prepare.cleaning.pair_classifier import PairClassifier

REASON = "classifier"
"""Why these pairs are dropped, one of `nmt.prepare.cleaning.reasons.REASONS`."""


class Classified(BaseModel, frozen=True):
    """Drops pairs with a low score by a classifier."""

    run: str
    """Its folder."""
    fingerprint: str
    least: float
    """The minimum score."""

    def dropped(self, languages: tuple[str, str], pairs: Sequence[tuple[str, str]]) -> npt.NDArray[np.bool_]:
        """Return which of the pairs (N,), whose sides are in these languages, are to be dropped.

        Raises CheckpointError if the run is damaged, or not the one that has this fingerprint.
        """
        classifier = _load(self.run, self.fingerprint)
        if classifier.config.data.src != languages[0]:
            pairs = [(src, tgt) for tgt, src in pairs]
        found = classifier.log_odds(pairs)
        # rounded as `nmt filter` writes scores, so that the same threshold drops the same pairs
        return np.fromiter((float(f"{each.score:.6g}") < self.least for each in found), np.bool_, len(pairs))


@lru_cache(maxsize=1)
def _load(run: str, fingerprint: str) -> PairClassifier:
    """Load a classifier, once for all parts that this process judges."""
    from nmt.prepare.cleaning.pair_classifier import PairClassifier, classifier_fingerprint, open_classifier

    saved = open_classifier(Path(run))
    if classifier_fingerprint(saved) != fingerprint:
        raise CheckpointError(f"{run}: has changed since this preparation began; repeat it when its training has ended")
    # not the precision that is found to be fast: that may differ between processes, and scores with it
    return PairClassifier.of(saved, "float32")


def classified(config: DataConfig, key: str, fingerprints: dict[str, str]) -> Classified | None:
    """Return the step of a corpus, `train.0`, if it has one. `fingerprints`: of the runs that are used, by name."""
    clean = config.clean_of(key)
    if not clean.classifier or not clean.min_classifier_score:
        return None
    run, least = Path(clean.classifier).absolute(), clean.min_classifier_score
    return Classified(run=str(run), fingerprint=fingerprints[clean.classifier], least=least)


def classifier_fingerprints(config: DataConfig) -> dict[str, str]:
    """Return the fingerprints of the runs that are used as classifiers, by name.

    Raises ConfigError if there is no such run, or it is no classifier of pairs of these languages.
    """
    cleans = [config.clean_of(f"train.{i}") for i in range(len(config.train))]
    runs = sorted({clean.classifier for clean in cleans if clean.classifier and clean.min_classifier_score})
    return {run: _fingerprint(run, config) for run in runs}


def _fingerprint(run: str, config: DataConfig) -> str:
    from nmt.console import say
    from nmt.prepare.cleaning.pair_classifier import classifier_fingerprint, open_classifier

    try:
        saved = open_classifier(Path(run))
    except NmtError as error:
        raise ConfigError([f"clean.classifier: {problem}" for problem in error.args]) from error
    if saved.config.data.languages != config.languages:
        own, wanted = saved.config.data.direction, config.direction
        raise ConfigError(
            [f"clean.classifier: {run}: has learned pairs of {own}, which is neither direction of {wanted}"]
        )
    if saved.note is not None:
        say(saved.note)
    return classifier_fingerprint(saved)
