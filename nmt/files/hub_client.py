"""Downloads of single files from the Hugging Face Hub, and the errors of its client.

The client of `huggingface_hub` trusts the server: it stores a file under the name in the header ETag, in whatever
directory that is, and writes all that is sent. So `download_file` checks these names and the sizes of small files.
"""

from __future__ import annotations

import errno
import re
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from nmt.errors import DataError, HubError, error_text
from nmt.files.read import DOCUMENT_BYTES

TRANSIENT = (500, 502, 503, 504)
"""HTTP statuses of temporary problems of the Hub."""
_LOCAL = (errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EDQUOT)


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
