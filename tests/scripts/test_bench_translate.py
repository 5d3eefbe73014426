"""The benchmark of translation beside other toolkits: what can be known without them."""

from __future__ import annotations

from pathlib import Path

from nmt.config.load import load_config
from scripts.bench.model import brief
from scripts.bench.peers import PEERS
from scripts.bench.task import MEASURED, THREADS
from scripts.bench.translate_table import FORCED, Row, render


def test_all_toolkits_learn_for_equally_many_updates(tmp_path: Path) -> None:
    plan = brief(600)
    assert plan.peak_lr < MEASURED.peak_lr < 2 * plan.peak_lr
    for peer in PEERS.values():
        if peer.training is None:
            continue
        run = tmp_path / peer.name
        run.mkdir()
        words = peer.training.arguments(tmp_path / "text", run, plan)
        written = " ".join([*words, *(file.read_text(encoding="utf-8") for file in run.iterdir())])
        assert "600" in written and str(plan.batch_tokens) in written, peer.name
    config = load_config(tmp_path / "nmt-auto" / "bench.yaml")
    assert (config.training.max_steps, config.training.update_tokens) == (600, plan.batch_tokens)


def test_table_of_equal_work_has_a_row_for_each_toolkit() -> None:
    numbers = ("tgt_per_s", "pairs_per_s", "quiet_windows", "windows", "start_s", "peak_rss_mb", "pieces_mean")
    result = {**dict.fromkeys(numbers, 15.0), "threads": THREADS, "note": "", "pieces_least": 15, "pieces_most": 15}
    search = next(iter(FORCED.values()))
    rows = [Row(PEERS["nmt-auto"], {search: [result, None]}), Row(PEERS["hf"], {search: [result]})]
    table = render(rows, "")
    assert "| nmt auto | 15 (15 / failed) |" in table and "| 1.00" in table
