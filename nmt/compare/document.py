"""A comparison as JSON, for programs. docs/comparing.md describes it."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

from nmt.compare.thresholds import agreement
from nmt.compare.types import Comparison, Difference, Group, GroupScore, Result, System


def render_json(comparison: Comparison) -> str:
    """Format the comparison as one JSON object, without the lines of text; missing values are null."""
    text = comparison.text
    return json.dumps(
        {
            "text": text.name,
            "lines": len(text.references),
            "languages": text.languages,
            "baseline": comparison.groups[comparison.baseline].name,
            "groups": [
                {"name": group.name, "systems": [_system(system) for system in group.systems]}
                for group in comparison.groups
            ],
            "results": [_result(comparison.groups, result) for result in comparison.results],
            "trials": comparison.trials,
            "seed": comparison.seed,
            "notes": comparison.notes,
        },
        ensure_ascii=False,
        indent=1,
    )


def _system(system: System) -> dict[str, object]:
    return {
        "name": system.name,
        "run": None if system.run is None else str(system.run),
        "step": system.step,
        "weights": system.weights,
        "search": system.search,
        "precision": system.precision,
    }


def _result(groups: Sequence[Group], result: Result) -> dict[str, object]:
    metric = result.metric
    return {
        "metric": metric.name,
        "signature": metric.signature,
        "higher_is_better": metric.higher_is_better,
        "scores": [_score(group, score) for group, score in zip(groups, result.scores, strict=True)],
        "differences": [
            _difference(group, difference, agreement(metric, difference.value))
            for group, difference in zip(groups, result.differences, strict=True)
            if difference is not None
        ],
    }


def _score(group: Group, score: GroupScore) -> dict[str, object]:
    return {
        "group": group.name,
        "value": score.value,
        "interval": score.interval,
        "by_system": score.by_system,
        "seed_deviation": score.seed_deviation,
    }


def _difference(group: Group, difference: Difference, people: str | None) -> dict[str, object]:
    freedom = difference.degrees_of_freedom
    return {
        "group": group.name,
        "value": difference.value,
        "interval": difference.interval,
        "p": difference.p,
        "p_holm": difference.p_holm,
        "line_error": difference.line_error,
        "seed_error": difference.seed_error,
        "degrees_of_freedom": None if freedom is None or math.isinf(freedom) else freedom,  # JSON has no infinity
        "advice": difference.advice,
        "people_agree": people,
    }
