"""The benchmark of preparation: its text, what it measures of a process, its table."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import pytest

from scripts.bench.install import FailedError
from scripts.bench.prepare import Cost, measure, render
from scripts.bench.prepare_arms import VALID_PAIRS, Arm, make_text, repeated
from sentences import sentence_pairs, write_pairs

MEGABYTES = 200


def test_repeated_pairs_differ_and_have_no_new_words() -> None:
    pairs = sentence_pairs(20)
    many = list(itertools.islice(repeated(pairs), 2000))
    assert many[:20] == pairs
    assert len(set(many)) == 2000
    for side in (0, 1):
        assert {word for pair in many for word in pair[side].split()} == {
            word for pair in pairs for word in pair[side].split()
        }


def test_text(tmp_path: Path) -> None:
    write_pairs(tmp_path, "x", [*sentence_pairs(150), *sentence_pairs(150)])
    text = make_text([tmp_path / "x.de", tmp_path / "x.en"], 700, tmp_path / "home")
    lines = {
        name: (text.folder / name).read_text(encoding="utf-8").splitlines()
        for size in ("few", "all", "valid")
        for name in text.names(size)
    }
    assert {name: len(own) for name, own in lines.items()} == {
        "few.de": 1000, "few.en": 1000, "all.de": 700, "all.en": 700, "valid.de": VALID_PAIRS, "valid.en": VALID_PAIRS,
    }  # fmt: skip
    assert lines["few.de"][:700] == lines["all.de"]
    assert not set(lines["all.en"]) & set(lines["valid.en"])
    words = {
        line
        for language in ("de", "en")
        for line in [f"{language} {word}" for word in " ".join(lines[f"all.{language}"]).split()]
    }
    assert text.n_words == len(words) / 700


def script(size: str, _out: Path) -> list[str]:
    """Work and memory in a child process, for all pairs only."""
    work = f"x = b'x' * ({MEGABYTES} << 20); sum(range(10 ** 7))" if size == "all" else ""
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {work!r}], check=True)"
    return [sys.executable, "-c", child]


def test_what_a_child_uses_counts(tmp_path: Path) -> None:
    write_pairs(tmp_path, "x", sentence_pairs(150))
    text = make_text([tmp_path / "x.de", tmp_path / "x.en"], 2000, tmp_path / "home")
    cost = measure(Arm("one", script, tmp_path), text, tmp_path / "home")
    assert cost.cpu_us > 20
    assert MEGABYTES < cost.megabytes < 2 * MEGABYTES
    failing = Arm("two", lambda _size, _out: [sys.executable, "-c", "raise SystemExit(3)"], tmp_path)
    with pytest.raises(FailedError, match="two failed"):
        measure(failing, text, tmp_path / "home")


def test_table(tmp_path: Path) -> None:
    arms = [Arm(name, script, tmp_path) for name in ("old", "new")]
    rounds = [[Cost(60, 9, 100), Cost(20, 3, 50)], [Cost(50, 8, 110), Cost(25, 4, 40)]]
    assert render(arms, rounds)[2:] == [
        "| old | 55.0 (50.0 to 60.0) | 18,182 | 1.00 (1.00 to 1.00) | 8.5 | 110 |",
        "| new | 22.5 (20.0 to 25.0) | 44,444 | 2.50 (2.00 to 3.00) | 3.5 | 50 |",
    ]
