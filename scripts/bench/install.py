"""An environment for each toolkit, with the torch version of the running Python if the toolkit needs torch."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from scripts.bench.once import once
from scripts.bench.peer import Peer

TORCH_INDEX = "https://download.pytorch.org/whl/cpu"
# newer pips refuse the metadata of old packages; newer setuptools have no pkg_resources
TOOLS = ("pip<24.1", "setuptools<81")


class FailedError(Exception):
    """A toolkit cannot be installed or run; the message says what failed and names the log."""


def torch_version() -> str:
    """The version that all are measured with, without the name of the build."""
    return importlib.metadata.version("torch").partition("+")[0]


def torch_of(peer: Peer) -> tuple[str, ...]:
    """Return the requirements that are installed first."""
    return (f"torch=={torch_version()}",) if peer.torch else ()


def bin_of(peer: Peer, home: Path) -> Path:
    """The folder of the commands of its environment."""
    return home / f"venv-{peer.environment}" / "bin" if peer.environment else Path(sys.executable).parent


def install(peer: Peer, home: Path) -> None:
    """Make the environment on first use. Raises FailedError."""
    if not peer.environment:
        return
    venv = home / f"venv-{peer.environment}"
    recipe = "\n".join((*torch_of(peer), *TOOLS, *peer.requirements, *peer.alone))
    once(venv, recipe, lambda: make_environment(peer, venv, home / "logs" / f"install-{peer.environment}.log"))


def make_environment(peer: Peer, venv: Path, log: Path) -> None:
    """Install into a new environment: torch first and alone, so that only this package is looked up in its index."""
    print(f"bench: installing {peer.title} into {venv}, once", file=sys.stderr, flush=True)
    log.unlink(missing_ok=True)
    index = os.environ.get("TORCH_INDEX", TORCH_INDEX)
    torch = torch_of(peer)
    pip = [str(venv / "bin" / "python"), "-m", "pip", "install", "--progress-bar", "off"]
    logged([sys.executable, "-m", "venv", str(venv)], log)
    logged([*pip, *TOOLS, "wheel"], log)
    if torch:
        logged([*pip, "--retries", "1", "--no-deps", *(["--extra-index-url", index] if index else []), *torch], log)
    held = venv / "held.txt"
    held.write_text("\n".join((*torch, *TOOLS)), encoding="utf-8")
    logged([*pip, "--constraint", str(held), *torch, *peer.requirements], log)
    if peer.alone:
        logged([*pip, "--no-deps", *peer.alone], log)
    if peer.patch is not None:
        peer.patch(next(venv.glob("lib/python3*/site-packages")))


def convert(peer: Peer, text: Path, home: Path) -> None:
    """Write the text in the toolkit's own format on first use. Raises FailedError."""
    make = peer.convert
    if make is None:
        return
    folder, log = text / peer.converted, home / "logs" / f"convert-{peer.converted}.log"

    def write() -> None:
        log.unlink(missing_ok=True)
        program, *arguments = make(text, folder)
        logged([str(bin_of(peer, home) / program), *arguments], log)

    if peer.environment:
        once(folder, "\n".join((*peer.requirements, *peer.alone)), write)
    else:  # its code may change from one time to the next, and it knows itself whether there is something to do
        folder.mkdir(exist_ok=True)
        write()


def logged(command: Sequence[str], log: Path) -> None:
    """Run a command with its output at the end of a log. Raises FailedError."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as file:
        file.write(f"$ {' '.join(command)}\n")
        file.flush()
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        raise FailedError(f"{log.stem.replace('-', ' ')} failed: {log}")
