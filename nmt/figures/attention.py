"""Figures of attention weights, and functions that write figures to files."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from nmt.console import listed, say
from nmt.errors import DataError
from nmt.files.write import open_output

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AttentionWeights = npt.NDArray[np.floating]

ENDINGS = (".png", ".pdf", ".svg")
MOST_PIECES = 120
"""Maximum number of pieces per side of an attention figure; more would be unreadable and take too much memory."""


def check_picture(output: Path) -> None:
    """Raise DataError unless `output` ends in .png, .pdf or .svg and its directory exists."""
    if output.suffix.lower() not in ENDINGS:
        raise DataError(f"{output}: unknown picture format; use one of {', '.join(ENDINGS)}")
    if not output.parent.is_dir():
        raise DataError(f"{output}: the directory {output.parent} does not exist")


def save_picture(figure: Figure, output: Path) -> None:
    """Write a figure atomically, in the format of the file extension; text in PDF and SVG remains text.

    Raises DataError as `check_picture` does.
    """
    from matplotlib import rc_context

    check_picture(output)
    data = io.BytesIO()
    with warnings.catch_warnings(), rc_context({"svg.fonttype": "none", "pdf.fonttype": 42}):
        # the font lacks many scripts, for which boxes are drawn; type 42 is TrueType, while 3 is not text for all
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(data, format=output.suffix[1:].lower(), dpi=150)
    with open_output(output) as file:
        file.write(data.getvalue())


def _families(text: str) -> Iterator[str]:
    """Yield installed fonts that have the characters of a text. A warning names those that no font has."""
    from matplotlib.font_manager import fontManager, get_font

    lacking = {*text}
    for entry in sorted(fontManager.ttflist, key=lambda entry: entry.name != "DejaVu Sans"):
        if lacking and "Last Resort" not in entry.name:  # which has boxes
            font = get_font(entry.fname)
            if found := {character for character in lacking if font.get_char_index(ord(character))}:
                lacking -= found
                yield entry.name
    if lacking:
        say(f"warning: boxes are drawn for {listed(sorted(lacking), 8)}, which no installed font has")


def draw_attention(
    src_pieces: Sequence[str], tgt_pieces: Sequence[str], weights: AttentionWeights, title: str
) -> Figure:
    """Draw attention weights (T, S) in shades of grey, with a row for each target piece.

    At most the first `MOST_PIECES` pieces of each side are drawn; the title says so. A warning names characters that no
    installed font has.
    """
    from matplotlib.figure import Figure  # importing matplotlib takes 0.3 s

    longest = max(len(src_pieces), len(tgt_pieces))
    if longest > MOST_PIECES:
        title += f"\n(the first {MOST_PIECES} of {longest} pieces)"
    src_labels, tgt_labels = ([*map(_drawable, pieces[:MOST_PIECES])] for pieces in (src_pieces, tgt_pieces))
    families = [*_families("".join(src_labels + tgt_labels))]
    figure = Figure(figsize=(1.5 + 0.35 * len(src_labels), 1.5 + 0.3 * len(tgt_labels)), layout="constrained")
    axes = figure.subplots()
    axes.imshow(weights[:MOST_PIECES, :MOST_PIECES], cmap="gray_r", vmin=0.0, vmax=1.0, aspect="auto")
    axes.set_xticks(range(len(src_labels)), labels=src_labels, rotation=90, family=families)
    axes.set_yticks(range(len(tgt_labels)), labels=tgt_labels, family=families)
    axes.set_xlabel("source pieces")
    axes.set_ylabel("target pieces")
    axes.set_title(title)
    return figure


def _drawable(piece: str) -> str:
    """Return a piece as a label without control characters and with `$` escaped, since it would start a formula."""
    return "".join(c if c.isprintable() else "?" for c in piece).replace("$", r"\$")
