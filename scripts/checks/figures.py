"""Which figures of the documentation stand in no table of scripts/results, and which gains name no seeds?

    python -m scripts.checks.figures [CHECKOUT]

The pages are README.md, docs/*.md, and the measurements that `nmt config --explain` shows. A figure is a number beside
a unit ("12 %", "3.4 times as fast", "7 minutes"), or any number with decimals in a passage that speaks of a measurement
("BLEU", "per second"). Numbers in words, in code and in versions are not looked at. A passage is a paragraph, an item
of a list or a row of a table. It must link to a file of scripts/results, or to one of its sections, that has the figure
with as many decimals or more. Items and rows have the links of the paragraph before them, too.

A paragraph or item with a figure of BLEU, chrF or TER must say of how many runs or seeds it is; docs/results.md says it
once for all. Numbers that measure nothing, such as limits, are listed in `NO_MEASUREMENTS` with the words around them.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KNOWN = "nmt/config/known.yaml"
SAYS_ONE_RUN = "docs/results.md"

NO_MEASUREMENTS = {
    "README.md": ["| 4.5 million |", "28.4 ([Vaswani et al., 2017]", "3.5 days"],  # published by others
    "docs/commands.md": ["99.5 % of these lines", "5 changes 5 % of", "10 times as long for files. At least 0.1"],
    "docs/comparing.md": [
        "(p 0.13)",
        "3.3 inches",
        "6.9 inches",
        "p below 0.05",
        "and 10 % of all places",
        "If they are 1 % or more",
    ],
    "docs/contributing.md": ["at least 90 %"],
    "docs/data.md": ["*10 % of the lines", "more than 0.1 %"],
    "docs/deploying.md": ["limited to 2 GB"],
    "docs/documents.md": ["more than 256 MB", "more than 16 MB"],
    "docs/evaluating.md": ["| below 10 |", "| 10 to 30 |", "| 30 to 50 |", "| from 50 |"],
    "docs/exporting.md": ["if 99.5 %"],
    "docs/new-language.md": ["more than 1 BLEU"],  # published by others
    "docs/public-models.md": ["10 % those of the start and 90 %"],
    "docs/recipes.md": ["+0.64 for", "+0.27 for", "+0.40 for", "+0.13 for", "−0.15 for"],  # published by others
    "docs/serving.md": ["90% of the letters", "512 MB, or 32", "768 MB", "30 s", "64 MB", "most 1.4 GB", "allow 2 GB"],
    "docs/settings.md": ["up to 0.4 %", "less than 2% of", "(7, 3.5,", "50%)", "than 2 seconds"],
    "docs/training.md": ["than 20 minutes", "90 seconds", "80 % of the pairs"],
    "docs/your-data.md": ["more than 5 % of the lines"],
}
"""Page -> words with limits, settings, rules of thumb, and figures of others. "(p 0.13)" is of the output above it."""

FENCE = re.compile(r"^```.*?^```$", re.M | re.S)
CODE = re.compile(rf"{FENCE.pattern}|`[^`]+`", re.M | re.S)
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
HEADING = re.compile(r"^(#+) (.*)$", re.M)
ITEM = re.compile(r"^(?:[*-]|\d+\.) .*\n?(?:^ +.*\n?)*", re.M)
NOT_MEASURED = re.compile(
    r"95 % (?:confidence )?intervals?"
    r"|\b(?:Apache|Argos Translate|BY(?:-\w+)*|CTranslate2|Debian|Eole|fairseq|gettext|HTTP|JoeyNMT|LibreTranslate"
    r"|Marian|OmegaT|OpenNMT-py|OpusFilter|Python|PyTorch|sacreBLEU|Sockeye|TMX|Toolkit|torch|transformers|version"
    r"|XLIFF|YAML)[ /]\d[\d.]*(?:(?:, | and | to )\d\.\d+)*"
)
"""Levels of intervals, and versions of programs, formats and licences."""
SCORE = r"BLEU|chrF|TER|COMET"
MEASURE = re.compile(
    rf"\b(?:{SCORE}|F1)\b|Spearman|accuracy|perplexity|per second|/s\b|times (?:as|the)\b|\bp 0"
    r"|\d (?:%|[kMG]B|m?s|min|minutes|seconds)(?!\w)"
)
NUMBER = re.compile(r"(?<![\w.,:/#-])\d+(?:,\d{3})*(?:\.\d+)?(?![\w-]|[.,:/]\d)")
UNIT = re.compile(
    rf"(?: to [−+]?[\d.,]+)? ?(?:%|(?:{SCORE}|[kMG]B|[µm]?s|min|minutes|seconds|times as|times the)\b"
    r"|[a-z ]*(?:/s\b|per second))"
)
SEEDS = re.compile(r"\bseeds?\b|\b(?:one|single|two|three|five|\d+) (?:run|model)s?\b|\bruns? (?:of )?each\b", re.I)


@dataclass(frozen=True)
class Passage:
    line: int
    text: str
    links: list[str]
    introduction: str = ""
    """The paragraph before a list or table."""
    headers: tuple[str, ...] = ()
    """Of a row of a table: the header of each cell."""


def slug(heading: str) -> str:
    """Return the anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def targets(text: str) -> list[str]:
    return [target for _, target in LINK.findall(text)]


