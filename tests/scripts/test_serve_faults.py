"""`serve_faults.py`: the time of a case is bounded."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from scripts.checks.serve_faults import Faults, Seen, run_case
from scripts.checks.serve_faults_cases import CASES


class NoRun(Faults):
    def __init__(self, folder: Path) -> None:
        self.folder = folder


def test_a_case_that_takes_too_long_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def clients() -> None:
        async def overdue() -> None:
            signal.raise_signal(signal.SIGALRM)

        nobody_waits = asyncio.ensure_future(overdue())
        await asyncio.Event().wait()
        assert nobody_waits

    def endless(_: Faults) -> Seen:
        asyncio.run(clients())
        raise AssertionError("not ended")

    monkeypatch.setitem(CASES, "endless", endless)
    monkeypatch.setitem(CASES, "short", lambda _: Seen("200", True))
    before = signal.getsignal(signal.SIGALRM)
    assert not run_case(NoRun(tmp_path), "endless", 1000) and run_case(NoRun(tmp_path), "short", 1000)
    assert signal.getsignal(signal.SIGALRM) is before and signal.alarm(0) == 0
    said = capsys.readouterr()
    assert "| endless | ended after 1000 s, the limit of --seconds | 0 s | FAILED |" in said.out
    assert "| short | 200 | 0 s | ok |" in said.out and "endless" in said.err
