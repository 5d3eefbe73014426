"""Models on the Hugging Face Hub: repository names, downloads from hf://owner/name, and the errors of its client.

The client of `huggingface_hub` trusts the server: it stores a file under the name in the header ETag, in whatever
directory that is, and writes all that is sent. So `download_file` checks these names and the sizes of small files.

The cache of `huggingface_hub` contains symbolic links, which `nmt` does not follow in a model. So the same files are
hard links, or copies if the file system has none, in the directory nmt/COMMIT beside snapshots/COMMIT of the cache.
"""

from __future__ import annotations

import errno
import json
import re
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from nmt.errors import ConfigError, DataError, HubError, error_text
from nmt.files.read import DOCUMENT_BYTES
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
    problem or a DataError."""
    from huggingface_hub import constants, errors

    is_local = isinstance(error, OSError) and (error.filename is not None or error.errno in _LOCAL)
    if is_local or isinstance(error, DataError):
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
    code = status(error)
    if problem is None:
        problem = {
            401: "the Hub rejects the token; store another one with hf auth login",
            403: "the token has no access; to push, use one with write permission",
            409: "was created in the meantime; push again",
            412: "was changed in the meantime, perhaps by this push if its response was lost; push again",
        }.get(code or 0)
    if problem is None and code is not None:
        reason = error.__cause__ if isinstance(error, errors.LocalEntryNotFoundError) else error
        problem = f"the Hub responded with status {code}: {error_text(reason or error)}"
    if problem is None and isinstance(error, RuntimeError):  # from hf_xet, which transfers large files if installed
        problem = f"the transfer failed: {error_text(error)}; set HF_HUB_DISABLE_XET=1 to disable Xet"
    text = problem or f"the Hub cannot be reached: {error_text(error.__cause__ or error)}"
    raise HubError(f"{where}, at {constants.ENDPOINT}: {text}{advice}") from error


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
    from huggingface_hub.errors import RemoteEntryNotFoundError

    repository, revision = parse_address(address)
    address = f"hf://{repository}{'' if revision is None else f'@{revision}'}"  # pathlib may have removed a slash
    name = ExportDir(Path()).info.name
    try:
        info = download_file(repository, name, revision)
        snapshot = info.parent
        target = snapshot.parents[1] / "nmt" / snapshot.name
        if target.is_dir():
            return target
        download_files(repository, snapshot.name, [name, "README.md", "calibration-*.json"])
        files = exported_files(info)
        if is_for_transformers(info):
            from nmt.runs.folder import FOR_TRANSFORMERS  # imports torch

            raise HubError(f"{address}: {FOR_TRANSFORMERS}")
        files.remove("README.md")  # not needed, and may have been deleted
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


def download_file(repository: str, name: str, revision: str | None, kind: str = "model") -> Path:
    """Download a file of a repository into the cache unless it is there, and return its path in the cache.

    kind: `model`, whose files except weights are small, or `dataset`. Raises HubError if the file is too large or would
    be outside the cache, and the errors of the client.
    """
    from huggingface_hub import hf_hub_download

    _check_responses()
    is_large = kind == "dataset" or name.endswith((".safetensors", ".bin"))
    bar = None if is_large else _limited_bar(f"{repository}, file {name}")
    return Path(hf_hub_download(repository, name, revision=revision, repo_type=kind, tqdm_class=bar))


@cache
def _check_responses() -> None:
    """Make the client of the Hub check the responses about files."""
    from huggingface_hub.utils import _http

    make_client = _http._GLOBAL_CLIENT_FACTORY

    def make_checking_client() -> Any:
        client = make_client()
        client.event_hooks["response"].append(_check_etags)
        return client

    _http.set_client_factory(make_checking_client)


def _check_etags(response: Any) -> None:
    """Raise HubError if the ETag of a file, which is its name in the cache, is a path."""
    etag = response.headers.get("X-Linked-ETag") or response.headers.get("ETag", "")
    if response.request.method == "HEAD" and re.search(r'/|^"?\.\.?"?$', etag.removeprefix("W/")):
        raise HubError(f"{response.url}: the ETag {etag[:50]} would be a file outside the cache of the Hub")


def _limited_bar(where: str) -> Any:
    """Return a class of progress bars that raise HubError if a small file is large."""
    from huggingface_hub.utils.tqdm import tqdm

    class Bar(tqdm):
        received = 0.0

        def __init__(self, **options: Any) -> None:
            super().__init__(**options)  # type: ignore[no-untyped-call]
            self.update(0)  # Xet may not stop at an error in later updates

        def update(self, n: float | None = 1) -> bool | None:
            self.received += n or 0
            if max(self.received, self.total or 0) > DOCUMENT_BYTES:
                raise HubError(f"{where}: has more than {DOCUMENT_BYTES:,} bytes")
            return super().update(n)

    return Bar


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
