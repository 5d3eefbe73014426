"""`nmt compare` through the command line, with files and with untrained runs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from command import Command, Result
from kept_run import settings
from nmt import api
from nmt.config import Config
from nmt.data.corpus import Corpus
from nmt.evaluate.compare.screen import ComparisonReport
from nmt.files.read import checksum
from nmt.layout import RUN_FORMAT, DataDir, RunDir
from nmt.runs.info import RunInfo, write_info
from nmt.search.settings import SearchConfig
from nmt.tables import render
from nmt.translate.loading import Translator
from nmt.translate.types import Translation
from nmt.version import digest
from tiny_run import tiny_model, write_run

WITH_REF = "for runs, so not available with --ref"


def untrained(path: Path, config: Config, data: Path, seed: int) -> None:
    """Write a run with an untrained model."""
    corpus = Corpus.open(DataDir(data))
    tokenizer = corpus.tokenizers["aa"]
    path.mkdir(parents=True)
    write_run(path, config, tokenizer, tiny_model(config, tokenizer, seed))
    info = RunInfo(
        format=RUN_FORMAT, data_dir=str(data), corpus=corpus.fingerprint, tokenizer=corpus.tokenizers.fingerprint,
        precision="float32",
    )  # fmt: skip
    write_info(RunDir(path), info)


@pytest.fixture(scope="module")
def made(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with runs and files of translations."""
    folder = tmp_path_factory.mktemp("compare")
    for seed in range(6):
        untrained(folder / f"runs/r-{seed}", settings(data, seed=seed), data, seed)
    untrained(folder / "runs/same", settings(data, seed=0, eps=1e-8), data, 7)
    config = settings(data)
    other_way = config.model_copy(update={"data": config.data.model_copy(update={"direction": "bb-aa"})})
    untrained(folder / "runs/back", other_way, data, 1)
    lines = [f"The {word} dog sees {i} cats." for i, word in enumerate(["old", "young", "red", "small", "big", "thin"])]
    for name, n in (("ref", 0), ("a", 1), ("b", 4), ("c", 6)):
        changed = [line.replace("dog", "cow") if i < n else line for i, line in enumerate(lines)]
        (folder / f"{name}.en").write_text("\n".join(changed) + "\n", encoding="utf-8")
    (folder / "tok.en").write_text("\n".join(line.replace(".", " .") for line in lines) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(autouse=True)
def inside(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(made)


def done(result: Result) -> Result:
    assert result.status == 0, result.err
    return result


def refused(result: Result) -> str:
    assert (result.status, result.out) == (2, ""), result.err
    *_, last = result.err.splitlines()
    return last.removeprefix("nmt: ")


# --- files --------------------------------------------------------------------------------------


def test_compare_accepts_several_files_per_option(nmt: Command) -> None:
    told = json.loads(done(nmt("compare", "--hyp", "a.en", "b.en", "c.en", "--ref", "ref.en", "--format=json")).out)
    assert [group["name"] for group in told["groups"]] == ["a.en", "b.en", "c.en"]
    assert (told["baseline"], told["lines"], told["languages"]) == ("a.en", 6, None)
    values = [round(score["value"], 1) for score in told["results"][0]["scores"]]
    assert values == sorted(values, reverse=True)
    one_by_one = nmt("compare", "--ref=ref.en", "--hyp", "a.en", "--format=json", "--hyp=b.en", "--hyp", "c.en")
    assert json.loads(done(one_by_one).out) == told


def test_compare_uses_named_baseline_and_two_references(nmt: Command) -> None:
    told = done(nmt("compare", "--hyp", "a.en", "b.en", "--ref", "ref.en", "c.en", "--baseline", "b.en")).out
    assert told.startswith("ref.en c.en: 6 lines, compared with b.en\n")
    assert "nrefs:2" in told and "a.en is " in told and "note: " in told


def test_language_of_files_is_given_or_follows_from_them(nmt: Command, tmp_path: Path) -> None:
    for name, line in (("a.zh", "我们去公园散步。"), ("b.zh", "我们去公园。"), ("ref.zh", "我们去公园里散步。")):
        (tmp_path / name).write_text(f"{line}\n", encoding="utf-8")
    files = [tmp_path / name for name in ("a.zh", "b.zh", "ref.zh")]
    of_files = ["--ref", files[2], "--format=json"]
    for options, tok in (([], "zh"), (["--to", "jpn"], "char"), (["--to", "de"], "13a")):
        compared = json.loads(done(nmt("compare", "--hyp", *files[:2], *of_files, *options)).out)
        scored = json.loads(done(nmt("evaluate", "--hyp", files[0], *of_files, *options)).out)
        assert f"|tok:{tok}|" in compared["results"][0]["signature"]
        assert scored["scores"][0]["signature"] == compared["results"][0]["signature"]


def test_evaluate_and_compare_compute_chosen_metrics_in_usual_order(nmt: Command) -> None:
    files = ["--ref", "ref.en", "--metrics", "ter,chrf++", "--format=json"]
    for key, arguments in (
        ("results", ["compare", "--hyp", "a.en", "b.en"]),
        ("scores", ["evaluate", "--hyp", "a.en"]),
    ):
        computed = json.loads(done(nmt(*arguments, *files)).out)[key]
        assert [result["metric"] for result in computed] == ["chrf++", "ter"]


def test_compare_writes_html_page(nmt: Command, tmp_path: Path) -> None:
    done(nmt("compare", "--hyp", "a.en", "b.en", "--ref", "ref.en", "--html", tmp_path / "page.html"))
    assert (tmp_path / "page.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--hyp", "a.en", "--ref", "ref.en"], "a comparison needs at least two systems, found a.en"),
        (
            ["--hyp", "a.en", "tok.en", "--ref", "ref.en"],
            "tok.en: only the translations look tokenised: detokenise them",
        ),
        (
            ["--hyp", "a.en", "b.en", "--ref", "ref.en", "--metrics", "chrf,comet"],
            "--metrics chrf,comet: no such metric: 'comet'; choose from bleu, chrf, chrf++, ter",
        ),
        (["--hyp", "a.en", "b.en"], "--hyp and --src need the references; give them with --ref F"),
        (["runs/r-0", "runs/r-1", "--src", "c.en"], "--hyp and --src need the references"),
        (["--hyp", "a.en", "b.en", "--ref", "ref.en", "--split", "test"], f"--split: {WITH_REF}"),
        (["--hyp", "a.en", "b.en", "--ref", "ref.en", "--beam", "2"], f"--beam: {WITH_REF}"),
        (["runs/r-0", "runs/r-1", "--ref", "ref.en"], f"RUN: {WITH_REF}"),
        (["runs/r-0", "--hyp", "a.en", "--ref", "ref.en"], "RUN, --hyp and --group cannot be combined"),
        (
            ["--hyp", "a.en", "b.en", "--ref", "ref.en", "--baseline", "z"],
            "--baseline z: no such system; the systems are a.en, b.en",
        ),
        (["--hyp", "a.en", "b.en", "--ref", "ref.en", "--tokenize", "x"], "tokenize: 'x' is not one of 13a,"),
        (["--hyp", "--ref", "ref.en"], "--hyp needs a value"),
        (
            ["--hyp", "a.en", "b.en", "--ref", "ref.en", "--html", "no/where"],
            "no/where: the directory no does not exist",
        ),
    ],
)
def test_invalid_comparison_of_files_prints_one_line(arguments: list[str], message: str, nmt: Command) -> None:
    assert refused(nmt("compare", *arguments)).startswith(message)


