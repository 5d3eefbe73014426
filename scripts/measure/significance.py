"""Measure how often the tests of `nmt compare` find a difference between equal and between different systems.

    python -m scripts.measure.significance [--out runs/significance] [--runs 120] [--updates 350] [--jobs 2]

Trains a pool of tiny models on data/sample that differ only in their seed, and some for twice as many updates, then
prints tables for four questions:

1. Lines of two runs' translations are exchanged at random, 400 times: how often do the systems made so differ?
2. Do two groups of three runs differ that differ only in their seeds? 20 pairs of groups, which share no run.
3. Is a difference found: twice the updates, or every tenth word of the translations replaced?
4. Do groups of three differ whose expected scores are equal, because the scores are made so?

A run takes about 10 seconds of one core, the tables 5 minutes (OMP_NUM_THREADS=1). The tables and the runs'
translations of the development set are kept in --out; the same command goes on where it was stopped. No checkpoint is
selected on the development set, so it is as good as any.
"""

from __future__ import annotations

import argparse
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import IO

import numpy as np

from nmt import api
from nmt.evaluate.metrics import METRICS, LineCounts, count_lines, of_line_scores
from nmt.evaluate.significance import bootstrap_scores, randomization_tests, seeds_and_lines, two_sided_p
from nmt.files.write import open_output
from nmt.layout import RunDir

SETTINGS: dict[str, object] = {
    "model.d_model": 64, "model.d_ff": 128, "model.encoder_layers": 1, "model.decoder_layers": 1,
    "model.embedding_dropout": 0, "model.residual_dropout": 0, "search.beam": 1, "search.max_length_ratio": 2,
    "training.device": "cpu", "training.precision": "float32", "training.update_tokens": 512,
    "training.peak_lr": 6e-3, "training.warmup_steps": 30, "training.average_last": 1,
}  # fmt: skip
LANGUAGE = "en"
REFERENCES = Path("data/sample") / f"dev.{LANGUAGE}"
GROUP, N_EXCHANGES, N_PAIRS, N_DRAWS = 3, 400, 20, 1000
DAMAGE = 0.1
LEVELS = (0.05, 0.01)
MADE = (
    (0.1, 0, 2), (0.3, 0, 2), (0, 0, 2), (0.1, 2, 2), (0.3, 2, 2), (0.02, 3, 0.5), (1, 0, 0.1),
)  # fmt: skip
"""Standard deviations of a line's score over seeds, of the difference between the groups over lines, and of what is of
one seed and line."""

Systems = Sequence[LineCounts]
Test = Callable[[Systems, Systems], float]
"""p of the difference between two groups."""


def main() -> None:
    """Train what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/significance"))
    parser.add_argument("--runs", type=int, default=2 * GROUP * N_PAIRS, help="size of the pool")
    parser.add_argument("--longer", type=int, default=12, help="runs of twice the updates; 0: leave them out")
    parser.add_argument("--updates", type=int, default=350)
    parser.add_argument("--jobs", type=int, default=1, help="trainings at a time")
    options = parser.parse_args()
    data = api.prepare("sample.yaml", SETTINGS, options.out / "data")
    tasks = [(options.updates, seed) for seed in range(options.runs)]
    tasks += [(2 * options.updates, options.runs + seed) for seed in range(options.longer)]
    with ProcessPoolExecutor(options.jobs, get_context("spawn")) as processes:
        translations = list(processes.map(partial(train, options.out, data), *zip(*tasks, strict=True)))
    pool, longer = translations[: options.runs], translations[options.runs :]
    harmed = [damaged(lines, seed) for seed, lines in enumerate(pool)]
    with open_output(options.out / "tables.md") as file:
        for metric in METRICS:
            counted = count_lines(metric, [*pool, *longer, *harmed], read(REFERENCES))
            systems = counted[: len(pool)], counted[len(pool) : -len(pool)], counted[-len(pool) :]
            write(report(*systems), file)
        write(report_made(), file)


def write(lines: Iterator[str], file: IO[bytes]) -> None:
    """Print lines as they come, and write them."""
    for line in lines:
        print(line, flush=True)
        file.write(f"{line}\n".encode())


def train(out: Path, data: Path, updates: int, seed: int) -> list[str]:
    """Return a run's translations of the development set; train it unless they are kept."""
    kept = out / f"{updates}-{seed}.{LANGUAGE}"
    if not kept.exists():
        settings = {**SETTINGS, "training.max_steps": updates, "training.seed": seed}
        settings |= dict.fromkeys((f"training.{key}_every_steps" for key in ("validate", "save", "log")), updates)
        run = RunDir(out / f"run-{updates}-{seed}")
        shutil.rmtree(run.path, ignore_errors=True)
        api.train("sample.yaml", settings, data, run.path)
        (translations,) = run.dev.iterdir()
        translations.rename(kept)
        shutil.rmtree(run.path)
    return read(kept)


