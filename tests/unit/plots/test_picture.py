"""The picture of an attention, and how pictures are written."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from nmt.errors import DataError
from nmt.plots.attention import MOST_PIECES, attention_picture, draw_attention

SRC, TGT = ["\u2581Der", "\u2581Hund", "</s>"], ["\u2581The", "\u2581do", "g", "</s>"]
WEIGHTS = np.array([[0.9, 0.1, 0.0], [0.2, 0.8, 0.0], [0.0, 1.0, 0.0], [0.1, 0.1, 0.8]], dtype=np.float32)


def labels(figure: Figure) -> tuple[list[str], list[str]]:
    [axes] = figure.axes
    ticks = axes.get_xticklabels(), axes.get_yticklabels()
    return tuple([label.get_text() for label in side] for side in ticks)  # type: ignore[return-value]


def test_a_row_for_each_target_piece_from_white_to_black() -> None:
    figure = draw_attention(SRC, TGT, WEIGHTS, "title")
    assert labels(figure) == (SRC, TGT)
    [image] = figure.axes[0].images
    np.testing.assert_array_equal(image.get_array(), WEIGHTS)
    assert image.get_clim() == (0.0, 1.0)
    assert image.cmap(0.0)[:3] == (1.0, 1.0, 1.0)
    assert image.cmap(1.0)[:3] == (0.0, 0.0, 0.0)
    assert figure.axes[0].get_title() == "title"


@pytest.mark.parametrize("ending", [".png", ".pdf", ".svg", ".PNG"])
def test_any_script_is_drawn_without_a_warning(tmp_path: Path, ending: str) -> None:
    scripts = ["\u2581你好", "هذا", "कुत्ता", "\U0001f600"]
    pieces = [*scripts, "$x$", "$\\nothing$", "\\frac", "\u2581a_b^c", "\x07", "<0xF0>", "</s>"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        attention_picture(tmp_path / f"a{ending}", pieces, pieces, np.eye(len(pieces)), "你好 $")
    start = (tmp_path / f"a{ending}").read_bytes()[:500]
    assert {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<svg"}[ending.lower()] in start
    assert [path.name for path in tmp_path.iterdir()] == [f"a{ending}"]


@pytest.mark.parametrize("n", [40, MOST_PIECES + 30])
def test_more_pieces_than_the_most_are_left_out(n: int) -> None:
    pieces, drawn = [f"\u2581{i}" for i in range(n)], min(n, MOST_PIECES)
    figure = draw_attention(pieces, pieces[:40], np.eye(n)[:40], "title")
    assert labels(figure) == (pieces[:drawn], pieces[:40])
    assert figure.axes[0].images[0].get_array().shape == (min(40, n), drawn)
    cut = f"\n(the first {MOST_PIECES} of {n} pieces)" if n > drawn else ""
    assert figure.axes[0].get_title() == f"title{cut}"


def test_what_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.gif: unknown picture format; use one of \.png, \.pdf, \.svg"):
        attention_picture(tmp_path / "a.gif", SRC, TGT, WEIGHTS, "title")
    with pytest.raises(DataError, match=r"the directory .*no does not exist"):
        attention_picture(tmp_path / "no" / "a.png", SRC, TGT, WEIGHTS, "title")
    assert list(tmp_path.iterdir()) == []
