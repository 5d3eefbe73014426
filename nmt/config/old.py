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
_STAGE = "write the length of the stage as steps"
_BETAS = "write training.betas, a list of both"
_LANGUAGE_MODEL = "pre-train with training.objective: causal, and start from that run with training.init_from"
GONE: dict[str, tuple[object, str]] = {
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
UNREADABLE = ("model.pooling",)
"""Removed settings that make a saved run unreadable, because its model is no longer implemented."""
_GONE_VALUES: dict[tuple[str, str | None], tuple[object, str]] = {
    ("training.optimizer", "schedule_free"): ("adamw", "write adamw, with training.cooldown or training.ema"),
    ("search.mbr", "bleu"): ("chrf", "write chrf"),
    ("training.denoising.mask_share", None): (0.35, "write 0.35"),
}
"""For each setting with a removed value, the replacement and advice."""
_ENTRIES: dict[tuple[str, object], tuple[str, str]] = {
    **{(f"repair_{name}", True): ("repair", name) for name in ("encoding", "entities", "control", "spaces")},
    **{("unicode_form", form): ("repair", form) for form in ("NFC", "NFKC")},
    ("copied", "normal"): ("drop", "copied"),
    ("near_duplicates", True): ("drop", NEAR_DUPLICATES),
    **{(name, True): ("drop", name) for name in ("broken", "shouted", "truncated", "language")},
    **{(f"same_{name}", True): ("drop", name) for name in ("links", "tags", "numbers", "sentences")},
}
"""For each removed cleaning setting and value, the list that replaces it, and the entry in the list."""
_MOVED = {
    "languages": ("denoising", "masked", "causal"),
    "noise": ("denoising",),
    "mask_share": ("denoising", "masked"),
    "mask_span": ("denoising",),
    "pair_task": ("masked",),
    "pair_negatives": ("masked",),
}
"""For each setting of an objective, the sections to which it may have moved."""


def without_old(tree: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return a copy of a tree without removed settings, and a message about each that had an effect."""
    kept = deepcopy(dict(tree))
    lines = [*_listed(kept), *_moved(kept), *_dotted(kept)]
    for masked in _sections(kept, "training.masked"):
        kinds, has_task = masked.pop("pair_negatives", ["shuffled"]), masked.get("pair_task")
        if isinstance(has_task, bool):
            masked["pair_task"] = kinds if has_task else []
            lines += [f"training.masked.pair_task: now a list of kinds; write {kinds}"] if has_task else []
    _translate_search(kept)
    for key in ("data.clean.overlap_sides", "data.train.*.clean.overlap_sides"):
        for where, section, name in _places(kept, key):
            if section.pop(name) == "either":
                section["overlap"] = "either"
                lines.append(f"{where}: write overlap: either")
    for modifiers in _sections(kept, "training.modifiers"):
        if (glossary := modifiers.pop("glossary", None)) is not None:
            kept["training"]["glossary"] = glossary
            lines.append("training.modifiers.glossary: this setting is now training.glossary")
    has_lengths = any(section.get("share") or section.get("epochs") for section in _sections(kept, "training.stages.*"))
    for key, (neutral, advice) in GONE.items():
        for where, section, name in _places(kept, key):
            value = section.pop(name)
            if value != neutral:
                lines.append(f"{where}: this setting has been removed; {advice}")
    for (key, value), (replacement, advice) in _GONE_VALUES.items():
        for where, section, name in _places(kept, key):
            if section[name] == value:
                section[name] = replacement
                lines.append(f"{where}: {value} has been removed; {advice}")
    if has_lengths:  # unknown in updates; the training of the run is over
        del kept["training"]["stages"]
    return kept, lines


def _listed(tree: dict[str, Any]) -> Iterator[str]:
    """Replace removed cleaning settings by list entries in place, and yield a message about each."""
    old = {name for name, _ in _ENTRIES}
    shared = dict(next(iter(_sections(tree, "data.clean")), {}))
    for where, holder, name in [*_places(tree, "data.clean"), *_places(tree, "data.train.*.clean")]:
        clean = holder[name]
        given = {key: clean.pop(key) for key in old & clean.keys()} if isinstance(clean, dict) else {}
        given = {key: value for key, value in given.items() if value is not None}
        # the entries of a corpus replace those of all corpora
        values = {**shared, **given}
        for key in given:
            setting = next(setting for (other, _), (setting, _) in _ENTRIES.items() if other == key)
            entries = [
                entry
                for (other, value), (list_name, entry) in _ENTRIES.items()
                if list_name == setting and values.get(other) == value
            ]
            if where != "data.clean":
                entries = [entry for entry in entries if entry != NEAR_DUPLICATES]  # is of all corpora
            clean[setting] = list(dict.fromkeys([*(clean.get(setting) or ()), *entries]))
            yield f"{where}.{key}: this setting is now an entry of {where}.{setting}: {clean[setting]}"


def _dotted(tree: dict[str, Any]) -> Iterator[str]:
    """Replace `column` of sources by paths in `columns` in place, and yield a message about each."""
    for key in ("data.train", "data.valid", "data.test.*", "data.mono.*"):
        for where, holder, name in _places(tree, key):
            pair = tree.get("languages") or str(tree["data"].get("direction", "")).split("-")
            languages = [name] if key == "data.mono.*" else pair
            sources = holder[name] if isinstance(holder[name], list | tuple) else [holder[name]]
            for source in sources:
                column = source.pop("column", None) if isinstance(source, dict) else None
                if column is not None:
                    source["columns"] = {language: f"{column}.{language}" for language in languages}
                    yield f"{where}: column: {column} is now columns: {source['columns']}"


def _moved(tree: dict[str, Any]) -> Iterator[str]:
    """Move the settings of objectives to their sections in place, and yield a message about each."""
    for training in _sections(tree, "training"):
        for name in _MOVED.keys() & training.keys():
            value, sections = training.pop(name), _MOVED[name]
            objective = training.get("objective")
            section = objective if objective in sections else sections[0]
            if value is not None and isinstance(own := training.setdefault(section, {}), dict):
                own[name] = value
            yield f"training.{name}: this setting is now training.{section}.{name}"


def _translate_search(tree: dict[str, Any]) -> None:
    """Add search settings with the effect of removed ones, in place."""
    for search in _sections(tree, "search"):
        if isinstance(longest := search.get("max_length"), int) and longest > 0:
            search |= {"max_length_ratio": 0.0, "max_length_offset": longest + 1}
        if isinstance(patterns := search.get("protect_patterns"), list) and patterns:
            known = {True: ["placeholders", "numbers"], "placeholders": ["placeholders"]}
            search["protect"] = known.get(search.get("protect", False), []) + patterns
        if search.get("sample") is True and search.get("mbr", "none") != "none" and "mbr_candidates" in search:
            search["beam"] = search["mbr_candidates"]


def _sections(tree: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """Return the mappings at a dotted key."""
    values = [holder[name] for _, holder, name in _places(tree, key)]
    return [value for value in values if isinstance(value, dict)]


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
