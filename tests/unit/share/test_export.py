"""Tests of `nmt export` with untrained runs; tests/runs/test_export.py has trained runs."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from huggingface_hub import EvalResult, ModelCard, ModelCardData
from huggingface_hub.repocard_data import eval_results_to_model_index

from command import Command
from export_run import card_of, section, with_search, write_run
from nmt.config.load import changed_config, dump_config, load_config
from nmt.errors import CheckpointError, ConfigError
from nmt.layout import RunDir
from nmt.model import attention
from nmt.model.transformer import Transformer
from nmt.runs.folder import verify_export
from nmt.runs.info import add_scores, read_info, write_info
from nmt.runs.kinds import Kind
from nmt.runs.model import Saved
from nmt.runs.state import TrainState, update_state
from nmt.search.settings import SearchConfig
from nmt.share import export as stage
from nmt.share.ctranslate2 import save_ctranslate2
from nmt.share.engine import search_for_check
from nmt.share.export import ExportOptions, export
from nmt.share.formats import lost_settings
from nmt.text.profiles import Profiles
from nmt.text.vocabularies import Tokenizers
from scored_run import record
from tiny_run import tiny_config

EXPORTED = ("ctranslate2", "transformers", "onnx")

# --- the model card -------------------------------------------------------------------------------


def test_card_has_scores_of_exported_weights(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    export(ExportOptions(run), tmp_path / "none", "folder")
    assert "## Quality" not in card_of(tmp_path / "none")[1]
    for each in (
        record(bleu=11.0, step=7), record("other", bleu=12.0, step=7, precision="float32"),
        record("foreign", bleu=13.0, step=8), record("foreign", bleu=14.0, step=7, weights="ema"),
        record("foreign", bleu=15.0, step=7, averaged=[6, 7]), record("valid", bleu=16.0, step=7),
        record(bleu=21.0, step=7), record(bleu=17.0, step=7, corpus="c1", text="e9"),
        record("lower", bleu=22.0, step=7, version="2.5.0", notes=["lowercased"]),
    ):  # fmt: skip
        add_scores(RunDir(run), each)
    export(ExportOptions(run), tmp_path / "out", "folder")
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
    """Return a `save_ctranslate2` that changes the model before writing it."""

    def save(model: Transformer, *rest: Any) -> None:
        changed = Transformer(rest[0], *map(len, rest[2]))
        changed.load_state_dict(model.state_dict())
        with torch.no_grad():
            change(changed)
        save_ctranslate2(changed, *rest)

    return save


CHANGES: dict[str, Callable[[Transformer], Any]] = {
    "a bias": lambda model: model.encoder.layers[0].feed_forward.inner.bias[3].add_(0.3),
    "a projection": lambda model: model.decoder.layers[0].cross_attention.in_weight[17].mul_(1.1),  # type: ignore[union-attr]
    "not a number": lambda model: model.decoder.layers[0].feed_forward.outer.bias[0].fill_(math.nan),
}


@pytest.mark.parametrize("name", CHANGES)
def test_export_of_different_engine_model_raises(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write_run(tmp_path / "run")
    monkeypatch.setattr(stage, "save_ctranslate2", spoil(CHANGES[name]))
    with pytest.raises(
        CheckpointError, match=r"export .*-?(nan|\d+\.\d+) there.* -\d+\.\d+ in training's forward pass"
    ):
        export(ExportOptions(run, check_lines=5), tmp_path / "out", "ctranslate2")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]
    monkeypatch.setattr(stage, "save_ctranslate2", spoil(lambda _: None))
    export(ExportOptions(run, check_lines=5), tmp_path / "out", "ctranslate2")


def change_training(patch: pytest.MonkeyPatch) -> None:
    attend = attention.attend
    patch.setattr(attention, "attend", lambda query, *rest: attend(2 * query, *rest))  # search has its own name


def change_training_and_search(patch: pytest.MonkeyPatch) -> None:
    build = Saved.transformer

    def scaled(saved: Saved) -> Transformer:
        model = build(saved)
        model.encoder.embedding.scale *= 1.5
        return model

    patch.setattr(Saved, "transformer", scaled)


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        *((change_training, kind, r"nmt/model/inference\.py") for kind in ("folder", *EXPORTED)),
        *((change_training_and_search, kind, "export") for kind in ("ctranslate2", "transformers")),
    ],
)
def test_export_of_model_that_is_computed_differently_raises(
    change: Callable[[pytest.MonkeyPatch], None],
    kind: Kind,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    change(monkeypatch)
    with pytest.raises(CheckpointError, match=message) as caught:
        export(ExportOptions(write_run(tmp_path / "run"), check_lines=2), tmp_path / "out", kind)
    other, trained = map(float, re.findall(r"-\d+\.\d+", str(caught.value)))  # log-probabilities
    assert abs(other - trained) > 1e-3 and not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", EXPORTED)
def test_export_of_other_norm_raises(kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Transformer(tiny_config().model, 400, 400)
    for part in (*model.encoder.layers, *model.decoder.layers):
        for name in ("attention_residual", "feed_forward_residual"):
            getattr(part, name).norm = torch.nn.RMSNorm(model.encoder.embedding.weight.size(1))
    model.encoder.norm = torch.nn.RMSNorm(model.encoder.embedding.weight.size(1))
    monkeypatch.setattr(Saved, "transformer", lambda _: model)
    with pytest.raises(ConfigError, match="RMSNorm"):
        export(ExportOptions(write_run(tmp_path / "run")), tmp_path / "out", kind)


def test_engines_are_compared_with_settings_that_both_support() -> None:
    assert search_for_check(SearchConfig(beam=3)) == SearchConfig(beam=3)
    for settings in ({"coverage_penalty": 0.1}, {"sample": True}, {"mbr": "chrf"}):
        assert search_for_check(SearchConfig(beam=3, **settings)) == SearchConfig()  # type: ignore[arg-type]


# --- The model card: licences, what the training took, and the metadata that the hub reads ---


SOURCES = (
    "data.train=[{files: {de: a.de, en: a.en}, license: CC BY 4.0}, {hub: some/texts, paths: [x.parquet]}]",
    'data.test={news: {hub: some/news, paths: [x.parquet], license: "for research\\a"}, more: {path: m.tmx}}',
    "data.mono={de: [{files: {de: mono.de}, license: CC0}]}",
)


def changed(run: Path, *changes: str) -> Path:
    path = run / "config.yaml"
    path.write_text(dump_config(changed_config(load_config(path), changes)), encoding="utf-8")
    return run


def trained(run: Path, **facts: object) -> Path:
    """Record 1.5 hours of training on a GPU in a run, and return the run."""
    update_state(RunDir(run).step(7), TrainState(step=7, seconds=5400.0, n_tokens=1_234_567, n_skipped=2))
    info = RunDir(run).info
    machine = {"device": "cuda", "device_name": "Some GPU", "processes": 2, "torch": "2.13.0"}
    info.write_text(json.dumps(json.loads(info.read_text()) | machine | facts), encoding="utf-8")
    return run


def test_card_lists_data_and_licences(tmp_path: Path) -> None:
    export(ExportOptions(changed(write_run(tmp_path / "run"), *SOURCES)), tmp_path / "out", "folder")
    matter, text = card_of(tmp_path / "out")
    assert section(text, "Training data").strip().splitlines() == [
        "- training: a.de, licence: CC BY 4.0",
        "- training: some/texts, licence: not stated",
        "- development set: dev.de, licence: MIT",
        "- test set news: some/news, licence: for research\\x07",
        "- test set more: m.tmx, licence: not stated",
        "- monolingual, de: mono.de, licence: CC0",
    ]
    assert matter["datasets"] == ["some/texts", "some/news"]
    assert "license" not in matter and "- licence of the model: not stated\n" in text


@pytest.mark.parametrize("kind", ["folder", "transformers"])
def test_card_has_model_licence(kind: str, tmp_path: Path, nmt: Command) -> None:
    run, out = write_run(tmp_path / "run"), tmp_path / "out"
    done = nmt("export", "--run", run, "--format", kind, "--license", "cc-by-4.0", "--output", out)
    assert done.status == 0, done.err
    matter, text = card_of(out)
    assert matter["license"] == "cc-by-4.0" and "- licence of the model: cc-by-4.0\n" in text


@pytest.mark.parametrize("kind", ["folder", "transformers"])
def test_export_has_no_local_paths(kind: Kind, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "terms.tsv").write_text("Hund\tdog\n", encoding="utf-8")
    run = changed(
        write_run(tmp_path / "run"), f"data.train=[{{files: {{de: {secret}/a.de, en: ../{secret.name}/a.en}}}}]",
        f"training.init_from={secret}/first", f"training.glossary={secret}/terms.tsv",
        "training.modifiers.terms=0.1", f"search.lm={secret}/lm", "search.protect=[/a/b+]",
    )  # fmt: skip
    export(ExportOptions(run), tmp_path / "out", kind)
    for path in filter(Path.is_file, (tmp_path / "out").rglob("*")):
        assert secret.name.encode() not in path.read_bytes(), path
    if kind == "folder":
        exported = load_config(tmp_path / "out" / "config.yaml")
        assert (exported.search.lm, exported.search.protect) == (None, ["/a/b+"])
        assert (exported.training.init_from, exported.training.glossary) == (None, "terms.tsv")


def test_card_has_recorded_training_cost(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    export(ExportOptions(run), tmp_path / "none", "folder")
    assert "## Training\n" not in card_of(tmp_path / "none")[1]

    initial = {"step": 9, "weights": "ema", "tensors": "0", "run": "encoder /data/me/my, own/a, decoder /data/me/b"}
    export(ExportOptions(trained(run, initial=initial)), tmp_path / "out", "folder")
    text = card_of(tmp_path / "out")[1]
    assert section(text, "Training").strip().splitlines() == [
        "- updates: 7, 2 of them skipped",
        "- target tokens: 1.23 million",
        "- hours: 1.50, validation included",
        "- device: Some GPU, 2 processes, float32, PyTorch 2.13.0",
        "- started from: encoder a, decoder b, moving average at step 9; its cost is not included",
    ]
    assert "/data" not in text

    trained(run, device="cpu", device_name="Some CPU", processes=1, threads=4, torch=None)
    export(ExportOptions(run), tmp_path / "cpu", "folder")
    assert "- device: Some CPU, 4 threads, float32\n" in card_of(tmp_path / "cpu")[1]


def test_hub_reads_card_metadata(tmp_path: Path) -> None:
    run = changed(write_run(tmp_path / "run"), *SOURCES)
    for name, bleu in (("news", 10.0), ("more", 20.0), ("news", 30.0)):
        add_scores(RunDir(run), record(name, bleu=bleu, step=7))
    export(ExportOptions(run, license="cc-by-4.0"), tmp_path / "out", "folder")
    written = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    results = [
        EvalResult(
            task_type="translation", task_name="Translation de-en", dataset_type=dataset, dataset_name=name,
            metric_type=metric, metric_name=shown, metric_value=value,
            metric_args={"signature": f"{signed}|nrefs:1|case:mixed|version:2.6.0"},
        )
        for name, dataset, bleu in (("news", "some/news", 30.0), ("more", "more", 20.0))
        for metric, shown, signed, value in (
            ("bleu", "BLEU", "BLEU", bleu), ("chrf", "chrF", "chrF2", 2 * bleu), ("ter", "TER", "TER", 100 - bleu),
        )
    ]  # fmt: skip
    wanted = ModelCardData(
        language=["de", "en"], license="cc-by-4.0", library_name="nmt", pipeline_tag="translation",
        tags=["translation", "transformer"], datasets=["some/texts", "some/news"], metrics=["bleu", "chrf"],
        model_name="de-en", eval_results=results,
    )  # fmt: skip
    card = ModelCard(written)  # raises for metadata that it does not understand
    assert card.data.eval_results == results
    assert card.data.to_dict() == wanted.to_dict() == yaml.safe_load(written.split("---\n")[1])
    assert card.data.to_dict()["model-index"] == eval_results_to_model_index("de-en", results)
    assert card.text.startswith("\n# Translation from de to en\n")


# --- search settings that a format lacks ----------------------------------------------------------


def test_exported_model_translates_without_settings_that_format_lacks(tmp_path: Path, nmt: Command) -> None:
    settings = ("coverage_penalty=0.2", "protect=true", f"lm={tmp_path / 'none'}", "beam=2", "max_length_offset=1")
    run = with_search(write_run(tmp_path / "run"), *settings)
    (tmp_path / "text").write_text("mali bo\n", encoding="utf-8")
    for kind, lost in (("folder", ["search.lm"]), ("ctranslate2", ["coverage_penalty", "lm", "protect"])):
        check = ("--check-lines", "2") if kind == "ctranslate2" else ()
        done = nmt("export", "--run", run, "--format", kind, *check, "--output", tmp_path / kind)
        assert done.status == 0
        assert all(name in done.out for name in lost) and (kind == "folder") == ("protect" not in done.out)
        recipe = yaml.safe_load(section(card_of(tmp_path / kind)[1], "Recipe").split("```")[1].removeprefix("yaml"))
        kept = {"coverage_penalty": 0.2, "protect": True} if kind == "folder" else {}
        assert recipe["search"] == {"beam": 2, "max_length_offset": 1, **kept}
        done = nmt("translate", "--model", tmp_path / kind, "--input", tmp_path / "text")
        assert done.status == 0 and load_config(tmp_path / kind / "config.yaml").search.beam == 2, done.err
    done = nmt("translate", "--run", run, "--engine", "ctranslate2", "--input", tmp_path / "text")
    assert done.status == 2 and "search.coverage_penalty" in done.err, "the settings of the run itself are not ignored"


# --- What `nmt export --format transformers` writes and refuses; runs/test_transformers.py ha ---


def test_export_of_run_that_repairs_letters_has_note(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    assert [*export(ExportOptions(run), tmp_path / "without", "folder").notes] == []
    Profiles(profiles={}, letters={"de": {"ﬁ": "fi"}}).save(RunDir(run).tokenizer.profiles)
    tokenizers, info = Tokenizers.load(RunDir(run).tokenizer, ["de", "en"]), read_info(RunDir(run))
    write_info(RunDir(run), info.model_copy(update={"tokenizer": tokenizers.fingerprint}))
    [note] = export(ExportOptions(run), tmp_path / "with", "folder").notes
    assert "data.clean.repair" in note


def test_search_settings_are_exported_to_transformers_and_unsupported_ones_listed(tmp_path: Path, nmt: Command) -> None:
    assert lost_settings("transformers", SearchConfig()) == []
    assert lost_settings("transformers", SearchConfig(length_penalty=0.0, length_penalty_kind="gnmt")) == []
    run = with_search(
        write_run(tmp_path / "run"), "length_penalty_kind=gnmt", "protect=true", "split=always", "length_penalty=0.6",
        "beam=4", "min_length=2", "no_repeat_ngram=3", "max_length_ratio=0", "max_length_offset=31",
    )  # fmt: skip
    done = nmt("export", "--run", run, "--output", tmp_path / "out", "--format", "transformers")
    assert (done.status, "search." in done.err) == (0, False)
    told, written = done.out.splitlines()
    assert told.endswith("no place for them: search.length_penalty_kind, search.protect, search.split")
    assert written == f"{tmp_path / 'out'}: written"
    assert "length_penalty_kind" not in section(card_of(tmp_path / "out")[1], "Recipe")
    found = json.loads((tmp_path / "out" / "generation_config.json").read_bytes())
    assert "do_sample" not in found
    assert found == found | {
        "num_beams": 4, "length_penalty": 0.6, "min_length": 3, "max_length": 32, "no_repeat_ngram_size": 3,
        "decoder_start_token_id": 2, "forced_eos_token_id": 3, "suppress_tokens": [0, 1, 2, *range(4, 20)],
    }  # fmt: skip
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
def test_unsupported_architecture_raises(model: dict[str, Any], problem: str, tmp_path: Path, nmt: Command) -> None:
    run = write_run(tmp_path / "run", **model)
    done = nmt("export", "--run", run, "--output", tmp_path / "out", "--format", "transformers")
    note, error = done.err.splitlines()
    assert (done.status, done.out, "no validation" in note) == (2, "", True)
    assert problem in error and "use --format folder or ctranslate2" in error
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_missing_data_directory_of_imported_run_is_reported_with_own_options(tmp_path: Path, nmt: Command) -> None:
    run = write_run(tmp_path / "run")
    write_info(RunDir(run), read_info(RunDir(run)).model_copy(update={"data_dir": ""}))
    result = nmt("export", "--run", run, "--output", tmp_path / "out", "--evaluate")
    own = result.err.partition("nmt evaluate ")[0]
    assert result.status == 2 and "--data" in own and "--src" not in own, result.err


def test_export_is_verified_without_loading(tmp_path: Path, nmt: Command) -> None:
    out = tmp_path / "out"
    export(ExportOptions(write_run(tmp_path / "run")), out, "transformers")
    assert (info := verify_export(out)).kind == "transformers" and info.direction == "de-en"
    for command in (["--model", out], ["--model", out, "--engine", "ctranslate2"]):
        done = nmt("translate", *command, "--input", tmp_path / "none")
        assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
        assert "out: contains a model for Hugging Face transformers" in done.err
    weights = bytearray((out / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (out / "model.safetensors").write_bytes(weights)
    with pytest.raises(CheckpointError, match=r"model.safetensors: damaged"):
        verify_export(out)
