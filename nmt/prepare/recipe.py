"""The recipe of a data directory: the settings that determine its content, and how two recipes differ."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TypeAlias

from nmt.config import Config, DataConfig, Section, Source, TokenizerConfig
from nmt.config.clean import CleanConfig
from nmt.config.messages import differences
from nmt.files.read import checksum
from nmt.prepare.sources import text_folder
from nmt.text.tokenizer import Tokenizers

Recipe: TypeAlias = dict[str, object]
"""Plain values, as they stand in the manifest."""

# not part of a recipe: one directory serves both directions, may be moved, and is mixed by the training
_LOCATIONS = {"direction", "dir", "root", "temperature", "weight"}

_CHECKS = ("sha256", "pairs", "stream", "license")
"""Settings of a source that do not determine what is read."""


def recipe(config: Config, reused: Tokenizers | None = None) -> Recipe:
    """Return the settings that a data directory is made from; the content of the source files is not part of them, but
    that of block lists is.

    reused: the tokenizers, where they are taken from another directory and not learned.
    """
    data = config.data.model_dump(mode="json", exclude=_LOCATIONS)
    mono = list(chain.from_iterable(data["mono"].values()))
    if not mono:  # manifests older than this setting lack it
        del data["mono"]
    for source in (*data["train"], data["valid"], *data["test"].values(), *mono):
        if isinstance(source, dict):
            for name in _CHECKS:
                del source[name]
    for source in data["train"]:
        del source["weight"]
        if source["repeat"] == 1:  # as above
            del source["repeat"]
    for source in (data["valid"], *data["test"].values(), *mono):
        if isinstance(source, dict):
            del source["repeat"], source["weight"], source["clean"]
    for section in (data, *data["train"]):  # as above
        section["clean"] = {name: value for name, value in (section["clean"] or {}).items() if value is not None}
        if not section["clean"]:
            del section["clean"]
    tokenizer: dict[str, object] = config.tokenizer.model_dump(mode="json")
    if reused is not None:
        tokenizer = {"joint": reused.joint, "reused": reused.fingerprint}
    made_from: Recipe = {"languages": list(config.data.languages), "data": data, "tokenizer": tokenizer}
    if lists := block_lists(config.data):
        made_from["block_lists"] = lists
    return made_from


def block_lists(data: DataConfig) -> dict[str, object]:
    """Return the checksum of each block list; without those that are not here, such as on a machine that trains."""
    root, steps = text_folder(data.root), [data.clean, *(source.clean for source in data.train)]
    names = {name for clean in steps if clean is not None for name in (clean.block_lists or {}).values()}
    return {name: checksum(root / name) for name in sorted(names) if (root / name).is_file()}


def changes(old: Recipe, new: Recipe) -> Iterator[str]:
    """Describe each difference between two recipes. `old` may lack settings, which then had their defaults."""
    old, new = _completed(old), _completed(new)
    if is_reused(old) != is_reused(new):
        taken, trained = "taken from elsewhere (--tokenizer-from)", "trained on this text"
        yield f"the tokenizer was {taken if is_reused(old) else trained}, is {taken if is_reused(new) else trained}"
        new = {**new, "tokenizer": old["tokenizer"]}
    was, now = old.pop("block_lists", None), new.pop("block_lists", None)
    if isinstance(was, dict) and isinstance(now, dict):
        yield from (f"{name} has changed" for name in was if now.get(name, "") not in ("", was[name]))
    for key, was, wanted in differences(old, new):
        if was is None or wanted is None:
            yield f"{key} was {'added' if was is None else 'removed'}"
        else:
            yield f"{key} was {was}, is {wanted}"


def is_reused(made_from: Recipe) -> bool:
    """Whether the tokenizer was taken from another directory."""
    tokenizer = made_from.get("tokenizer")
    return isinstance(tokenizer, dict) and "reused" in tokenizer


def _completed(made_from: Recipe) -> Recipe:
    """Fill in defaults for missing settings, and drop invalid ones."""
    data, tokenizer = _with_defaults(made_from.get("data"), DataConfig), made_from.get("tokenizer")
    if not is_reused(made_from):
        tokenizer = _with_defaults(tokenizer, TokenizerConfig)
    if isinstance(data, dict):
        train, test = data.get("train"), data.get("test")
        data["clean"] = _with_defaults(data["clean"] if isinstance(data["clean"], dict) else {}, CleanConfig)
        data["valid"] = _with_defaults(data.get("valid"), Source)
        if isinstance(train, list):
            data["train"] = [_with_defaults(source, Source) for source in train]
        if isinstance(mono := data.get("mono"), dict):
            data["mono"] = {
                language: [_with_defaults(source, Source) for source in own] if isinstance(own, list) else own
                for language, own in mono.items()
            }
        if isinstance(test, dict):
            data["test"] = {name: _with_defaults(source, Source) for name, source in test.items()}
    return {**made_from, "data": data, "tokenizer": tokenizer}


def _with_defaults(values: object, section: type[Section]) -> object:
    if not isinstance(values, dict):
        return values
    fields = section.model_fields.items()
    defaults = {name: field.default for name, field in fields if not field.is_required() and name not in _LOCATIONS}
    return {**defaults, **values}
