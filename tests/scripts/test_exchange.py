"""The measurement of the exchange: what it needs, and its table."""

from __future__ import annotations

import os

import pytest

from scripts.measure import exchange


def test_what_is_missing_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["exchange"])
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(exchange.shutil, "which", lambda name: None if name == "tc" else f"/sbin/{name}")
    assert exchange.main() == 2
    assert "Linux, root, and the commands ip and tc (iproute2); missing: root, tc\n" in capsys.readouterr().err


def test_the_time_saved_is_that_of_updates_in_the_same_round() -> None:
    costs = {
        (300, "float32"): [10.0, 20.0, 40.0],
        (300, "bf16"): [8.0, 15.0, 36.0],
    }
    *_, first, second = exchange.table(costs, {300: 290.4}).splitlines()
    assert first == "| 300 (290) | float32 | 20.00 (15.00–30.00) |  |"
    assert second == "| 300 (290) | bf16 | 15.00 (11.50–25.50) | 20 (15–22) % |"
