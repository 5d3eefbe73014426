"""Checks of the combination of training with the data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from nmt.data.settings import DataConfig
from nmt.data.sources import OpusSource, PathSource
from nmt.languages.directions import LABEL
from nmt.training.settings import Stage, TrainingConfig

_PAIR_REASONS = {"copied", "links", "tags", "numbers", "sentences", "truncated"}
_PAIR_FORMATS = ("tmx", "xliff", "po", "moses")


def mixing_problems(data: DataConfig, stages: Sequence[Stage]) -> Iterator[str]:
    """Yield problems of the settings that mix the training corpora."""
    weights = [source.weight for source in data.train]
    if any(weights) and not all(weights):
        lacking = next(i for i, weight in enumerate(weights) if weight is None)
        yield f"data.train.{lacking}.weight: must be given because other corpora have a weight"
    if data.temperature is not None and any(weights):
        yield "data.temperature: not available together with weights of corpora; give one of them"
    for key, source in data.train_sources.items():
        if source.weight is not None and source.repeat > 1:
            yield f"data.{key}.repeat: not available together with weight; give one of them"
        if source.to not in (None, *data.targets):
            known = ", ".join(sorted(data.targets))
            yield f"data.{key}.to: must be a target language ({known}), found {source.to}"
    names = Counter(source.label for source in data.train)
    for i, stage in enumerate(stages):
        key = f"training.stages.{i}"
        is_last = i == len(stages) - 1
        if is_last and stage.steps is not None:
            yield f"{key}.steps: not available in the last stage, which lasts until training ends"
        if not is_last and stage.steps is None:
            yield f"{key}.steps: must be given because this is not the last stage"
        for name in stage.weights or ():
            if names[name] != 1:
                problem = "is not a training corpus" if name not in names else "is the name of several corpora"
                yield f"{key}: {name} {problem}: {', '.join(names)}; data.train.*.name sets a name"
    if stages and all(stage.weights or stage.temperature for stage in stages) and (data.temperature or any(weights)):
        yield "training.stages: every stage has its own mixture, so the weights or temperature in data have no effect"


def label_problems(data: DataConfig, training: TrainingConfig) -> Iterator[str]:
    """Yield problems of the settings for a corpus of texts with labels; nothing for other corpora."""
    if data.src == LABEL:
        yield f"data.direction: labels must be the target: {data.tgt}-{LABEL}, not {data.direction}"
    if not data.has_labels:
        return
    if LABEL in data.mono:
        yield f"data.mono: {LABEL} is not a language"
    for where, source in data.sources():
        if isinstance(source, OpusSource) or (isinstance(source, PathSource) and source.format in _PAIR_FORMATS):
            kind = source.format if isinstance(source, PathSource) else "opus"
            yield f"data.{where}: {kind} contains translations, not labels"
    for where, clean in data.cleanings():
        for reason in sorted(_PAIR_REASONS & {*(clean.drop or ())}):
            yield f"data.{where}.drop: {reason} is not available with {data.direction}: it compares two texts"
        if LABEL in (clean.block_lists or ()):
            yield f"data.{where}.block_lists: {LABEL} is not text and has no block list"
    if training.objective == "denoising":
        yield f"training.objective: denoising: not available with {data.direction}, whose target is a label"
