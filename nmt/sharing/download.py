"""Models of the hub, hf://owner/name: downloaded once a commit into the cache of the hub's client.

That cache consists of symbolic links, which `nmt` does not follow in a model. So a directory of the repository in it,
nmt/COMMIT beside snapshots/COMMIT, has the same files as hard links, or as copies if the file system has none.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from nmt.errors import HubError
from nmt.layout import ExportDir
from nmt.sharing.client import exported_files, hub_error, is_address, is_for_transformers, parse_address

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
            raise HubError(f"{address}: no model that nmt has pushed, translator.json is missing or not its") from None
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
    except HubError:
        raise
    except Exception as error:  # of whichever HTTP library the client is built on
        raise hub_error(address, error) from error
    return target


def _link(snapshot: Path, target: Path) -> None:
    """Make a directory with the files of a snapshot, which are regular files there. Raises OSError."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=target.parent, prefix=".") as scratch:
        part = Path(scratch) / target.name
        for path in snapshot.rglob("*"):
            if path.is_file():
                file = part / path.relative_to(snapshot)
                file.parent.mkdir(parents=True, exist_ok=True)
                try:
                    os.link(path.resolve(), file)
                except OSError:  # another file system, or one without hard links
                    shutil.copyfile(path, file)
        try:
            part.rename(target)
        except OSError:
            if not target.is_dir():  # else another process was faster
                raise
