"""A search that nobody waits for ends at its next step."""

from __future__ import annotations

import pytest
import torch

from nmt.config import SearchConfig
from nmt.search.rules import Rules, SearchStopped, Stoppable, stop_if
from nmt.search.search import search
from tables import BANNED, TableModel, random_table

CONFIGS = [
    SearchConfig(beam=1),
    SearchConfig(beam=3),
    SearchConfig(beam=3, coverage_penalty=0.4),
    SearchConfig(sample=True),
]
IDS = ["greedy", "beam", "coverage", "sample"]
SENTENCES, TABLE = [0, 1, 2], random_table(1)


class Counted(TableModel):
    steps = 0

    def step(self, tokens):  # type: ignore[no-untyped-def]
        self.steps += 1
        return super().step(tokens)


@pytest.mark.parametrize("config", CONFIGS, ids=IDS)
def test_every_kind_of_search_stops_before_its_next_step(config: SearchConfig) -> None:
    model = Counted(TABLE, SENTENCES)
    rules = Rules(BANNED, torch.tensor([6] * len(SENTENCES)), 4)  # no sentence ends within the first steps
    with pytest.raises(SearchStopped):
        search(Stoppable(model, lambda: model.steps == 2), rules, config, SENTENCES)
    assert model.steps == 2


@pytest.mark.parametrize("config", CONFIGS, ids=IDS)
def test_what_need_not_stop_finds_the_same(config: SearchConfig) -> None:
    rules = Rules(BANNED, torch.tensor([6] * len(SENTENCES)))
    found = search(Stoppable(TableModel(TABLE, SENTENCES), lambda: False), rules, config, SENTENCES)
    assert found == search(TableModel(TABLE, SENTENCES), rules, config, SENTENCES)


def test_without_a_question_nothing_stops() -> None:
    stop_if(None)
    stop_if(lambda: False)
    with pytest.raises(SearchStopped):
        stop_if(lambda: True)
