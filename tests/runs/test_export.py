"""Tests of exports of a trained run: the model card, scores, the engine and the command."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from command import Command
from export_run import card_of, section
from nmt.config import Config
from nmt.evaluate.metrics import corpus_score
from nmt.layout import ExportDir, RunDir
from nmt.runs.folder import load_folder, seal
from nmt.runs.model import ModelRef, open_saved
from nmt.search.settings import SearchConfig
from nmt.share.engine import TOLERANCE, Engine
from nmt.share.export import ExportOptions, engine_folder, export, load_translator
from nmt.text.ids import N_SPECIAL
from nmt.translate.search import NativeSearcher
from nmt.translate.types import Sentence


def test_card_contains_run_facts(whole: Path, data: Path, tmp_path: Path) -> None:
    export(ExportOptions(whole), tmp_path / "out", "folder")
    matter, text = card_of(tmp_path / "out")
    assert matter["language"] == ["aa", "bb"]
    folder = load_folder(tmp_path / "out")
    assert f"{sum(tensor.numel() for tensor in folder.weights().tensors.values()) / 1e6:.2f} million" in text
    records = [json.loads(line) for line in RunDir(whole).log.read_text().splitlines()]
    kind = "average" if folder.info.weights == "average" else "valid"
    [record] = [each for each in records if each["kind"] == kind and each["step"] == folder.info.step]
    signature = corpus_score("bleu", ["x"], ["x"], "bb").signature.split("|version")[0]
    quality = section(text, "Quality")
    assert f"BLEU {record['bleu']:.2f} ({signature})" in quality
    assert "test" not in quality, "nobody measured it"
    manifest = json.loads((data / "manifest.json").read_text())
    told = section(text, "Training data")
    assert manifest["fingerprint"] in told and f"{manifest['sources']['train.0']['kept']:,} pairs kept" in told
    recipe = yaml.safe_load(section(text, "Recipe").split("```yaml\n")[1].split("```")[0])
    assert (recipe["model"]["d_model"], recipe["search"]) == (
        32,
        {"beam": 1, "max_length_ratio": 0.0, "max_length_offset": 6, "split": "always"},
    )
    assert str(data.parent) not in text, "where things lie on one machine is nobody's business"


@pytest.mark.parametrize("kind", ["folder", "ctranslate2"])
def test_card_usage_example_works(kind: Any, whole: Path, data: Path, tmp_path: Path, nmt: Command) -> None:
    export(ExportOptions(whole), tmp_path / "DIR", kind)
    shutil.copy(data / "test.aa", tmp_path / "text.aa")
    shell, python = (block.split("\n", 1)[1] for block in section(card_of(Path("DIR"))[1], "Use").split("```")[1:4:2])
    assert nmt(*shell.split()[1:]).status == 0
    assert len((tmp_path / "text.bb").read_text().splitlines()) == 10
    names: dict[str, Any] = {}
    exec(python, names)
    assert len(names["translations"]) == 1


@pytest.mark.parametrize("quantization", ["float16", "int8"])
def test_rounded_weights_differ_and_are_accepted(quantization: Any, whole: Path, tmp_path: Path) -> None:
    exact = export(ExportOptions(whole), tmp_path / "exact", "ctranslate2").comparison
    rounded = export(ExportOptions(whole), tmp_path / "rounded", "ctranslate2", quantization).comparison
    assert exact is not None
    assert rounded is not None
    assert exact.n_identical == exact.n_lines
    assert exact.difference < 1e-4 < rounded.difference < TOLERANCE[quantization]
    sizes = [(tmp_path / name / "model.bin").stat().st_size for name in ("exact", "rounded")]
    assert sizes[1] < 0.7 * sizes[0]
    assert load_folder(tmp_path / "rounded").info.quantization == quantization


def test_engine_model_is_converted_once(whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    made = engine_folder(run, "float32")
    assert made == run / "ctranslate2-float32"
    assert "exporting" in capsys.readouterr().err
    first = load_folder(made).info
    stamp = (made / "model.bin").stat().st_mtime_ns
    assert engine_folder(run, "float32") == made
    assert capsys.readouterr().err == ""
    assert (made / "model.bin").stat().st_mtime_ns == stamp

    assert engine_folder(run, "int8") == run / "ctranslate2-int8"
    engine_folder(ModelRef((run,), "4", "raw"), "float32")
    assert load_folder(made).info.step == 4 != first.step
    (made / "translator.json").write_text("{")
    engine_folder(run, "float32")
    assert load_folder(made).info == first
    assert not list(run.glob("*.part"))


@pytest.fixture
def converted_run(whole: Path, tmp_path: Path) -> Path:
    """A copy of a run that has been converted for CTranslate2."""
    shutil.copytree(whole, tmp_path / "converted")
    engine_folder(tmp_path / "converted", "float32")
    return tmp_path / "converted"


def engine_of(path: Path, *others: Path, checkpoint: str = "best", **search: object) -> str:
    def settings(config: Config) -> SearchConfig:
        return config.search.model_copy(update=search)

    translator = load_translator(ModelRef((path, *others), checkpoint), "auto", settings)
    return "native" if isinstance(translator.searcher, NativeSearcher) else "ctranslate2"


def test_converted_run_is_translated_with_ctranslate2(
    converted_run: Path, whole: Path, data: Path, nmt: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("translate", "--input", data / "test.aa", "--set", "search.beam=3", "--run")
    native, other = (nmt(*options, run) for run in (whole, converted_run))
    assert native.out == other.out and "CTranslate2" not in native.err
    assert f"CTranslate2, {converted_run / 'ctranslate2-float32'}" in other.err
    prefix = "--prefix", str(data / "test.bb")
    for more in (("--precision", "float32"), ("--engine", "native"), ("--scores", "--confidence"), prefix):
        assert "CTranslate2" not in nmt(*options, converted_run, *more).err
    monkeypatch.setattr("nmt.share.export.find_spec", lambda _: None)
    assert engine_of(converted_run) == "native"


def test_run_that_ctranslate2_does_not_serve_is_translated_with_pytorch(
    converted_run: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert engine_of(converted_run) == "ctranslate2"
    assert engine_of(whole) == engine_of(converted_run, whole) == engine_of(converted_run, checkpoint="4") == "native"
    unequal: list[dict[str, object]] = [
        {"sample": True}, {"mbr": "chrf", "beam": 2}, {"protect": True}, {"min_length": 3, "beam": 2},
        {"no_repeat_ngram": 2, "beam": 2},
    ]  # fmt: skip
    assert [engine_of(converted_run, **search) for search in unequal] == ["native"] * 5
    assert engine_of(converted_run, min_length=3, no_repeat_ngram=2, beam=1) == "ctranslate2"
    made = ExportDir(converted_run / "ctranslate2-float32")
    info = load_folder(made.path).info
    assert info.identical == 1.0
    for share, expected in ((0.9949, "native"), (0.995, "ctranslate2"), (None, "native")):
        seal(made, info.model_copy(update={"identical": share}))
        assert engine_of(converted_run) == expected
    engine_folder(converted_run, "float32")  # converts it again, since the comparison is missing
    assert load_folder(made.path).info.identical == 1.0 and engine_of(converted_run) == "ctranslate2"
    config = open_saved(converted_run).config
    monkeypatch.setattr("nmt.share.export._is_of", lambda *_: True)
    for modifiers, expected in (({}, "ctranslate2"), ({"join": 0.5}, "native")):  # it does not count separators
        training = config.training.model_copy(update={"modifiers": modifiers})
        saved = SimpleNamespace(config=config.model_copy(update={"training": training}))
        monkeypatch.setattr("nmt.share.export.open_saved", lambda *_, saved=saved: saved)
        assert engine_of(converted_run) == expected


def test_damaged_conversion_is_not_used(converted_run: Path, data: Path, nmt: Command) -> None:
    model = converted_run / "ctranslate2-float32" / "model.bin"
    model.write_bytes(model.read_bytes()[:-1] + b"x")
    done = nmt("translate", "--run", converted_run, "--input", data / "test.aa")
    assert done.status == 0 and str(model) in done.err and "PyTorch" in done.err
    assert nmt("translate", "--run", converted_run, "--engine", "ctranslate2", "--input", data / "test.aa").status == 2


def test_export_for_ctranslate2_needs_no_engine_option(converted_run: Path, data: Path, nmt: Command) -> None:
    options = ("translate", "--input", data / "test.aa")
    by_itself, asked = (
        nmt(*options, "--model", converted_run / "ctranslate2-float32", *more)
        for more in ((), ("--engine", "ctranslate2"))
    )
    assert by_itself.out == asked.out and asked.status == 0


def test_shortlist_has_all_pieces_and_is_used(whole: Path, data: Path, tmp_path: Path, nmt: Command) -> None:
    done = nmt("export", "--run", whole, "--format", "ctranslate2", "--shortlist", "--output", tmp_path / "listed")
    assert done.status == 0
    path = tmp_path / "listed" / "vmap.txt"
    rows = dict(line.split("\t") for line in path.read_text(encoding="utf-8").splitlines())
    tokenizers = load_folder(tmp_path / "listed").tokenizers
    src, tgt = tokenizers["aa"], tokenizers["bb"]
    assert {*rows} == {"", *src.pieces(range(N_SPECIAL, src.n_pieces))}
    assert all(piece in found.split() for piece, found in rows.items() if piece), "names are copied"
    assert not {*"".join(rows.values()).split()} & {*tgt.pieces(range(N_SPECIAL))}
    lines = (data / "train.aa").read_text(encoding="utf-8").splitlines()
    # with other pieces in the list, there are other translations
    listed, given = tgt.n_pieces - 1, tgt.n_pieces - 2
    [chosen] = tgt.pieces([listed])
    path.write_text("".join(f"{piece}\t{chosen}\n" for piece in rows), encoding="utf-8")
    seal(ExportDir(tmp_path / "listed"), load_folder(tmp_path / "listed").info)
    only = Engine(load_folder(tmp_path / "listed"))
    asked = [Sentence("", "", src.encode(line), 0, 5) for line in lines[:3]]
    found = only.search_batch(asked, SearchConfig(beam=2), 1)
    assert all({*hypothesis.ids} <= {listed} for [hypothesis] in found)
    found = only.search_batch([replace(each, prefix=[given]) for each in asked], SearchConfig(beam=2), 1)
    assert all(hypothesis.ids[0] == given and not {*hypothesis.ids} <= {given, listed} for [hypothesis] in found)


def test_shortlist_needs_format_and_training_text(whole: Path, tmp_path: Path, nmt: Command) -> None:
    options = ("export", "--run", whole, "--output", tmp_path / "listed", "--shortlist")
    for more, named in (((), "--format ctranslate2"), (("--format", "ctranslate2", "--data", tmp_path), str(tmp_path))):
        done = nmt(*options, *more)
        assert done.status == 2 and named in done.err and not (tmp_path / "listed").exists()


def test_export_command_prints_comparison_and_scores(whole: Path, tmp_path: Path, nmt: Command) -> None:
    done = nmt("export", "--run", whole, "--output", tmp_path / "folder")
    assert (done.status, done.err) == (0, "")
    assert done.out == f"{tmp_path / 'folder'}: written\n"
    options = ("--format", "ctranslate2", "--quantization", "int8", "--check-lines", "2", "--evaluate")
    done = nmt("export", "--run", shutil.copytree(whole, tmp_path / "run"), "--output", tmp_path / "int8", *options)
    assert done.status == 0
    assert "of 2 translations identical" in done.out
    assert "test: " in done.out
    assert load_folder(tmp_path / "int8").info.quantization == "int8"
