"""Copy lines from standard input to standard output with noise: a tenth of the words dropped, others moved a little.

    python -m scripts.experiments.noise < train.de > noised.de

The same lines always get the same noise. Words move by at most two places or so (Lample et al., 2018, arXiv:1711.00043,
section 2.3).
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence

DROPPED = 0.1
MOVED = 3.0


def noised(words: Sequence[str], rng: random.Random) -> list[str]:
    """Return the words with noise, at least one of them."""
    kept = [word for word in words if rng.random() >= DROPPED] or [*words]
    places = [i + rng.uniform(0, MOVED) for i in range(len(kept))]
    return [kept[i] for i in sorted(range(len(kept)), key=places.__getitem__)]


if __name__ == "__main__":
    numbers = random.Random(1)
    for line in sys.stdin:
        print(*noised(line.split(), numbers))
