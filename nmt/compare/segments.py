"""Scores of systems by further metrics, before they are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nmt.compare.systems import Members, distinct_names
from nmt.compare.types import System, TextToTranslate
from nmt.evaluate.neural import NeuralMetrics


def names_of(members: Members) -> list[str]:
    """Return the names that the systems will have."""
    return distinct_names([path for paths in members.values() for path in paths])


def with_segment_scores(text: TextToTranslate, systems: Sequence[System], neural: NeuralMetrics) -> list[System]:
    """Return the systems with their scores by further metrics. Raises DataError as `NeuralMetrics.score` does."""
    translations = {system.name: system.translations for system in systems}
    scores = neural.score(text.sources or (), text.references, translations)
    return [replace(system, segment_scores=scores[system.name]) for system in systems]
