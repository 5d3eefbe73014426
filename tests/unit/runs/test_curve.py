"""The learning curve of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command import Command
from logged_run import make_run, train, valid


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_row_per_validation_with_every_kind_of_weights(nmt: Command) -> None:
    records = [
        valid(100, 9.0, perplexity=9.0), valid(100, 8.0, "ema"), train(150),
        valid(200, 9.0), valid(200, 9.5, "average", perplexity=9.5), {"kind": "valid", "step": 300, "bleu": "damaged"},
    ]  # fmt: skip
    make_run(Path("run"), records)
    done = nmt("runs", "--curve", "run")
    assert done.status == 0, done.err
    assert done.out.splitlines() == [
        "| minutes | steps | BLEU raw | moving average | mean of the last | chrF | perplexity |",
        "|---|---|---|---|---|---|---|",
        "| 1.0 | 100 | 9.0 | 8.0 |  | 18.0 | 9.00 |",
        "| 2.0 | 200 | 9.0 |  | 9.5 | 19.0 | 9.50 |",
    ]
    first, last = json.loads(nmt("runs", "--curve", "run", "--json").out)
    of_best = {"chrf": 18.0, "perplexity": 9.0, "accuracy": None}
    assert first == {"step": 100, "minutes": 1.0, "bleu": {"raw": 9.0, "ema": 8.0}, **of_best}
    assert last["bleu"] == {"raw": 9.0, "average": 9.5}


def test_what_is_not_in_the_log_is_left_out(nmt: Command) -> None:
    make_run(Path("run"), [{"kind": "valid", "step": 100, "bleu": 3}])
    assert nmt("runs", "--curve", "run").out.splitlines()[2:] == ["|  | 100 | 3.0 |  |  |  |  |"]


def test_runs_without_a_curve(nmt: Command) -> None:
    make_run(Path("run"), [train(100)])
    for run in ("none", "run"):
        done = nmt("runs", "--curve", run)
        assert (done.status, done.err) == (2, f"nmt: {run}: no run with a validation; nmt train makes one\n")
    done = nmt("runs", "elsewhere", "--curve", "run")
    assert done.status == 2 and "elsewhere and --curve run" in done.err
