"""Comparisons of made-up translations."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from nmt.evaluate.compare import Comparison, compare
from nmt.evaluate.compare.systems import Group, System, TextToTranslate
from sentences import sentence_pairs


def damaged(lines: Sequence[str], share: float, seed: int) -> tuple[str, ...]:
    """Return lines in which a share of the words is left out, doubled or reversed."""
    rng = random.Random(seed)
    result = []
    for line in lines:
        words = []
        for word in line.split():
            kind = rng.random() / share
            words += [word] if kind > 1 else [[], [word, word], [word[::-1]]][min(int(kind * 3), 2)]
        result.append(" ".join(words))
    return tuple(result)


def systems(references: Sequence[str], n: int = 3) -> list[Group]:
    """Return the systems `a`, `b` and `c`, of which b is the best."""
    shares = {"a": 0.3, "b": 0.2, "c": 0.4}
    return [group_of(name, damaged(references, shares[name], seed)) for seed, name in enumerate("abc"[:n])]


def group_of(name: str, *systems: Sequence[str], runs: Sequence[Path | None] = (None,)) -> Group:
    """Return a group of systems with these translations, named NAME, or NAME-1, NAME-2 and so on."""
    names = [name] if len(systems) == 1 else [f"{name}-{number}" for number, _ in enumerate(systems, start=1)]
    runs = [*runs, *[None] * (len(systems) - len(runs))]
    return Group(
        name, tuple(System(*each[:2], run=each[2]) for each in zip(names, map(tuple, systems), runs, strict=True))
    )


def text_of(pairs: Sequence[tuple[str, str]]) -> TextToTranslate:
    """Return a test set of German-English pairs."""
    sources, references = zip(*pairs, strict=True)
    return TextToTranslate("news", references, sources, ("de", "en"))


def comparison(n: int = 60, n_systems: int = 3) -> Comparison:
    """Compare systems on `n` lines, with few trials."""
    text = text_of(sentence_pairs(n))
    references = [line for line in text.references if isinstance(line, str)]
    return compare(text, systems(references, n_systems), trials=50)
