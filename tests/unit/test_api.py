"""Arguments of the Python interface."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from nmt import api
from nmt.config.load import load_config
from nmt.errors import ConfigError


def searched(monkeypatch: pytest.MonkeyPatch, search: Mapping[str, object]) -> Any:
    """Return the search settings with which `compare` would translate."""

    class StartedError(Exception):
        pass

    found: dict[str, Any] = {}

    def translate_runs(_: object, translating: Any) -> None:
        found["search"] = translating.search(load_config("sample.yaml"))
        raise StartedError

    monkeypatch.setattr(api, "translate_runs", translate_runs)
    with pytest.raises(StartedError):
        api.compare(["a", "b"], search=search)
    return found["search"]


def test_compare_takes_paths_and_tuples_in_search(monkeypatch: pytest.MonkeyPatch) -> None:
    search = searched(monkeypatch, {"lm": Path("runs/lm"), "tags": ("domain=x",), "beam": 2})
    assert (search.lm, search.tags, search.beam) == ("runs/lm", ["domain=x"], 2)


def test_compare_refuses_default_without_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"search\.temperature"):
        searched(monkeypatch, {"temperature": 1.0})
