"""What `prepare` asks before it works: is there anything to do, and may the directory be replaced."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nmt.config import Config, DataConfig, Section, Source, TokenizerConfig
from nmt.config.load import load_config
from nmt.data.corpus import FORMAT, Corpus, read_manifest
from nmt.errors import DataError
from nmt.files.read import checksum, read_text
from nmt.layout import DataDir, RunDir
from nmt.prepare.sources import text_folder
from nmt.text.tokenizer import Tokenizers


def recipe(config: Config, reused: Tokenizers | None) -> dict[str, Any]:
    """What a data directory is made from, but for the files' contents: it names no direction and no place."""
    data = config.data.model_dump(mode="json", exclude={"direction", "dir", "root"})
    for source in data["train"]:
        if source["repeat"] == 1:  # as in manifests that do not know it
            del source["repeat"]
    for source in (data["valid"], *data["test"].values()):
        if isinstance(source, dict):
            del source["repeat"]
    tokenizer: dict[str, Any] = config.tokenizer.model_dump(mode="json")
    if reused is not None:
        tokenizer = {"joint": reused.joint, "reused": reused.fingerprint}
    return {"config": {"languages": list(config.data.languages), "data": data, "tokenizer": tokenizer}}


def changes_since(directory: DataDir, wanted: dict[str, Any], config: Config) -> list[str] | None:
    """What has changed since the directory was written, in words; None if there is no directory yet."""
    if not directory.manifest.is_file():
        return None
    manifest = json.loads(read_text(directory.manifest))
    if manifest["format"] != FORMAT:
        return [f"it has format {manifest['format']}, this version writes {FORMAT}"]
    try:
        Corpus.open(directory)
    except DataError as error:
        return [str(error).removesuffix("; run nmt prepare again")]
    if not {"config", "sources"} <= manifest.keys():
        return [f"{directory.manifest} does not say what it was made from"]
    changes = list(_changed(manifest["config"], wanted["config"]))
    if changes:
        return changes
    root = text_folder(config.data.root)
    for key, source in config.data.sources():
        for language, name in (source.files or {}).items():
            if checksum(root / name) != _recorded(manifest["sources"], key, language):
                changes.append(f"{root / name} has changed")
    return changes


def unlike(directory: DataDir, manifest: dict[str, Any], config: Config) -> str | None:
    """A line if a config says otherwise than the one that `directory` was prepared with, whose text counts."""
    before, wanted = manifest.get("config", {}), recipe(config, None)["config"]
    if "reused" in before.get("tokenizer", {}):
        wanted["tokenizer"] = before["tokenizer"]
    changes = list(_changed(before, wanted)) if before else []
    if not changes:
        return None
    more = f", and {len(changes) - 1} more" if len(changes) > 1 else ""
    return f"{directory.path} counts as it was prepared: {changes[0]} in the config{more}; nmt prepare makes it anew"


def _recorded(sources: Any, key: str, language: str) -> str | None:
    """The checksum that a manifest gives for a source file; None if it is damaged there."""
    try:
        return str(sources[key]["files"][language]["sha256"])
    except (KeyError, TypeError, IndexError):
        return None


def _changed(old: Any, new: Any) -> Iterator[str]:
    """What differs between the configs of two manifests, in words."""
    old, new = _complete(old), _complete(new)
    if _is_reused(old) != _is_reused(new):
        taken, trained = "taken from elsewhere (--tokenizer-from)", "trained on this text"
        yield f"the tokenizer was {taken if _is_reused(old) else trained}, is {taken if _is_reused(new) else trained}"
        new = {**new, "tokenizer": old.get("tokenizer")} if isinstance(old, dict) else new
    yield from _differences(old, new, "")


def _is_reused(config: Any) -> bool:
    """Whether the tokenizer was taken from elsewhere."""
    tokenizer = config.get("tokenizer") if isinstance(config, dict) else None
    return isinstance(tokenizer, dict) and "reused" in tokenizer


