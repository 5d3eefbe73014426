"""Measure how often BLEU and chrF prefer the worse of two systems, by the share of references with four tokens.

    python -m scripts.measure.short_references TEXT [TEXT …] [--lang de] [--pairs 60]

Each set has as many lines as its row says, drawn from the lines of TEXT with fewer than four tokens and from those with
6 to 14. Two systems are made of it by changing words at random: most of these are replaced by a word of the text, some
are left out, and some are repeated up to three times, as models of few updates do. The second system has more changed
words than the first, so it is the worse one. Equal scores count as half an error.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from pathlib import Path

from sacrebleu.metrics.bleu import BLEU

from nmt.evaluate.metrics import MetricName, corpus_score, default_tokenizer, few_four_grams
from nmt.text.lines import read_lines

METRICS: tuple[MetricName, ...] = ("bleu", "chrf")
SETS = ((30, 3), (200, 0), (200, 2), (200, 6), (200, 10), (200, 16), (200, 20), (200, 40))
"""Numbers of lines, and of those with four tokens."""
RATES = ((0.01, 0.04), (0.05, 0.1))
"""Shares of changed words of the better and of the worse system."""


def changed(line: str, rate: float, words: Sequence[str], rng: random.Random) -> str:
    """Return a line in which this share of the words is replaced (60 %), left out (15 %) or repeated (25 %)."""
    result: list[str] = []
    for word in line.split():
        drawn = rng.random() / rate
        if drawn < 0.6:
            result.append(rng.choice(words))
        elif drawn < 0.75:
            continue
        elif drawn < 1:
            result += [word] * rng.choice((2, 3, 4))
        else:
            result.append(word)
    return " ".join(result)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", nargs="+", metavar="TEXT")
    parser.add_argument("--lang", default="de")
    parser.add_argument("--pairs", type=int, default=60)
    options = parser.parse_args()
    tokenizer = BLEU(tokenize=default_tokenizer(options.lang)).tokenizer
    short, long = list[str](), list[str]()
    words = list[str]()
    for path in options.texts:
        for line in map(str.strip, read_lines(Path(path))):
            n = len(tokenizer(line).split())
            if 1 <= n < 4:
                short.append(line)
            elif 6 <= n <= 14:
                long.append(line)
            words += line.split()
    rng = random.Random(1)
    print(f"{len(short):,} short and {len(long):,} longer lines, {options.pairs} pairs of systems a row\n")
    heading = [f"{metric}, {first:.0%} and {second:.0%}" for first, second in RATES for metric in ("BLEU", "chrF")]
    show("lines", "with four tokens", *heading, "the rule")
    show(*["---"] * 7)
    for n, n_long in SETS:
        row = []
        for rates in RATES:
            errors = dict.fromkeys(METRICS, 0.0)
            for _ in range(options.pairs):
                refs = rng.sample(short, n - n_long) + rng.sample(long, n_long)
                systems = [[changed(line, rate, words, rng) for line in refs] for rate in rates]
                for metric in METRICS:
                    better, worse = (corpus_score(metric, texts, refs, options.lang).value for texts in systems)
                    errors[metric] += 0.5 if better == worse else better < worse
            row += [f"{n_errors / options.pairs:.1%}" for n_errors in errors.values()]
        show(f"{n}", f"{n_long / n:.0%}", *row, "chrF" if few_four_grams(refs, options.lang) else "BLEU")


def show(*cells: str) -> None:
    print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
