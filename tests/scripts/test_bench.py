"""The benchmark beside other toolkits: what can be known without them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from fitting import fit
from nmt.config.load import load_config
from nmt.data.corpus import Corpus
from nmt.data.rows import RowBatch
from nmt.layout import DataDir
from scripts.bench.peer import Counts
from scripts.bench.peers import PEERS, marian, nmt
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
    monkeypatch.setattr(RowBatch, "to", RowBatch.to)  # so that it is put back
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
    assert (real[0], real[1], real[3]) == (split.n, len(split.ids("bb")) + split.n, len(split.ids("aa")) + split.n)
    assert real[1] < real[2] < 1.5 * real[1], "rows are filled with several sentences"


LOG = """\
[2026-11-30 06:19:23] Ep. 1 : Up. 1 : Sen. 375 : Cost 9.54 * 4,037 @ 4,037 after 4,037 : Time 5.01s : 801.39 words/s
[2026-11-30 06:19:28] Ep. 1 : Up. 2 : Sen. 1,597 : Cost 9.53 * 3,577 @ 3,577 after 7,614 : Time 5.02s : 702.39 words/s
[2026-11-30 06:19:33] Ep. 2 : Up. 3 : Sen. 300 : Cost 9.51 * 3,000 @ 3,000 after 10,614 : Time 5.02s : 702.39 words/s
"""


def test_updates_of_marian_are_counted_from_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "pymarian"
    program.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{LOG}END\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(marian, "learned", marian.learned)  # so that it is put back
    meter = Meter(1e9, lambda _: None)
    training = PEERS["marian"].training
    assert training is not None and meter.watch(training) is None
    marian.train()
    assert [step.counts[:2] for step in meter.steps] == [(375, 4037), (1222, 3577), (300, 3000)]


@pytest.mark.parametrize("arm", nmt.ARMS, ids=lambda arm: arm.name)
def test_configuration_of_nmt_is_valid(arm: Any, tmp_path: Path) -> None:
    arguments = arm.training.arguments(tmp_path / "text", tmp_path, MEASURED)
    sets = [word.removeprefix("--set=") for word in arguments if word.startswith("--set=")]
    config = load_config(arguments[arguments.index("--config") + 1], sets)
    assert (config.tokenizer.vocab_size, config.training.max_steps) == (VOCABULARY, NEVER)
    assert {value for name, value in config.model if name.endswith("_dropout")} == {0.1}
