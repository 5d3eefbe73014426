"""Datasets on the Hugging Face Hub.

Their files are resolved at a commit and downloaded into the Hub's own cache. Parquet and JSON Lines are read by the
library `datasets`, files of other formats as local files are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NoReturn

from nmt.console import listed
from nmt.data.manifest import SourceFile, SourceRecord
from nmt.data.sources import HubSource, Source, TrainHub, TrainPath, score_of
from nmt.errors import DataError, HubError, error_text
from nmt.files.hub_client import download_file, raise_hub_error
from nmt.files.read import checksum
from nmt.languages.directions import LanguagePair
from nmt.prepare.formats.tables import JsonObject, find_columns, label_text, read_objects
from nmt.prepare.inputs import matches
from nmt.prepare.pairs import Layout, Row, Units

_KINDS = {".parquet": "parquet", ".jsonl": "json"}
"""File suffix -> name of the format in `datasets`."""
_TIMEOUT = 10.0  # seconds


def locate_hub(source: HubSource) -> tuple[SourceRecord, list[Source]]:
    """Download the files of a dataset on the Hub; return its record and a local source for each file.

    Loading scripts are not supported: a repository with one has its data as Parquet files at the revision
    `refs/convert/parquet`. Raises HubError if a file is missing or cannot be downloaded.
    """
    commit, paths = _resolve(source)
    files = dict[str, SourceFile]()
    parts = list[Source]()
    for path in paths:
        local = _download(source, path, commit)
        files[path] = SourceFile(sha256=checksum(local))
        if local.suffix in _KINDS:
            parts.append(source.model_copy(update={"revision": commit, "paths": [path]}))
        else:
            parts.append(
                TrainPath(
                    path=str(local), columns=source.columns, document=source.document, name=source.label,
                    score=score_of(source),
                )
            )  # fmt: skip
    record = SourceRecord(corpus=source.label, hub=source.hub, revision=source.revision, commit=commit, files=files)
    return record, parts


def read_hub(part: TrainHub, languages: LanguagePair, units: Units) -> Iterator[Row]:
    """Yield the pairs of a Parquet or JSON Lines file of a dataset at a given commit.

    Raises DataError if the file cannot be read or lacks a column of text, and HubError if it cannot be downloaded.
    """
    import datasets

    datasets.logging.set_verbosity(datasets.logging.CRITICAL)  # errors are reported once, below
    (path,) = part.paths
    kind = _KINDS[Path(path).suffix]
    where = f"{_where(part)}, file {path}"
    local = _download(part, path, part.revision)
    layout = Layout(languages, part.columns or {}, part.score, part.document)
    try:
        # by default, a batch is the first row group, which may have no rows
        options = {"batch_size": 1024} if kind == "parquet" else {}
        rows = datasets.load_dataset(kind, data_files=[str(local)], split="train", streaming=True, **options)
        features = rows.features or datasets.Features()
        if features:  # not known in advance for JSON Lines
            find_columns(layout, [*features.flatten()], where)
        classes = {name: label.names for name, label in features.items() if isinstance(label, datasets.ClassLabel)}
        yield from read_objects(_objects(rows, classes, where), layout, units, where)
    except StopIteration:
        return  # the file is empty
    except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        raise DataError(f"{where}: not readable as {kind}: {error_text(error)}") from error


def _objects(rows: Iterable[JsonObject], classes: dict[str, list[str]], where: str) -> Iterator[tuple[str, JsonObject]]:
    """Yield rows with their places, and the names of classes instead of their numbers."""
    for number, row in enumerate(rows, start=1):
        for name, names in classes.items():
            row[name] = label_text(row[name], names)
        yield f"{where}: row {number}", row


def _resolve(source: HubSource) -> tuple[str, list[str]]:
    """Resolve the revision to a commit, and the patterns of the config to file names at that commit."""
    from huggingface_hub import HfApi

    try:
        api = HfApi()
        info = api.dataset_info(source.hub, revision=source.revision, timeout=_TIMEOUT)
        commit = info.sha or source.revision
        if "/" in (info.sha or ""):  # the client writes a file of this name
            raise HubError(f"{_where(source)}: {commit[:50]} is not a commit")
        names = api.list_repo_files(source.hub, revision=commit, repo_type="dataset")
    except Exception as error:  # of whichever HTTP library the client is built on
        _fail(source, error)
    paths = []
    for pattern in source.paths:
        matching = _matching(names, pattern)
        if not matching:
            same_kind = [path for path in names if Path(path).suffix == Path(pattern).suffix]
            present = listed(sorted(same_kind or names), 6) or "none"
            raise HubError(f"{_where(source)}: no file matches {pattern}; the files are {present}")
        paths += [path for path in matching if path not in paths]
    return commit, paths


def _matching(paths: list[str], pattern: str) -> list[str]:
    """Return the paths that match a pattern, sorted; `*` and `?` do not match a slash."""
    parts = pattern.split("/")
    same_depth = [path for path in paths if path.count("/") == len(parts) - 1]
    return sorted(path for path in same_depth if all(map(matches, path.split("/"), parts)))


def _download(source: HubSource, path: str, commit: str) -> Path:
    try:
        return download_file(source.hub, path, commit, "dataset")
    except Exception as error:  # of whichever HTTP library the client is built on
        _fail(source, error, f", file {path}")


def _fail(source: HubSource, error: Exception, file: str = "") -> NoReturn:
    advice = "replace hub by files: {LANG: FILE, LANG: FILE} in data.train, data.valid and data.test"
    where = f"dataset {source.hub}, revision {source.revision}{file}"
    raise_hub_error(where, error, f"; to do without the Hub, {advice}")


def _where(source: HubSource) -> str:
    from huggingface_hub import constants

    return f"dataset {source.hub}, revision {source.revision}, at {constants.ENDPOINT}"
