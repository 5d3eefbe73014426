"""Make the text and the random weights of an experiment: a public model without Czech, to which Czech is added.

    python -m scripts.experiments.new_language MULTI30K OUTPUT [WIDTH LAYERS]

MULTI30K has train.LANGUAGE, val.LANGUAGE and test_2016_flickr.LANGUAGE for cs, de, en and fr. OUTPUT gets a directory
in the layout of NLLB with random weights, made by transformers and SentencePiece (`m2m`), whose vocabulary lacks the
Czech letters and whose tags lack Czech, the text from which it learns, and Czech-English text of several sizes.
scripts/experiments/new_language.sh does the rest.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "tests" / "helpers"))
from m2m import M2M

LETTERS = "ěščřžýáíůúďťňó"
"""The Czech letters that the vocabulary of the public model lacks, though its text has some of them in names."""
FIRST = 5000
"""The public model does not learn from the first lines, of which the Czech text consists if it has no more pairs."""
PAIRS = (1000, 5000, 20_000)
BESIDE = 4000
"""The number of lines of the known languages that are learned beside Czech."""


def main(arguments: Sequence[str]) -> None:
    """Write everything."""
    data, output = map(Path, arguments[:2])
    width, n_layers = map(int, arguments[2:] or (128, 4))
    output.mkdir(parents=True)
    learned: list[str] = []
    for language in ("cs", "de", "en", "fr"):
        lines = (data / f"train.{language}").read_text(encoding="utf-8").split("\n")[:-1]
        if language in ("cs", "en"):
            for n in PAIRS:
                _write(output / f"train-{n}.{language}", lines[:n])
        if language != "cs":
            _write(output / f"known.{language}", lines[FIRST:])
            _write(output / f"beside.{language}", lines[FIRST : FIRST + BESIDE])
            learned += lines[FIRST:]
        for name, split in (("valid", "val"), ("test", "test_2016_flickr")):
            (output / f"{name}.{language}").write_bytes((data / f"{split}.{language}").read_bytes())
    kind = M2M(is_nllb=True, d_model=width, n_layers=n_layers, vocab_size=6000, without=("ces_Latn",))
    without = str.maketrans("", "", LETTERS + LETTERS.upper())
    text = [line.translate(without) for line in learned]
    kind.write(output / "nllb", text, [])


def _write(path: Path, lines: Sequence[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
