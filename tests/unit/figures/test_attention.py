"""Figures of attention weights."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from matplotlib.font_manager import fontManager

from nmt.figures.attention import draw_attention, save_picture

SRC, TGT = ["\u2581Der", "\u2581Hund", "</s>"], ["\u2581The", "\u2581do", "g", "</s>"]
WEIGHTS = np.array([[0.9, 0.1, 0.0], [0.2, 0.8, 0.0], [0.0, 1.0, 0.0], [0.1, 0.1, 0.8]], dtype=np.float32)


def test_attention_figure_has_labels_and_grey_scale() -> None:
    [axes] = draw_attention(SRC, TGT, WEIGHTS, "title").axes
    assert [[label.get_text() for label in side] for side in (axes.get_xticklabels(), axes.get_yticklabels())] == [
        SRC,
        TGT,
    ]
    [image] = axes.images
    np.testing.assert_array_equal(image.get_array(), WEIGHTS)
    assert [image.cmap(value)[:3] for value in image.get_clim()] == [(1.0, 1.0, 1.0), (0.0, 0.0, 0.0)]
    assert (image.get_clim(), axes.get_title()) == ((0.0, 1.0), "title")


@pytest.mark.parametrize("ending", [".png", ".pdf", ".svg"])
def test_pieces_of_any_script_are_drawn_without_warning(tmp_path: Path, ending: str) -> None:
    scripts = ["\u2581你好", "هذا", "कुत्ता", "\U0001f600"]
    pieces = [*scripts, "$x$", "$\\nothing$", "\\frac", "\u2581a_b^c", "\x07", "<0xF0>", "</s>"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save_picture(draw_attention(pieces, pieces, np.eye(len(pieces)), "你好 $"), tmp_path / f"a{ending}")
    start = (tmp_path / f"a{ending}").read_bytes()[:500]
    assert {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<svg"}[ending.lower()] in start
    assert [path.name for path in tmp_path.iterdir()] == [f"a{ending}"]


@pytest.mark.parametrize(
    ("pieces", "fonts", "boxes"),
    [
        (["\u2581Hund", "нет", "كتاب"], {"DejaVu Sans"}, ""),
        (["⏜", "⃝"], {"DejaVu Sans", "STIXGeneral"}, ""),  # mathematical marks, in a font of matplotlib
        (["ꊿꂷ", "ꊿ", "ab"], {"DejaVu Sans"}, "ꂷ, ꊿ"),
        ([chr(code) for code in range(0xA000, 0xA010)], {"DejaVu Sans"}, "ꀇ and 8 more"),
    ],
)
def test_pieces_are_drawn_in_fonts_that_have_their_characters(
    pieces: list[str], fonts: set[str], boxes: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    known = [
        font
        for font in fontManager.ttflist
        if font.name in ("DejaVu Sans", "STIXGeneral", "Last Resort High-Efficiency")
    ]
    monkeypatch.setattr(fontManager, "ttflist", known[::-1])
    [axes] = draw_attention([*pieces, "a"], ["b"], np.eye(1, len(pieces) + 1), "title").axes
    families = axes.get_xticklabels()[0].get_fontfamily()
    assert families[0] == "DejaVu Sans" and {*families} == fonts
    warning = capsys.readouterr().err
    assert warning == "" if not boxes else f"{boxes}, which no installed font has\n" in warning
