"""The metrics beside BLEU, chrF and TER that a command was asked for: models of COMET, and files of segment scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nmt.errors import ConfigError, DataError
from nmt.evaluate.comet import COMMAND, Comet, find_comet, model_name, score_segments
from nmt.evaluate.metrics import METRICS, Reference
from nmt.evaluate.segments import SegmentScores, read_segment_scores

ScoresOfSystems = Mapping[str, Mapping[str, SegmentScores]]
"""Segment scores by the name of the metric and that of the system."""


@dataclass(frozen=True)
class NeuralOptions:
    """What the command line says."""

    models: Sequence[str] = ()
    """Of COMET."""
    command: str | None = None
    """That runs COMET; None: `comet-score`."""
    files: Sequence[str] = ()
    """NAME=FILE; NAME@SYSTEM=FILE if there are several systems."""
    lower_is_better: Sequence[str] = ()
    """Names of metrics with files."""


@dataclass(frozen=True)
class NeuralMetrics:
    """Metrics that were found usable before the work begins."""

    models: tuple[str, ...] = ()
    comet: Comet | None = None
    """None if there is no model."""
    read: ScoresOfSystems = field(default_factory=dict)
    """What files say."""

    def score(
        self, sources: Sequence[str], references: Sequence[Reference], translations: Mapping[str, Sequence[str]]
    ) -> dict[str, dict[str, SegmentScores]]:
        """Return the scores of each system by each metric, by the name of the metric.

        Raises DataError if a file has another number of scores than there are lines, or if COMET fails.
        """
        for metric, of_system in self.read.items():
            for system, scores in of_system.items():
                if len(scores.values) != len(references):
                    raise DataError(
                        f"--segment-scores {metric}: {len(scores.values)} scores of {system}, "
                        f"which has {len(references)} lines"
                    )
        by_metric = dict(self.read)
        if self.comet is not None:
            for model in self.models:
                by_metric[model_name(model)] = score_segments(self.comet, model, sources, references, translations)
        return {system: {metric: scores[system] for metric, scores in by_metric.items()} for system in translations}


def find_metrics(options: NeuralOptions, systems: Sequence[str]) -> NeuralMetrics:
    """Find COMET's command and read the files of scores; `systems` are the names of the systems to score.

    Raises ConfigError if options contradict each other, and DataError if the command or a file is missing or a file
    has something else than scores.
    """
    if options.command is not None and not options.models:
        raise ConfigError(["--comet-command says how to run COMET; --comet MODEL says which model"])
    paths: dict[str, dict[str, Path]] = {}
    for text in options.files:
        metric, system, path = _split(text, systems)
        if paths.setdefault(metric, {}).setdefault(system, path) is not path:
            raise ConfigError([f"--segment-scores {metric}: there are two files of {system}"])
    names = Counter([*METRICS, *map(model_name, options.models), *paths])
    if twice := [name for name, n in names.items() if n > 1]:
        raise ConfigError([f"two metrics are called {twice[0]}: each needs a name of its own"])
    if unknown := [name for name in options.lower_is_better if name not in paths]:
        raise ConfigError([f"--lower-is-better {unknown[0]}: there are no --segment-scores of this name"])
    for metric, of_system in paths.items():
        if lacking := [system for system in systems if system not in of_system]:
            raise ConfigError([f"--segment-scores {metric}@{lacking[0]}=FILE is missing: all systems need scores"])
    read = {
        metric: {system: _read(metric, path, metric in options.lower_is_better) for system, path in of_system.items()}
        for metric, of_system in paths.items()
    }
    comet = find_comet(COMMAND if options.command is None else options.command) if options.models else None
    return NeuralMetrics(tuple(options.models), comet, read)


def _read(metric: str, path: Path, lower_is_better: bool) -> SegmentScores:
    return SegmentScores(read_segment_scores(path), f"{metric}|scores read from a file", not lower_is_better)


def _split(text: str, systems: Sequence[str]) -> tuple[str, str, Path]:
    """Split NAME=FILE, or NAME@SYSTEM=FILE if there are several systems, whose names may have any character."""
    if len(systems) == 1:
        name, _, path = text.partition("=")
        found = [(name, systems[0], path)]
    else:
        name, _, rest = text.partition("@")
        # of "a" and "a=b" the longer one
        starts = sorted((system for system in systems if rest.startswith(f"{system}=")), key=len, reverse=True)
        found = [(name, system, rest[len(system) + 1 :]) for system in starts]
    if not found or not all(found[0]):
        form = "NAME=FILE" if len(systems) == 1 else f"NAME@SYSTEM=FILE, where SYSTEM is one of {', '.join(systems)}"
        raise ConfigError([f"--segment-scores {text}: expected {form}"])
    name, system, path = found[0]
    return name, system, Path(path)
