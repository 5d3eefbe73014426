"""`nmt export`: what it finds out about what it writes, and what it refuses; runs/test_export.py has trained runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from export_run import LINES, card_of, section, tokenizer, write_run
from nmt.config import SearchConfig
from nmt.config.load import changed_config, dump_config, load_config
from nmt.errors import CheckpointError, DataError
from nmt.evaluate.metrics import corpus_score
from nmt.layout import RunDir
from nmt.model.transformer import Transformer
from nmt.runs.folder import load_folder
from nmt.runs.info import add_scores
from nmt.share import export as stage
from nmt.share.engine import Engine, save_ctranslate2
from nmt.share.engine_check import Comparison, check_tolerance, compare, made_up_lines, search_for_check
from nmt.share.export import Request, export
from nmt.translate.translator import Translator
from scored_run import record
from screen import rows, terminal

# --- the model card -------------------------------------------------------------------------------


def test_without_its_data_directory_a_run_is_exported_all_the_same(tmp_path: Path) -> None:
    found = export(Request(write_run(tmp_path / "run"), check_lines=5), tmp_path / "out", "ctranslate2")
    assert found.comparison is not None
    assert (found.comparison.n_lines, found.comparison.n_identical) == (5, 5)
    text = card_of(tmp_path / "out")[1]
    assert "5 of 5 translations identical (100.0%)" in text
    assert "--engine ctranslate2" in section(text, "Use")
    assert "pairs" not in section(text, "Training data")
    with pytest.raises(DataError, match=r"^nowhere: "):
        export(Request(tmp_path / "run", evaluate=True), tmp_path / "other", "folder")


def test_a_development_set_that_was_split_off_is_told(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run") / "config.yaml"
    config = changed_config(load_config(run), ["data.valid=300"])
    run.write_text(dump_config(config), encoding="utf-8")
    export(Request(tmp_path / "run"), tmp_path / "out", "folder")
    training_data = section(card_of(tmp_path / "out")[1], "Training data")
    assert training_data.count("development set") == 1
    assert "- development set: split off the training text" in training_data


def test_the_scores_of_exactly_these_weights_are_in_the_card(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    export(Request(run), tmp_path / "none", "folder")
    assert "## Quality" not in card_of(tmp_path / "none")[1]
    for each in (
        record(bleu=11.0, step=7), record("other", bleu=12.0, step=7, precision="float32"),
        record("foreign", bleu=13.0, step=8), record("foreign", bleu=14.0, step=7, weights="ema"),
        record("foreign", bleu=15.0, step=7, averaged=[6, 7]), record("valid", bleu=16.0, step=7),
        record(bleu=21.0, step=7), record("lower", bleu=22.0, step=7, version="2.5.0", notes=["lowercased"]),
    ):  # fmt: skip
        add_scores(RunDir(run), each)
    export(Request(run), tmp_path / "out", "folder")
    quality = section(card_of(tmp_path / "out")[1], "Quality").strip().splitlines()
    search = "beam 5, length penalty power 1"
    header = "| test set | lines | BLEU | chrF | TER | search | precision | date |"
    assert quality[2:] == [
        header, "|---|---|---|---|---|---|---|---|",
        f"| test | 1,000 | 21.00 | 42.00 | 79.00 | {search} | bf16 | 2026-03-04 |",
        f"| other | 1,000 | 12.00 | 24.00 | 88.00 | {search} | float32 | 2026-03-04 |",
        "",
        "- BLEU: BLEU|nrefs:1|case:mixed|version:2.6.0", "- chrF: chrF2|nrefs:1|case:mixed|version:2.6.0",
        "- TER: TER|nrefs:1|case:mixed|version:2.6.0  (lower is better)",
        "",
        header, "|---|---|---|---|---|---|---|---|",
        f"| lower | 1,000 | 22.00 | 44.00 | 78.00 | {search} | bf16 | 2026-03-04 |",
        "",
        "- BLEU: BLEU|nrefs:1|case:mixed|version:2.5.0", "- chrF: chrF2|nrefs:1|case:mixed|version:2.5.0",
        "- TER: TER|nrefs:1|case:mixed|version:2.5.0  (lower is better)",
    ]  # fmt: skip


# --- the comparison -------------------------------------------------------------------------------


def spoil(change: Callable[[Transformer], None]) -> Callable[..., None]:
    """`save_ctranslate2` of a model that is changed before it is written."""

    def save(model: Transformer, *rest: Any) -> None:
        changed = Transformer(rest[0], *map(len, rest[2]))
        changed.load_state_dict(model.state_dict())
        with torch.no_grad():
            change(changed)
        save_ctranslate2(changed, *rest)

    return save


CHANGES: dict[str, Callable[[Transformer], Any]] = {
    "a bias": lambda model: model.encoder.layers[0].feed_forward.inner.bias[3].add_(0.3),
    "a norm": lambda model: model.decoder.layers[0].attention_residual.norm.weight[5].mul_(1.1),
    "a projection": lambda model: model.decoder.layers[0].cross_attention.in_weight[17].mul_(1.1),  # type: ignore[union-attr]
    "a piece": lambda model: model.decoder.embedding.weight[40:].mul_(1.01),
    "not a number": lambda model: model.decoder.layers[0].feed_forward.outer.bias[0].fill_(math.nan),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_model_that_is_not_the_run_s_is_an_error(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write_run(tmp_path / "run")
    monkeypatch.setattr(stage, "save_ctranslate2", spoil(CHANGES[name]))
    with pytest.raises(CheckpointError, match=r"the exported model is not that of the run: .* should differ by less"):
        export(Request(run, check_lines=5), tmp_path / "out", "ctranslate2")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]
    monkeypatch.setattr(stage, "save_ctranslate2", spoil(lambda _: None))
    export(Request(run, check_lines=5), tmp_path / "out", "ctranslate2")


def test_what_is_compared_is_what_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of another model no translation is the same, and BLEU tells."""
    runs = [write_run(tmp_path / name, norm=name) for name in ("pre", "post")]
    export(Request(runs[1], check_lines=2), tmp_path / "out", "ctranslate2")
    native, engine = Translator.load(runs[0], device="cpu"), Engine(load_folder(tmp_path / "out"))
    screen = terminal(monkeypatch)
    found = compare(native, engine, LINES, SearchConfig(beam=2, max_length_ratio=1.0))
    assert any("100% comparing the engines" in row for row in rows(screen))
    assert found.n_lines == len(LINES)
    assert found.n_identical < len(LINES) / 2
    assert found.forced_difference > 0.1
    assert found.bleu.value < 90


