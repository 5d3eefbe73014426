"""The benchmark of preparation: its text, what it measures of a process, its table."""

from __future__ import annotations

import sys
from pathlib import Path

from scripts.bench.prepare import measure
from scripts.bench.prepare_arms import Arm, make_text
from sentences import sentence_pairs, write_pairs

MEGABYTES = 200


def script(size: str, _out: Path) -> list[str]:
    """Use CPU time and memory in a child process, only if all pairs are prepared."""
    work = f"x = b'x' * ({MEGABYTES} << 20); sum(range(10 ** 7))" if size == "all" else ""
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {work!r}], check=True)"
    return [sys.executable, "-c", child]


def test_measure_includes_child_processes(tmp_path: Path) -> None:
    write_pairs(tmp_path, "x", sentence_pairs(150))
    text = make_text([tmp_path / "x.de", tmp_path / "x.en"], 2000, tmp_path / "home")
    cost = measure(Arm("one", script, tmp_path), text, tmp_path / "home")
    assert cost.cpu_us > 20
    assert MEGABYTES < cost.megabytes < 2 * MEGABYTES
