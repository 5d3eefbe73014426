"""The file of weights: tuned once, read whenever text is reranked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import Field, FiniteFloat

from nmt.errors import DataError
from nmt.files.document import Document, read_document
from nmt.rerank.features import Feature
from nmt.runs.scores import EnsembleMember

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
    try:
        weights = read_document(path, WeightsFile, DataError, "; tune again with --tune", formats=(FORMAT,)).weights
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; --tune writes it") from None
    names = [feature.name for feature in features]
    if weights.keys() != {*names}:
        held, given = ", ".join(weights), ", ".join(names)
        raise DataError(f"{path}: has weights of {held}, these runs give {given}; tune again, or name the same runs")
    return tuple(weights[name] for name in names)
