"""A terminal in place of standard error, and what was shown on it."""

from __future__ import annotations

import io
import os

import pytest


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 2


def terminal(monkeypatch: pytest.MonkeyPatch, delay: float = 0.0) -> Terminal:
    """A terminal of 40 columns as standard error, which shows progress after `delay` seconds."""
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)  # not in a fixture: pytest sets it again before the test
    monkeypatch.setattr("nmt.console.DELAY", delay)
    monkeypatch.setattr("nmt.console.INTERVAL", 0.0)
    monkeypatch.setattr("os.get_terminal_size", lambda _: os.terminal_size((40, 24)))
    return screen


def rows(screen: Terminal) -> list[str]:
    """Return the successive contents of the line."""
    return [row.rstrip() for row in screen.getvalue().split("\r") if row.strip()]
