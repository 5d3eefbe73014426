"""Checks before `prepare` starts: whether there is anything to do, and whether the directory may be replaced."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ValidationError

from nmt.config import Config, Source
from nmt.config.load import load_saved_config
from nmt.config.source import is_url
from nmt.data.corpus import ADVICE, Corpus, read_manifest
from nmt.data.manifest import Manifest
from nmt.errors import DataError
from nmt.files.read import checksum, read_text
from nmt.layout import DataDir, RunDir, hub_note
from nmt.prepare.inputs import fingerprints
from nmt.prepare.recipe import Recipe, changes, is_reused, recipe
from nmt.prepare.sources import text_folder, wanted_checksums
from nmt.text.tokenizer import Tokenizers


def changes_since(directory: DataDir, wanted: Recipe, config: Config) -> list[str] | None:
    """Describe what has changed since the directory was written. Returns None if there is no directory yet."""
    if not directory.manifest.is_file():
        return None
    try:
        manifest = Corpus.open(directory).manifest
    except DataError as error:
        return [str(error).removesuffix(ADVICE).removesuffix("; run nmt prepare again")]
    if manifest.config is None or manifest.sources is None:
        return [f"{directory.manifest} does not record what it was made from"]
    if described := list(changes(manifest.config, wanted)):
        return described
    root = text_folder(config.data.root)
    sources = [*config.data.sources(), *((key, source) for key, _, source in config.data.mono_sources())]
    return [change for key, source in sources for change in _changed_files(manifest, key, source, root)]


def unlike(directory: DataDir, manifest: Manifest, config: Config) -> str | None:
    """Return a warning if the config differs from the one that `directory` was prepared with, else None."""
    if not manifest.config:
        return None
    wanted = recipe(config)
    if is_reused(manifest.config):
        wanted["tokenizer"] = manifest.config["tokenizer"]
    described = list(changes(manifest.config, wanted))
    if not described:
        return None
    more = f", and {len(described) - 1} more" if len(described) > 1 else ""
    change = f"{described[0]} in the config{more}"
    return f"warning: {directory.path} is used as it was prepared: {change}; nmt prepare updates it"


def _changed_files(manifest: Manifest, key: str, source: Source, root: Path) -> Iterator[str]:
    """Describe each file of a source that is not as the manifest has it; nothing elsewhere is asked for."""
    record = (manifest.sources or {}).get(key)
    recorded = {name: file.sha256 for name, file in record.files.items()} if record is not None else {}
    if source.path is not None and not is_url(source.path):
        present = fingerprints(source, root)
        for name in sorted(present.keys() | recorded.keys()):
            if name not in present or name not in recorded:
                yield f"{name} was {'added' if name in present else 'removed'}"
            elif present[name] != recorded[name]:
                yield f"{name} has changed"
    scores = {"score": source.score} if source.files and source.score else {}
    for language, name in {**(source.files or {}), **scores}.items():
        if not is_url(name) and checksum(root / name) != recorded.get(language):
            yield f"{root / name} has changed"
    if record is not None:
        for name, digest in wanted_checksums(source, record).items():
            if recorded.get(name) != digest:
                yield f"data.{key}.sha256 is not that of what was read"
        if record.read is not None and source.pairs not in (None, record.read):
            yield f"data.{key}.pairs is {source.pairs:,}, and {record.read:,} were read"


class _Owned(BaseModel, strict=True):
    """The part of a manifest, of whatever format, that names the files of `prepare`."""

    format: int
    files: dict[str, object]


def check_replaceable(directory: DataDir) -> None:
    """Raise DataError if the directory contains anything that `prepare` did not write."""
    path = directory.path
    whole, home = path.resolve(), Path(os.environ.get("HOME", "/"))
    if Path.cwd().is_relative_to(whole) or whole == home or path.parts[0].startswith("~"):
        raise DataError(f"{path}: cannot be a data directory; name a new one with --data, such as data/mine")
    if not path.exists() and not path.is_symlink():
        return
    if not path.is_dir():
        raise DataError(f"{path}: a file, where a data directory is to be written; name another with --data")
    present = {item.relative_to(path).as_posix() for item in path.rglob("*") if not item.is_dir() or item.is_symlink()}
    if not present:
        return
    ours = set()
    if directory.manifest.is_file():
        try:
            ours = {*_Owned.model_validate_json(read_text(directory.manifest)).files, directory.manifest.name}
            ours |= {directory.report.name, directory.report_page.name}
        except (OSError, UnicodeDecodeError, ValidationError) as error:
            raise DataError(
                f"{directory.manifest}: damaged or not written by nmt, so nothing here is replaced; "
                "remove the directory or name another with --data"
            ) from error
    if others := present - ours:
        raise DataError(
            f"{path}: contains {min(others)}, which prepare did not write, so it is not replaced; "
            "name another directory with --data or move it away"
        )


def reused_tokenizers(path: Path, config: Config) -> Tokenizers:
    """Load the tokenizers of a run or data directory.

    Raises DataError if there are none or they do not match the config.
    """
    run, data = RunDir(path), DataDir(path)
    if not run.tokenizer.path.is_dir():
        raise DataError(f"{path}: neither a run nor a data directory: it has no tokenizer/{hub_note(path)}")
    wanted = config.data.languages
    if data.manifest.is_file():
        languages = read_manifest(data).languages
    elif run.config.is_file():
        languages = load_saved_config(run.config).data.languages
    else:
        raise DataError(f"{path}: has neither manifest.json nor config.yaml, which name the languages of its tokenizer")
    if config.data.has_labels:  # its vocabulary is of the text alone, and may be that of any run with its language
        if config.data.src not in languages:
            raise DataError(f"{path}: its tokenizer is for {' and '.join(languages)}, the texts are {config.data.src}")
        tokenizer = Tokenizers.load(run.tokenizer, languages)[config.data.src]
        return Tokenizers({config.data.src: tokenizer}, config.tokenizer.joint)
    if languages != wanted:
        raise DataError(
            f"{path}: its tokenizer is for {' and '.join(languages)}, the config is for {' and '.join(wanted)}"
        )
    tokenizers = Tokenizers.load(run.tokenizer, wanted)
    if tokenizers.joint != config.tokenizer.joint:
        kinds = {True: "one joint vocabulary", False: "one vocabulary for each language"}
        raise DataError(
            f"{path}: has {kinds[tokenizers.joint]}, but tokenizer.joint is {str(config.tokenizer.joint).lower()}; "
            f"set tokenizer.joint={str(tokenizers.joint).lower()}"
        )
    return tokenizers
