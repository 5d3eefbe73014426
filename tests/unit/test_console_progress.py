"""Tests of progress lines: their width, closed terminals, and counts of lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from folders import Folder
from nmt.console import Progress, n_lines
from nmt.prepare.pipeline.work import Sizes
from nmt.translate.loading import Translator
from nmt.translate.types import Line, Options
from screen import Terminal, rows, terminal


class Gone(Terminal):
    def write(self, _: str) -> int:
        raise OSError(5, "Input/output error")


def test_progress_line_fits_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = terminal(monkeypatch)
    with Progress("translating newstest2014", 12345) as progress:
        progress.add(5000)
    assert rows(screen)[-1].partition(" ")[2].startswith("left, 41% translating")
    assert max(map(len, rows(screen))) <= 40 and screen.getvalue().endswith("\r")


def test_closed_terminal_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal(monkeypatch)
    monkeypatch.setattr("sys.stderr", Gone())
    with Progress("translating", 3) as progress:
        progress.say("soon")
        assert list(progress.track("abc")) == ["a", "b", "c"]


@pytest.mark.parametrize(("text", "n"), [("", 0), ("a\n", 1), ("a\nb", 2), ("a\n\n\n", 3)])
def test_lines_are_counted_only_for_terminal(
    text: str, n: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "text"
    file.write_text(text)
    assert n_lines(file) is None
    terminal(monkeypatch)
    assert n_lines(file) == n
    assert n_lines(tmp_path / "none") is n_lines(file.rename(tmp_path / "text.gz")) is None


def test_prepare_shows_its_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, screen = Folder(tmp_path), terminal(monkeypatch)
    folder.prepare(sizes=Sizes(part_pairs=60))
    shown = rows(screen)
    assert any("left, 50% cleaning: 120 of 240" in row for row in shown)
    assert "learning a vocabulary for de and en …"[:39] in shown
    assert any("100% encoding: " in row for row in shown)


def test_progress_counts_all_translated_lines(translator: Translator) -> None:
    class Counted(Progress):
        n = 0.0

        def add(self, n: float = 1) -> None:
            self.n += n

    lines = ["abc. " * (1 + i % 5) for i in range(20)] + ["", " "]
    counted, search = Counted("translating"), translator.config.search.model_copy(update={"batch_tokens": 30})
    found = list(translator.translate_lines(lines, search, progress=counted))
    assert len(found) == 22 and counted.n == pytest.approx(22)
    assert list(translator.translate_window([Line("")], Options(search), 0, counted)) and counted.n == pytest.approx(22)
