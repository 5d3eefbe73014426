"""Further metrics: their options, files of scores, and signatures of models."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from command import Command
from nmt.config.load import dump_config, load_config
from nmt.errors import ConfigError, DataError
from nmt.evaluate.comet import (
    NeuralMetrics,
    SegmentScores,
    find_metrics,
    model_name,
    read_segment_scores,
    signature,
)


@pytest.fixture(autouse=True)
def here() -> None:
    """A folder with files of scores."""
    for name, content in {"two": "1\n 2.5 \n", "other": "-1e-3\n.5\n", "x=1": "3\n4", "three": "1\n2\n3\n"}.items():
        Path(name).write_text(content, encoding="utf-8")
    for name in ("hyp", "ref"):
        Path(name).write_text("a b c d\ne f g h\n", encoding="utf-8")


def metrics(*files: str, systems: tuple[str, ...] = ("a",), lower: tuple[str, ...] = ()) -> NeuralMetrics:
    return find_metrics(systems, files=files, lower_is_better=lower)


def scored(found: NeuralMetrics, n_lines: int = 2) -> dict[str, dict[str, SegmentScores]]:
    lines = ["x"] * n_lines
    return found.score(lines, lines, dict.fromkeys(next(iter(found.read.values())), lines))


def test_segment_scores_are_read_for_one_system() -> None:
    found = scored(metrics("MetricX=two", "bleurt=x=1", lower=("MetricX",)))
    assert found == {
        "a": {
            "MetricX": SegmentScores((1.0, 2.5), "MetricX|scores read from a file", higher_is_better=False),
            "bleurt": SegmentScores((3.0, 4.0), "bleurt|scores read from a file"),
        }
    }
    assert found["a"]["MetricX"].mean == 1.75


def test_segment_scores_are_read_for_several_systems() -> None:
    systems = "s", "s=x", "a@b"
    found = scored(metrics("m@a@b=two", "m@s=other", "m@s=x=x=1", systems=systems))
    values = {system: found[system]["m"].values for system in systems}
    assert values == {"s": (-0.001, 0.5), "s=x": (3.0, 4.0), "a@b": (1.0, 2.5)}


@pytest.mark.parametrize(
    ("files", "systems", "message"),
    [
        (["m"], ["a"], "--segment-scores m: expected NAME=FILE"),
        (["=two"], ["a"], "--segment-scores =two: expected NAME=FILE"),
        (["m="], ["a"], "--segment-scores m=: expected NAME=FILE"),
        (["m=two"], ["a", "b"], "--segment-scores m=two: expected NAME@SYSTEM=FILE, where SYSTEM is one of a, b"),
        (["m@c=two"], ["a", "b"], "--segment-scores m@c=two: expected NAME@SYSTEM=FILE, where SYSTEM is one of a, b"),
        (["m@a=two"], ["a", "b"], "--segment-scores m@b=FILE is missing: all systems need scores"),
        (["m=two", "m=other"], ["a"], "--segment-scores m: two files for a were given"),
        (["chrf=two"], ["a"], "two metrics are called chrf: give each its own name"),
    ],
)
def test_ambiguous_segment_scores_raise(files: list[str], systems: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        find_metrics(systems, files=files)


def test_options_of_missing_metric_raise() -> None:
    with pytest.raises(ConfigError, match=r"^--lower-is-better y: there are no --segment-scores with this name$"):
        metrics("m=two", lower=("y",))
    for models, files in ((["x/m"], ["m=two"]), (["x/m", "y/m"], [])):
        with pytest.raises(ConfigError, match=r"^two metrics are called m: "):
            find_metrics(["a"], models, files=files)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1\nx\n", "line 2 is 'x', expected a score: one number per line"),
        ("1\n\n", "line 2 is '', expected a score: one number per line"),
        ("1\t2\n", r"line 1 is '1\t2', expected a score: one number per line"),
        ("1\n2\nnan\n", "line 3 is 'nan', expected a score: one number per line"),
        ("-inf\n", "line 1 is '-inf', expected a score: one number per line"),
        ("1e7\n", "line 1 is '1e7', expected a score: one number per line"),
        ("", "the file is empty, expected one score per line"),
    ],
)
def test_malformed_segment_scores_raise(content: str, message: str) -> None:
    Path("scores").write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=f"^scores: {re.escape(message)}$"):
        read_segment_scores(Path("scores"))


def test_comet_signature_has_model_and_licence() -> None:
    assert model_name("Unbabel/wmt22-comet-da") == "wmt22-comet-da"
    assert model_name("/models/mine.ckpt") == "mine"
    for free in ("wmt22-comet-da", "wmt20-comet-qe-da", "unite-mup"):
        known = f"COMET|nrefs:1|model:Unbabel/{free}|license:Apache-2.0|version:2.2.7"
        assert signature(f"Unbabel/{free}", "2.2.7") == known
    for bound in ("wmt22-cometkiwi-da", "wmt23-cometkiwi-da-xl", "XCOMET-XL", "wmt22-unite-da", "unite-xxl"):
        assert "|license:CC-BY-NC-SA|" in signature(f"Unbabel/{bound}", None)
    assert signature("/models/kiwi.ckpt", None) == "COMET|nrefs:1|model:/models/kiwi.ckpt|version:unknown"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--hyp hyp --ref ref --comet x/m", "--comet needs the source text of --hyp; give it with --src F"),
        ("--hyp hyp --ref ref --src ref", "--src F needs"),
        ("--run x --src ref --comet x/m", "--src F needs"),
        ("--run x --src ref --ref ref --split test", "--src F and --ref F cannot be combined with --split"),
        ("--hyp hyp --ref ref --comet-command x", "--comet-command needs a model"),
        (
            "--hyp hyp --ref ref --src two --comet x/m --comet-command nowhere",
            "nowhere: no such command; install COMET",
        ),
        (
            "--hyp hyp --ref ref --segment-scores m=three",
            "--segment-scores m: found 3 scores for the 2 lines of the translations",
        ),
    ],
)
def test_evaluate_with_missing_options_raises(nmt: Command, arguments: str, message: str) -> None:
    Path("x").mkdir()
    Path("x", "config.yaml").write_text(dump_config(load_config("sample.yaml")))
    ended = nmt("evaluate", *arguments.split())
    assert (ended.status, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert ended.err.startswith(f"nmt: {message}")
