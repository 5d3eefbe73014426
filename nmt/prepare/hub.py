"""Files of a dataset on the Hugging Face hub, by explicit path and revision.

Loading scripts are no longer supported; a repository that relied on one has its data as parquet files at the revision
`refs/convert/parquet`. So `datasets` does not have to guess: the files are listed at the revision, downloaded into
the hub's own cache at one commit, and read by `datasets` row by row. If they are streamed, it reads them over the
network, and only checksums are asked for beforehand. Files in other formats are read as local ones are.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from nmt.config.data import LABEL
from nmt.config.source import HubSource, Source, TrainHub, TrainPath, score_of
from nmt.data.corpus import SourceFile, SourceRecord
from nmt.errors import DataError, HubError, error_text
from nmt.files.read import checksum
from nmt.prepare.formats.tables import follow, is_label, label_text
from nmt.prepare.pairs import NO_SCORE, Row, Units, parse_score

_KINDS = {".parquet": "parquet", ".jsonl": "json"}
"""Suffix -> the name that `datasets` has for the format."""
_TIMEOUT = 10.0  # seconds
_BREAKS = re.compile(r"\r\n|\r|\n")


def locate_hub(source: HubSource) -> tuple[SourceRecord, list[Source]]:
    """Download the files of a source on the hub, unless they are streamed; return its record and its parts.

    Raises HubError if that fails.
    """
    commit, paths = _resolve(source)
    digests = _digests(source, paths, commit) if source.stream else {}
    files, parts = {}, list[Source]()
    for path in paths:
        is_streamed = path in digests
        local = None if is_streamed else _download(source, path, commit)
        files[path] = SourceFile(sha256=digests[path] if local is None else checksum(local))
        if local is None or Path(path).suffix in _KINDS:
            parts.append(source.model_copy(update={"revision": commit, "paths": [path], "stream": is_streamed}))
        else:
            columns = TrainPath(path=str(local), columns=source.columns)
            parts.append(columns.model_copy(update={"score": score_of(source), "name": source.label}))
    record = SourceRecord(corpus=source.label, hub=source.hub, revision=source.revision, commit=commit, files=files)
    return record, parts


def read_hub(part: TrainHub, languages: tuple[str, str], units: Units) -> Iterator[Row]:
    """Yield the pairs of one file on the hub, at a commit.

    Raises DataError if it does not contain what the config says, and HubError if it cannot be downloaded.
    """
    for number, row in enumerate(_rows(part), start=1):
        src, tgt = (_text(part, row, language, number) for language in languages)
        score = None
        if part.score is not None and (score := parse_score(_value(part, row, part.score))) is None:
            units.skip(NO_SCORE)
        else:
            yield src, tgt, score


def _resolve(source: HubSource) -> tuple[str, list[str]]:
    """Resolve the revision to a commit, and the patterns of the config to the files there."""
    from huggingface_hub import HfApi

    try:
        api = HfApi()
        info = api.dataset_info(source.hub, revision=source.revision, timeout=_TIMEOUT)
        commit = info.sha or source.revision
        names = api.list_repo_files(source.hub, revision=commit, repo_type="dataset")
    except Exception as error:  # of whichever HTTP library the client is built on
        raise _unreachable(source, error) from error
    paths: list[str] = []
    for pattern in source.paths:
        matching = _matching(names, pattern)
        if not matching:
            same_kind = sorted(path for path in names if Path(path).suffix == Path(pattern).suffix) or sorted(names)
            raise HubError(f"{_where(source)}: no file matches {pattern}; there are {_some(same_kind)}")
        paths += [path for path in matching if path not in paths]
    return commit, paths


def _matching(paths: list[str], pattern: str) -> list[str]:
    """Return the paths that match a pattern, sorted; `*` matches no slash."""
    parts = pattern.split("/")
    alike = [path for path in paths if path.count("/") == len(parts) - 1]
    return sorted(path for path in alike if all(map(fnmatchcase, path.split("/"), parts)))


def _download(source: HubSource, path: str, commit: str) -> Path:
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(source.hub, path, repo_type="dataset", revision=commit))
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EDQUOT):
            raise  # a problem of this machine, not of the hub
        raise _unreachable(source, error, path) from error
    except Exception as error:  # of whichever HTTP library the client is built on
        raise _unreachable(source, error, path) from error


def _digests(source: HubSource, paths: list[str], commit: str) -> dict[str, str]:
    """Return the SHA-256 of those files of which the hub knows it: all large ones."""
    from huggingface_hub import HfApi, RepoFile

    try:
        found = HfApi().get_paths_info(source.hub, paths, revision=commit, repo_type="dataset")
    except Exception as error:  # of whichever HTTP library the client is built on
        raise _unreachable(source, error) from error
    return {one.path: one.lfs.sha256 for one in found if isinstance(one, RepoFile) and one.lfs is not None}


def _rows(part: HubSource) -> Iterator[dict[str, object]]:
    """Yield the rows of a file, with the names of classes in place of their numbers."""
    import datasets
    from huggingface_hub.errors import HfHubHTTPError

    datasets.logging.set_verbosity(datasets.logging.CRITICAL)  # errors are reported once, below
    (path,) = part.paths
    kind = _KINDS[Path(path).suffix]
    file = f"hf://datasets/{part.hub}@{part.revision}/{path}" if part.stream else _download(part, path, part.revision)
    try:
        stream = datasets.load_dataset(kind, data_files=[str(file)], split="train", streaming=True)
        rows = iter(stream)
        classes = {name: feature.names for name, feature in (stream.features or {}).items()
                   if isinstance(feature, datasets.ClassLabel)}  # fmt: skip
        while True:
            row = next(rows, None)
            if row is None:
                return
            yield row | {name: label_text(row[name], names) for name, names in classes.items()}
    except (ConnectionError, HfHubHTTPError) as error:  # of a file that is streamed, after many tries
        raise _unreachable(part, error, path) from error
    except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        raise DataError(f"{_place(part)}: not readable as {kind}: {error_text(error)}") from error


def _text(part: HubSource, row: dict[str, object], language: str, number: int) -> str:
    """Return the text of one side of a row, with line breaks replaced by spaces."""
    text = _value(part, row, (part.columns or {}).get(language, language))
    if language == LABEL and is_label(text):
        text = label_text(text)
    if text is None:
        return ""
    if not isinstance(text, str):
        raise DataError(f"{_place(part)}: row {number} has {type(text).__name__} for {language}, where text is needed")
    return _BREAKS.sub(" ", text.rstrip("\r\n"))


def _value(part: HubSource, row: dict[str, object], name: str) -> object:
    try:
        return follow(row, name)
    except KeyError as error:
        fields = [f"{key}.{field}" for key, value in row.items() if isinstance(value, dict) for field in value]
        names = [key for key, value in row.items() if not isinstance(value, dict)] + fields
        raise DataError(f"{_place(part)}: no column {name}; there are {', '.join(names)}") from error


def _unreachable(source: HubSource, error: Exception, path: str = "") -> HubError:
    from huggingface_hub import errors

    match error:
        case errors.HFValidationError():
            problem = error_text(error)
        case errors.GatedRepoError():
            problem = "a gated dataset: accept its terms on the hub and log in"
        case errors.RepositoryNotFoundError():
            problem = "no such dataset, or a private one"
        case errors.RevisionNotFoundError():
            problem = "no such revision"
        case errors.HfHubHTTPError():
            problem = f"the hub answered: {error_text(error)}"
        case _:
            problem = f"the hub cannot be reached: {error_text(error)}"
    where = f"{_where(source)}, file {path}" if path else _where(source)
    return HubError(
        f"{where}: {problem}; to do without the hub, put files: {{LANG: FILE, LANG: FILE}} in place of "
        "hub in data.train, data.valid and data.test"
    )


def _where(source: HubSource) -> str:
    from huggingface_hub import constants

    return f"dataset {source.hub}, revision {source.revision}, at {constants.ENDPOINT}"


def _place(part: HubSource) -> str:
    return f"{_where(part)}, file {part.paths[0]}"


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    return (", ".join(names[:6]) or "none") + more
