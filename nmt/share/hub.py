"""Models on the Hugging Face hub: names of repositories, and downloads of hf://owner/name.

That cache consists of symbolic links, which `nmt` does not follow in a model. So a directory of the repository in it,
nmt/COMMIT beside snapshots/COMMIT, has the same files as hard links, or as copies if the file system has none.
"""

from __future__ import annotations

import errno
import json
import re
from pathlib import Path

from nmt.errors import ConfigError, DataError, HubError, error_text
from nmt.files.write import alone_in, link, staged
from nmt.layout import ExportDir

TRANSIENT = (500, 502, 503, 504)
"""Statuses of a hub that has a problem of its own, which may be over soon."""
_MOST_CHARS = 96
_NAME = re.compile(r"(?!.*(?:--|\.\.|\.git$))[A-Za-z0-9_][\w.-]*/[A-Za-z0-9_](?:[\w.-]*\w)?", re.ASCII)
_ADDRESS = re.compile(r"hf:/{1,2}([^@]*)(?:@(.+))?")  # one slash: pathlib has made a path of it


def is_address(name: str) -> bool:
    """Whether a name is the address of a model on the hub, hf://owner/name."""
    return name.startswith("hf:/")


def parse_address(address: str) -> tuple[str, str | None]:
    """Return repository and revision of hf://owner/name or hf://owner/name@revision. Raises ConfigError."""
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise ConfigError([f"{address}: expected hf://owner/name or hf://owner/name@revision"])
    return check_name(match[1]), match[2]


def check_name(repository: str) -> str:
    """Return the name of a repository, `owner/name`. Raises ConfigError if the hub would not have it as one."""
    if len(repository) > _MOST_CHARS or not _NAME.fullmatch(repository):
        raise ConfigError(
            [
                f"{repository}: not a repository name; write owner/name with letters, digits, -, _ and ., at "
                f"most {_MOST_CHARS} characters, without -- and .."
            ]
        )
    return repository


def exported_files(info: Path) -> set[str]:
    """Return the names of the files of an export, by its translator.json. Raises ValueError if that is another file."""
    try:
        return {info.name, ExportDir(Path()).card.name, *json.loads(info.read_bytes())["checksums"]}
    except (KeyError, TypeError) as error:
        raise ValueError(f"{info}: was not written by nmt export") from error


def is_for_transformers(info: Path) -> bool:
    """Whether an export is for transformers, by its translator.json."""
    match json.loads(info.read_bytes()):
        case {"translator": {"kind": "transformers"}}:
            return True
    return False


def status(error: BaseException) -> int | None:
    """Return the HTTP status of an error that the client of the hub has raised."""
    code: int | None = getattr(getattr(error, "response", None), "status_code", None)
    # an upload's error is raised from the one that says why
    return status(error.__cause__) if code is None and error.__cause__ is not None else code


def hub_error(repository: str, error: Exception) -> Exception:
    """Return the error to raise for one of the client: a HubError, or itself if the problem is one of this machine."""
    from huggingface_hub import constants, errors

    is_of_a_file = isinstance(error, OSError) and error.filename is not None
    if is_of_a_file or (isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)):
        return error
    problem = None
    match error:
        case errors.GatedRepoError():
            problem = "gated: accept its terms on the hub and log in"
        case errors.RepositoryNotFoundError():
            problem = "no such repository, or a private one of others; hf auth login lets you see your own"
        case errors.RevisionNotFoundError():
            problem = "no such revision"
        case errors.LocalEntryNotFoundError() if constants.HF_HUB_OFFLINE:
            problem = "not downloaded before, and HF_HUB_OFFLINE is set"
    if problem is None:
        problem = {
            401: "the hub does not accept the token; hf auth login stores another one",
            403: "the token may not do this: it needs the permission to write there",
            409: "was created meanwhile; push again",
            412: "was changed meanwhile, perhaps by this push if its answer was lost; push again",
        }.get(status(error) or 0)
    if problem is None and (code := status(error)) is not None:
        problem = f"the hub answered {code}: {error_text(error)}"
    if problem is None and isinstance(error, RuntimeError):  # of hf_xet, which transfers large files if installed
        problem = f"the transfer has failed: {error_text(error)}; HF_HUB_DISABLE_XET=1 does without Xet"
    text = problem or f"the hub cannot be reached: {error_text(error.__cause__ or error)}"
    return HubError(f"{repository}, at {constants.ENDPOINT}: {text}")


_FILES = ["translator.json", "config.yaml", "tokenizer/*", "weights.safetensors", "model.bin", "*.json", "README.md"]
"""What an export may have; anything else in a repository is left there."""


def local_model(model: Path | str) -> Path:
    """Return the directory of a model: `model`, or where that of the hub is after it has been downloaded.

    Raises ConfigError for an address that is none, HubError if there is no such model, or the hub cannot be reached and
    the model is not in the cache.
    """
    return download(str(model)) if is_address(str(model)) else Path(model)


def download(address: str) -> Path:
    """Download hf://owner/name or hf://owner/name@revision, unless it is in the cache; return its directory.

    Without a connection, what was last downloaded of that revision is returned. Raises what `local_model` raises.
    """
    from huggingface_hub import snapshot_download

    repository, revision = parse_address(address)
    address = f"hf://{repository}" + (f"@{revision}" if revision is not None else "")  # without what pathlib did to it
    try:
        snapshot = Path(snapshot_download(repository, revision=revision, allow_patterns=_FILES))
        info = ExportDir(snapshot).info
        try:
            files = exported_files(info)
        except (FileNotFoundError, ValueError):
            raise HubError(
                f"{address}: not a model pushed by nmt: translator.json is missing or of another program"
            ) from None
        if is_for_transformers(info):
            from nmt.runs.folder import FOR_TRANSFORMERS  # imports torch

            raise HubError(f"{address}: {FOR_TRANSFORMERS}")
        missing = sorted(file for file in files if not (snapshot / file).is_file())
        if missing:
            raise HubError(
                f"{address}: not downloaded completely, {missing[0]} is missing; try again with a connection"
            )
        target = snapshot.parents[1] / "nmt" / snapshot.name
        if not target.is_dir():
            _link(snapshot, target)
    except DataError:
        raise
    except Exception as error:  # of whichever HTTP library the client is built on
        raise hub_error(address, error) from error
    return target


def _link(snapshot: Path, target: Path) -> None:
    """Make a directory with the files of a snapshot, which are regular files there. Raises OSError."""
    with alone_in(target.parent, "downloads"), staged(target, is_directory=True, is_kept=lambda: True) as part:
        for path in snapshot.rglob("*"):
            if path.is_file():
                file = part / path.relative_to(snapshot)
                file.parent.mkdir(parents=True, exist_ok=True)
                link(path.resolve(), file)
