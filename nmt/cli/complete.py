"""Shell completion of values. These functions must be fast and must not fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from nmt.config.fields import field_paths
from nmt.config.load import shipped_configs

SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")


def settings(typed: str) -> Iterator[str]:
    """Complete settings for --set KEY=VALUE."""
    return (f"{path}=" for path in field_paths() if "*" not in path and path.startswith(typed))


def search_settings(typed: str) -> Iterator[str]:
    """Complete search settings for --set search.KEY=VALUE."""
    return (setting for setting in settings(typed) if setting.startswith("search."))


def search_keys(typed: str) -> Iterator[str]:
    """Complete search settings without the prefix `search.`, for --search KEY=VALUE."""
    return (setting.removeprefix("search.") for setting in search_settings(f"search.{typed}"))


def configs(typed: str) -> list[str]:
    """Complete names of configs in the working directory, in configs/, and among the shipped ones."""
    folders = [Path(), Path("configs"), shipped_configs()]
    return sorted({path.name for folder in folders for path in folder.glob("*.yaml") if path.name.startswith(typed)})


def runs(typed: str) -> list[str]:
    """Complete run directories in runs/ or in the directory typed so far."""
    from nmt.runs.listing import is_run

    parent = Path(typed if typed.endswith("/") else Path(typed).parent)
    folders = [parent, *([Path("runs")] if parent == Path() else [])]
    try:
        paths = sorted(str(path) for folder in folders if folder.is_dir() for path in folder.iterdir() if is_run(path))
    except OSError:
        return []
    return [path for path in paths if path.startswith(typed)]


def corpora(typed: str) -> list[str]:
    """Complete names of corpora that are known without network access."""
    from nmt.prepare.named import CATALOGUE

    return [entry.name for entry in CATALOGUE if entry.name.startswith(typed)]


def shell() -> str | None:
    """Return the name of the shell that nmt was called from; None if it is unknown."""
    import shellingham  # type: ignore[import-untyped]  # a dependency of Typer

    try:
        return str(shellingham.detect_shell()[0])
    except (shellingham.ShellDetectionFailure, OSError):
        return None
