"""Tests of `nmt calibrate` and `nmt translate --confidence`: fitted maps, features, files, and wrong runs."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from command import Command
from nmt.config.load import changed_config
from nmt.evaluate.calibration import calibrate, isotonic, spearman
from nmt.evaluate.run import EvaluationText
from nmt.serve.models import load_models
from nmt.serve.service import Service
from nmt.translate import documents
from nmt.translate.confidence import Calibration
from nmt.translate.loading import Translator
from nmt.translate.search import Searcher
from nmt.translate.types import Options
from served import serving
from tiny_run import GREEDY, PLAIN, tiny_config, words, write_tiny_run

LINES = [" ".join(words(1 + n % 9, seed=1000 + n)) for n in range(160)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = changed_config(tiny_config(), ["search.beam=1", "search.max_length_ratio=1.0"])
    return write_tiny_run(tmp_path_factory.mktemp("sure") / "run", config)


@pytest.fixture(scope="module")
def calibrated(run: Path) -> Path:
    """The run, calibrated with references that resemble its translations the more, the more probable they are."""
    translator = Translator.load(run)
    best = [found for found, *_ in translator.translate_lines(LINES, GREEDY)]
    mean = np.array([each.log_prob / sum(len(part.tgt_ids) + 1 for part in each.parts) for each in best])
    shares = mean.argsort().argsort() / len(mean)
    refs = [each.text[: int(len(each.text) * share)] + " X" for each, share in zip(best, shares, strict=True)]
    text = EvaluationText("valid", LINES, refs, translator.config.data.sides, range(1, len(LINES) + 1))
    calibrate(translator, translator.config.search, text)
    return run


@pytest.fixture
def texts(tmp_path: Path) -> tuple[Path, Path]:
    paths = tmp_path / "a.de", tmp_path / "a.en"
    for path in paths:
        path.write_text("".join(f"{line}\n" for line in LINES[:100]), encoding="utf-8")
    return paths


# --- numbers --------------------------------------------------------------------------------------


def test_isotonic_and_spearman_equal_those_of_scikit_learn_and_scipy() -> None:
    x, y = np.array([3.0, 1, 2, 2, 5, 4, 7, 6, 8, 8]), np.array([10.0, 20, 15, 25, 40, 60, 55, 30, 70, 90])
    found = np.interp([0, 1, 2.5, 3, 4, 4.5, 5, 6, 7, 7.5, 8, 9], *isotonic(x, y))
    third = 130 / 3  # values of IsotonicRegression(out_of_bounds="clip") of scikit-learn 1.9.1
    assert found == pytest.approx([17.5, 17.5, 17.5, 17.5, third, third, third, third, 55, 67.5, 80, 80])
    assert spearman(x, y) == pytest.approx(0.8170883606475995)  # scipy 1.17.1
    assert spearman(x, np.ones(10)) == 0.0


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 100)), min_size=1, max_size=60))
def test_isotonic_is_monotone_keeps_the_mean_and_no_step_can_be_moved(points: list[tuple[int, int]]) -> None:
    x, y = (np.array(column, float) for column in zip(*points, strict=True))
    places, values = isotonic(x, y)
    assert (np.diff(places) > 0).all() and (np.diff(values) >= 0).all()
    fitted = np.interp(x, places, values)
    assert fitted.mean() == pytest.approx(y.mean())
    for value in {*values.tolist()}:  # the values of a pool have its value as their mean
        assert y[np.isclose(fitted, value)].mean() == pytest.approx(value)


# --- runs -----------------------------------------------------------------------------------------


def test_map_orders_translations_that_it_was_not_fitted_to(calibrated: Path) -> None:
    found = Calibration.model_validate_json((calibrated / "calibration-de-en.json").read_bytes())
    assert found.n_lines == len(LINES) and found.step == 7
    assert found.forced.correlation > 0.8 and found.searched.correlation > 0.8
    assert {*found.forced.weights} - {*found.searched.weights} == {"least", "minimum"}
    assert all(0 <= value <= 100 for value in found.forced.values)


def test_lines_have_a_confidence_unless_blank_or_copied(calibrated: Path, nmt: Command, tmp_path: Path) -> None:
    lines, source = [PLAIN[0], "", PLAIN[1], "42"], tmp_path / "a.de"
    source.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    done = nmt("translate", "--run", calibrated, "--confidence", "--input", source)
    assert done.status == 0, done.err
    translator = Translator.load(calibrated)
    estimated = translator.estimator.estimated(lines, translator.translate_lines(lines, translator.config.search))
    sure = [(f"{best.confidence.chrf:.1f}" if best.confidence else "", best.text) for best, *_ in estimated]
    assert [tuple(line.split("\t")[3:]) for line in done.out.splitlines()] == sure
    assert [chrf == "" for chrf, _ in sure] == [False, True, False, True] and sure[3][1] == "42"


def test_translations_of_memory_have_no_confidence(calibrated: Path, nmt: Command, tmp_path: Path) -> None:
    (tmp_path / "a.de").write_text(f"{PLAIN[0]}\n{PLAIN[1]}\n", encoding="utf-8")
    (tmp_path / "tm.tsv").write_text(f"de\ten\n{PLAIN[0]}\tknown\n", encoding="utf-8")
    given = "--run", calibrated, "--confidence", "--tm", tmp_path / "tm.tsv", "--input", tmp_path / "a.de"
    known, other = (row.split("\t") for row in nmt("translate", *given).out.splitlines())
    assert known[3:] == ["", "known"] and float(other[3]) > 0


def test_bilingual_file_of_document_has_confidences(
    calibrated: Path, nmt: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "Options", partial(Options, n_estimated=16))  # in three batches
    (tmp_path / "a.html").write_text("".join(f"<p>{line}</p>" for line in LINES[:40]), encoding="utf-8")
    given = "translate", "--run", calibrated, "--confidence", "--input", tmp_path / "a.html"
    done = nmt(*given, "--bilingual", tmp_path / "a.xlf")
    written = (tmp_path / "a.xlf").read_text(encoding="utf-8")
    assert done.status == 0 and written.count("expected chrF") == 40, done.err
    assert 0 < written.count('state="translated"') < 40
    assert nmt(*given, "--output", tmp_path / "b.html").status == 2


class OtherEngine:
    """An engine that is not PyTorch's for the translator, though it searches as that does."""

    def __init__(self, searcher: Searcher) -> None:
        self.searcher = searcher

    def __getattr__(self, name: str) -> object:
        return getattr(self.searcher, name)


