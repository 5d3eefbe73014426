"""The model card: licences, what the training took, and the metadata that the hub reads."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from huggingface_hub import EvalResult, ModelCard, ModelCardData
from huggingface_hub.repocard_data import eval_results_to_model_index

from command import Command
from export_run import card_of, section, write_run
from nmt.config.load import changed_config, dump_config, load_config
from nmt.errors import ConfigError
from nmt.layout import RunDir
from nmt.runs.cost import TrainingCost, training_cost
from nmt.runs.folder import Kind
from nmt.runs.info import add_scores
from nmt.runs.state import TrainState, update_state
from nmt.share.export import Request, export
from places import ROOT
from scored_run import record

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
    """What a run records of its training: 1.5 hours on a GPU."""
    update_state(RunDir(run).step(7), TrainState(step=7, seconds=5400.0, n_tokens=1_234_567, n_skipped=2))
    info = RunDir(run).info
    machine = {"device": "cuda", "device_name": "Some GPU", "processes": 2, "torch": "2.13.0"}
    info.write_text(json.dumps(json.loads(info.read_text()) | machine | facts), encoding="utf-8")
    return run


def test_the_data_are_told_with_their_licences(tmp_path: Path) -> None:
    export(Request(changed(write_run(tmp_path / "run"), *SOURCES)), tmp_path / "out", "folder")
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
    assert "license" not in matter
    assert "- licence of the model: not stated\n" in text


@pytest.mark.parametrize("kind", ["folder", "ctranslate2", "transformers"])
def test_the_licence_of_the_model_is_in_every_card(kind: str, tmp_path: Path, nmt: Command) -> None:
    run = write_run(tmp_path / "run")
    check = ("--check-lines", "2") if kind == "ctranslate2" else ()
    out = tmp_path / "out"
    done = nmt("export", "--run", run, "--format", kind, "--license", "cc-by-4.0", "--output", out, *check)
    assert done.status == 0, done.err
    matter, text = card_of(out)
    assert matter["license"] == "cc-by-4.0"
    assert "- licence of the model: cc-by-4.0\n" in text


@pytest.mark.parametrize("kind", ["folder", "transformers"])
def test_no_directory_of_this_machine_is_exported(kind: Kind, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "terms.tsv").write_text("Hund\tdog\n", encoding="utf-8")
    run = changed(
        write_run(tmp_path / "run"), f"data.train=[{{files: {{de: {secret}/a.de, en: {secret}/a.en}}}}]",
        f"training.init_from={secret}/first", f"training.modifiers.glossary={secret}/terms.tsv",
        "training.modifiers.terms=0.1", f"search.lm={secret}/lm", "search.protect_patterns=[/a/b+]",
    )  # fmt: skip
    export(Request(run), tmp_path / "out", kind)
    for path in filter(Path.is_file, (tmp_path / "out").rglob("*")):
        assert str(secret).encode() not in path.read_bytes(), path
    if kind == "folder":
        exported = load_config(tmp_path / "out" / "config.yaml")
        assert (exported.search.lm, exported.search.protect_patterns) == ("lm", ["/a/b+"])
        assert (exported.training.init_from, exported.training.modifiers.glossary) == (None, "terms.tsv")


@pytest.mark.parametrize("name", ["CC-BY-4.0", "cc by", "", "-x", "a\nb"])
def test_what_is_no_licence_of_the_hub_is_refused_at_once(name: str, tmp_path: Path, nmt: Command) -> None:
    with pytest.raises(ConfigError, match="must be an identifier of the hub"):
        Request(tmp_path, license=name)
    (tmp_path / "none").mkdir()
    shutil.copy(ROOT / "configs" / "sample.yaml", tmp_path / "none" / "config.yaml")
    done = nmt("export", "--run", tmp_path / "none", "--license", name, "--output", tmp_path / "out")
    assert (done.status, done.err.count("\n"), "--license" in done.err) == (2, 1, True)


def test_what_the_training_took_is_told_as_far_as_it_is_recorded(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    assert training_cost(RunDir(run)) is None, "an empty state"
    export(Request(run), tmp_path / "none", "folder")
    assert "## Training\n" not in card_of(tmp_path / "none")[1]

    initial = {"step": 9, "weights": "ema", "tensors": "0", "run": "encoder /data/me/my, own/a, decoder /data/me/b"}
    export(Request(trained(run, initial=initial)), tmp_path / "out", "folder")
    text = card_of(tmp_path / "out")[1]
    assert section(text, "Training").strip().splitlines() == [
        "- updates: 7, 2 of them skipped",
        "- target tokens: 1.23 million",
        "- hours: 1.50, validation included",
        "- device: Some GPU, 2 processes, float32, PyTorch 2.13.0",
        "- started from: encoder a, decoder b, moving average at step 9; its training is not counted",
    ]
    assert "/data" not in text

    trained(run, device="cpu", device_name="Some CPU", processes=1, threads=4, torch=None)
    export(Request(run), tmp_path / "cpu", "folder")
    assert "- device: Some CPU, 4 threads, float32\n" in card_of(tmp_path / "cpu")[1]


def test_without_a_state_the_log_tells_what_the_training_took(tmp_path: Path) -> None:
    run = RunDir(write_run(tmp_path / "run"))
    lines = [{"kind": "train", "step": 5 + n, "minutes": 60.0 + 30 * n} for n in (0, 1)] + [{"kind": "x"}]
    run.log.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert training_cost(run) == TrainingCost(updates=6, skipped=None, hours=1.5, target_tokens=None)
    update_state(run.step(7), TrainState(step=7, seconds=7200.0, n_tokens=9))
    assert training_cost(run) == TrainingCost(updates=7, skipped=0, hours=2.0, target_tokens=9)


def test_the_hub_s_own_classes_read_the_metadata(tmp_path: Path) -> None:
    run = changed(write_run(tmp_path / "run"), *SOURCES)
    for name, bleu in (("news", 10.0), ("more", 20.0), ("news", 30.0)):
        add_scores(RunDir(run), record(name, bleu=bleu, step=7))
    export(Request(run, license="cc-by-4.0"), tmp_path / "out", "folder")
    written = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    results = [
        result(name, dataset, metric, shown, value)
        for name, dataset, bleu in (("news", "some/news", 30.0), ("more", "more", 20.0))
        for metric, shown, value in (("bleu", "BLEU", bleu), ("chrf", "chrF", 2 * bleu), ("ter", "TER", 100 - bleu))
    ]
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


def result(split: str, dataset: str, metric: str, shown: str, value: float) -> EvalResult:
    names = {"bleu": "BLEU", "chrf": "chrF2", "ter": "TER"}
    arguments: dict[str, Any] = {"signature": f"{names[metric]}|nrefs:1|case:mixed|version:2.6.0"}
    return EvalResult(
        task_type="translation", task_name="Translation de-en", dataset_type=dataset, dataset_name=split,
        metric_type=metric, metric_name=shown, metric_value=value, metric_args=arguments,
    )  # fmt: skip
