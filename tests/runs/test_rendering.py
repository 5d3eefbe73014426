"""Whole pictures, written and looked at; what is in them is tested in tests/unit/plots."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread
from PIL import Image

from command import Command
from logged_run import make_run, train, valid
from nmt.plots.attention import MOST_PIECES, draw_attention, save_picture
from nmt.plots.curves import curves_of, draw

LOG = [
    train(100, 5.0), valid(100, 10.0), train(200, 4.0), valid(200, 20.0), train(300, 3.5), valid(300, 25.0),
    valid(300, 26.0, kind="average", loss=2.0),
]  # fmt: skip
NAMES = ["two words", "$x_1$ ^{", "_hidden", "line\nend", "中文 ünï", "x" * 200]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("n", range(2))
def test_empty_panels_are_written(n: int) -> None:
    save_picture(draw([curves_of("a", LOG[:n])]), Path("x.svg"))
    assert Path("x.svg").read_bytes().startswith(b"<?xml")


def test_a_damaged_log_is_drawn_as_far_as_it_can_be_read(nmt: Command, folder: Path) -> None:
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
    assert nmt("plot", "./a").err == "nmt: a: its log has no training record yet, no validation yet\n"


@pytest.mark.parametrize(("name", "start"), [("x.png", b"\x89PNG"), ("x.PDF", b"%PDF"), ("x.y.svg", b"<?xml")])
def test_every_format_holds_any_name(name: str, start: bytes, nmt: Command, folder: Path) -> None:
    for run in NAMES:
        make_run(folder / run, LOG)
    result = nmt("plot", *NAMES, "--output", name)
    assert (result.status, result.out, result.err) == (0, f"{name}: written\n", "")
    written = Path(name).read_bytes()
    assert written.startswith(start) and len(written) > 1000
    assert sorted(path.name for path in folder.iterdir()) == sorted([*NAMES, name])
    if name == "x.png":
        pixels = imread(name)[:, :, :3]  # without colour
        np.testing.assert_array_equal(pixels[:, :, 0], pixels[:, :, 1])
        np.testing.assert_array_equal(pixels[:, :, 0], pixels[:, :, 2])
        assert pixels.min() < 0.1 and (pixels < 0.7).mean() > 0.005  # and it is not blank


@pytest.mark.parametrize("n", [40, MOST_PIECES + 30])
def test_forty_pieces_are_legible(n: int) -> None:
    """Legible: a piece has at least as many pixels as its label has at ten points."""
    pieces, drawn = [f"\u2581{i}" for i in range(n)], min(n, MOST_PIECES)
    figure = draw_attention(pieces, pieces[:40], np.eye(n)[:40], "title")
    if n > drawn:  # what is on it takes seconds to draw and leaves its size as it is
        figure.axes[0].clear()
    save_picture(figure, Path("a.png"))
    with Image.open("a.png") as picture:
        width, height = picture.size
    assert height / 40 > 10 / 72 * 150 and width / drawn > 10 / 72 * 150
    assert width < 10_000