# --- runs ---------------------------------------------------------------------------------------


def test_compare_translates_same_split_with_each_run(nmt: Command, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = done(nmt("compare", "runs/r-0", "runs/r-1", "--format=json", "--output", out))
    told = json.loads(result.out)
    assert (told["text"], told["lines"], told["languages"]) == ("test", 10, ["aa", "bb"])
    assert told["groups"][1]["systems"] == [
        {
            "name": "r-1", "run": "runs/r-1", "step": 7, "weights": "raw",
            "search": "beam 1, length penalty power 1, max_length_ratio 0.0, max_length_offset 6",
            "precision": "float32",
        }
    ]  # fmt: skip
    alone = json.loads(done(nmt("evaluate", "--run", "runs/r-1", "--output", tmp_path / "r-1.bb", "--format=json")).out)
    assert (out / "r-1.bb").read_bytes() == (tmp_path / "r-1.bb").read_bytes() != (out / "r-0.bb").read_bytes()
    for result_of, score in zip(told["results"], alone["scores"], strict=True):
        assert result_of["scores"][1]["value"] == pytest.approx(score["value"])
        assert result_of["signature"] == score["signature"]
    comparison = api.compare(["runs/r-0", "runs/r-1"])
    assert json.loads(render("json", [], ComparisonReport(comparison).as_json())) == told


def copied(run: str, folder: Path) -> Path:
    """Return a copy of a run, in which no translations are stored."""
    return Path(shutil.copytree(run, folder / Path(run).name, ignore=lambda *_: [RunDir(Path(run)).translations.name]))


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[SearchConfig]:
    """The settings of each text that is searched."""
    found, search = list[SearchConfig](), Translator.translate_lines

    def translate_lines(*arguments: Any, **options: Any) -> Iterator[list[Translation]]:
        found.append(arguments[2])
        return search(*arguments, **options)

    monkeypatch.setattr(Translator, "translate_lines", translate_lines)
    return found


def test_translations_of_same_weights_text_and_search_are_searched_once(
    nmt: Command, tmp_path: Path, searched: list[SearchConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, other = (copied(f"runs/r-{n}", tmp_path) for n in (0, 1))
    first, again = (done(nmt("evaluate", "--run", run, "--samples", "9")) for _ in range(2))
    assert first.out == again.out and len(searched) == 1
    assert {*first.err.splitlines()} < {*again.err.splitlines()}, "warnings are stored, too"
    told = [done(nmt("compare", run, other, "--format=json")).out for _ in range(2)]
    assert told[0] == told[1] and api.evaluate(run).translations and len(searched) == 2
    done(nmt("evaluate", "--run", run, "--beam", "2"))
    assert len(searched) == 3
    (tmp_path / "nmt").mkdir()
    (tmp_path / "nmt" / "changed.py").write_text("")
    digest.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr("nmt.version.PACKAGE", tmp_path / "nmt")
        done(nmt("evaluate", "--run", run))
    digest.cache_clear()
    shutil.rmtree(RunDir(run).checkpoints)
    shutil.copytree(RunDir(Path("runs/r-2")).checkpoints, RunDir(run).checkpoints)
    assert done(nmt("evaluate", "--run", run, "--samples", "9")).out != first.out and len(searched) == 5
    for file in RunDir(other).translations.iterdir():
        file.write_bytes(file.read_bytes()[:-9])
    monkeypatch.setattr("nmt.evaluate.run.STORED", 1)
    assert done(nmt("compare", run, other, "--format=json")).out != told[0] and len(searched) == 6
    assert len([*RunDir(other).translations.iterdir()]) == 1


def test_run_that_cannot_store_translations_is_evaluated(
    nmt: Command, tmp_path: Path, searched: list[SearchConfig]
) -> None:
    run = copied("runs/r-0", tmp_path)
    RunDir(run).translations.touch()
    assert done(nmt("evaluate", "--run", run)).out == done(nmt("evaluate", "--run", run)).out and len(searched) == 2


def test_evaluate_shows_sentences_on_terminal_only(nmt: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "  reference " not in done(nmt("evaluate", "--run", "runs/r-0")).out
    monkeypatch.setattr("nmt.cli.evaluate.sys", SimpleNamespace(stdout=SimpleNamespace(isatty=lambda: True)))
    assert done(nmt("evaluate", "--run", "runs/r-0")).out.count("\n  reference ") == 5
    assert "  reference " not in done(nmt("evaluate", "--run", "runs/r-0", "--samples", "0")).out
    json.loads(done(nmt("evaluate", "--run", "runs/r-0", "--format=json")).out)


def test_compare_tests_groups_of_runs_over_seeds(nmt: Command) -> None:
    groups = ("x=runs/r-0,runs/r-1,runs/r-2", "y=runs/r-[3-5]")
    told = json.loads(done(nmt("compare", "--group", *groups, "--beam", "2", "--format=json")).out)
    assert [difference["degrees_of_freedom"] is not None for difference in told["results"][1]["differences"]] == [True]
    assert told["groups"][0]["systems"][0]["search"].startswith("beam 2")
    assert not any("seed" in note for note in told["notes"]), "the runs of a group differ only in their seed"
    members = {"x": [f"runs/r-{i}" for i in range(3)], "y": [f"runs/r-{i}" for i in range(3, 6)]}
    comparison = api.compare(members, baseline="x", search={"beam": 2})
    assert json.loads(render("json", [], ComparisonReport(comparison).as_json())) == told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "a comparison needs at least two systems, found none"),
        (["runs/r-0", "./runs/r-0"], "runs/r-0 is given twice"),
        (["runs/r-0", "runs/none"], "runs/none: no such directory"),
        (["runs/r-0", "a.en"], "a.en: is a file, not a run directory; compare files of translations with --hyp A B"),
        (["runs/r-0", "runs/r-1", "--split", "test2"], ": no split test2; there are "),
        (
            ["runs/r-0", "runs/back"],
            "runs/r-0 translates aa-bb, runs/back bb-aa: all runs must have the same direction",
        ),
        (["runs/r-0", "runs/r-1", "--checkpoint", "9"], "runs/r-0: "),
        (["runs/r-0", "runs/r-1", "--set", "training.seed=3"], "--set training.seed=3: only search.*"),
        (["--group", "x=runs/r-0", "y=runs/r-1"], "group x has only runs/r-0"),
        (["--group", "runs/r-0", "runs/r-1"], "--group runs/r-0: write it as NAME=A,B,C"),
    ],
)
def test_invalid_comparison_of_runs_prints_one_line(
    arguments: list[str], message: str, nmt: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nmt.evaluate.run.translate_text", pytest.fail)
    assert message in refused(nmt("compare", *arguments))


def test_runs_with_different_references_are_rejected(
    nmt: Command, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nmt.evaluate.run.translate_text", pytest.fail)
    known = {Path(name).name: file.sha256 for name, file in Corpus.open(DataDir(data)).manifest.files.items()}
    monkeypatch.setattr("nmt.data.corpus.checksum", lambda path: known[path.name])
    copied, run = shutil.copytree(data, tmp_path / "data"), shutil.copytree("runs/r-1", tmp_path / "r-1")
    info = json.loads((run / "run.json").read_text()) | {"data_dir": str(copied)}
    (run / "run.json").write_text(json.dumps(info))
    text = (copied / "test.bb").read_text(encoding="utf-8")
    (copied / "test.bb").write_text(text[1:2] + text[1:], encoding="utf-8")
    told = refused(nmt("compare", "runs/r-0", run))
    assert told.startswith(f"runs/r-0 and {run} have different references in test ({data}, {copied}): ")


def overwrite(directory: Path, name: str, lines: list[str]) -> None:
    """Replace the first lines of a text of a data directory."""
    path = directory / name
    kept = path.read_text(encoding="utf-8").splitlines()[len(lines) :]
    path.write_text("".join(f"{line}\n" for line in [*lines, *kept]), encoding="utf-8")
    manifest = json.loads((directory / "manifest.json").read_text())
    manifest["files"][name] = {"bytes": path.stat().st_size, "sha256": checksum(path)}
    (directory / "manifest.json").write_text(json.dumps(manifest))


def test_verdict_on_learned_test_lines_proposes_fair_data(nmt: Command, data: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(data, tmp_path / "other"))
    run = Path(shutil.copytree("runs/r-1", tmp_path / "learned"))
    info = json.loads((run / "run.json").read_text()) | {"data_dir": str(other)}
    (run / "run.json").write_text(json.dumps(info))
    test = (data / "test.bb").read_text(encoding="utf-8").splitlines()
    overwrite(other, "train.bb", test)
    for language in ("aa", "bb"):
        overwrite(other, f"test.{language}", [f"b e {n}" for n in range(len(test))])

    def verdicts(*options: object) -> str:
        compared = json.loads(done(nmt("compare", "runs/r-0", run, "--format=json", *options)).out)
        return " ".join(compared["verdicts"])

    found = verdicts("--data", data)
    assert "10 of 10 are in a training text" in found and f"use --data {other} --split test." in found
    assert "training text" not in verdicts("--data", other)
    overwrite(other, "train.bb", [*test, *(f"b e {n}" for n in range(len(test)))])
    assert f"with test of {data} in data.test" in verdicts("--data", data)
