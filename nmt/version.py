"""The version and the commit of this nmt. setup.py runs this file alone, so it imports nothing of nmt at the top."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
COMMIT_FILE = "commit.txt"
"""File in the package of a wheel or sdist, written by setup.py."""


def commit() -> str | None:
    """Return the abbreviated hash, with a "+" after it if files were changed since; None if the commit is unknown."""
    try:
        return (PACKAGE / COMMIT_FILE).read_text(encoding="ascii").strip()
    except OSError:
        pass
    if not (PACKAGE.parent / ".git").exists():  # git would look further up, and find the repository of something else
        return None
    describe = ["git", "describe", "--always", "--exclude=*", "--abbrev=7", "--dirty=+"]
    try:
        done = subprocess.run(describe, cwd=PACKAGE.parent, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def version() -> str:
    """Return the version and the commit; if files were changed since, also eight digits that identify their content."""
    from nmt import __version__

    revision = commit()
    if revision is not None and revision.endswith("+"):
        digest = hashlib.sha256()
        for path in sorted(PACKAGE.rglob("*.py")):
            digest.update(path.read_bytes())
        revision += f" {digest.hexdigest()[:8]}"
    return f"{__version__} ({revision})" if revision else __version__
