"""Measure the time, memory and page size of a comparison of made-up text.

    python -m scripts.measure.page [--lines 10000] [--systems 3] [--out page.html]

Of each system's words 15 % are wrong and 5 % are missing, and in every third line a phrase is in another place.
"""

from __future__ import annotations

import argparse
import random
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from nmt.evaluate.compare.compare import compare
from nmt.evaluate.compare.page import page
from nmt.evaluate.compare.systems import Group, System, TextToTranslate

_WORDS = 20_000

Result = TypeVar("Result")


def main() -> None:
    """Measure one comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=10_000)
    parser.add_argument("--systems", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rng = random.Random(1)
    words = ["".join(rng.choices("aeioubdfglmnrstz", k=rng.randint(2, 9))) for _ in range(_WORDS)]
    sources, references = (tuple(_line(rng, words) for _ in range(options.lines)) for _ in range(2))
    groups = []
    for number in range(options.systems):
        lines = tuple(_damaged(rng, line, words) for line in references)
        groups.append(Group(f"system {number + 1}", (System(f"system {number + 1}", lines),)))
    text = TextToTranslate("test", references, sources, ("de", "en"))
    comparison = _measured("counting and tests", lambda: compare(text, groups))
    result = _measured("page", lambda: page(comparison).encode())
    print(f"page: {len(result) / 1e6:.1f} MB")
    print(f"memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")
    if options.out is not None:
        options.out.write_bytes(result)


def _measured(what: str, do: Callable[[], Result]) -> Result:
    wall, cpu = time.perf_counter(), time.process_time()
    result = do()
    print(f"{what}: {time.perf_counter() - wall:.1f} s, {time.process_time() - cpu:.1f} s of CPU time")
    return result


def _line(rng: random.Random, words: list[str]) -> str:
    """Return a line whose words are as frequent as in natural text, about."""
    ranks = (min(int(rng.paretovariate(0.6)), len(words)) - 1 for _ in range(rng.randint(5, 45)))
    return " ".join(words[rank] for rank in ranks) + "."


def _damaged(rng: random.Random, line: str, words: list[str]) -> str:
    kept = [word for word in line.split(" ") if rng.random() >= 0.05]
    kept = [rng.choice(words) if rng.random() < 0.15 else word for word in kept]
    if rng.random() < 1 / 3:
        start = rng.randrange(len(kept) + 1)
        phrase = kept[start : start + rng.randint(1, 4)]
        del kept[start : start + len(phrase)]
        at = rng.randint(0, len(kept))
        kept[at:at] = phrase
    return " ".join(kept)


if __name__ == "__main__":
    main()
