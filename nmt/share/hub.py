"""Models on the Hugging Face Hub: repository names, and downloads from hf://owner/name.

The cache of `huggingface_hub` contains symbolic links, which `nmt` does not follow in a model. So the same files are
hard links, or copies if the file system has none, in the directory nmt/COMMIT beside snapshots/COMMIT of the cache.
"""

from __future__ import annotations

import json
import re
from fnmatch import fnmatch
from pathlib import Path

from nmt.errors import ConfigError, HubError
from nmt.files.hub_client import download_file, raise_hub_error, status
from nmt.files.write import alone_in, link, staged
from nmt.layout import ExportDir
from nmt.runs.kinds import KINDS, not_loaded

INFO = ExportDir(Path()).info.name
CARD = ExportDir(Path()).card.name
_MOST_CHARS = 96
_NAME = re.compile(r"(?!.*(?:--|\.\.|\.git$))[A-Za-z0-9_][\w.-]*/[A-Za-z0-9_](?:[\w.-]*\w)?", re.ASCII)
_ADDRESS = re.compile(r"hf:/{1,2}([^@]*)(?:@(.+))?")  # pathlib reduces two slashes to one


def parse_address(address: str) -> tuple[str, str | None]:
    """Return the repository and revision of hf://owner/name or hf://owner/name@revision. Raises ConfigError."""
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise ConfigError(f"{address}: expected hf://owner/name or hf://owner/name@revision")
    return check_name(match[1]), match[2]


def check_name(repository: str) -> str:
    """Check a repository name, `owner/name`, and return it. Raises ConfigError if the name is not valid on the Hub."""
    if len(repository) > _MOST_CHARS or not _NAME.fullmatch(repository):
        raise ConfigError(
            f"{repository}: not a repository name; write owner/name with letters, digits, -, _ and ., at "
            f"most {_MOST_CHARS} characters, without -- and .."
        )
    return repository


def exported_files(info: Path) -> set[str]:
    """Return the names of the files of an export, read from its translator.json. Raises ValueError if it is invalid."""
    try:
        return {INFO, CARD, *json.loads(info.read_bytes())["checksums"]}
    except (KeyError, TypeError) as error:
        raise ValueError(f"{info}: was not written by nmt export") from error


def local_model(model: Path | str) -> Path:
    """Return the directory of a model, after downloading the model if `model` is an address on the Hub.

    Raises ConfigError for an invalid address, HubError if there is no such model, or the Hub cannot be reached and
    the model is not in the cache.
    """
    return download(str(model)) if str(model).startswith("hf:/") else Path(model)


def download(address: str) -> Path:
    """Download hf://owner/name or hf://owner/name@revision unless it is in the cache, and return its directory.

    Without a connection, the last download of that revision is returned. Raises what `local_model` raises.
    """
    from huggingface_hub.errors import RemoteEntryNotFoundError

    repository, revision = parse_address(address)
    address = f"hf://{repository}{'' if revision is None else f'@{revision}'}"  # pathlib may have removed a slash
    name = INFO
    try:
        info = download_file(repository, name, revision)
        snapshot = info.parent
        target = snapshot.parents[1] / "nmt" / snapshot.name
        if target.is_dir():
            return target
        download_files(repository, snapshot.name, [name, CARD, "calibration-*.json"])
        files = exported_files(info)
        match json.loads(info.read_bytes()):
            case {"translator": {"kind": kind}} if kind in KINDS and KINDS[kind].engine is None:
                raise HubError(f"{address}: {not_loaded(kind)}")
        files.remove(CARD)  # not needed, and may have been deleted
        for name in sorted(files):
            download_file(repository, name, snapshot.name)
        _link(snapshot, target)
    except (RemoteEntryNotFoundError, ValueError):
        raise HubError(f"{address}: not a model pushed by nmt: {name} is missing or was not written by nmt") from None
    except Exception as error:  # from the HTTP library that the client uses
        raise_hub_error(address, error)
    return target


def download_files(repository: str, revision: str | None, patterns: list[str]) -> Path:
    """Download the files of a model that match patterns into the cache, and return their directory.

    The first pattern is the name of a file that must exist. If the Hub cannot be reached, files that are missing in the
    cache are omitted. Raises what `download_file` raises.
    """
    from huggingface_hub import HfApi

    folder = download_file(repository, patterns[0], revision).parent
    try:
        names = HfApi().list_repo_files(repository, revision=folder.name)
    except Exception as error:  # from the HTTP library that the client uses
        if status(error) is not None:
            raise
        return folder
    for name in names:
        if any(fnmatch(name, pattern) for pattern in patterns):
            download_file(repository, name, folder.name)
    return folder


def _link(snapshot: Path, target: Path) -> None:
    """Create a directory with the files of a snapshot as regular files. Raises OSError, and HubError if one is outside
    the cached repository."""
    repository = snapshot.parents[1].resolve()  # the cache may have a link to it on another disk
    with alone_in(target.parent, "downloads"), staged(target, is_directory=True, is_kept=lambda: True) as part:
        for path in snapshot.rglob("*"):
            if path.is_file():
                file = part / path.relative_to(snapshot)
                file.parent.mkdir(parents=True, exist_ok=True)
                content = path.resolve()
                if not content.is_relative_to(repository):
                    raise HubError(f"{path}: leads out of the cache of the Hub; delete it")
                link(content, file)
