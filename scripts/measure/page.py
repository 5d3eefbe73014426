"""Measure the page of a comparison: CPU seconds, memory and size, on made-up text.

    python -m scripts.measure.page [--lines 10000] [--systems 3] [--out page.html]

The comparison itself, most of whose time is the counting of TER, is measured apart.
"""

from __future__ import annotations

import argparse
import random
import resource
import time
from pathlib import Path

from nmt.compare.compare import compare
from nmt.compare.page.page import page
from nmt.compare.types import Group, System, TextToTranslate

_WORDS = 20_000


def main() -> None:
    """Measure one page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=10_000)
    parser.add_argument("--systems", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rng = random.Random(1)
    words = ["".join(rng.choices("aeioubdfglmnrstz", k=rng.randint(2, 9))) for _ in range(_WORDS)]
    sources, references = ([_line(rng, words) for _ in range(options.lines)] for _ in range(2))
    groups = []
    for number in range(options.systems):
        lines = tuple(_damaged(rng, line, words) for line in references)
        groups.append(Group(f"system {number + 1}", (System(f"system {number + 1}", lines),)))
    text = TextToTranslate("test", tuple(references), tuple(sources), ("de", "en"))
    start = time.process_time()
    comparison = compare(text, groups, trials=1000)
    compared = time.process_time()
    result = page(comparison).encode()
    print(f"compare: {compared - start:.1f} s of CPU time, 1,000 trials")
    print(f"page: {time.process_time() - compared:.1f} s of CPU time, {len(result) / 1e6:.1f} MB")
    print(f"memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")
    if options.out is not None:
        options.out.write_bytes(result)


def _line(rng: random.Random, words: list[str]) -> str:
    """Return a line whose words are as frequent as in natural text, about."""
    ranks = (min(int(rng.paretovariate(0.6)), len(words)) - 1 for _ in range(rng.randint(5, 45)))
    return " ".join(words[rank] for rank in ranks) + "."


def _damaged(rng: random.Random, line: str, words: list[str]) -> str:
    return " ".join(rng.choice(words) if rng.random() < 0.15 else word for word in line.split(" "))


if __name__ == "__main__":
    main()
