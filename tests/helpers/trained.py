"""Short trainings: their records, scripted validation scores, deaths, and comparison of runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fitting import fit, start
from kept_run import Died, die_before, differences, kept
from nmt.config import Config
from nmt.data.batching import epoch_updates
from nmt.layout import RunDir
from nmt.model.transformer import Model
from nmt.training.objectives.translation import TranslationValidator
from nmt.training.session import Session
from nmt.training.validate import Validation
from tiny_corpus import tiny_settings

TIMES = ("minutes", "cpu_seconds", "update_seconds", "paused_seconds", "tokens_per_second")


def records(run: Path, kind: str | None = None) -> list[dict[str, object]]:
    found = [json.loads(line) for line in RunDir(run).log.read_text(encoding="utf-8").splitlines()]
    return [{k: v for k, v in r.items() if k not in TIMES} for r in found if kind in (None, r["kind"])]


def score(monkeypatch: pytest.MonkeyPatch, *bleu: float) -> None:
    """Make successive validations return these BLEU scores."""
    scores = iter(bleu)

    class Scored(TranslationValidator):
        def validate(self, model: Model, poll: Callable[[], None] = lambda: None) -> Validation:
            found = super().validate(model, poll)
            return replace(found, scores=found.scores | {"bleu": next(scores)})

    monkeypatch.setattr("nmt.training.setup.objective.TranslationValidator", Scored)


def session_of(tiny_data: Path, text: Path, run: Path, **training: object) -> Session:
    return start(tiny_settings(text, training=training, model={
        "embedding_dropout": 0.0, "residual_dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0,
    }), tiny_data, run, resume=False)  # fmt: skip


def first_update(session: Session):
    settings = session.settings
    return epoch_updates(session.pairs.lengths, settings.update_tokens, settings.seed, 0)[0]


def train_with_deaths(config: Config, data: Path, run: Path, monkeypatch: pytest.MonkeyPatch, steps: list[int]) -> None:
    """Train, fail at each of these steps in turn, and resume each time."""
    for i, death in enumerate(steps):
        with monkeypatch.context() as patch, pytest.raises(Died):
            die_before(death, patch)
            fit(config, data, run, resume=i > 0)
    fit(config, data, run, resume=True)


def assert_same_run(one: Path, other: Path, but: tuple[str, ...] = ()) -> None:
    """Check that the files of both runs are identical, except for times and the files `but`."""
    assert [name for name in differences(kept(one), kept(other)) if name not in but] == []
