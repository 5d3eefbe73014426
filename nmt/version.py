"""The version and commit of nmt. setup.py runs this file by itself, so it imports no other module at the top."""

from __future__ import annotations

import hashlib
import subprocess
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
COMMIT_FILE = "commit.txt"
"""Name of the file in a wheel or sdist that contains the commit; setup.py writes it."""


def commit() -> str | None:
    """Return the abbreviated commit hash, followed by "+" if files have changed since; None if it is unknown."""
    try:
        return (PACKAGE / COMMIT_FILE).read_text(encoding="ascii").strip()
    except OSError:
        pass
    if not (PACKAGE.parent / ".git").exists():  # git would find the repository of a parent directory
        return None
    describe = ["git", "describe", "--always", "--exclude=*", "--abbrev=7", "--dirty=+"]
    try:
        done = subprocess.run(describe, cwd=PACKAGE.parent, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


@cache
def digest() -> str:
    """Return a checksum of the files of nmt."""
    return hashlib.sha256(b"".join(map(Path.read_bytes, sorted(PACKAGE.rglob("*.py"))))).hexdigest()


def version() -> str:
    """Return the version and the commit, and eight digits of a checksum if files have changed since the commit."""
    from nmt import __version__

    revision = commit()
    if revision is not None and revision.endswith("+"):
        revision += f" {digest()[:8]}"
    return f"{__version__} ({revision})" if revision else __version__
