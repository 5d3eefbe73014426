"""Make the text and the random weights of an experiment: a public model, and a domain to which it is adapted.

    python -m scripts.experiments.public DATA OUTPUT [WIDTH LAYERS]

DATA has the corpora of scripts/experiments/general.yaml. OUTPUT gets a Marian directory with random weights, made by
transformers and SentencePiece (`marian`), the general text without the domain, and the domain, libreoffice, with
blocks of lines held out as development and test set. scripts/experiments/public.sh does the rest.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "tests" / "helpers"))
from marian import Marian

GENERAL = ["tatoeba", "multi30k", "wesnoth", "ding", "europarl", "opennmt10k", "news_commentary", "ted"]
HELD_OUT = {
    "valid": "newstest/newstest2013", "newstest2014": "newstest/newstest2014", "tatoeba-test": "tatoeba/test",
    "tatoeba-valid": "tatoeba/valid",
}  # fmt: skip
BLOCK = 50
"""Number of consecutive lines that are held out together: neighbours in software help resemble each other."""


def main(arguments: Sequence[str]) -> None:
    """Write everything."""
    data, output = map(Path, arguments[:2])
    width, n_layers = map(int, arguments[2:] or (256, 3))
    output.mkdir(parents=True)
    sides: dict[str, list[str]] = {}
    for language in ("de", "en"):
        text = sides[language] = []
        for name in GENERAL:
            lines = _lines(data / name / f"train.{language}")
            if name == "europarl":
                _write(output / f"europarl-test.{language}", lines[-1000:])
                lines = lines[:-1000]
            text += lines
        for name, path in HELD_OUT.items():
            _write(output / f"{name}.{language}", _lines(data / f"{path}.{language}"))
        _write(output / f"general.{language}", text)
        _split(_lines(data / "libreoffice" / f"train.{language}"), output, language)
    kind = Marian(vocab_size=8000, d_model=width, n_layers=n_layers, has_bias=False)
    kind.write(output / "marian", sides["de"], sides["en"])


def _split(lines: list[str], output: Path, language: str) -> None:
    """Hold out of every 60 blocks of lines one as development set, and three as test set."""
    parts: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
    for number, start in enumerate(range(0, len(lines), BLOCK)):
        part = {0: "valid", 30: "test", 1: "test", 31: "test"}.get(number % 60, "train")
        parts[part] += lines[start : start + BLOCK]
    for part, text in parts.items():
        _write(output / f"domain-{part}.{language}", text)
    _write(output / f"domain-some.{language}", parts["train"][:20_000])


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def _write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
