"""Settings of the mixture of the training corpora (weights, temperature and stages) and their checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from pydantic import Field, model_validator

from nmt.config.data import DataConfig
from nmt.config.section import Section, raise_together


class Stage(Section):
    """A part of the training with its own mixture of the training corpora."""

    weights: dict[str, float] | None = None
    """Name of a training corpus -> its weight. Weights need not add up to 1; corpora without a weight are not used in
    this stage. null: the mixture of `data`."""
    temperature: float | None = Field(None, ge=1.0)
    """Replaces `data.temperature` in this stage; an alternative to `weights`."""
    steps: int | None = Field(None, ge=1)
    """Length of the stage in updates. Every stage except the last needs one of steps, share and epochs."""
    share: float | None = Field(None, gt=0.0, lt=1.0)
    """Length of the stage as a share of `training.max_steps`."""
    epochs: float | None = Field(None, gt=0.0)
    """Length of the stage in passes over the corpus named by `of`."""
    of: str | None = None
    """Name of the corpus whose passes `epochs` counts."""

    @model_validator(mode="after")
    def _check(self) -> Stage:
        problems = []
        if self.weights is not None:
            if self.temperature is not None:
                problems.append("give weights or temperature, not both")
            problems += [f"weights.{name}: must be at least 0, found {weight:g}"
                         for name, weight in self.weights.items() if weight < 0]  # fmt: skip
            if not any(weight > 0 for weight in self.weights.values()):
                problems.append("weights: at least one must be above 0")
        if len(self.ends) > 1:
            problems.append(f"give only one of steps, share and epochs, found {' and '.join(self.ends)}")
        if (self.epochs is None) != (self.of is None):
            problems.append("epochs and of must be given together, of being the name of a corpus")
        elif self.of is not None and self.weights is not None and not self.weights.get(self.of):
            problems.append(f"of: {self.of} is not used in this stage, which would never end")
        raise_together(problems)
        return self

    @property
    def ends(self) -> list[str]:
        """Names of the settings that give the length of the stage: one, or none in the last stage."""
        return [name for name in ("steps", "share", "epochs") if getattr(self, name) is not None]


def mixing_problems(data: DataConfig, stages: Sequence[Stage]) -> Iterator[str]:
    """Yield problems of the mixture of the training corpora."""
    weights = [source.weight for source in data.train]
    if any(weights) and not all(weights):
        lacking = next(i for i, weight in enumerate(weights) if weight is None)
        yield f"data.train.{lacking}.weight: must be given because other corpora have a weight"
    if data.temperature is not None and any(weights):
        yield "data.temperature: not available together with weights of corpora; give one of them"
    yield from (f"data.train.{i}.repeat: not available together with weight; give one of them"
                for i, source in enumerate(data.train) if source.weight is not None and source.repeat > 1)  # fmt: skip
    names = Counter(source.label for source in data.train)
    for i, stage in enumerate(stages):
        key = f"training.stages.{i}"
        is_last = i == len(stages) - 1
        if is_last and stage.ends:
            yield f"{key}.{stage.ends[0]}: not available in the last stage, which lasts until training ends"
        if not is_last and not stage.ends:
            yield f"{key}: needs one of steps, share and epochs because it is not the last stage"
        for name in dict.fromkeys([*(stage.weights or {}), *([stage.of] if stage.of is not None else [])]):
            if names[name] != 1:
                found = "is not a training corpus" if name not in names else "is the name of several corpora"
                yield f"{key}: {name} {found}: {', '.join(names)}; data.train.*.name sets a name"
    if stages and all(stage.weights or stage.temperature for stage in stages) and (data.temperature or any(weights)):
        yield "training.stages: every stage has its own mixture, so the weights or temperature in data have no effect"
    if (total := sum(stage.share or 0 for stage in stages)) >= 1:
        yield f"training.stages: the shares add up to {total:g}, which leaves no updates for the last stage"