def _complete(config: Any) -> Any:
    """The config of a manifest with the defaults of what it leaves out or does not know yet."""
    if not isinstance(config, dict):
        return config
    data, tokenizer = _with_defaults(config.get("data"), DataConfig), config.get("tokenizer")
    if not _is_reused(config):
        tokenizer = _with_defaults(tokenizer, TokenizerConfig)
    if isinstance(data, dict):
        train, test = data.get("train"), data.get("test")
        data["valid"] = _with_defaults(data.get("valid"), Source)
        if isinstance(train, list):
            data["train"] = [_with_defaults(source, Source) for source in train]
        if isinstance(test, dict):
            data["test"] = {name: _with_defaults(source, Source) for name, source in test.items()}
    return {**config, "data": data, "tokenizer": tokenizer}


def _with_defaults(values: Any, section: type[Section]) -> Any:
    if not isinstance(values, dict):
        return values
    fields = section.model_fields.items()
    elsewhere = {"direction", "dir", "root"}  # what a manifest never says, see `recipe`
    defaults = {name: field.default for name, field in fields if not field.is_required() and name not in elsewhere}
    return {**defaults, **values}


def _differences(old: Any, new: Any, key: str) -> Iterator[str]:
    """`KEY was OLD, is NEW` (or was added, was removed) for each place where two trees of plain values differ."""
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        old, new = dict(enumerate(old)), dict(enumerate(new))
    if isinstance(old, dict) and isinstance(new, dict):
        for name in dict.fromkeys([*old, *new]):
            path = f"{key}.{name}" if key else str(name)
            if name in old and name in new:
                yield from _differences(old[name], new[name], path)
            else:
                yield f"{path} was {'removed' if name in old else 'added'}"
    elif old != new:
        yield f"{key} was {_shown(old)}, is {_shown(new)}"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."


def check_replaceable(directory: DataDir) -> None:
    """Raise DataError if the directory holds anything that `prepare` did not write."""
    path = directory.path
    if not path.exists() and not path.is_symlink():
        return
    if not path.is_dir():
        raise DataError(f"{path}: a file, where a data directory is to be written; name another with --data")
    found = {item.relative_to(path).as_posix() for item in path.rglob("*") if not item.is_dir() or item.is_symlink()}
    if not found:
        return
    ours = set()
    if directory.manifest.is_file():
        try:
            manifest = json.loads(read_text(directory.manifest))
            ours = {*manifest["files"], directory.manifest.name} if isinstance(manifest["format"], int) else set()
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise DataError(
                f"{directory.manifest}: damaged or not of nmt, so nothing here is replaced; "
                "remove the directory or name another with --data"
            ) from error
    if found - ours:
        example = min(found - ours)
        raise DataError(
            f"{path}: holds {example}, which prepare did not write, so it is not replaced; "
            "name another directory with --data or move it away"
        )


def reused_tokenizers(path: Path, config: Config) -> Tokenizers:
    """The tokenizers of a run or data directory. Raises DataError if there are none or they do not suit the config."""
    run, data = RunDir(path), DataDir(path)
    if not run.tokenizer.path.is_dir():
        raise DataError(f"{path}: neither a run nor a data directory: it has no tokenizer/")
    languages = config.data.languages
    if data.manifest.is_file():
        found = tuple(read_manifest(data)["languages"])
    elif run.config.is_file():
        found = load_config(run.config).data.languages
    else:
        raise DataError(f"{path}: neither manifest.json nor config.yaml tells the languages of its tokenizer")
    if found != languages:
        raise DataError(
            f"{path}: its tokenizer is for {' and '.join(found)}, the config is for {' and '.join(languages)}"
        )
    tokenizers = Tokenizers.load(run.tokenizer, languages)
    if tokenizers.joint != config.tokenizer.joint:
        kinds = {True: "one joint vocabulary", False: "one vocabulary for each language"}
        raise DataError(
            f"{path}: has {kinds[tokenizers.joint]}, but tokenizer.joint is {str(config.tokenizer.joint).lower()}; "
            f"set tokenizer.joint={str(tokenizers.joint).lower()}"
        )
    return tokenizers
