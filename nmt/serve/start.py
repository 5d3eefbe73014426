"""From the options of `nmt serve` to a server that runs."""

from __future__ import annotations

import importlib.util
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nmt.config import SearchConfig
from nmt.errors import ConfigError
from nmt.serve.limits import Keys, Limits, Rate
from nmt.serve.models import EngineName, Models, load_models

NEVER = ("lm", "lm_weight", "protect_patterns", "batch_sentences", "batch_tokens", "inline_terms")
"""Settings of search that no client may change: they name files, or take any time or memory."""


@dataclass(frozen=True)
class Settings:
    """What a server is started with."""

    paths: Sequence[Path]
    host: str = "127.0.0.1"
    port: int = 5000
    engine: EngineName = "auto"
    int8: bool = False
    overrides: Sequence[str] = ()
    threads: int | None = None
    keys: Path | None = None
    rate: int = 0
    origins: Sequence[str] = ()
    allowed: Sequence[str] = ()
    limits: Limits = field(default_factory=Limits)
    queue: int = 256
    grace: int = 30
    cache: int = 16 << 20


def start(settings: Settings, echo: Callable[[str], None]) -> None:
    """Load the models and serve until SIGTERM or SIGINT, then answer what waits and return.

    echo: gets messages for the operator. Raises ConfigError, CheckpointError or DataError before anything is served.
    """
    check_installed()
    from nmt.serve.app import make_app
    from nmt.serve.server import addresses_of, hosts_of, listen, make_server
    from nmt.serve.service import Service

    allowed, origins = parse_allowed(settings.allowed), parse_origins(settings.origins)
    keys = Keys.read(settings.keys) if settings.keys is not None else None
    with listen(settings.host, settings.port) as listening:
        if settings.threads is not None:
            import torch

            torch.set_num_threads(settings.threads)
        models = load_models(settings.paths, settings.engine, settings.int8, settings.overrides)
        service = Service(
            models, settings.limits, keys, Rate(settings.rate), allowed, settings.cache, settings.queue,
            settings.threads,
        )  # fmt: skip
        hosts = hosts_of(settings.host, listening)
        if keys is None and hosts is None:
            echo(f"warning: whoever reaches {settings.host} may translate; --keys allows only those who have a key")
        for line in described(models):
            echo(line)
        echo(f"serving at {addresses_of(listening)}")
        make_server(make_app(service, origins, hosts), settings.grace).run(listening)


def check_installed() -> None:
    """Raise ConfigError without the packages of the extra `serve`."""
    needed = {
        "prometheus_client": "prometheus-client", "python_multipart": "python-multipart", "starlette": "starlette",
        "uvicorn": "uvicorn",
    }  # fmt: skip
    absent = [name for module, name in needed.items() if importlib.util.find_spec(module) is None]
    if absent:
        both = " and ".join(absent)
        raise ConfigError([f"{both} must be installed to serve: pip install {' '.join(absent)}, or nmt's extra serve"])


def parse_allowed(options: Sequence[str]) -> dict[str, float | None]:
    """Return the settings that clients may change, with their largest values. Raises ConfigError."""
    allowed: dict[str, float | None] = {}
    for option in options:
        name, equals, most = option.removeprefix("search.").partition("=")
        if name not in SearchConfig.model_fields or name in NEVER:
            known = ", ".join(name for name in SearchConfig.model_fields if name not in NEVER)
            raise ConfigError([f"--allow {option}: not a setting that requests may change; these are: {known}"])
        try:
            allowed[name] = float(most) if equals else None
        except ValueError:
            raise ConfigError([f"--allow {option}: the largest value must be a number"]) from None
        if equals and not math.isfinite(float(most)):
            raise ConfigError([f"--allow {option}: the largest value must be a number"])
    return allowed


def parse_origins(origins: Sequence[str]) -> list[str]:
    """Return the origins. Raises ConfigError for what is none, such as `*`."""
    for origin in origins:
        if not re.fullmatch(r"https?://[^/*\s]+", origin):
            raise ConfigError([f"--origin {origin}: must be a scheme and a host, such as https://example.org"])
    return [*origins]


def described(models: Models) -> list[str]:
    """Return a line for each direction."""
    lines = []
    for source, target, route in models.routes():
        how = f"by way of {route[1].source}" if len(route) > 1 else f"{route[0].name} ({route[0].engine})"
        lines.append(f"{source}-{target}: {how}")
    return lines