def read(path: Path) -> list[str]:
    """Return the lines of a file."""
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def damaged(lines: Sequence[str], seed: int) -> list[str]:
    """Return the lines with a share of the words, `DAMAGE`, replaced by others of the text."""
    rng = random.Random(seed)
    words = [word for line in lines for word in line.split()]
    return [" ".join(rng.choice(words) if rng.random() < DAMAGE else word for word in line.split()) for line in lines]


def report(pool: Systems, longer: Systems, harmed: Systems) -> Iterator[str]:
    """Yield the tables of a metric."""
    scores = np.array([run.score() for run in pool])
    yield f"\n## {pool[0].metric.signature}\n"
    yield f"{len(pool)} runs: {scores.mean():.2f} ± {scores.std(ddof=1):.2f}, {scores.min():.2f} to {scores.max():.2f}"
    yield header(f"{N_EXCHANGES} pairs of systems, lines exchanged")
    pairs = list(exchanged(pool, N_EXCHANGES))
    for name, test in LINE_TESTS:
        yield row(name, [test(*pair) for pair in pairs])
    yield header(f"{N_PAIRS} pairs of groups that differ only in their seeds")
    for name, test in (*GROUP_TESTS, *LINE_TESTS):
        yield row(name, [test(*pair) for pair in drawn(pool, pool, N_PAIRS)])
    yield header(f"{N_DRAWS:,} pairs, which overlap")
    for name, test in (*GROUP_TESTS, *LINE_TESTS[:1]):
        yield row(name, [test(*pair) for pair in drawn(pool, pool, N_DRAWS)])
    # half of the pool each, so that no run is beside its own damaged translations
    for name, others in ("twice the updates", longer), (f"{DAMAGE:.0%} of the words replaced", harmed[1::2]):
        if not others:
            continue
        gain = np.mean([run.score() for run in others]) - scores.mean()
        yield header(f"{N_PAIRS} pairs, {name} ({gain:+.2f})")
        for test_name, test in GROUP_TESTS[:1] + LINE_TESTS[:1]:
            yield row(test_name, [test(*pair) for pair in drawn(pool[::2], others, N_PAIRS)])


def report_made() -> Iterator[str]:
    """Yield a table of made groups whose expected scores are equal."""
    rng = np.random.default_rng(1)
    for seeds, lines, both in MADE:
        pairs = [made(rng, seeds, lines, both) for _ in range(N_DRAWS)]
        yield header(f"{N_DRAWS:,} pairs of made groups; deviations: seeds {seeds}, lines {lines}, both {both}")
        for name, test in GROUP_TESTS:
            yield row(name, [test(*pair) for pair in pairs])


def made(rng: np.random.Generator, seeds: float, lines: float, both: float) -> tuple[Systems, Systems]:
    """Return two groups of runs with normal scores on 300 lines, by standard deviations of a line's score."""
    common = rng.normal(0, 3, 300)
    groups = []
    for expected in (common, common + rng.normal(0, lines, 300)):
        by_run = [expected + rng.normal(0, seeds) + rng.normal(0, both, 300) for _ in range(GROUP)]
        groups.append([of_line_scores("made", list(scores), "made") for scores in by_run])
    return groups[0], groups[1]