def test_engine_without_probabilities_of_pieces_uses_its_own_map(calibrated: Path) -> None:
    translator = Translator.load(calibrated)
    searched = replace(translator, searcher=OtherEngine(translator.searcher))  # type: ignore[arg-type]
    for has_probabilities, estimator in ((True, translator.estimator), (False, searched.estimator)):
        assert ("least" in estimator.map.weights) == has_probabilities
        translated = translator.translate_lines(PLAIN, translator.config.search)
        assert all(best.confidence for best, *_ in estimator.estimated(PLAIN, translated))


@pytest.mark.parametrize("kind", ["folder", "ctranslate2"])
def test_export_has_calibration(calibrated: Path, nmt: Command, tmp_path: Path, kind: str) -> None:
    own, exported = shutil.copytree(calibrated, tmp_path / "own"), tmp_path / "exported"
    content = json.loads((own / "calibration-de-en.json").read_text(encoding="utf-8"))
    of_others = {"xx-yy": {"tensors": "0" * 16}, "yy-xx": {"reverse": "runs/en-de"}}
    for name, change in of_others.items():
        (own / f"calibration-{name}.json").write_text(json.dumps(content | change), encoding="utf-8")
    (own / "calibration-xx-zz.json").write_text("{", encoding="utf-8")
    done = nmt("export", "--run", own, "--format", kind, "--output", exported)
    assert done.status == 0 and "left out: " in done.err, done.err
    assert [path.name for path in exported.glob("calibration-*")] == ["calibration-de-en.json"]
    (tmp_path / "a.de").write_text(f"{PLAIN[0]}\n", encoding="utf-8")
    engine = "native" if kind == "folder" else kind
    done = nmt("translate", "--run", exported, "--engine", engine, "--confidence", "--input", tmp_path / "a.de")
    assert done.status == 0 and float(done.out.split("\t")[3]) > 0, done.err


