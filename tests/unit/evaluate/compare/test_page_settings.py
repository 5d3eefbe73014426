"""Settings and learning curves of compared runs."""

from __future__ import annotations

from pathlib import Path

from comparisons import group_of
from logged_run import make_run, train, valid
from nmt.evaluate.compare.page import differing_settings, learning_curves
from sentences import sentence_pairs

LINES = [pair[1] for pair in sentence_pairs(5)]


def run(path: Path, **changes: str) -> Path:
    made = make_run(path, [train(50), valid(100, 20.0), valid(100, 21.5, "ema"), valid(200, 25.0)])
    config = made.config.read_text()
    for before, after in changes.items():
        assert f"{before}: " in config
        config = "\n".join(
            f"{line.partition(':')[0]}: {after}" if line.strip().startswith(f"{before}: ") else line
            for line in config.splitlines()
        )
    made.config.write_text(config)
    return path


def test_settings_that_differ_are_listed_by_group(tmp_path: Path) -> None:
    plain = group_of("plain", LINES, LINES, runs=[run(tmp_path / "1", seed="1"), run(tmp_path / "2", seed="2")])
    other = group_of("other", LINES, LINES, runs=[run(tmp_path / "3", seed="1", d_model="64"),
                                                  run(tmp_path / "4", seed="2", d_model="64")])  # fmt: skip
    problems: list[str] = []
    differences = differing_settings([plain, other], problems)
    assert differences == [("model.d_model", "32", "64"), ("training.seed", "1; 2", "1; 2")]
    curves = learning_curves([plain, other], problems)
    assert curves == [(number, [(100.0, 21.5), (200.0, 25.0)]) for number in (0, 0, 1, 1)]
    assert problems == []


def test_unreadable_settings_and_curves_are_listed(tmp_path: Path) -> None:
    broken, good = run(tmp_path / "1"), run(tmp_path / "2")
    (broken / "config.yaml").write_text("a: [")
    (broken / "log.jsonl").unlink()
    groups, problems = [group_of("a", LINES, runs=[broken]), group_of("b", LINES, runs=[good])], list[str]()
    differences, curves = differing_settings(groups, problems), learning_curves(groups, problems)
    settings, curve = problems
    assert settings.startswith("a: its settings cannot be read: ") and "config.yaml" in settings
    assert curve.startswith("a: no learning curve: ") and len(curves) == 1
    assert differences == []
