"""Measure constrained search: the share of terms that translations contain, BLEU without and with them, and CPU time.

    python -m scripts.measure.constraints --run DIR [--data FOLDER] [--beams 5,10] [--seed N] [--lines N]

Terms are drawn from the reference of each line of Multi30k's test_2016_flickr: one to three of one to three words, the
same for the same seed. BLEU is that of the translations without and with them, and of the latter the share of terms
that stand in the text; seconds are CPU time, comparable only with each other. The exit status is 1 if a term
is missing or BLEU is lower with terms.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt.cli.app import user_errors
from nmt.errors import DataError
from nmt.evaluate.metrics import Score, corpus_score
from nmt.search.settings import SearchConfig
from nmt.text.lines import read_lines
from nmt.translate.loading import Translator
from nmt.translate.types import Line

TEST = "test_2016_flickr"
Terms = tuple[str, ...]


def main() -> int:
    """Print the table; 1 if it does not hold what constraints promise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--data", type=Path, default=Path("data/multi30k"))
    parser.add_argument("--beams", default="5,10")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lines", type=int, default=0, help="only so many lines (0: all)")
    options = parser.parse_args()
    translator = Translator.load(options.run)
    data = translator.config.data
    src, refs = (_read(options.data / f"{TEST}.{language}", options.lines) for language in (data.src, data.tgt))
    rng = random.Random(options.seed)
    terms = [draw_terms(ref, rng) for ref in refs]
    print(f"{len(src)} lines, {sum(map(len, terms))} terms of the references, seed {options.seed}\n")
    print("| beam | terms | BLEU | terms present | lines with all | CPU seconds |\n|---|---|---|---|---|---|")
    is_good = True
    for beam in map(int, options.beams.split(",")):
        search = translator.config.search.model_copy(update={"beam": beam})
        plain = measure(translator, search, src, refs, [()] * len(src))
        held = measure(translator, search, src, refs, terms)
        for name, result in (("none", plain), ("all", held)):
            n_held, lines = present(result.texts, terms)
            share, whole = 100 * n_held / sum(map(len, terms)), 100 * lines / len(terms)
            print(
                f"| {beam} | {name} | {result.bleu.value:.2f} | {share:.2f} % | {whole:.2f} % | {result.seconds:.1f} |"
            )
        is_good &= lines == len(terms) and held.bleu.value >= plain.bleu.value
    print(f"\n{held.bleu.signature}")
    return 0 if is_good else 1


@dataclass(frozen=True)
class Result:
    """The translations of the text under one setting."""

    texts: list[str]
    bleu: Score
    seconds: float


def measure(
    translator: Translator, search: SearchConfig, src: Sequence[str], refs: Sequence[str], terms: Sequence[Terms]
) -> Result:
    """Translate the text with these terms."""
    lines = [Line(text, terms=each) for text, each in zip(src, terms, strict=True)]
    start = time.process_time()
    texts = [best[0].text for best in translator.translate_lines(lines, search)]
    seconds = time.process_time() - start
    return Result(texts, corpus_score("bleu", texts, refs, translator.config.data.tgt), seconds)


def draw_terms(ref: str, rng: random.Random) -> Terms:
    """One to three terms of one to three words of a reference, which do not overlap, without marks at their ends."""
    words = ref.split()
    taken: set[int] = set()
    terms = []
    for _ in range(rng.randint(1, 3)):
        n_words = min(rng.randint(1, 3), len(words))
        places = set(range(start := rng.randint(0, len(words) - n_words), start + n_words))
        term = " ".join(words[place] for place in sorted(places)).strip(" .,;:!?\"'")
        if term and not taken & places:
            taken |= places
            terms.append(term)
    return tuple(terms)


def present(texts: Sequence[str], terms: Sequence[Terms]) -> tuple[int, int]:
    """Return how many terms occur in their texts, as often as given, and how many lines have all of theirs."""
    held = [
        [text.count(term) >= each[: i + 1].count(term) for i, term in enumerate(each)]
        for text, each in zip(texts, terms, strict=True)
    ]
    return sum(map(sum, held)), sum(map(all, held))


def _read(path: Path, n_lines: int) -> list[str]:
    if not path.is_file():
        raise DataError(f"{path}: not found; give the folder with --data")
    lines = list(read_lines(path))
    return lines[: n_lines or None]


if __name__ == "__main__":
    with user_errors():
        raise SystemExit(main())
