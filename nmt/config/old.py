"""Settings of earlier versions that were removed, and their replacements. Only this module knows them.

A saved file with such a setting was written before 0.2.0 and is not read, unless the setting had no effect or is in
`SINCE_0_2_0`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any

_FILTER = "score pairs with nmt filter --classifier RUN, and read its scores with score and clean.min_score"
_BPE_DROPOUT = "write training.bpe_dropout, which applies to both sides"
_BEST = "score pairs with nmt filter, and drop the worst with score and clean.min_score"
_SECTION = "write it in the section of the objective, such as training.masked"
_STAGE = "write the length of the stage as steps"
_BETAS = "write training.betas, a list of both"
_LANGUAGE_MODEL = "pre-train with training.objective: causal, and start from that run with training.init_from"
_CLEAN_REPAIRS = ("repair_encoding", "repair_entities", "repair_control", "repair_spaces", "unicode_form")
_CLEAN_REASONS = (
    "copied", "broken", "shouted", "truncated", "language", "same_links", "same_tags", "same_numbers", "same_sentences",
)  # fmt: skip
GONE: dict[str, tuple[object, str]] = {
    **{
        f"data.{where}clean.{name}": (None, f"write it as an entry of clean.{setting}")
        for where in ("", "train.*.")
        for setting, names in (("repair", _CLEAN_REPAIRS), ("drop", _CLEAN_REASONS))
        for name in names
    },
    **{
        f"data.{where}clean.{name}": (None, _FILTER)
        for where in ("", "train.*.")
        for name in ("classifier", "min_classifier_score")
    },
    **{
        f"data.{where}clean.{name}": (None, advice)
        for where in ("", "train.*.")
        for name, advice in (
            ("max_ratio_spread", "data.max_ratio and clean.misaligned drop such pairs"),
            ("overlap_sides", "write overlap: either, or leave it out"),
        )
    },
    **{
        f"data.{where}.{name}": (neutral, advice)
        for where in ("train.*", "valid", "test.*", "mono.*.*")
        for name, neutral, advice in (
            ("stream", False, "files of the Hub are downloaded once and kept in its cache"),
            ("column", None, "write columns: {de: translation.de, en: translation.en}, with your languages"),
        )
    },
    "data.clean.near_duplicates": (None, "write it as an entry of clean.drop"),
    "data.clean.max_sources": (None, _BEST),
    "data.clean.max_targets": (None, _BEST),
    "training.both_directions": (False, "list both directions in data.directions, such as [de-en, en-de]"),
    "training.layout": ("auto", "sentences are packed on GPUs that support it"),
    "training.pool_pairs": (30_000, "30,000 pairs are always sorted by length together"),
    "training.src_bpe_dropout": (0.0, _BPE_DROPOUT),
    "training.tgt_bpe_dropout": (0.0, _BPE_DROPOUT),
    "training.languages": ([], _SECTION),
    "training.noise": ("infilling", _SECTION),
    "training.mask_share": (None, _SECTION),
    "training.mask_span": (3.5, _SECTION),
    "training.pair_task": (False, _SECTION),
    "training.pair_negatives": (["shuffled"], _SECTION),
    "training.masked.pair_negatives": (["shuffled"], "write the kinds as pair_task"),
    "training.modifiers.glossary": (None, "write training.glossary"),
    **{f"training.stages.*.{name}": (None, _STAGE) for name in ("share", "epochs", "of")},
    "search.max_length": (0, "write max_length_ratio: 0 and a max_length_offset that is greater by one"),
    "search.mbr_candidates": (16, "the number of candidates is search.beam"),
    "search.protect_patterns": ([], "write them in search.protect, a list that also accepts placeholders and numbers"),
    "search.batch_sentences": ("auto", "write search.batch_tokens"),
    "model.head": ("softmax", "classes always have a softmax output"),
    "model.head_dropout": (0.1, "write model.residual_dropout, which also applies to the head"),
    "model.segments": (False, "sides are distinguished by positions and the separator"),
    "model.pooling": ("mean", "classes are predicted from the mean of the hidden states; train the classifier again"),
    "training.beta1": (0.9, _BETAS),
    "training.beta2": (0.98, _BETAS),
    "training.classification": ({"lm_weight": 0.0}, _LANGUAGE_MODEL),
    "training.lm_weight": (0.0, _LANGUAGE_MODEL),
    "training.consistency_start": (0, "consistency training begins with the first update"),
    **{f"training.{where}mask_words": (False, "pieces are masked one by one") for where in ("", "masked.")},
    "training.denoising.noise": ("infilling", "infilling is the only kind of noise"),
}
"""Removed setting -> its value without effect, and what to use instead. `*` stands for any list index or name."""
SINCE_0_2_0 = ("training.both_directions",)
"""The settings that were removed since 0.2.0: a note says that they are not read."""
_KINDS = "must be a list of kinds, such as [shuffled], or [] for none"
_GONE_VALUES: dict[tuple[str, object], str] = {
    ("training.optimizer", "schedule_free"): "schedule_free has been removed; write adamw, with training.cooldown or "
    "training.ema",
    ("search.mbr", "bleu"): "bleu has been removed; write chrf",
    ("training.denoising.mask_share", None): "must be a number, such as 0.35",
    ("training.masked.pair_task", True): _KINDS,
    ("training.masked.pair_task", False): _KINDS,
}
"""Setting and removed value -> what to use instead."""


def without_old(tree: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return a copy of a tree without removed settings, and a message about each that had an effect."""
    kept = deepcopy(dict(tree))
    match kept:
        case {"search": {"sample": True, "mbr": "chrf", "mbr_candidates": 16} as search}:
            search["beam"] = 16  # whose default is smaller; it is the number of candidates now
    lines = []
    for key, (neutral, advice) in GONE.items():
        for where, section, name in _places(kept, key):
            if section.pop(name) != neutral:
                lines.append(f"{where}: this setting has been removed; {advice}")
    for (key, value), advice in _GONE_VALUES.items():
        for where, section, name in _places(kept, key):
            if section[name] == value:
                del section[name]
                lines.append(f"{where}: {advice}")
    return kept, lines


def _places(node: Any, key: str, where: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the dotted key, the containing mapping or list, and the last part of each occurrence of a key in a tree."""
    first, _, inner = key.partition(".")
    names: Iterable[Any] = ()
    if isinstance(node, dict):
        names = node if first == "*" else node.keys() & {first}
    elif first == "*" and isinstance(node, list | tuple):
        names = range(len(node))
    for name in [*names]:
        if inner:
            yield from _places(node[name], inner, f"{where}{name}.")
        else:
            yield f"{where}{name}", node, name
