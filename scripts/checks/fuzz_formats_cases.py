"""Cases of `fuzz_formats`: damaged files, and what must be found in them."""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from nmt.config.source import Source, TrainFiles, TrainPath
from nmt.prepare.pairs import parse_score
from scripts.checks.fuzz_formats_files import ARCHIVES, COMPRESSIONS, FORMATS, LANGUAGES, archived, damage

Pairs: TypeAlias = list[tuple[str, str]]


@dataclass
class Case:
    """A file, or two aligned ones, and how it is read."""

    source: Source
    n_damages: int
    is_damaged_outside: bool = False
    """Whether it was damaged after it was compressed or put into an archive with checksums."""
    expected: Pairs | None = None
    """The pairs that must be found if it is read at all, if that is known."""


def make_case(kind: str, number: int, seed: int, folder: Path) -> Case:
    """Write the files of a case."""
    rng = random.Random(f"{seed} {kind} {number}")
    suffix, makers = FORMATS[kind]
    other = rng.choice(rng.choice([makers for _, makers in FORMATS.values()]))() if rng.random() < 0.3 else b"other"
    n_damages = rng.choice([1, 1, 1, 2, 2, 3, 4])
    outer = rng.choice(["", "", *COMPRESSIONS, *ARCHIVES]) if kind != "moses" else ""
    is_outside = bool(outer) and rng.random() < 0.5
    if kind == "aligned":
        return _aligned_case(rng, folder, other, n_damages, is_outside)
    content = good = rng.choice(makers)()
    n_inside = 0 if is_outside else n_damages
    for _ in range(n_inside):
        content = damage(content, other, rng)
    name = f"file{suffix}"
    inner, path = content, folder / f"file{suffix}{outer}"
    if outer in COMPRESSIONS:
        content = COMPRESSIONS[outer](content)
    elif outer:
        path, content = folder / f"file{outer}", archived(outer, name, content, rng)
    for _ in range(n_damages - n_inside):
        content = damage(content, other, rng)
    path.write_bytes(content)
    settings: dict[str, object] = {"path": path.name}
    if kind == "moses":
        settings["format"] = "moses"
    if kind in ("tsv", "jsonl", "tmx") and b'{"translation"' not in good and rng.random() < 0.3:
        settings["score"] = "score"
    if b'{"translation"' in good:
        settings["columns"] = {"de": "translation.de", "en": "translation.en"}
    source = TrainPath.model_validate(settings)
    expected = None if is_outside and outer == ".tar" else _expected(kind, inner, source)  # it has no checksums
    return Case(source, n_damages, kind == "moses" or (is_outside and outer != ".tar"), expected)


def _aligned_case(rng: random.Random, folder: Path, other: bytes, n_damages: int, is_outside: bool) -> Case:
    contents = [maker() for maker in FORMATS["aligned"][1]]
    damaged = [rng.randrange(2) for _ in range(n_damages)]
    suffixes = [rng.choice(["", *COMPRESSIONS]) for _ in contents]
    if not is_outside:
        for side in damaged:
            contents[side] = damage(contents[side], other, rng)
    written = [COMPRESSIONS[suffix](each) if suffix else each for suffix, each in zip(suffixes, contents, strict=True)]
    if is_outside:
        for side in damaged:
            written[side] = damage(written[side], other, rng)
            contents[side] = contents[side] if suffixes[side] else written[side]
    files = {language: f"file.{language}{suffix}" for language, suffix in zip(LANGUAGES, suffixes, strict=True)}
    for name, content in zip(files.values(), written, strict=True):
        (folder / name).write_bytes(content)
    lines = [_lines(content) for content in contents]
    expected = None
    if len(lines[0]) == len(lines[1]):
        expected = [(_text(one), _text(two)) for one, two in zip(*lines, strict=True)]
    return Case(TrainFiles(files=files), n_damages, expected=expected)


# --- what must be found -------------------------------------------------------------------------------


def _lines(content: bytes) -> list[bytes]:
    lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    return [line.removesuffix(b"\r") for line in (lines if lines[-1] else lines[:-1])]


def _text(line: bytes) -> str:
    return line.decode(errors="replace")


def _expected(kind: str, content: bytes, source: TrainPath) -> Pairs | None:
    """Return the pairs of a file that has records in lines, None if that is not known."""
    rows = [line for line in _lines(content) if line.strip()]
    if kind == "tsv" and rows and rows[0] == b"de\ten\tscore":
        cells = [_text(row).split("\t") for row in rows[1:]]
        cells = [row for row in cells if len(row) == 3 and (not source.score or parse_score(row[2]) is not None)]
        return [(row[0], row[1]) for row in cells]
    if kind == "jsonl":
        try:
            objects = [json.loads(row) for row in rows]
            texts = [(each.get("translation") or {}) if source.columns else each for each in objects]
            scores = [parse_score(each.get("score")) for each in objects]
        except (ValueError, AttributeError, RecursionError):
            return None
        is_left = [not source.score or score is not None for score in scores]
        found = [(each.get("de"), each.get("en")) for each, is_there in zip(texts, is_left, strict=True) if is_there]
        return [(str(de), str(en)) for de, en in found if _is_text(de) and _is_text(en)]
    return None


def _is_text(value: object) -> bool:
    return isinstance(value, str) and re.search("[\ud800-\udfff]", value) is None
