"""What contradicts itself in weights, temperature and stages is refused, with the key of the setting."""

from __future__ import annotations

import pytest

from nmt.config.load import check_config
from nmt.errors import ConfigError

FILES = {"files": {"de": "x.de", "en": "x.en"}}
END = {"weights": {"a": 1}}


def problems(
    weights: tuple[float | None, ...] = (None, None), stages: tuple[dict[str, object], ...] = (), **data: object
) -> list[str]:
    """The problems of a config of the corpora a and b."""
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


def test_sound_mixtures() -> None:
    assert problems((1.0, 0.5)) == problems(temperature=5.0) == []
    assert problems(stages=({"weights": {"a": 1, "b": 0}, "epochs": 2.0, "of": "a"}, {})) == []
    assert problems((1.0, 2.0), stages=({"temperature": 2.0, "steps": 5}, {"share": 0.5}, END)) == []


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"weights": (1.0, None)}, "data.train.1.weight: must be given, since other corpora have one"),
        ({"weights": (1.0, 2.0), "temperature": 2.0}, "data.temperature: has no effect beside the weights"),
        ({"weights": (0.0, 2.0)}, "data.train.0.weight: must be greater than 0"),
        ({"temperature": 0.5}, "data.temperature: must be at least 1"),
        ({"valid": {**FILES, "weight": 1.0}}, "data.valid.weight: only training corpora have a weight"),
        ({"stages": ({"weights": {"a": 1}, "temperature": 2.0, "steps": 1}, {})}, "give weights or temperature"),
        ({"stages": ({"steps": 1, "share": 0.5}, {})}, "give one end, found steps and share"),
        ({"stages": ({"epochs": 1.0}, {})}, "epochs and of belong together"),
        ({"stages": ({"of": "a", "steps": 1}, {})}, "epochs and of belong together"),
        ({"stages": ({"weights": {"a": 1}, "epochs": 1.0, "of": "b"}, {})}, "of: b has no part in this stage"),
        ({"stages": ({"weights": {"a": 0}},)}, "weights: all are 0"),
        ({"stages": ({"weights": {"a": -1, "b": 2}},)}, "weights.a: must be at least 0, found -1"),
        ({"stages": ({}, {})}, "training.stages.0: needs one of steps, share and epochs, since it is not the last"),
        ({"stages": ({"steps": 3},)}, "training.stages.0.steps: the last stage has no end"),
        ({"stages": ({"weights": {"c": 1}},)}, "training.stages.0: c is none of the training corpora: a, b"),
        ({"stages": ({"epochs": 1.0, "of": "c"}, {})}, "training.stages.0: c is none of the training corpora: a, b"),
        ({"stages": ({"share": 0.5}, {"share": 0.5}, {})}, "training.stages: the shares of max_steps add up to 1"),
        ({"weights": (1.0, 2.0), "stages": (END,)}, "training.stages: each has a mixture of its own"),
    ],
)  # fmt: skip
def test_nonsense_is_refused(given: dict[str, object], problem: str) -> None:
    found = problems(**given)  # type: ignore[arg-type]
    assert any(problem in one for one in found), found


def test_a_name_of_two_corpora_and_a_repeated_weight() -> None:
    files = {**FILES, "name": "a"}
    tree = {
        "data": {"direction": "de-en", "train": [files, {**files, "repeat": 2, "weight": 1}], "valid": FILES},
        "training": {"stages": [END]},
    }
    with pytest.raises(ConfigError) as caught:
        check_config(tree, "test")
    found = "\n".join(caught.value.problems)
    assert "training.stages.0: a is the name of several corpora" in found
    assert "data.train.1.repeat: has no effect beside weight" in found
