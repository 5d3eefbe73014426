"""Invalid content of run.json and selected.json."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command import Command
from tiny_run import make, tiny_config, tiny_tokenizer, write_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    tokenizer, config = tiny_tokenizer(), tiny_config()
    return write_run(tmp_path / "run", config, tokenizer, make(tokenizer, config).searcher.models[0])


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("run.json", {"precision": "float31"}),
        ("run.json", {"precision": None}),
        ("run.json", {"data_dir": 5}),
        ("run.json", {"corpus": []}),
        ("run.json", {"auto_max_tokens": "many"}),
        ("selected.json", {"best_step": "x"}),
        ("selected.json", {"best_step": 7, "weights": "mean"}),
        ("selected.json", {"weights": "average", "average_steps": 3}),
        ("selected.json", {"finished_step": [1]}),
        ("selected.json", {"finished_by": 90}),
    ],
)
def test_wrong_type_raises(run: Path, name: str, changes: dict[str, object], nmt: Command) -> None:
    path = run / name
    before = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(before | changes))
    (run / "in").write_text("mali\n")
    result = nmt("translate", "--run", run, "--input", run / "in")
    assert (result.status, result.err.count("\n"), result.out) == (2, 1, "")
    assert result.err.startswith(f"nmt: {path}: damaged: ")
