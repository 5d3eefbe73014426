"""The benchmark beside other toolkits: what can be known without them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fitting import fit
from nmt.config.load import load_config
from nmt.data.batching import Pairs
from nmt.data.corpus import Corpus
from nmt.layout import DataDir
from scripts.bench.peer import Counts
from scripts.bench.peers import PEERS, nmt
from scripts.bench.probe import Meter
from scripts.bench.task import MEASURED, NEVER, VOCABULARY
from scripts.bench.windows import Step, summary
from tiny_corpus import tiny_settings

ONE = Counts(pairs=10, tgt=100, tgt_positions=125, src=90, src_positions=100)


def steps(*times: float, busy: tuple[float, float] = (0.0, 0.0)) -> list[Step]:
    """Return equal steps that end at these times; other processes use a whole core during the interval `busy`."""
    begin, end = busy
    return [Step(time, ONE, min(max(time, begin), end)) for time in times]


def test_summary_is_the_median_of_quiet_windows() -> None:
    fast, slow, again = steps(*range(11)), steps(15, 20, busy=(10, 20)), steps(*range(21, 31), busy=(10, 20))
    found = summary(fast + slow + again, warm=0)
    assert [round(rate) for rate in found["tgt_per_s_of_windows"]] == [100, 100, 20, 20, 100, 100]
    assert (found["tgt_per_s"], found["quiet_windows"], found["windows"]) == (100.0, 4, 6)
    loud = summary(steps(*range(11), busy=(0, 11)), warm=0)
    assert (loud["tgt_per_s"], loud["quiet_windows"], loud["others"]) == (100.0, 0, 1.0)


def test_meter_counts_every_target_token_once(tiny_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pairs, "batch", Pairs.batch)  # so that it is put back
    never = dict.fromkeys(("max_steps", "validate_every_steps", "save_every_steps"), 1000)
    config = tiny_settings(tiny_data.parent / "text", training={"max_epochs": 1, **never})
    meter = Meter(1e9, lambda _: None)
    training = PEERS["nmt-float32"].training
    assert training is not None
    handle = meter.watch(training)
    try:
        fit(config, tiny_data, tmp_path / "run")
    finally:
        handle.remove()
    split = Corpus.open(DataDir(tiny_data)).split("train")
    real = [sum(step.counts[i] for step in meter.steps) for i in range(5)]
    assert real[0] == split.n
    assert real[1] == len(split.ids("bb")) + split.n
    assert real[3] == len(split.ids("aa")) + split.n


@pytest.mark.parametrize("arm", nmt.ARMS, ids=lambda arm: arm.name)
def test_configuration_of_nmt_is_valid(arm: Any, tmp_path: Path) -> None:
    arguments = arm.training.arguments(tmp_path / "text", tmp_path, MEASURED)
    sets = [word.removeprefix("--set=") for word in arguments if word.startswith("--set=")]
    config = load_config(arguments[arguments.index("--config") + 1], sets)
    assert config.tokenizer.vocab_size == VOCABULARY
    assert {value for name, value in config.model if name.endswith("_dropout")} == {0.1}
    assert config.training.max_steps == NEVER
