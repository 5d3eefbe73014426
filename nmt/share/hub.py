"""Models on the Hugging Face Hub: repository names, downloads from hf://owner/name, and the errors of its client.

The cache of `huggingface_hub` contains symbolic links, which `nmt` does not follow in a model. So the same files are
hard links, or copies if the file system has none, in the directory nmt/COMMIT beside snapshots/COMMIT of the cache.
"""

from __future__ import annotations

import errno
import json
import re
from pathlib import Path
from typing import NoReturn

from nmt.errors import ConfigError, DataError, HubError, error_text
from nmt.files.write import alone_in, link, staged
from nmt.layout import ExportDir

TRANSIENT = (500, 502, 503, 504)
"""HTTP statuses of temporary problems of the Hub."""
_LOCAL = (errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EDQUOT)
_MOST_CHARS = 96
_NAME = re.compile(r"(?!.*(?:--|\.\.|\.git$))[A-Za-z0-9_][\w.-]*/[A-Za-z0-9_](?:[\w.-]*\w)?", re.ASCII)
_ADDRESS = re.compile(r"hf:/{1,2}([^@]*)(?:@(.+))?")  # pathlib reduces two slashes to one


def is_address(name: str) -> bool:
    """Return whether a name is the address of a model on the Hub, hf://owner/name."""
    return name.startswith("hf:/")


def parse_address(address: str) -> tuple[str, str | None]:
    """Return the repository and revision of hf://owner/name or hf://owner/name@revision. Raises ConfigError."""
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise ConfigError([f"{address}: expected hf://owner/name or hf://owner/name@revision"])
    return check_name(match[1]), match[2]


def check_name(repository: str) -> str:
    """Check a repository name, `owner/name`, and return it. Raises ConfigError if the name is not valid on the Hub."""
    if len(repository) > _MOST_CHARS or not _NAME.fullmatch(repository):
        raise ConfigError(
            [
                f"{repository}: not a repository name; write owner/name with letters, digits, -, _ and ., at "
                f"most {_MOST_CHARS} characters, without -- and .."
            ]
        )
    return repository


def exported_files(info: Path) -> set[str]:
    """Return the names of the files of an export, read from its translator.json. Raises ValueError if it is invalid."""
    try:
        return {info.name, ExportDir(Path()).card.name, *json.loads(info.read_bytes())["checksums"]}
    except (KeyError, TypeError) as error:
        raise ValueError(f"{info}: was not written by nmt export") from error


def is_for_transformers(info: Path) -> bool:
    """Return whether an export with this translator.json is for transformers."""
    match json.loads(info.read_bytes()):
        case {"translator": {"kind": "transformers"}}:
            return True
    return False


def status(error: BaseException) -> int | None:
    """Return the HTTP status of an error of the Hub client; None if it has none."""
    code: int | None = getattr(getattr(error, "response", None), "status_code", None)
    # the error of an upload is raised from another one with the reason
    return status(error.__cause__) if code is None and error.__cause__ is not None else code


def raise_hub_error(where: str, error: Exception, advice: str = "") -> NoReturn:
    """Raise a HubError, which ends with `advice`, from an error of the Hub client, or the error itself if it is a local
    problem."""
    from huggingface_hub import constants, errors

    if isinstance(error, OSError) and (error.filename is not None or error.errno in _LOCAL):
        raise error
    problem = None
    match error:
        case errors.GatedRepoError():
            problem = "gated; accept its terms on the Hub and log in"
        case errors.RepositoryNotFoundError():
            problem = "no such repository, or a private one; log in with hf auth login to access your own"
        case errors.RevisionNotFoundError():
            problem = "no such revision"
        case errors.HFValidationError():
            problem = error_text(error)
        case errors.LocalEntryNotFoundError() | errors.OfflineModeIsEnabled() if constants.HF_HUB_OFFLINE:
            problem = "not downloaded yet, and HF_HUB_OFFLINE is set"
    if problem is None:
        problem = {
            401: "the Hub rejects the token; store another one with hf auth login",
            403: "the token has no access; to push, use one with write permission",
            409: "was created in the meantime; push again",
            412: "was changed in the meantime, perhaps by this push if its response was lost; push again",
        }.get(status(error) or 0)
    if problem is None and (code := status(error)) is not None:
        problem = f"the Hub responded with status {code}: {error_text(error)}"
    if problem is None and isinstance(error, RuntimeError):  # from hf_xet, which transfers large files if installed
        problem = f"the transfer failed: {error_text(error)}; set HF_HUB_DISABLE_XET=1 to disable Xet"
    text = problem or f"the Hub cannot be reached: {error_text(error.__cause__ or error)}"
    raise HubError(f"{where}, at {constants.ENDPOINT}: {text}{advice}") from error


_FILES = [
    "translator.json",
    "config.yaml",
    "tokenizer/*",
    "weights.safetensors",
    "model.bin",
    "vmap.txt",
    "*.json",
    "README.md",
]
"""Patterns of the files of an export; other files of a repository are not downloaded."""


def local_model(model: Path | str) -> Path:
    """Return the directory of a model, after downloading the model if `model` is an address on the Hub.

    Raises ConfigError for an invalid address, HubError if there is no such model, or the Hub cannot be reached and
    the model is not in the cache.
    """
    return download(str(model)) if is_address(str(model)) else Path(model)


def download(address: str) -> Path:
    """Download hf://owner/name or hf://owner/name@revision unless it is in the cache, and return its directory.

    Without a connection, the last download of that revision is returned. Raises what `local_model` raises.
    """
    from huggingface_hub import snapshot_download

    repository, revision = parse_address(address)
    address = f"hf://{repository}{'' if revision is None else f'@{revision}'}"  # pathlib may have removed a slash
    try:
        snapshot = Path(snapshot_download(repository, revision=revision, allow_patterns=_FILES))
        info = ExportDir(snapshot).info
        try:
            files = exported_files(info)
        except (FileNotFoundError, ValueError):
            raise HubError(
                f"{address}: not a model pushed by nmt: translator.json is missing or was not written by nmt"
            ) from None
        if is_for_transformers(info):
            from nmt.runs.folder import FOR_TRANSFORMERS  # imports torch

            raise HubError(f"{address}: {FOR_TRANSFORMERS}")
        files.remove(ExportDir(snapshot).card.name)  # not needed, and may have been deleted
        missing = sorted(file for file in files if not (snapshot / file).is_file())
        if missing:
            raise HubError(f"{address}: incomplete download: {missing[0]} is missing; try again when online")
        target = snapshot.parents[1] / "nmt" / snapshot.name
        if not target.is_dir():
            _link(snapshot, target)
    except DataError:
        raise
    except Exception as error:  # from the HTTP library that the client uses
        raise_hub_error(address, error)
    return target


def _link(snapshot: Path, target: Path) -> None:
    """Create a directory with the files of a snapshot as regular files. Raises OSError."""
    with alone_in(target.parent, "downloads"), staged(target, is_directory=True, is_kept=lambda: True) as part:
        for path in snapshot.rglob("*"):
            if path.is_file():
                file = part / path.relative_to(snapshot)
                file.parent.mkdir(parents=True, exist_ok=True)
                link(path.resolve(), file)
