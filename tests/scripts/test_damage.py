"""The script that measures how much damage cleaning finds."""

from __future__ import annotations

import random

import pytest

from nmt.data.settings import DataConfig
from nmt.data.sources import TrainFiles
from nmt.prepare.cleaning.settings import CleanConfig
from scripts.measure import damage
from sentences import sentence_pairs

CLEAN = CleanConfig(repair=["spaces"], drop=["copied", "shouted", "truncated"], misaligned=0.03)
CONFIG = DataConfig(direction="de-en", train=[TrainFiles(files={"de": "a", "en": "a"})], clean=CLEAN)


@pytest.mark.parametrize("kind", damage.KINDS)
def test_damage_depends_only_on_the_seed(kind: str) -> None:
    pairs = [("Öl für den Zug.", "Oil for the train."), ("Das Haus ist groß.", "The house is large.")]
    made = damage.KINDS[kind](pairs, 0, random.Random(1))
    assert made == damage.KINDS[kind](pairs, 0, random.Random(1))
    assert any(damage.KINDS[kind](pairs, 0, random.Random(seed)) != pairs[0] for seed in range(5))


def test_table_counts_outcomes_by_kind_and_step() -> None:
    pairs = sentence_pairs(700)
    made = damage.damaged(pairs, rate=0.5)
    assert [item.original for item in made] == pairs
    results = damage.outcomes(made, CONFIG)
    lines = {line.split(" | ")[0].strip("| "): line for line in damage.table(made, results)}
    for kind, part in {
        "copied": "| 100.0% | copied 100.0% |", "shouted": "shouted 100.0%", "truncated": "truncated",
        "swapped": "| 0.0% |", "good pairs lost": "| 0.0% |",
    }.items():  # fmt: skip
        assert part in lines[kind]
    n = [int(line.split(" | ")[1]) for line in lines.values() if line[2:6] not in ("kind", "---|")]
    assert sum(n) == 700
    assert any(line.startswith("swapped, missed: ") for line in damage.samples(made, results, 2))
