"""The benchmark of translation beside other toolkits: what can be known without them."""

from __future__ import annotations

from pathlib import Path

from nmt.config.load import load_config
from scripts.bench.model import brief
from scripts.bench.peers import PEERS
from scripts.bench.task import MEASURED


def test_toolkits_train_for_the_same_number_of_updates(tmp_path: Path) -> None:
    plan = brief(600)
    assert plan.peak_lr < MEASURED.peak_lr < 2 * plan.peak_lr
    text = tmp_path / "text"
    text.mkdir()
    (text / "vocabulary.txt").write_text('▁a\n"\n', encoding="utf-8")
    for peer in PEERS.values():
        if peer.training is None:
            continue
        run = tmp_path / peer.name
        run.mkdir()
        words = peer.training.arguments(text, run, plan)
        written = " ".join([*words, *(file.read_text(encoding="utf-8") for file in run.iterdir())])
        assert "600" in written and str(plan.batch_tokens) in written, peer.name
    config = load_config(tmp_path / "nmt-auto" / "bench.yaml")
    assert (config.training.max_steps, config.training.update_tokens) == (600, plan.batch_tokens)
