"""Files of a dataset on the Hugging Face hub, by explicit path and revision.

Loading scripts are no longer supported; a repository that relied on one has its data as parquet files at the revision
`refs/convert/parquet`. So `datasets` does not have to guess: the files are listed at the revision, downloaded into
the hub's own cache at one commit, and read by `datasets` row by row.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from nmt.config import Source
from nmt.data.manifest import SourceFile, SourceRecord
from nmt.errors import DataError, HubError, error_text
from nmt.files.read import checksum
from nmt.prepare.pairs import OpenSource, SentencePair

_TIMEOUT = 10.0  # seconds
_BREAKS = re.compile(r"\r\n|\r|\n")


def open_hub(source: Source, languages: tuple[str, str]) -> OpenSource:
    """Open a source on the hub and download its files.

    Raises HubError if that fails, DataError if they do not contain what the config says.
    """
    commit, paths = _resolve(source)
    local = [_download(source, path, commit) for path in paths]
    record = SourceRecord(
        corpus=source.label,
        hub=source.hub,
        revision=source.revision,
        commit=commit,
        files={path: SourceFile(sha256=checksum(file)) for path, file in zip(paths, local, strict=True)},
    )

    def pairs() -> Iterator[SentencePair]:
        for number, row in enumerate(_rows(source, local), start=1):
            src, tgt = (_text(source, row, language, number) for language in languages)
            yield SentencePair(src, tgt, source.label)

    return OpenSource(record, pairs)


def _resolve(source: Source) -> tuple[str, list[str]]:
    """Resolve the revision to a commit, and the patterns of the config to the files there."""
    from huggingface_hub import HfApi

    try:
        api = HfApi()
        info = api.dataset_info(str(source.hub), revision=source.revision, timeout=_TIMEOUT)
        commit = info.sha or source.revision
        names = [sibling.rfilename for sibling in info.siblings or []]
        if not all(_matching(names, pattern) for pattern in source.paths):  # a large repository's list may be cut
            names = api.list_repo_files(str(source.hub), revision=commit, repo_type="dataset")
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


def _download(source: Source, path: str, commit: str) -> Path:
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(str(source.hub), path, repo_type="dataset", revision=commit))
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EDQUOT):
            raise  # a problem of this machine, not of the hub
        raise _unreachable(source, error, path) from error
    except Exception as error:  # of whichever HTTP library the client is built on
        raise _unreachable(source, error, path) from error


def _rows(source: Source, files: list[Path]) -> Iterator[dict[str, object]]:
    """Stream the rows of the files."""
    import datasets

    datasets.logging.set_verbosity(datasets.logging.CRITICAL)  # errors are reported once, below
    kind = {".parquet": "parquet", ".jsonl": "json"}[Path(source.paths[0]).suffix]
    try:
        stream = datasets.load_dataset(kind, data_files=[str(file) for file in files], split="train", streaming=True)
        rows = iter(stream)
        while True:
            row = next(rows, None)
            if row is None:
                return
            yield row
    except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        raise DataError(f"{_where(source)}: not readable as {kind}: {error_text(error)}") from error


def _text(source: Source, row: dict[str, object], language: str, number: int) -> str:
    """Return the text of one side of a row, with line breaks replaced by spaces."""
    values, within, name = row, "", (source.columns or {}).get(language, language)
    if source.column is not None:
        column, within = _value(source, row, source.column, ""), f" of {source.column}"
        if not isinstance(column, dict):
            raise DataError(
                f"{_where(source)}: column {source.column} holds no mapping from language to text; "
                f"leave column out and name the columns in columns; there are {', '.join(row)}"
            )
        values = column
    text = _value(source, values, name, within)
    if text is None:
        return ""
    if not isinstance(text, str):
        raise DataError(
            f"{_where(source)}: row {number} has {type(text).__name__} for {language}, where text is needed"
        )
    return _BREAKS.sub(" ", text.rstrip("\r\n"))


def _value(source: Source, values: dict[str, object], name: str, within: str) -> object:
    if name not in values:
        raise DataError(f"{_where(source)}: no column {name}{within}; there are {', '.join(values) or 'none'}")
    return values[name]


def _unreachable(source: Source, error: Exception, path: str = "") -> HubError:
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
    file = f", file {path}" if path else ""
    return HubError(
        f"{_where(source)}{file}: {problem}; to do without the hub, put files: {{LANG: FILE, LANG: FILE}} in place of "
        "hub in data.train, data.valid and data.test"
    )


def _where(source: Source) -> str:
    from huggingface_hub import constants

    return f"dataset {source.hub}, revision {source.revision}, at {constants.ENDPOINT}"


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    return (", ".join(names[:6]) or "none") + more