def test_a_difference_is_judged_by_the_number_format() -> None:
    bleu = corpus_score("bleu", ["a"], ["a"])
    check_tolerance(Comparison(9, 9, 1e-6, 9e-4, bleu), "float32")
    check_tolerance(Comparison(9, 9, 0.0, 0.1, bleu), "int8")
    for differences in ((0.0, 2e-3), (2e-3, 0.0), (math.nan, 0.0), (0.0, math.nan)):
        with pytest.raises(CheckpointError):
            check_tolerance(Comparison(9, 9, *differences, bleu), "float32")


def test_engines_are_compared_by_settings_that_both_have() -> None:
    assert search_for_check(SearchConfig(beam=3)) == SearchConfig(beam=3)
    for settings in ({"coverage_penalty": 0.1}, {"sample": True}, {"mbr": "chrf"}):
        assert search_for_check(SearchConfig(beam=3, **settings)) == SearchConfig()  # type: ignore[arg-type]


def test_lines_are_made_of_the_vocabulary() -> None:
    lines = made_up_lines(tokenizer("joint"), 30)
    assert len(set(lines)) > 25
    assert all(line.strip() for line in lines)
    assert lines == made_up_lines(tokenizer("joint"), 30)


def test_lines_of_a_file(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    (tmp_path / "lines").write_text("".join(f"{line}\n" for line in ["", *LINES]), encoding="utf-8")
    found = export(Request(run, check=tmp_path / "lines", check_lines=4), tmp_path / "a", "ctranslate2").comparison
    assert found is not None
    assert found.n_lines == 4
    with pytest.raises(DataError, match=r"lines: its first 1 lines are blank: nothing to check with$"):
        export(Request(run, check=tmp_path / "lines", check_lines=1), tmp_path / "b", "ctranslate2")
    with pytest.raises(DataError, match=r"none: no such file$"):
        export(Request(run, check=tmp_path / "none"), tmp_path / "b", "ctranslate2")
