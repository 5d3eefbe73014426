"""Shell completion of values. Nothing here may be slow or fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from nmt.config.load import field_paths, shipped_configs

SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")


def settings(typed: str) -> Iterator[str]:
    """Settings that start with `typed`, for --set KEY=VALUE."""
    return (f"{path}=" for path in field_paths() if "*" not in path and path.startswith(typed))


def search_settings(typed: str) -> Iterator[str]:
    """Search settings that start with `typed`."""
    return (setting for setting in settings(typed) if setting.startswith("search."))


def search_keys(typed: str) -> Iterator[str]:
    """The same without `search.`, for --search KEY=VALUE."""
    return (setting.removeprefix("search.") for setting in search_settings(f"search.{typed}"))


def configs(typed: str) -> list[str]:
    """Configs that start with `typed`: in the working directory, in configs/, and the shipped ones."""
    places = [Path(), Path("configs"), shipped_configs()]
    return sorted({path.name for place in places for path in place.glob("*.yaml") if path.name.startswith(typed)})


def runs(typed: str) -> list[str]:
    """Run directories that start with `typed`, in runs/ or in the directory being typed."""
    from nmt.runs.listing import is_run

    folder = Path(typed if typed.endswith("/") else Path(typed).parent)
    places = [folder, *([Path("runs")] if folder == Path() else [])]
    try:
        found = sorted(str(path) for place in places if place.is_dir() for path in place.iterdir() if is_run(path))
    except OSError:
        return []
    return [path for path in found if path.startswith(typed)]


def shell() -> str | None:
    """Return the shell that nmt was called from, or None if it cannot be determined."""
    import shellingham  # type: ignore[import-untyped]  # a dependency of Typer

    try:
        return str(shellingham.detect_shell()[0])
    except (shellingham.ShellDetectionFailure, OSError):
        return None
