"""Texts with labels in place of translations: the settings that do not go with them."""

from __future__ import annotations

from collections.abc import Iterator

from nmt.config.data import LABEL, DataConfig
from nmt.config.training import TrainingConfig

_PAIR_STEPS = ("overlap_sides", "copied", "same_links", "same_tags", "same_numbers", "same_sentences", "truncated",
               "max_ratio_spread", "misaligned", "max_sources", "max_ratio")  # fmt: skip
_PAIR_FORMATS = ("tmx", "xliff", "po", "moses")


def label_problems(data: DataConfig, training: TrainingConfig) -> Iterator[str]:
    """Yield what is wrong with the settings of a corpus of texts with labels; nothing for one of translations."""
    if data.src == LABEL:
        yield f"data.direction: labels are predicted from text: {data.tgt}-{LABEL}, not {data.direction}"
    if not data.has_labels:
        return
    if LABEL in data.mono:
        yield f"data.mono: {LABEL} is no language"
    for where, source in data.sources():
        if source.opus is not None or source.format in _PAIR_FORMATS:
            yield f"data.{where}: {'opus' if source.opus else source.format} has translations, and no labels"
    if data.max_ratio != DataConfig.model_fields["max_ratio"].default:
        yield f"data.max_ratio: not with {data.direction}, a label has no length to compare"
    for where, clean in [("", data.clean), *((f"{key}.", source.clean) for key, source in data.sources())]:
        for name in _PAIR_STEPS:
            if getattr(clean, name, None):
                yield f"data.{where}clean.{name}: not with {data.direction}, it compares a text with its translation"
        if LABEL in ((clean and clean.block_lists) or ()):
            yield f"data.{where}clean.block_lists: not of {LABEL}, which is no text"
    given = {
        "both_directions": training.both_directions,
        "pair_task": training.pair_task,
        "objective: denoising": training.objective == "denoising",
        "tgt_bpe_dropout": training.tgt_bpe_dropout > 0,
        "modifiers": bool(training.modifiers.rates),
    }
    for name in (name for name, value in given.items() if value):
        yield f"training.{name}: not with data.direction: {data.direction}, a label is no text"
