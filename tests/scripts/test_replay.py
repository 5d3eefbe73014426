"""The comparison of two checkouts: normalisation, expected differences, tables, and stub checkouts."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path

import pytest

from scripts.checks.replay import __main__ as replay
from scripts.checks.replay import calls, compare, tables
from scripts.checks.replay.compare import Difference, Expected

MAIN = """
import sys
from pathlib import Path

def main():
    print("nmt 0.3.0 (2278e50) took", "1.5 s")
    Path("out.txt").write_text("{text}")
    sys.exit({status})
"""
SHOUT = "def shout(text):\n    return text.upper() + '{text}'\n"


def checkout(folder: Path, text: str = "same", status: int = 0, names: str = "shout") -> Path:
    """Write a checkout whose commands write `text`."""
    package = folder / "nmt"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("Translator = None\n")
    (package / "__main__.py").write_text(MAIN.format(text=text, status=status))
    (package / "words.py").write_text(SHOUT.format(text=text).replace("shout", names))
    return folder


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Compare two checkouts by two small tables: exit status and printed report."""
    folder = tmp_path / "tables"
    folder.mkdir()
    for name in tables.COMMANDS:
        (folder / f"{name}.tsv").write_text("")
    for name, text in {
        "translate": "plain\tquick\ttranslate\nafter\t\tevaluate --run @translate.plain\n",
        "calls": "shout\t\twords:shout words:call_out\tcodes\tf(x)\n", "requests": "", "expected": "# none\n",
    }.items():  # fmt: skip
        (folder / f"{name}.tsv").write_text(text)
    monkeypatch.setattr(replay, "write_inputs", lambda inputs: inputs.mkdir(parents=True))
    monkeypatch.setattr(replay, "TABLES", folder)

    def play(old: Path, new: Path, *options: str) -> int:
        return replay.main([str(old), str(new), "--keep", str(tmp_path / "kept"), *options])

    return play


def test_equal_checkouts_compare_equal(tmp_path: Path, played, capsys: pytest.CaptureFixture[str]) -> None:
    assert played(checkout(tmp_path / "a"), checkout(tmp_path / "bcd", names="call_out")) == 0
    assert "3 cases: 3 equal" in capsys.readouterr().out


def test_changed_bytes_and_statuses_are_found(tmp_path: Path, played, capsys: pytest.CaptureFixture[str]) -> None:
    old = checkout(tmp_path / "old")
    assert played(old, checkout(tmp_path / "new", text="sane"), "--only", "translate.*") == 1
    printed = capsys.readouterr().out
    assert "files/out.txt" in printed and "-same" in printed and "+sane" in printed and "0 equal" in printed
    assert played(old, checkout(tmp_path / "other", status=3), "--quick") == 1
    assert "1 cases: 0 equal" in capsys.readouterr().out


def test_functions_without_a_known_name_are_reported(tmp_path: Path, played, capsys) -> None:
    assert played(checkout(tmp_path / "old"), checkout(tmp_path / "new", names="cry"), "--only", "calls.*") == 1
    assert calls.MISSING in capsys.readouterr().out
    old, new = (checkout(tmp_path / name, names="cry") for name in ("both", "lack"))
    assert played(old, new, "--only", "calls.*") == 1


def test_what_differs_between_runs_is_normalised() -> None:
    def normalised(text: str) -> bytes:
        return compare.normalised(text.encode(), [("/tmp/a/new", "CASES"), ("/tmp/a/old", "CASES")])

    for one, other in [
        ("/tmp/a/old/x.yaml", "/tmp/a/new/x.yaml"),
        ("took 1.5 s", "took 12 s"),
        ("on 2026-11-30 10:00:01", "on 2026-12-01 23:59:59"),
        ('{"cpu_seconds": 1.5}', '{"cpu_seconds": 2e-05}'),
        ("nmt 0.3.0 (2278e50)", "nmt 0.3.0 (0123abc, modified)"),
        ("3:07 left", "12:40 left"),
        ("1,234 tokens/s", "98.1 tokens/s"),
    ]:
        assert normalised(one) == normalised(other)
    for one, other in [("bleu 10.1", "bleu 10.2"), ("12 lines", "13 lines"), ("▁the", " the"), ("a", "a ")]:
        assert normalised(one) != normalised(other)


def test_times_of_subtitles_are_compared(tmp_path: Path) -> None:
    for name, time in (("old", "00:00:01,000"), ("new", "00:00:02,000")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.srt").write_text(time)
    assert compare.differences("case", tmp_path / "old", tmp_path / "new")


def test_archives_are_compared_by_content(tmp_path: Path) -> None:
    for name, date in (("old", (2024, 1, 1, 0, 0, 0)), ("new", (2025, 1, 1, 0, 0, 0))):
        (tmp_path / name).mkdir()
        with zipfile.ZipFile(tmp_path / name / "a.docx", "w") as archive:
            archive.writestr(zipfile.ZipInfo("x.xml", date), "same")
        with gzip.GzipFile(tmp_path / name / "b.gz", "w", mtime=date[0]) as compressed:
            compressed.write(b"same")
    assert compare.differences("case", tmp_path / "old", tmp_path / "new") == []


def test_expected_differences_cover_cases_and_files(capsys: pytest.CaptureFixture[str]) -> None:
    cases = [tables.Case(f"translate.{name}", ()) for name in ("a", "b")]
    found = [Difference(case.name, "steps/0.err", ("-old",)) for case in cases]
    rows = [Expected("translate.a", "why"), Expected("translate.*:steps/*.err", "why")]
    assert replay.report(cases, found, rows) == 0
    assert replay.report(cases, found, rows[:1]) == 1
    capsys.readouterr()
    assert replay.report(cases, [], [*rows[:1], Expected("prepare.*", "not played")]) == 0
    printed = capsys.readouterr().out
    assert "translate.a (why)" in printed and "prepare.*" not in printed


def test_rows_with_alternatives_are_repeated(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("# comment\nKIND = x y\nimport_{KIND}\ty\timport {KIND}\nhelp\tquick\t--help\n")
    assert [*tables.rows(path, 3)] == [
        ["import_x", "", "import x"], ["import_y", "quick", "import y"], ["help", "quick", "--help"],
    ]  # fmt: skip
    path.write_text("one\ttwo\n")
    with pytest.raises(ValueError, match="line 1"):
        next(tables.rows(path, 3))


def test_cases_of_the_repository_can_be_read() -> None:
    cases = tables.read_cases()
    quick = [case for case in cases if case.is_quick]
    assert len({case.name for case in cases}) == len(cases) > len(tables.with_needs(quick, cases)) > 50
