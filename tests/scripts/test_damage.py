"""The script that measures how much damage cleaning finds."""

from __future__ import annotations

import random

import pytest

from nmt.config import DataConfig, Source
from nmt.config.clean import CleanConfig
from scripts.measure import damage
from sentences import sentence_pairs

CLEAN = CleanConfig(repair_spaces=True, copied="normal", shouted=True, truncated=True, misaligned=0.03)
CONFIG = DataConfig(direction="de-en", train=[Source(files={"de": "a", "en": "a"})], clean=CLEAN)


@pytest.mark.parametrize("kind", damage.KINDS)
def test_each_kind_damages_a_pair_in_the_same_way_each_time(kind: str) -> None:
    pairs = [("Öl für den Zug.", "Oil for the train."), ("Das Haus ist groß.", "The house is large.")]
    made = damage.KINDS[kind](pairs, 0, random.Random(1))
    assert made == damage.KINDS[kind](pairs, 0, random.Random(1))
    assert any(damage.KINDS[kind](pairs, 0, random.Random(seed)) != pairs[0] for seed in range(5))


def test_what_is_found_is_counted_by_kind_and_step() -> None:
    pairs = sentence_pairs(700)
    made = damage.damaged(pairs, rate=0.5)
    assert [item.original for item in made] == pairs
    results = damage.outcomes(made, CONFIG)
    lines = {line.split(" | ")[0].strip("| "): line for line in damage.table(made, results)}
    assert "| 100.0% | copied 100.0% |" in lines["copied"]
    assert "shouted 100.0%" in lines["shouted"]
    assert "truncated" in lines["truncated"]
    assert "| 0.0% |" in lines["swapped"]
    assert "| 0.0% |" in lines["good pairs lost"]
    n = [int(line.split(" | ")[1]) for line in lines.values() if line[2:6] not in ("kind", "---|")]
    assert sum(n) == 700
    assert any(line.startswith("swapped, missed: ") for line in damage.samples(made, results, 2))


def test_what_is_restored_is_found() -> None:
    made = [
        damage.Made("mojibake", ("ein  Hund", "a dog"), ("ein Hund", "a dog")),
        damage.Made("mojibake", ("x", "y"), ("a", "b")),
    ]
    assert damage.outcomes(made, CONFIG) == [damage.MENDED, ""]
