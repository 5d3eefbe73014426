"""`nmt push`: upload an exported directory to the Hugging Face Hub in one commit."""

from __future__ import annotations

import fnmatch
import time
from collections.abc import Callable, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from nmt.console import say
from nmt.errors import ConfigError, DataError, error_text
from nmt.files.hub_client import TRANSIENT, raise_hub_error, status
from nmt.layout import RunDir
from nmt.runs.folder import ExportInfo, load_folder, verify_export
from nmt.runs.kinds import Kind
from nmt.share.card import use
from nmt.share.hub import CARD, INFO, check_name, exported_files

if TYPE_CHECKING:
    from huggingface_hub import HfApi

T = TypeVar("T")


NO_TOKEN = "no token for the Hub; log in with hf auth login, or set HF_TOKEN"
_WAITS = (1.0, 4.0, 16.0)  # seconds
_OF_THE_HUB = {".gitattributes"}  # in every new repository


@dataclass(frozen=True)
class Repository:
    """The state of a model repository before the upload."""

    name: str
    head: str | None
    """The last commit; None if the repository does not exist yet."""
    private: bool
    exported: Set[str] = frozenset()
    """The files of an earlier export in the repository."""


@dataclass(frozen=True)
class Pushed:
    """The result of a push."""

    url: str
    """The URL of the commit."""
    private: bool
    changed: bool
    """Whether the upload changed the repository."""
    kind: Kind


def find_repository(name: str, public: bool = False, force: bool = False) -> Repository:
    """Return the state of a repository before a push, without changing anything.

    public: whether a new repository is public. force: whether files that nmt did not write may be replaced.

    Raises ConfigError for a malformed name or if there is no token, DataError if the repository contains files that nmt
    did not write, HubError if the Hub rejects the request or cannot be reached.
    """
    from huggingface_hub import HfApi, get_token
    from huggingface_hub.errors import RepositoryNotFoundError

    check_name(name)
    if get_token() is None:
        raise ConfigError(NO_TOKEN)
    api = HfApi()
    try:
        info = _patiently(lambda: api.model_info(name))
    except RepositoryNotFoundError:
        return Repository(name, None, not public)
    except Exception as error:
        raise_hub_error(name, error)
    files = {sibling.rfilename for sibling in info.siblings or []}
    exported = _exported(api, name, info.sha) if INFO in files else None
    if exported is None and files - _OF_THE_HUB and not force:
        raise DataError(
            f"{name}: contains files that nmt push did not write, such as {min(files - _OF_THE_HUB)}; choose another "
            "repository, or use --force to add to it"
        )
    if exported is not None:
        exported.update(fnmatch.filter(files, RunDir(Path()).calibration("*-*").name))
    return Repository(name, info.sha, bool(info.private), files & (exported or set()))


def _exported(api: HfApi, name: str, commit: str | None) -> set[str] | None:
    """Return the names of the files of an export in a repository; None if it contains no export."""
    try:
        path = _patiently(lambda: api.hf_hub_download(name, INFO, revision=commit))
        return exported_files(Path(path))
    except ValueError:
        return None
    except Exception as error:
        raise_hub_error(name, error)


def push(folder: Path, repository: Repository) -> Pushed:
    """Upload a directory written by `nmt export` to a repository, which is created if necessary.

    All files appear in one commit, or none. Files sent by an interrupted upload are not sent again. Files of an earlier
    export that this one does not have are deleted; files that nmt did not write stay. The card explains how to load the
    model from the Hub.

    Raises CheckpointError if the directory is damaged, DataError if its card is not UTF-8, HubError if the Hub rejects
    the request or cannot be reached, or if the repository has been changed in the meantime.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi

    info = verify_export(folder)
    api = HfApi()
    name = repository.name
    files: dict[str, str | bytes] = {}
    for file in sorted(exported_files(folder / INFO)):
        path = folder / file
        if path.is_file():
            files[file] = str(path)
    if CARD in files:
        files[CARD] = _card(folder, info, name)
    files |= {path.name: str(path) for path in RunDir(folder).calibrations()}

    def upload(head: str | None) -> tuple[str, str]:
        operations: list[CommitOperationAdd | CommitOperationDelete] = [
            CommitOperationAdd(file, content) for file, content in files.items()
        ]
        operations += [CommitOperationDelete(file) for file in sorted(repository.exported - {*files})]
        commit = api.create_commit(name, operations, commit_message="Model exported by nmt", parent_commit=head)
        return str(commit.commit_url), str(commit.oid)

    try:
        head = repository.head
        if head is None:
            _patiently(lambda: api.create_repo(name, private=repository.private))
        url, commit = _patiently(lambda: upload(head))
    except Exception as error:
        raise_hub_error(name, error)
    return Pushed(url, repository.private, commit != repository.head, info.kind)


def _card(folder: Path, info: ExportInfo, repository: str) -> bytes:
    """Return the model card, with its section on usage changed from the directory to the repository."""
    direction = info.direction or load_folder(folder).config.data.direction
    use_of_folder = use(info, direction)
    use_of_repository = use(info, direction, repository)
    card = (folder / CARD).read_bytes()  # with any line ends
    try:
        card.decode()
    except UnicodeDecodeError as error:  # else the Hub client would raise it
        raise DataError(f"{folder / CARD}: not UTF-8 at byte {error.start}; save it as UTF-8") from None
    return card.replace(use_of_folder.encode(), use_of_repository.encode())


def _patiently(ask: Callable[[], T]) -> T:
    """Call `ask`, with delayed retries while the Hub has a temporary problem, and return the result."""
    for wait in _WAITS:
        try:
            return ask()
        except Exception as error:
            if status(error) not in TRANSIENT:
                raise
            say(f"the Hub has a temporary problem, trying again in {wait:g} s: {error_text(error)}")
            time.sleep(wait)
    return ask()
