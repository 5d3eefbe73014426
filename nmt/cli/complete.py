"""How a shell goes on with a value that is half typed. Nothing here may take long or fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from nmt.config.fields import field_paths
from nmt.config.load import shipped_configs

SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")


def settings(typed: str) -> Iterator[str]:
    """Settings that begin so, for --set KEY=VALUE."""
    return (f"{path}=" for path in field_paths() if "*" not in path and path.startswith(typed))


def search_settings(typed: str) -> Iterator[str]:
    """The same of the search alone."""
    return (setting for setting in settings(typed) if setting.startswith("search."))


def configs(typed: str) -> list[str]:
    """Configs that begin so: those here, in configs/ and the shipped ones."""
    places = [Path(), Path("configs"), shipped_configs()]
    return sorted({path.name for place in places for path in place.glob("*.yaml") if path.name.startswith(typed)})


def runs(typed: str) -> list[str]:
    """Run directories that begin so, in runs/ or in the directory that is being typed."""
    from nmt.runs.listing import is_run

    folder = Path(typed if typed.endswith("/") else Path(typed).parent)
    places = [folder, *([Path("runs")] if folder == Path() else [])]
    try:
        found = sorted(str(path) for place in places if place.is_dir() for path in place.iterdir() if is_run(path))
    except OSError:
        return []
    return [path for path in found if path.startswith(typed)]


def shell() -> str | None:
    """The shell that nmt was called from; None if that cannot be told."""
    import shellingham  # type: ignore[import-untyped]  # which Typer needs, too

    try:
        return str(shellingham.detect_shell()[0])
    except (shellingham.ShellDetectionFailure, OSError):
        return None
