"""Draw docs/session.svg, the end of `nmt demo` at a terminal, where some sentences were typed:

script --quiet --command 'nmt demo' session.log     # type sentences, then :quit
python -m scripts.docs.session session.log
"""

from __future__ import annotations

import re
import sys
from html import escape
from pathlib import Path

PICTURE = Path(__file__).resolve().parent.parent.parent / "docs" / "session.svg"
_COLUMNS, _SIZE, _LEADING, _MARGIN = 96, 13, 18, 16
_ADVANCE = 0.602 * _SIZE  # of a character, in the fonts named below
_STYLE = (
    "text { font-family: Menlo, Consolas, 'DejaVu Sans Mono', monospace; fill: #e6e6e6; white-space: pre; "
    f"font-size: {_SIZE}px }} .typed {{ fill: #9ecbff }} .soft {{ fill: #9aa0a6 }} rect {{ fill: #1e2127 }}"
)


def picture(log: str) -> str:
    """Return the picture of a terminal with the scores, and what follows them."""
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", log).replace("\r\n", "\n").split("\n")
    first = max(number for number, line in enumerate(lines) if line.startswith("BLEU  "))
    shown = ["$ nmt demo", "…", *[line for line in lines[first:] if line and not line.startswith("Script done")]]
    rows = []
    for number, line in enumerate(shown, start=1):
        kind = "typed" if line.startswith(("$ ", "> ")) else "soft" if line.startswith(("  ", "…", "nmt: ")) else ""
        cut = line if len(line) <= _COLUMNS else f"{line[: _COLUMNS - 1]}…"
        height = _MARGIN + number * _LEADING - 4
        rows.append(f'<text xml:space="preserve" class="{kind}" x="{_MARGIN}" y="{height}">{escape(cut)}</text>')
    width = round(2 * _MARGIN + _COLUMNS * _ADVANCE)
    height = 2 * _MARGIN + len(shown) * _LEADING
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}">\n<style>{_STYLE}</style>\n'
        f'<rect width="{width}" height="{height}" rx="6"/>\n' + "\n".join(rows) + "\n</svg>\n"
    )


if __name__ == "__main__":
    PICTURE.write_text(picture(Path(sys.argv[1]).read_text(encoding="utf-8")), encoding="utf-8")
