"""How well does `nmt align` find the pairs of a document? F1 on parallel corpora, with and without a run.

    python -m scripts.measure.sentence_alignment FOLDER... [--lines N] [--run RUN] [--seed N] [--hunalign PROGRAM]

Each FOLDER has train.de and train.en. Lines are joined at random to paragraphs of one to five lines, and divided into
sentences as `nmt align` does; 5 % of the target's sentences are removed. A pair that was found is right if its source
and target sentences come from the same lines. Precision: right pairs among those found; recall: lines in right pairs
among lines with sentences on both sides. The program of https://github.com/danielvarga/hunalign is measured on the same
sentences, with an empty dictionary and -realign, which learns one from the text.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

from nmt.text.sentence_alignment import Bead, align
from nmt.text.split import sentences
from nmt.translate.loading import Translator

Origins = list[frozenset[int]]
"""The lines from which each sentence comes."""


def document(lines: list[str], paragraphs: list[range]) -> tuple[list[str], Origins]:
    """Return the sentences of a text, and their origins."""
    found, origins = [], list[frozenset[int]]()
    for paragraph in paragraphs:
        text = " ".join(lines[n].strip() for n in paragraph)
        ends = [n for n in paragraph for _ in range(len(lines[n].strip()) + 1)]
        start = 0
        for sentence in sentences(text):
            start = text.index(sentence, start)
            found.append(sentence)
            origins.append(frozenset(ends[start : start + len(sentence)]))
            start += len(sentence)
    return found, origins


def f1(beads: list[Bead], src: Origins, tgt: Origins) -> tuple[float, float, float]:
    """Return precision, recall and F1."""
    lines = [
        tuple(
            frozenset[int]().union(*(origins[i] for i in span)) for origins, span in ((src, bead.src), (tgt, bead.tgt))
        )
        for bead in beads
        if bead.src and bead.tgt
    ]
    right = [one for one, other in lines if one == other]
    both = frozenset().union(*src) & frozenset().union(*tgt)
    precision, recall = len(right) / len(lines), len(frozenset().union(*right) & both) / len(both)
    return precision, recall, 2 * precision * recall / (precision + recall)


def aligned_by_hunalign(program: Path, source: list[str], target: list[str]) -> list[Bead]:
    """Return the beads that hunalign finds; words and punctuation marks are separated, as it needs."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("empty", "source", "target")]
        for path, text in zip(paths, ([], source, target), strict=True):
            lines = (" ".join(re.findall(r"\w+|[^\w\s]", sentence)) for sentence in text)
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        done = subprocess.run(
            [program.resolve(), "-realign", *paths], cwd=folder, capture_output=True, check=True, text=True
        )
    rungs = [line.split("\t") for line in done.stdout.splitlines()]
    places = [(int(i), int(j), float(score)) for i, j, score in rungs]
    return [Bead(range(one[0], two[0]), range(one[1], two[1]), one[2]) for one, two in pairwise(places)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--lines", type=int, default=10_000)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hunalign", type=Path)
    given = parser.parse_args()
    translator = None if given.run is None else Translator.load(given.run)
    for folder in given.folders:
        rng = random.Random(given.seed)
        texts = [
            (folder / f"train.{code}").read_text(encoding="utf-8").splitlines()[: given.lines] for code in ("de", "en")
        ]
        cuts, n = [0], len(texts[0])
        while cuts[-1] < n:
            cuts.append(min(n, cuts[-1] + rng.randint(1, 5)))
        paragraphs = [range(*both) for both in pairwise(cuts)]
        (source, src), (target, tgt) = (document(lines, paragraphs) for lines in texts)
        kept = [i for i in range(len(target)) if rng.random() >= 0.05]
        target, tgt = [target[i] for i in kept], [tgt[i] for i in kept]
        translations = None if translator is None else translator.translate(source, beam=1)
        ways: dict[str, Callable[[], list[Bead]]] = {"nmt align": partial(align, source, target, translations)}
        if given.hunalign is not None:
            ways["hunalign"] = partial(aligned_by_hunalign, given.hunalign, source, target)
        for name, way in ways.items():
            start = time.perf_counter()
            beads = way()
            seconds = time.perf_counter() - start
            precision, recall, both = f1(beads, src, tgt)
            print(
                f"{name}, {folder.name}: {len(source):,} and {len(target):,} sentences, precision {precision:.4f}, "
                f"recall {recall:.4f}, F1 {both:.4f}, {seconds:.1f} s"
            )


if __name__ == "__main__":
    main()
