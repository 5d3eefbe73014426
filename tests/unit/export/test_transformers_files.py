"""What `nmt export --format transformers` writes and refuses; runs/test_transformers.py has the library load it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from command import Command
from export_run import with_search, write_run
from nmt.config import SearchConfig
from nmt.errors import CheckpointError
from nmt.runs.folder import verify_export
from nmt.share.export import Request, export
from nmt.share.transformers import not_carried


def generation(tmp_path: Path, *changes: str) -> dict[str, Any]:
    run = with_search(write_run(tmp_path / "run"), *changes)
    export(Request(run), tmp_path / "out", "transformers")
    found: dict[str, Any] = json.loads((tmp_path / "out" / "generation_config.json").read_text(encoding="utf-8"))
    return found


def test_settings_of_search_are_carried_over(tmp_path: Path) -> None:
    found = generation(tmp_path, "beam=4", "length_penalty=0.6", "min_length=2", "max_length=30", "no_repeat_ngram=3")
    wanted = {
        "num_beams": 4, "length_penalty": 0.6, "min_length": 3, "max_length": 32, "no_repeat_ngram_size": 3,
        "decoder_start_token_id": 2, "forced_eos_token_id": 3, "suppress_tokens": [0, 1, 2, *range(4, 20)],
    }  # fmt: skip
    assert found | wanted == found
    assert "do_sample" not in found


def test_sampling_is_carried_over(tmp_path: Path) -> None:
    found = generation(tmp_path, "sample=true", "temperature=0.7", "top_k=9", "top_p=0.9")
    wanted = {"num_beams": 1, "do_sample": True, "temperature": 0.7, "top_k": 9, "top_p": 0.9}
    assert found | wanted == found
    assert "early_stopping" not in found


def test_settings_that_are_not_carried_over_are_named(tmp_path: Path, nmt: Command) -> None:
    assert not_carried(SearchConfig()) == []
    assert not_carried(SearchConfig(length_penalty=0.0, length_penalty_kind="gnmt")) == []
    run = with_search(write_run(tmp_path / "run"), "length_penalty_kind=gnmt", "protect=true", "split=always")
    done = nmt("export", "--run", run, "--output", tmp_path / "out", "--format", "transformers")
    assert (done.status, done.err) == (0, "")
    told, written = done.out.splitlines()
    assert told.endswith("no such settings: search.length_penalty_kind, search.protect, search.split")
    assert written == f"{tmp_path / 'out'}: written"
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {
        "README.md", "config.json", "generation_config.json", "model.safetensors", "tokenizer.json",
        "tokenizer_config.json", "translator.json",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("model", "problem"),
    [
        ({"norm": "post", "positions": "learned"}, "no model with model.norm: post and model.positions: learned"),
        ({"tie_embeddings": "target"}, "model.tie_embeddings: target, but"),
        ({"tie_embeddings": "none", "joint": False}, "model.tie_embeddings: none, but"),
    ],
)
def test_what_no_class_holds_is_refused(model: dict[str, Any], problem: str, tmp_path: Path, nmt: Command) -> None:
    run = write_run(tmp_path / "run", **model)
    done = nmt("export", "--run", run, "--output", tmp_path / "out", "--format", "transformers")
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    assert problem in done.err
    assert "use --format folder or ctranslate2" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_an_export_is_verified_and_not_loaded(tmp_path: Path, nmt: Command) -> None:
    out = tmp_path / "out"
    export(Request(write_run(tmp_path / "run")), out, "transformers")
    assert (info := verify_export(out)).kind == "transformers" and info.direction == "de-en"
    for command in (["--model", out], ["--model", out, "--engine", "ctranslate2"]):
        done = nmt("translate", *command, "--input", tmp_path / "none")
        assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
        assert "out: holds a model for Hugging Face transformers" in done.err
    weights = bytearray((out / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (out / "model.safetensors").write_bytes(weights)
    with pytest.raises(CheckpointError, match=r"model.safetensors: damaged"):
        verify_export(out)


def test_options_of_the_comparison_are_refused(tmp_path: Path, nmt: Command) -> None:
    done = nmt("export", "--output", tmp_path / "out", "--format", "transformers", "--check-lines", "3")
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert "need --format ctranslate2" in done.err


def test_learned_positions_bound_source_and_translation(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", positions="learned", max_positions=300)
    export(Request(run), tmp_path / "out", "transformers")
    generation, config, tokenizer = (
        json.loads((tmp_path / "out" / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("generation_config", "config", "tokenizer_config")
    )
    assert (generation["max_length"], config["max_position_embeddings"], tokenizer["model_max_length"]) == (
        301,
        300,
        300,
    )
    assert config["encoder_no_repeat_ngram_size"] == generation["encoder_no_repeat_ngram_size"] == 0
