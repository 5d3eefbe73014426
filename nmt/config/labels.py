"""Settings that are not available for texts with labels (classification)."""

from __future__ import annotations

from collections.abc import Iterator

from nmt.config.data import LABEL, DataConfig
from nmt.config.training import TrainingConfig

_PAIR_STEPS = ("overlap_sides", "copied", "same_links", "same_tags", "same_numbers", "same_sentences", "truncated",
               "max_ratio_spread", "misaligned", "max_sources", "max_ratio")  # fmt: skip
_PAIR_FORMATS = ("tmx", "xliff", "po", "moses")


def label_problems(data: DataConfig, training: TrainingConfig) -> Iterator[str]:
    """Yield problems of the settings if the corpus consists of texts with labels; nothing if it has translations."""
    if data.src == LABEL:
        yield f"data.direction: labels must be the target: {data.tgt}-{LABEL}, not {data.direction}"
    if not data.has_labels:
        return
    if LABEL in data.mono:
        yield f"data.mono: {LABEL} is not a language"
    for where, source in data.sources():
        if source.opus is not None or source.format in _PAIR_FORMATS:
            yield f"data.{where}: {'opus' if source.opus else source.format} contains translations, not labels"
    if data.max_ratio != DataConfig.model_fields["max_ratio"].default:
        yield f"data.max_ratio: not available with {data.direction}: labels have no length to compare"
    for where, clean in [("", data.clean), *((f"{key}.", source.clean) for key, source in data.sources())]:
        for name in _PAIR_STEPS:
            if getattr(clean, name, None):
                yield f"data.{where}clean.{name}: not available with {data.direction}: it compares two texts"
        if LABEL in ((clean and clean.block_lists) or ()):
            yield f"data.{where}clean.block_lists: {LABEL} is not text and has no block list"
    given = {
        "both_directions": training.both_directions,
        "pair_task": training.pair_task,
        "objective: denoising": training.objective == "denoising",
        "tgt_bpe_dropout": training.tgt_bpe_dropout > 0,
        "modifiers": bool(training.modifiers.rates),
    }
    for name in (name for name, value in given.items() if value):
        yield f"training.{name}: not available with data.direction: {data.direction}, whose target is a label"
