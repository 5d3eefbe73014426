"""The benchmark beside other toolkits: what can be known without them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nmt.config.load import load_config
from nmt.data.batching import Pairs
from nmt.data.corpus import Corpus
from nmt.layout import DataDir
from nmt.training.loop import fit
from scripts.bench.peer import Counts
from scripts.bench.peers import PEERS, nmt
from scripts.bench.probe import Meter
from scripts.bench.table import Row, render
from scripts.bench.task import MEASURED, NEVER, THREADS, VOCABULARY
from scripts.bench.windows import Step, summary
from tiny_corpus import tiny_settings

ONE = Counts(pairs=10, tgt=100, tgt_positions=125, src=90, src_positions=100)


def steps(*times: float, busy: tuple[float, float] = (0.0, 0.0)) -> list[Step]:
    """Equal steps that end at these times; other processes use a whole core between the two moments `busy`."""
    begin, end = busy
    return [Step(time, ONE, min(max(time, begin), end)) for time in times]


def test_summary_takes_the_median_of_quiet_windows() -> None:
    fast, slow, again = steps(*range(11)), steps(15, 20, busy=(10, 20)), steps(*range(21, 31), busy=(10, 20))
    found = summary(fast + slow + again, warm=0)
    assert [round(rate) for rate in found["tgt_per_s_of_windows"]] == [100, 100, 20, 20, 100, 100]
    assert (found["tgt_per_s"], found["quiet_windows"], found["windows"]) == (100.0, 4, 6)
    loud = summary(steps(*range(11), busy=(0, 11)), warm=0)
    assert (loud["tgt_per_s"], loud["quiet_windows"], loud["others"]) == (100.0, 0, 1.0)


def result(rate: float, **changes: Any) -> dict[str, Any]:
    """A result of the probe."""
    made = summary(steps(*(i * 100 / rate for i in range(200))), warm=0)
    return {**made, "tgt_per_s": rate, "first_step_s": 4.0, "peak_rss_mb": 1000.0, "threads": THREADS, **changes}


def test_table_shows_medians_ratios_failures_and_loud_windows() -> None:
    rows = [
        Row(PEERS["nmt-auto"], [result(300), result(330)]),
        Row(PEERS["eole"], [result(100), result(100)]),
        Row(PEERS["onmt"], [result(90), result(90, quiet_windows=0)]),
        Row(PEERS["hf"], [None, result(50)], "was not measured: hf.log"),
    ]
    _, _, ours, eole, onmt, hf, _, *notes = render(rows).split("\n")
    assert "| 315 (300 / 330) | 3.15 |" in ours and "| 1.00 |" in eole
    assert "90 (90 / 90*)" in onmt and "50 (failed / 50)" in hf
    assert notes[-1] == "nmt auto / Eole 0.6.4: 3.15 (by round 3.00 to 3.30)"


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
