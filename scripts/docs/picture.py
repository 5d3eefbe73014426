"""Draw docs/report.svg: the beginning of the report on a dry run of a damaged copy of the sample corpus. Or draw the
beginning of the page of a comparison, up to its charts of lines:

    python -m scripts.docs.picture
    python -m scripts.docs.picture report.html docs/comparison.svg

The picture is the page itself inside an SVG file, so it has the fonts and the dark mode of whoever looks at it.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from nmt.config.load import check_config
from nmt.prepare.prepare import dry_run

ROOT = Path(__file__).resolve().parent.parent.parent
PICTURE = ROOT / "docs" / "report.svg"
_LANGUAGES = ("de", "en")
_WIDTH, _HEIGHT = 1060, 1180
_AFTER_CHARTS = '<h2 id="parts">'  # of the page of a comparison
_CYRILLIC = "Этот ряд на другом языке."


def picture() -> str:
    """Return the picture."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        pairs = list(zip(*(_lines("train", language) for language in _LANGUAGES), strict=True))
        _write(Path(folder), "news", [*pairs[:2000], *pairs[500:650]])
        _write(Path(folder), "crawl", [_damaged(number, *pair) for number, pair in enumerate(pairs[1950:2950])])
        _write(Path(folder), "memory", [(en, de) for de, en in pairs[3000:3300]])
        _write(Path(folder), "dev", list(zip(*(_lines("dev", language) for language in _LANGUAGES), strict=True)))
        data = {
            "direction": "-".join(_LANGUAGES),
            "root": folder,
            "train": [{"files": _files(name), "name": name} for name in ("news", "crawl", "memory")],
            "valid": {"files": _files("dev"), "name": "dev"},
        }
        dry_run(check_config({"data": data}, "picture"), report=page, echo=lambda _: None)
        text = page.read_text(encoding="utf-8")
    return picture_of(text, "<h2>Scripts", _HEIGHT)


def picture_of(page: str, end: str, height: int) -> str:
    """Return the picture of a page from its beginning to where `end` stands in it, in `height` pixels."""
    style = page.partition("<style>")[2].partition("</style>")[0]
    body = page.partition("<body>")[2].partition("</body>")[0].partition(end)[0]
    body = body.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ')  # as XML each element names its namespace
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}">\n<style>{style}</style>\n'
        f'<foreignObject width="{_WIDTH}" height="{height}">\n<body xmlns="http://www.w3.org/1999/xhtml" '
        f'style="min-height: {height}px; box-sizing: border-box">{body}</body>\n</foreignObject>\n</svg>\n'
    )


def _damaged(number: int, de: str, en: str) -> tuple[str, str]:
    """Return a pair as it might be found on the web."""
    match number % 29:
        case 1:
            return de, ""
        case 2 | 3:
            return de, de
        case 4:
            return de, en[:3]
        case 5:
            return _CYRILLIC, en
        case 6:
            return f"{de} " * 40, f"{en} " * 40
        case 7:
            return f"{de}\0", en
        case _:
            return de, en


def _lines(split: str, language: str) -> list[str]:
    return (ROOT / "data" / "sample" / f"{split}.{language}").read_text(encoding="utf-8").splitlines()


def _files(name: str) -> dict[str, str]:
    return {language: f"{name}.{language}" for language in _LANGUAGES}


def _write(folder: Path, name: str, pairs: list[tuple[str, str]]) -> None:
    for language, lines in zip(_LANGUAGES, zip(*pairs, strict=True), strict=True):
        (folder / f"{name}.{language}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def main() -> None:
    """Draw the report, or the page and into the file that are named."""
    if len(sys.argv) == 1:
        PICTURE.write_text(picture(), encoding="utf-8")
    else:
        page, output = map(Path, sys.argv[1:])
        output.write_text(picture_of(page.read_text(encoding="utf-8"), _AFTER_CHARTS, _HEIGHT), encoding="utf-8")


if __name__ == "__main__":
    main()