def passages(page: str) -> Iterator[Passage]:
    page = CODE.sub(lambda match: re.sub(r"\S", "_", match[0]), page)
    introduction = ""
    for block in re.finditer(r"(?:^.*\S.*\n?)+", page, re.M):
        text, line = block[0], page.count("\n", 0, block.start()) + 1
        if text.startswith("#"):
            introduction = ""
        elif text.startswith("|"):
            rows = text.splitlines()
            headers = tuple(rows[0].split("|"))
            for n, row in enumerate(rows):
                yield Passage(line + n, row, targets(introduction + row), introduction, headers)
        elif ITEM.match(text):
            for item in ITEM.finditer(text):
                at = line + text.count("\n", 0, item.start())
                yield Passage(at, item[0], targets(introduction + item[0]), introduction)
        else:
            introduction = text
            yield Passage(line, text, targets(text))


def plain(text: str) -> str:
    """Return a text without links, versions and line breaks."""
    text = " ".join(LINK.sub(r"\1", text).replace(r"\|", "").split())
    return NOT_MEASURED.sub(lambda match: re.sub(r"\d", "_", match[0]), text)


def figures(passage: Passage) -> Iterator[str]:
    """Yield the numbers of a passage that must stand in a table."""
    text = plain(passage.text)
    context = " ".join((text, *passage.headers, plain(passage.introduction) if passage.headers else ""))
    for number in NUMBER.finditer(text):
        column = text.count("|", 0, number.start())
        is_score = "." in number[0] and MEASURE.search(context)
        if is_score or UNIT.match(text, number.end()) or (passage.headers and MEASURE.search(passage.headers[column])):
            yield number[0]


def value(number: str) -> float:
    return float(number.replace(",", ""))


def stands_in(number: str, evidence: str) -> bool:
    """Return whether a text has this number, or one that is rounded to it: 26.5 for 26.53, and 157,000 for 157,101."""
    digits = number.replace(",", "")
    if "." in digits:
        places = len(digits.split(".")[1])
    else:
        places = len(digits.rstrip("0")) - len(digits) if len(digits) > 3 else 0
    half = 0.5 * 10**-places * (1 + 1e-9)
    others = re.findall(r"(?<![\w.,:])\d+(?:,\d{3})*(?:\.\d+)?(?!\w)", evidence)
    return any(abs(value(other) - value(number)) <= half for other in others)


def section(page: str, anchor: str) -> str:
    """Return the part of a page under the heading with this anchor; the whole page without an anchor."""
    headings = [(len(heading[1]), slug(heading[2]), heading.start()) for heading in HEADING.finditer(page)]
    for n, (level, name, start) in enumerate(headings):
        if name == anchor:
            ends = [end for other, _, end in headings[n + 1 :] if other <= level]
            return page[start : ends[0] if ends else len(page)]
    return "" if anchor else page


def evidence(links: list[str], page: Path, results: Path) -> str:
    """Return the text, without code, of the files and sections of scripts/results to which a page links."""
    texts = []
    for link in links:
        target, _, anchor = link.partition("#")
        path = (page.parent / target).resolve()
        if path.parent == results and path.suffix == ".md" and path.is_file():
            texts.append(CODE.sub("", section(FENCE.sub("", path.read_text(encoding="utf-8")), anchor)))
    return "\n".join(texts)


def known_passages(text: str) -> Iterator[Passage]:
    """Yield the measurements of settings, which name their table at the end."""
    for entry in re.finditer(r"^[\w.]+:(.*\n(?: .*\n?)*)", text, re.M):
        at = text.count("\n", 0, entry.start()) + 1
        yield Passage(at, entry[1], [f"../../{target}" for target in re.findall(r"\S+\.md(?:#[\w-]+)?", entry[1])])


def findings(root: Path, name: str) -> Iterator[str]:
    """Yield a line for each figure of a page that no linked table has, and for each passage that names no seeds."""
    page = root / name
    text = page.read_text(encoding="utf-8")
    for words in NO_MEASUREMENTS.get(name, ()):
        pattern = r"\s+".join(re.escape(word) for word in words.split())
        text, n = re.subn(pattern, lambda match: re.sub(r"\d", "_", match[0]), text)
        if not n:
            yield f"{name}: NO_MEASUREMENTS has {words!r}, which is not there"
    for passage in known_passages(text) if name == KNOWN else passages(text):
        numbers = list(figures(passage))
        tables = evidence(passage.links, page, (root / "scripts/results").resolve())
        for number in numbers:
            if not stands_in(number, tables):
                yield f"{name}:{passage.line}: no linked table has {number}"
        has_scores = re.search(rf"\b(?:{SCORE})\b", passage.text)
        if numbers and has_scores and name != SAYS_ONE_RUN and not passage.headers and not SEEDS.search(passage.text):
            yield f"{name}:{passage.line}: of how many seeds or runs is this?"


def pages(root: Path) -> list[str]:
    return ["README.md", *sorted(f"docs/{path.name}" for path in root.glob("docs/*.md")), KNOWN]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", nargs="?", type=Path, default=ROOT)
    root = parser.parse_args().checkout
    lines = [line for name in pages(root) for line in findings(root, name)]
    print(*lines, f"{len(lines)} findings", sep="\n")
    sys.exit(bool(lines))


if __name__ == "__main__":
    main()
