"""Settings of earlier versions that were removed, and their replacements. Only this module knows them.

Saved runs with them can still be read, except for those with `model.segments`, whose weights no model has a place for,
and those with a setting in `UNREADABLE`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any

from nmt.config.clean import NEAR_DUPLICATES

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
        f"data.{where}clean.max_ratio_spread": (None, "data.max_ratio and clean.misaligned drop such pairs")
        for where in ("", "train.*.")
    },
    **{
        f"data.{where}.stream": (False, "files of the Hub are downloaded once and kept in its cache")
        for where in ("train.*", "valid", "test.*", "mono.*.*")
    },
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
UNREADABLE = ("model.pooling", "training.languages", "training.pair_task")
"""Removed settings that make a saved run unreadable if they had an effect on its model."""
_GONE_VALUES: dict[tuple[str, str | None], tuple[object, str]] = {
    ("training.optimizer", "schedule_free"): ("adamw", "write adamw, with training.cooldown or training.ema"),
    ("search.mbr", "bleu"): ("chrf", "write chrf"),
    ("training.denoising.mask_share", None): (0.35, "write 0.35"),
}
"""For each setting with a removed value, the replacement and advice."""


def without_old(tree: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return a copy of a tree without removed settings, and a message about each that had an effect."""
    kept = deepcopy(dict(tree))
    lines = [*_renamed_clean(kept), *_renamed_columns(kept), *_renamed_training(kept)]
    _translate_search(kept)
    for key, (neutral, advice) in GONE.items():
        for where, section, name in _places(kept, key):
            if section.pop(name) != neutral:
                lines.append(f"{where}: this setting has been removed; {advice}")
    for (key, value), (replacement, advice) in _GONE_VALUES.items():
        for where, section, name in _places(kept, key):
            if section[name] == value:
                section[name] = replacement
                lines.append(f"{where}: {value} has been removed; {advice}")
    return kept, lines


def _renamed_clean(tree: dict[str, Any]) -> Iterator[str]:
    """Replace cleaning settings in place, and yield a message about each."""
    for where, clean, name in _places(tree, "data.clean.near_duplicates"):
        if clean.pop(name):
            clean["drop"] = [*(clean.get("drop") or ()), NEAR_DUPLICATES]
            yield f"{where}: this setting is now an entry of data.clean.drop: {clean['drop']}"
    for key in ("data.clean.overlap_sides", "data.train.*.clean.overlap_sides"):
        for where, clean, name in _places(tree, key):
            if clean.pop(name) == "either":
                clean["overlap"] = "either"
                yield f"{where}: write overlap: either"


def _renamed_columns(tree: dict[str, Any]) -> Iterator[str]:
    """Replace `column` of sources by paths in `columns` in place, and yield a message about each."""
    for key in ("data.train.*.column", "data.valid.column", "data.test.*.column", "data.mono.*.*.column"):
        for where, source, name in _places(tree, key):
            column = source.pop(name)
            languages = tree.get("languages") or str(tree["data"].get("direction", "")).split("-")
            if where.startswith("data.mono."):
                languages = [where.split(".")[2]]
            if column is not None:
                source["columns"] = {language: f"{column}.{language}" for language in languages}
                yield f"{where}: {column} is now columns: {source['columns']}"


def _renamed_training(tree: dict[str, Any]) -> Iterator[str]:
    """Replace settings of training in place, and yield a message about each."""
    for where, masked, name in _places(tree, "training.masked.pair_task"):
        kinds = masked.pop("pair_negatives", ["shuffled"])
        has_task = masked[name]
        if isinstance(has_task, bool):
            masked[name] = kinds if has_task else []
            if has_task:
                yield f"{where}: now a list of kinds; write {kinds}"
    for where, modifiers, name in _places(tree, "training.modifiers.glossary"):
        if (glossary := modifiers.pop(name)) is not None:
            tree["training"]["glossary"] = glossary
            yield f"{where}: this setting is now training.glossary"


def _translate_search(tree: dict[str, Any]) -> None:
    """Add search settings with the effect of removed ones, in place."""
    search = tree.get("search")
    if not isinstance(search, dict):
        return
    if isinstance(longest := search.get("max_length"), int) and longest > 0:
        search |= {"max_length_ratio": 0.0, "max_length_offset": longest + 1}
    if isinstance(patterns := search.get("protect_patterns"), list) and patterns:
        known = {True: ["placeholders", "numbers"], "placeholders": ["placeholders"]}
        search["protect"] = known.get(search.get("protect", False), []) + patterns
    if search.get("sample") is True and search.get("mbr", "none") != "none" and "mbr_candidates" in search:
        search["beam"] = search["mbr_candidates"]


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