def test_confidence_of_server_is_that_of_command_line(calibrated: Path) -> None:
    translator = Translator.load(calibrated)
    translated = translator.translate_lines([PLAIN[1]], translator.config.search)
    [[best]] = translator.estimator.estimated([PLAIN[1]], translated)
    with serving(Service(load_models([calibrated], "native", False, ("search.split=long",)))) as client:
        assert client.ask("/v1/info").json["features"]["confidence"] is True
        asked = {"text": [PLAIN[1], ""], "source": "de", "target": "en", "confidence": True}
        first, blank = client.ask("/v1/translate", asked).json["translations"]
    assert best.confidence is not None and first["confidence"]["chrf"] == pytest.approx(best.confidence.chrf, abs=1e-3)
    assert first["confidence"]["is_low"] is best.confidence.is_low and blank["confidence"] is None


def test_reverse_run_and_samples_are_features(
    run: Path, nmt: Command, texts: tuple[Path, Path], tmp_path: Path
) -> None:
    reverse = write_tiny_run(tmp_path / "en-de", changed_config(tiny_config(), ["data.direction=en-de"]), seed=4)
    own = write_tiny_run(tmp_path / "own", Translator.load(run).config)
    both = "--src", texts[0], "--ref", texts[1]
    plot = tmp_path / "reliability.png"
    done = nmt("calibrate", "--run", own, *both, "--reverse", reverse, "--samples", 2, "--plot", plot)
    assert done.status == 0 and plot.stat().st_size > 1000, done.err
    assert "reverse, agreement" in done.out and done.out.count("\n") == 3 + 12 + 1
    translated = nmt("translate", "--run", own, "--confidence", "--input", texts[0])
    assert translated.status == 0 and len(translated.out.splitlines()) == 100, translated.err
    with serving(Service(load_models([own], "native", False, ()))) as client:  # which protects placeholders
        asked = {"text": PLAIN[0], "source": "de", "target": "en", "confidence": True}
        assert client.ask("/v1/translate", asked).status == 200
    wrong = nmt("calibrate", "--run", own, *both, "--reverse", own)
    assert wrong.status == 2 and "de-en" in wrong.err


def test_run_without_calibration_or_with_other_weights_is_refused(
    calibrated: Path, nmt: Command, texts: tuple[Path, Path], tmp_path: Path
) -> None:
    other, name = write_tiny_run(tmp_path / "other", seed=4), "calibration-de-en.json"
    stale = (calibrated / name).read_bytes()
    for content, problems in (
        (None, ["nmt calibrate --run"]),
        (stale, [str(other / name), json.loads(stale)["tensors"]]),
        (b"{}", [name]),
    ):
        if content is not None:
            (other / name).write_bytes(content)
        done = nmt("translate", "--run", other, "--confidence", "--input", texts[0])
        assert (done.status, done.out) == (2, "") and all(problem in done.err for problem in problems)
    with serving(Service(load_models([other], "native", False, ()))) as client:
        assert client.ask("/v1/info").json["features"]["confidence"] is False
        asked = {"text": PLAIN[0], "source": "de", "target": "en", "confidence": True}
        assert client.ask("/v1/translate", asked).status == 400


def test_text_that_is_too_short_is_refused_and_nothing_written(nmt: Command, tmp_path: Path) -> None:
    own = write_tiny_run(tmp_path / "own")
    (tmp_path / "a").write_text("ba\n" * 99 + "42\n" * 9, encoding="utf-8")
    done = nmt("calibrate", "--run", own, "--src", tmp_path / "a", "--ref", tmp_path / "a", "--beam", 1)
    assert done.status == 2 and "99" in done.err and not [*own.glob("calibration*")]
    learned = nmt("calibrate", "--run", own, "--split", "train.0")
    assert learned.status == 2 and "--split train.0" in learned.err
