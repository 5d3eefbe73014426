"""What `prepare` asks before it works: is there anything to do, and may the directory be replaced."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nmt.config import Config
from nmt.config.load import load_config
from nmt.data.corpus import FORMAT, Corpus, read_manifest
from nmt.errors import DataError
from nmt.files.read import checksum, read_document
from nmt.layout import DataDir, RunDir
from nmt.prepare.recipe import Recipe, changes, is_reused, recipe
from nmt.prepare.sources import text_folder
from nmt.text.tokenizer import Tokenizers


def changes_since(directory: DataDir, wanted: Recipe, config: Config) -> list[str] | None:
    """What has changed since the directory was written, in words; None if there is no directory yet."""
    if not directory.manifest.is_file():
        return None
    manifest = json.loads(read_document(directory.manifest))
    if manifest["format"] != FORMAT:
        return [f"it has format {manifest['format']}, this version writes {FORMAT}"]
    try:
        Corpus.open(directory)
    except DataError as error:
        return [str(error).removesuffix("; run nmt prepare again")]
    if not isinstance(manifest.get("config"), dict) or "sources" not in manifest:
        return [f"{directory.manifest} does not say what it was made from"]
    found = list(changes(manifest["config"], wanted))
    if found:
        return found
    root = text_folder(config.data.root)
    for key, source in config.data.sources():
        for language, name in (source.files or {}).items():
            if checksum(root / name) != _recorded(manifest["sources"], key, language):
                found.append(f"{root / name} has changed")
    return found


def unlike(directory: DataDir, manifest: dict[str, Any], config: Config) -> str | None:
    """A line if a config says otherwise than the one that `directory` was prepared with, whose text counts."""
    before, wanted = manifest.get("config", {}), recipe(config)
    if is_reused(before):
        wanted = {**wanted, "tokenizer": before["tokenizer"]}
    found = list(changes(before, wanted)) if before else []
    if not found:
        return None
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    return f"{directory.path} counts as it was prepared: {found[0]} in the config{more}; nmt prepare makes it anew"


def _recorded(sources: Any, key: str, language: str) -> str | None:
    """The checksum that a manifest gives for a source file; None if it is damaged there."""
    try:
        return str(sources[key]["files"][language]["sha256"])
    except (KeyError, TypeError, IndexError):
        return None


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
            manifest = json.loads(read_document(directory.manifest))
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
