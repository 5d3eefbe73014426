"""Figures of training curves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from command import Command
from logged_run import GOLDEN, make_run, train, valid
from nmt.errors import ConfigError
from nmt.figures.curves import HIGH, LOSS, LOW, MOST_POINTS, SCORE, VALUE, Curves, curves_of, draw, mean_of, plot, thin

LOG = [
    train(100, 5.0), valid(100, 10.0), train(200, 4.0), valid(200, 20.0), train(300, 3.5), valid(300, 25.0),
    valid(300, 26.0, kind="average", loss=2.0),
]  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture(scope="module")
def drawn() -> Figure:
    """The figure of `LOG`, which tests must not change."""
    return draw([curves_of("a", LOG)])


@pytest.fixture
def blank(monkeypatch: pytest.MonkeyPatch) -> list[Curves]:
    """Make `plot` write empty figures, which is much faster; return the curves that it would draw."""
    curves: list[Curves] = []

    def note(runs: list[Curves], *_: object) -> Figure:
        curves.extend(runs)
        return Figure()

    monkeypatch.setattr("nmt.figures.curves.draw", note)
    return curves


def lines(figure: Figure, row: int, column: int) -> list[Any]:
    """Return the lines of a panel that have points, in drawing order."""
    return [line for line in figure.axes[2 * row + column].lines if len(line.get_xdata())]


def names(figure: Figure) -> list[str]:
    """Return the names of the runs in the legend."""
    return [text.get_text() for text in figure.legends[0].get_texts()]


# --- what is drawn ------------------------------------------------------------------------------


def test_each_curve_is_drawn_in_its_panel(drawn: Figure) -> None:
    expected = [
        [[[100, 5.0], [200, 4.0], [300, 3.5]], [[100, 2.5], [200, 2.5], [300, 2.5]], [[300, 2.0]]],  # not smoothed
        [[[100, 10], [200, 20], [300, 25]], [[300, 26]]],
        [[[100, 1e-4], [200, 2e-4], [300, 3e-4]]],
    ]
    for row, curves in enumerate(expected):
        for column, divisor in ((0, 1), (1, 100)):
            for line, points in zip(lines(drawn, row, column), curves, strict=True):
                np.testing.assert_allclose(line.get_xydata(), np.array(points) / [divisor, 1])
    labels = [axes.get_ylabel() for axes in drawn.axes[::2]] + [axes.get_xlabel() for axes in drawn.axes[4:]]
    assert labels == [
        "Loss (nats per token)", "Development set BLEU", "Learning rate", "Steps (updates)", "Training time (minutes)",
    ]  # fmt: skip
    assert names(drawn) == ["a"]
    long = draw([curves_of("b", [train(30_000)])])
    assert long.axes[5].get_xlabel() == "Training time (hours)" and lines(long, 2, 1)[0].get_xdata() == [5.0]


def test_styles_of_runs_differ_without_colour() -> None:
    figure = draw([curves_of(f"run {i}", LOG) for i in range(28)])
    assert len({(line.get_linestyle(), line.get_marker()) for line in lines(figure, 1, 0)[::2]}) == 28
    greys = [float(line.get_color()) for axes in figure.axes for line in axes.lines]
    assert min(greys) >= 0.0 and max(greys) <= 0.6  # dark enough on white


def test_exploded_loss_switches_to_log_scale(drawn: Figure) -> None:
    assert drawn.axes[0].get_yscale() == "linear"
    exploded = curves_of("a", [*LOG, train(400, 700.0)])
    assert exploded.points[LOSS, "train"][-1, VALUE] == pytest.approx(700.0)
    assert draw([exploded]).axes[0].get_yscale() == "log"


# --- long logs ----------------------------------------------------------------------------------


def test_thinning_keeps_means_and_spikes() -> None:
    n = 100_000
    values = np.sin(np.arange(n) / 1e4)
    values[61_234], values[99_999] = 12.0, -7.0
    points = np.stack([np.arange(n), np.arange(n) / 60, np.arange(n) / 30, values, values, values], axis=1)
    means = thin(points)
    assert means.shape == (MOST_POINTS, 6) and (np.diff(means[:, 0]) > 0).all()
    assert means[:, HIGH].max() == 12.0 and means[:, LOW].min() == -7.0
    assert (means[:, LOW] <= means[:, VALUE]).all() and (means[:, VALUE] <= means[:, HIGH]).all()
    sizes = np.diff(np.arange(MOST_POINTS) * n // MOST_POINTS, append=n)
    assert np.average(means[:, VALUE], weights=sizes) == pytest.approx(values.mean())


def test_spike_in_long_log_is_drawn_as_band(drawn: Figure) -> None:
    panel = draw([curves_of("a", [train(i, 15.0 if i == 1234 else 3.0) for i in range(1, 3001)])]).axes[0]
    (band,) = panel.collections
    assert band.get_datalim(panel.transData).y1 == pytest.approx(15.0) and not drawn.axes[0].collections


# --- groups and panels --------------------------------------------------------------------------


def test_group_is_drawn_as_mean_with_band() -> None:
    seeds = [[train(100, loss), valid(100, bleu), train(200, loss - 1), valid(200, 2 * bleu)]
             for loss, bleu in ((5.0, 10.0), (4.0, 14.0), (3.0, 12.0))]  # fmt: skip
    seeds[0].append(valid(300, 50.0))  # the others have ended
    mean = mean_of("plain", [curves_of(str(i), seed) for i, seed in enumerate(seeds)])
    np.testing.assert_allclose(
        mean.points[SCORE, "valid"][:, [0, VALUE, LOW, HIGH]], [[100, 12, 10, 14], [200, 24, 20, 28]]
    )
    figure = draw([mean, curves_of("b", LOG)])
    assert names(figure) == ["plain", "b"]
    for panel, height in ((figure.axes[0], 5.0), (figure.axes[2], 28.0)):
        assert max(band.get_datalim(panel.transData).y1 for band in panel.collections) == pytest.approx(height)
    assert len(figure.axes[2].collections) == 1, "a single run has no band"


def test_names_of_axes_are_beside_long_numbers() -> None:
    seeds = [curves_of(str(bleu), [train(60, 5.4), valid(60, bleu)]) for bleu in (10.1, 10.3)]
    figure = draw([mean_of("plain", seeds)])
    figure.draw_without_rendering()
    assert min(panel.get_tightbbox().x0 for panel in figure.axes) >= 0


def test_group_of_different_tasks_is_rejected() -> None:
    with pytest.raises(ConfigError, match="group x"):
        mean_of("x", [curves_of("a", LOG), curves_of("b", LOG, "text")])


@pytest.mark.parametrize(("columns", "width", "n_across"), [(1, 3.3, 1), (2, 6.9, 2), (None, 11.0, 2)])
def test_chosen_panels_are_drawn_in_order(columns: int | None, width: float, n_across: int) -> None:
    log = [record | {"cpu_seconds": record["step"] / 2} for record in LOG]
    figure = draw([curves_of("a", log)], ["score/cpu", "loss/steps", "score/time"], columns)
    assert [(axes.get_ylabel(), axes.get_xlabel()) for axes in figure.axes] == [
        ("Development set BLEU", "CPU seconds of training"), ("Loss (nats per token)", "Steps (updates)"),
        ("Development set BLEU", "Training time (minutes)"),
    ]  # fmt: skip
    np.testing.assert_allclose(figure.axes[0].lines[0].get_xydata(), [[50, 10], [100, 20], [150, 25]])
    across = figure.axes[0].get_subplotspec().get_gridspec().ncols
    assert (figure.get_size_inches()[0], across) == (width, n_across)


# --- what logs lack -----------------------------------------------------------------------------


@pytest.mark.usefixtures("blank")
@pytest.mark.parametrize(
    ("records", "lack"),
    [
        (LOG, None),
        ([], "no training record and no validation"),
        (LOG[:1], "no validation"),
        ([valid(100, 3.0)], "no training record"),
    ],
)
def test_plot_reports_missing_records(folder: Path, records: list[dict[str, Any]], lack: str | None) -> None:
    make_run(folder / "a", records)
    assert plot([Path("a")], Path("x.svg")) == ([f"a: its log has {lack} yet"] if lack else [])
    assert Path("x.svg").read_bytes().startswith(b"<?xml")


def test_empty_panels_are_labelled(drawn: Figure) -> None:
    old = [{key: value for key, value in record.items() if key != "minutes"} for record in LOG]
    for records, empty in ((old, [1, 3, 5]), ([], [0, 1, 2, 3, 4, 5]), (LOG[:1], [2, 3]), ([valid(100, 3.0)], [4, 5])):
        figure = draw([curves_of("a", records)])
        assert [i for i, axes in enumerate(figure.axes) if axes.texts] == empty
    assert not any(axes.texts for axes in drawn.axes)


# --- the command --------------------------------------------------------------------------------


NAMES = {
    "two words": "two words",
    "$x_1$ ^{": r"\$x_1\$ ^{",
    "_hidden": " _hidden",
    "line\nend": r"line\nend",
    "中文 ünï": "中文 ünï",
    "x" * 200: "x" * 28 + " … " + "x" * 29,
}


def test_runs_and_those_of_directories_are_drawn_in_one_figure(nmt: Command, folder: Path, blank: list[Curves]) -> None:
    for name in ("b", "a", "c.part"):
        make_run(folder / "runs" / name, LOG)
    result = nmt("plot", GOLDEN.path, "runs")
    lacks = f"nmt: {GOLDEN.path}: its log has no training record and no validation yet\n"
    assert (result.status, result.out, result.err) == (0, "plot.png: written\n", lacks)
    assert Path("plot.png").read_bytes().startswith(b"\x89PNG")
    legend = names(draw([*blank, *(curves_of(name, []) for name in NAMES)]))
    assert legend == [GOLDEN.path.name, "a", "b", *NAMES.values()]


@pytest.mark.usefixtures("blank")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a", "nowhere"], "nowhere: no such directory; nmt runs lists the runs"),
        (["a/log.jsonl"], "a/log.jsonl: a file, where a run directory is needed; nmt runs lists the runs"),
        (["a.part"], "a.part: neither a run nor a directory of runs; nmt runs a.part lists the runs below it"),
        (
            ["a", "--panel", "loss/cpu", "bleu"],
            "--panel bleu: write loss or score or rate, a slash, and steps or time or cpu: score/cpu",
        ),
        ([], "plot needs runs: nmt plot RUN, or --group NAME=A,B,C"),
        (["--group", "x=b-*"], "--group x=b-*: no run or file matches"),
        (["outer"], "outer: neither a run nor a directory of runs; nmt runs outer lists the runs below it"),
        (["a", "--output", "x.jpg"], "x.jpg: unknown picture format; use one of .png, .pdf, .svg"),
        (["a", "--output", "png"], "png: unknown picture format; use one of .png, .pdf, .svg"),
        (["a", "--output", "no/x.png"], "no/x.png: the directory no does not exist"),
        (["a", "--output", "d.png"], "d.png: is a directory, but the output must be a file"),
    ],
)
def test_invalid_plot_arguments_print_one_line(arguments: list[str], message: str, nmt: Command, folder: Path) -> None:
    make_run(folder / "a", LOG)
    make_run(folder / "outer" / "sweep" / "a", LOG)
    for name in ("a.part", "b", "d.png"):
        Path(name).mkdir()
    Path("b/b.txt").touch()
    before = sorted(folder.rglob("*"))
    result = nmt("plot", *arguments)
    assert (result.status, result.out, result.err) == (2, "", f"nmt: {message}\n")
    assert sorted(folder.rglob("*")) == before


def test_groups_are_named_and_what_not_all_runs_have_is_reported(nmt: Command, folder: Path) -> None:
    for name in ("a-1", "a-2", "b-1", "b-2"):
        make_run(folder / name, LOG[: 4 if name == "a-2" else None])
    result = nmt("plot", "--group", "a=a-*", "b=b-1,b-2", "--panel", "score/steps", "--output", "x.svg")
    assert result.err == "nmt: a: the mean has only the 4 of 7 points that all of its runs have\n"
    picture = Path("x.svg").read_text(encoding="utf-8")
    assert ">Development set BLEU</text>" in picture and ">Loss" not in picture  # text remains text


# --- Whole pictures, written and looked at ---


def test_damaged_log_is_plotted_partially(nmt: Command, folder: Path) -> None:
    run = make_run(folder / "a", LOG)
    wild = [
        train(400) | {"loss": 1e308, "perplexity": 1e308, "lr": 1e308}, train(5) | {"step": 10**400},
        valid(500, 1e300) | {"loss": -3.0, "minutes": -1e308},
        {"kind": "train", "perplexity": 0.0, "loss": float("nan")}, {"kind": ["train"]}, {"kind": "valid", "bleu": "x"},
        train(600) | {"perplexity": float("inf"), "loss": "x", "lr": None, "minutes": True},
    ]  # fmt: skip
    with run.log.open("ab") as log:
        log.write(b"\n".join([b"\xff\xfe", *(json.dumps(record).encode() for record in wild), b'{"kind": "tra']))
    result = nmt("plot", "a")
    assert (result.status, result.out) == (0, "plot.png: written\n")
    assert imread("plot.png").shape[1] == 1650
    run.log.unlink()
    assert nmt("plot", "./a").err == "nmt: a: its log has no training record and no validation yet\n"
