"""Tests of weights, temperature and stages, whose contradictory settings are rejected."""

from __future__ import annotations

import pytest

from nmt.config.load import check_config
from nmt.errors import ConfigError

FILES = {"files": {"de": "x.de", "en": "x.en"}}
END = {"weights": {"a": 1}}


def problems(
    weights: tuple[float | None, ...] = (None, None), stages: tuple[dict[str, object], ...] = (), **data: object
) -> list[str]:
    """Return the problems of a config with the corpora a and b."""
    train = [{**FILES, "name": "ab"[i], "weight": weight} for i, weight in enumerate(weights)]
    tree = {
        "data": {"direction": "de-en", "train": train, "valid": FILES, **data},
        "training": {"stages": list(stages)},
    }
    try:
        check_config(tree, "test")
    except ConfigError as error:
        return error.problems
    return []


def test_valid_mixture_is_accepted() -> None:
    assert problems((1.0, 0.5)) == problems(temperature=5.0) == []
    assert problems(stages=({"weights": {"a": 1, "b": 0}, "steps": 2}, {})) == []
    assert problems((1.0, 2.0), stages=({"temperature": 2.0, "steps": 5}, {"steps": 7}, END)) == []


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"weights": (1.0, None)}, "data.train.1.weight: must be given because other corpora have a weight"),
        ({"weights": (1.0, 2.0), "temperature": 2.0}, "data.temperature: not available together with weights"),
        ({"weights": (0.0, 2.0)}, "data.train.0.weight: must be greater than 0"),
        ({"temperature": 0.5}, "data.temperature: must be at least 1"),
        ({"valid": {**FILES, "weight": 1.0}}, "data.valid.weight: only available for training corpora"),
        ({"stages": ({"weights": {"a": 1}, "temperature": 2.0, "steps": 1}, {})}, "give weights or temperature"),
        ({"stages": ({"share": 0.5}, {})}, "training.stages.0.share: this setting has been removed"),
        ({"stages": ({"weights": {"a": 0}},)}, "weights: at least one must be above 0"),
        ({"stages": ({"weights": {"a": -1, "b": 2}},)}, "weights.a: must be at least 0, found -1"),
        ({"stages": ({}, {})}, "training.stages.0.steps: must be given because this is not the last"),
        ({"stages": ({"steps": 3},)}, "training.stages.0.steps: not available in the last stage"),
        ({"stages": ({"weights": {"c": 1}},)}, "training.stages.0: c is not a training corpus: a, b"),
        ({"weights": (1.0, 2.0), "stages": (END,)}, "training.stages: every stage has its own mixture"),
    ],
)  # fmt: skip
def test_invalid_mixture_is_rejected(given: dict[str, object], problem: str) -> None:
    found = problems(**given)  # type: ignore[arg-type]
    assert any(problem in one for one in found), found


def test_ambiguous_corpus_name_and_repeat_with_weight_are_rejected() -> None:
    source = {**FILES, "name": "a", "weight": 1}
    found = "\n".join(problems(stages=(END,), train=[source, source | {"repeat": 2}]))
    assert "training.stages.0: a is the name of several corpora" in found
    assert "data.train.1.repeat: " in found
