"""What the runs of a comparison were trained with: settings in which they differ, and their learning curves."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nmt.compare.types import Comparison, Group, System
from nmt.config.load import load_saved_config
from nmt.errors import NmtError
from nmt.layout import RunDir
from nmt.runs.curve import learning_curve
from nmt.runs.info import read_info

_INFO = ("data_dir", "corpus", "tokenizer", "precision", "device_name", "torch", "initial")
_OF_EVERY_RUN = {"training.run_dir"}  # differs between any two runs


@dataclass(frozen=True)
class Trainings:
    """How the systems were trained, as far as that can be read."""

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
    """Return the learning curve of a system, if it has one: that of the best weights at each validation."""
    if system.run is None:
        return []
    try:
        points = learning_curve(RunDir(system.run))
    except (NmtError, OSError) as error:
        problems.append(f"{system.name}: no learning curve: {error}")
        return []
    return [[(float(point.step), max(point.bleu.values())) for point in points if point.bleu]]