def header(title: str) -> str:
    """Return the first lines of a table."""
    return f"\n| {title} | p ≤ .05 | p ≤ .01 |\n|---|---|---|"


def row(name: str, ps: Sequence[float]) -> str:
    """Return a row of a table: how many p are at most each level."""
    counts = [sum(p <= level for p in ps) for level in LEVELS]
    return f"| {name} | " + " | ".join(f"{count} ({count / len(ps):.1%})" for count in counts) + " |"


def exchanged(pool: Systems, n: int) -> Iterator[tuple[Systems, Systems]]:
    """Yield pairs of systems whose lines are those of two runs, exchanged at random."""
    rng = np.random.default_rng(1)
    for _ in range(n):
        first, second = (pool[i] for i in rng.choice(len(pool), 2, replace=False))
        keep = rng.integers(0, 2, (len(first.counts), 1), dtype=bool)
        sides = np.where(keep, first.counts, second.counts), np.where(keep, second.counts, first.counts)
        one, other = (LineCounts(first.metric, side) for side in sides)
        yield [one], [other]


def drawn(baseline: Systems, other: Systems, n: int) -> Iterator[tuple[Systems, Systems]]:
    """Yield pairs of groups of runs; those of one pool share no run if it has enough of them."""
    rng = random.Random(1)
    enough = 2 * GROUP * n <= len(baseline)
    shuffled = rng.sample(baseline, len(baseline))
    for i in range(n):
        if baseline is other:  # without a run on both sides
            both = shuffled[2 * GROUP * i : 2 * GROUP * (i + 1)] if enough else rng.sample(baseline, 2 * GROUP)
            yield both[:GROUP], both[GROUP:]
        else:
            yield rng.sample(baseline, GROUP), rng.sample(other, GROUP)


def by_lines(baseline: Systems, other: Systems, trials: int = 1000) -> float:
    """Return p of the first run of each group by approximate randomization."""
    return randomization_tests([(baseline[0], other[0])], trials)[0]


def by_paired_bs(baseline: Systems, other: Systems) -> float:
    """Return p of the first run of each group as `sacrebleu --paired-bs` computes it."""
    first, second = bootstrap_scores([baseline[0], other[0]], 1000)
    differences = np.abs(first - second)
    observed = abs(baseline[0].score() - other[0].score())
    return (int((differences - differences.mean() > observed).sum()) + 1) / (len(differences) + 1)


def by_multibootstrap(baseline: Systems, other: Systems, samples: int = 1000) -> float:
    """Return p by resampling runs and lines together (Sellam et al., 2022, The MultiBERTs)."""
    rng = np.random.default_rng(1)
    groups = np.split(bootstrap_scores([*baseline, *other], samples), 2)  # each sample has lines of its own
    first, second = (
        np.take_along_axis(scores, rng.integers(0, GROUP, scores.shape), axis=0).mean(0) for scores in groups
    )
    share = float((second > first).mean())
    return 2 * min(share, 1 - share)


def counted_twice(baseline: Systems, other: Systems) -> float:
    """Return p of the test with the plain sum of both variances, which both contain what varies with seed and line."""
    test = seeds_and_lines(baseline, other)
    return two_sided_p(test.value / np.hypot(test.seed_error, test.line_error), test.degrees_of_freedom)


GROUP_TESTS: tuple[tuple[str, Test], ...] = (
    ("seeds and lines", lambda baseline, other: seeds_and_lines(baseline, other).p),
    ("seeds and lines, what varies with both counted twice", counted_twice),
    ("multi-bootstrap of seeds and lines", by_multibootstrap),
)
LINE_TESTS: tuple[tuple[str, Test], ...] = (
    ("lines alone: approximate randomization", by_lines),
    ("lines alone: `sacrebleu --paired-bs`", by_paired_bs),
)

if __name__ == "__main__":
    main()
