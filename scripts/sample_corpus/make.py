"""Write the embedded German-English corpus: ``python -m scripts.sample_corpus.make [--out data/sample]``.

A pool of distinct pairs is drawn from the grammar in ``sample_corpus``. Then (lemma, construction) pairs are chosen,
by the seed, that training will never show: sentences with such a pair go to dev and test only.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from scripts.sample_corpus.patterns import write_pair
from scripts.sample_corpus.sentences import Pair, Use, Writer

SEED = 20240607
SIZES = (22000, 500, 500)
HELD_OUT_SHARE = 0.4  # of the sentences of dev and of test
HELD_OUT_LEMMAS = 0.34  # of the lemmas that have a construction to withhold
WITHHELD = {  # constructions that may be withheld: word order, case and role, never a form of its own
    "verb": ("inversion", "verb-final", "question", "zu-infinitive", "modal", "relative clause", "negated", "werden"),
    "noun": (
        "subject", "accusative object", "dative object", "genitive", "with genitive", "relative head",
        "with adjective", "after von", "after mit", "after über", "after nach", "counted", "location", "destination",
    ),
    "adjective": ("attributive", "predicative"),
}  # fmt: skip


@dataclass
class Corpus:
    """The three splits, and what training does not show."""

    train: list[Pair]
    dev: list[Pair]
    test: list[Pair]
    held_out: list[Use]


def draw_pool(seed: int, size: int) -> list[Pair]:
    """Distinct pairs: no German and no English sentence comes twice."""
    writer = Writer(seed)
    seen_de: set[str] = set()
    seen_en: set[str] = set()
    pool: list[Pair] = []
    while len(pool) < size:
        pair = write_pair(writer)
        if pair.de in seen_de or pair.en in seen_en or not 3 <= len(pair.de.split()) <= 22:
            continue
        seen_de.add(pair.de)
        seen_en.add(pair.en)
        pool.append(pair)
    return pool


def choose_held_out(pool: list[Pair], rng: random.Random) -> list[Use]:
    """At most one construction per lemma, of those that are frequent elsewhere."""
    pairs: Counter[Use] = Counter()
    lemmas: Counter[str] = Counter()
    constructions: Counter[tuple[str, str]] = Counter()
    for pair in pool:
        uses = sorted(set(pair.uses))
        pairs.update(uses)
        lemmas.update(sorted(set(pair.lemmas)))
        constructions.update((lemma.split()[0], construction) for lemma, construction in uses)
    chosen: list[Use] = []
    for lemma in sorted(lemmas):
        word_class = lemma.split()[0]
        options = [
            (lemma, construction)
            for construction in WITHHELD.get(word_class, ())
            if 10 <= pairs[lemma, construction] <= 0.5 * lemmas[lemma]
            and lemmas[lemma] - pairs[lemma, construction] >= 80
            and constructions[word_class, construction] >= 10 * pairs[lemma, construction]
        ]
        if options and rng.random() < HELD_OUT_LEMMAS:
            chosen.append(rng.choice(options))
    return chosen


def make_corpus(seed: int = SEED, sizes: tuple[int, int, int] = SIZES) -> Corpus:
    """Draw the pool and split it."""
    train_size, dev_size, test_size = sizes
    pool = draw_pool(seed, int(1.45 * sum(sizes)))
    rng = random.Random(seed + 1)
    held_out = choose_held_out(pool, rng)
    withheld = set(held_out)
    plain = [pair for pair in pool if not withheld.intersection(pair.uses)]
    held = [pair for pair in pool if withheld.intersection(pair.uses)]
    splits: list[list[Pair]] = []
    for size in (test_size, dev_size):
        count = round(HELD_OUT_SHARE * size)
        split = held[:count] + plain[: size - count]
        held, plain = held[count:], plain[size - count :]
        rng.shuffle(split)
        splits.append(split)
    train = plain[:train_size]
    if len(train) < train_size:
        raise SystemExit(f"the pool holds only {len(train)} training pairs")
    return Corpus(train, splits[1], splits[0], held_out)


def write_corpus(corpus: Corpus, out: Path) -> None:
    """One sentence per line, UTF-8, in ``{train,dev,test}.{de,en}``."""
    out.mkdir(parents=True, exist_ok=True)
    for name, pairs in (("train", corpus.train), ("dev", corpus.dev), ("test", corpus.test)):
        for language in ("de", "en"):
            lines = [pair.de if language == "de" else pair.en for pair in pairs]
            (out / f"{name}.{language}").write_bytes(("\n".join(lines) + "\n").encode("utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("data/sample"))
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--train", type=int, default=SIZES[0])
    parser.add_argument("--dev", type=int, default=SIZES[1])
    parser.add_argument("--test", type=int, default=SIZES[2])
    args = parser.parse_args()
    corpus = make_corpus(args.seed, (args.train, args.dev, args.test))
    write_corpus(corpus, args.out)
    print(f"wrote {len(corpus.train)} + {len(corpus.dev)} + {len(corpus.test)} pairs to {args.out}")


if __name__ == "__main__":
    main()
