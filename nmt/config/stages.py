"""Settings of the mixture of the training corpora: weights, temperature and stages, and what contradicts itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from pydantic import Field, model_validator

from nmt.config.data import DataConfig
from nmt.config.section import Section, raise_together


class Stage(Section):
    """A part of the training with a mixture of its own."""

    weights: dict[str, float] | None = None
    """Name of a training corpus -> its weight, of any sum; the others have no part in this stage. null: the mixture of
    `data`."""
    temperature: float | None = Field(None, ge=1.0)
    """The same as `data.temperature`, in this stage; in place of `weights`."""
    steps: int | None = Field(None, ge=1)
    """The stage ends after so many updates. Each stage but the last needs one of steps, share and epochs."""
    share: float | None = Field(None, gt=0.0, lt=1.0)
    """The stage ends after this share of `training.max_steps`."""
    epochs: float | None = Field(None, gt=0.0)
    """The stage ends after so many passes over the corpus that `of` names."""
    of: str | None = None
    """The name of the corpus whose passes `epochs` counts."""

    @model_validator(mode="after")
    def _check(self) -> Stage:
        problems = []
        if self.weights is not None:
            if self.temperature is not None:
                problems.append("give weights or temperature")
            problems += [f"weights.{name}: must be at least 0, found {weight:g}"
                         for name, weight in self.weights.items() if weight < 0]  # fmt: skip
            if not any(weight > 0 for weight in self.weights.values()):
                problems.append("weights: all are 0")
        if len(self.ends) > 1:
            problems.append(f"give one end, found {' and '.join(self.ends)}")
        if (self.epochs is None) != (self.of is None):
            problems.append("epochs and of belong together: epochs: 2 and of: the name of a corpus")
        elif self.of is not None and self.weights is not None and not self.weights.get(self.of):
            problems.append(f"of: {self.of} has no part in this stage, so that it would never end")
        raise_together(problems)
        return self

    @property
    def ends(self) -> list[str]:
        """The settings that end it: one, in the last stage none."""
        return [name for name in ("steps", "share", "epochs") if getattr(self, name) is not None]


def mixing_problems(data: DataConfig, stages: Sequence[Stage]) -> Iterator[str]:
    """Yield what is wrong with the mixture of the training corpora."""
    weights = [source.weight for source in data.train]
    if any(weights) and not all(weights):
        lacking = next(i for i, weight in enumerate(weights) if weight is None)
        yield f"data.train.{lacking}.weight: must be given, since other corpora have one"
    if data.temperature is not None and any(weights):
        yield "data.temperature: has no effect beside the weights of the corpora; give one of them"
    yield from (f"data.train.{i}.repeat: has no effect beside weight; give one of them"
                for i, source in enumerate(data.train) if source.weight is not None and source.repeat > 1)  # fmt: skip
    names = Counter(source.label for source in data.train)
    for i, stage in enumerate(stages):
        key = f"training.stages.{i}"
        is_last = i == len(stages) - 1
        if is_last and stage.ends:
            yield f"{key}.{stage.ends[0]}: the last stage has no end; it lasts until the training ends"
        if not is_last and not stage.ends:
            yield f"{key}: needs one of steps, share and epochs, since it is not the last"
        for name in dict.fromkeys([*(stage.weights or {}), *([stage.of] if stage.of is not None else [])]):
            if names[name] != 1:
                found = "is none of the training corpora" if name not in names else "is the name of several corpora"
                yield f"{key}: {name} {found}: {', '.join(names)}; data.train.*.name sets a name"
    if stages and all(stage.weights or stage.temperature for stage in stages) and (data.temperature or any(weights)):
        yield "training.stages: each has a mixture of its own, so that the weights or the temperature of data have none"
    if (total := sum(stage.share or 0 for stage in stages)) >= 1:
        yield f"training.stages: the shares of max_steps add up to {total:g}, so that nothing is left for the last one"
