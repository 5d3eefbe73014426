"""The hub's client, set up for a hub on the loopback interface."""

from __future__ import annotations

from pathlib import Path

import huggingface_hub
import pytest

from hub_server import Hub


def use_hub(hub: Hub, home: Path, patch: pytest.MonkeyPatch) -> None:
    """Configure the client with the hub's address, a token and its own cache, without delays and without Xet."""
    for name, value in {
        "ENDPOINT": hub.endpoint,
        "HUGGINGFACE_CO_URL_TEMPLATE": hub.endpoint + "/{repo_id}/resolve/{revision}/{filename}",
        "HF_HOME": str(home), "HF_HUB_CACHE": str(home / "hub"), "HF_TOKEN_PATH": str(home / "token"),
        "HF_HUB_DISABLE_XET": True, "HF_HUB_OFFLINE": False,
    }.items():  # fmt: skip
        patch.setattr(f"huggingface_hub.constants.{name}", value)
    patch.setenv("HF_TOKEN", hub.token)
    patch.setattr("huggingface_hub.utils._http.time.sleep", lambda _: None)  # the time module itself
    huggingface_hub.utils.disable_progress_bars()
