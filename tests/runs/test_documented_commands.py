"""The commands of the documentation are run, word for word, in a folder that has the files and runs they name."""

from __future__ import annotations

import io
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from command import Command
from documented import CODE, commands_in
from documents import bare_docx, bare_odt
from kept_run import quicken
from nmt.files.yaml12 import dump_yaml
from nmt.serve.models import Models, load_direction
from nmt.serve.service import Service
from places import ROOT
from samples_tables import bare_xlsx
from served import Client, serving
from tiny_corpus import SETTINGS, tiny_text

pytestmark = pytest.mark.usefixtures("no_coverage")

PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]
GENERATED = {"commands.md", "settings.md"}
NOT_RUN = {
    "adapt --from": "trains a model (tests/runs/test_recipes.py)",
    "bidirectional": "trains three models (tests/processes/test_recipes.py)",
    "distil": "trains a student (tests/processes/test_recipes.py)",
    "back-translate": "trains a model (tests/processes/test_recipes.py)",
    "--teacher-url": "needs a language model (tests/unit/recipes/test_teachers.py)",
    "sweep": "trains several models (tests/processes/test_sweep.py)",
    "push": "needs a hub (tests/runs/test_push.py)",
    "import": "needs a hub (tests/runs/test_import.py)",
    "en-gmq": "needs a model with several target languages (tests/runs/test_import.py)",
    "data": "needs OPUS (tests/unit/cli/test_prepare.py)",
    "serve": "does not end (tests/unit/serve, tests/processes/test_serve.py)",
    "--comet": "needs COMET in an environment of its own (tests/processes/test_comet.py)",
    "hf://": "needs a hub (tests/runs/test_push.py)",
    "ray": "needs a Ray cluster (tests/processes/test_ray.py)",
    "ctranslate2": "tests/runs/test_export.py",
    "mine-int8": "needs an export for CTranslate2 (tests/runs/test_export.py)",
    "argos": "tests/runs/test_argos.py",
    "--profile": "writes a trace of 20 MB (tests/runs/test_profile.py)",
    "imdb": "needs labels (tests/runs/test_classification.py)",
    "nllb": "needs a model with several languages (tests/runs/test_new_language.py)",
    "runs/m2m": "needs a model with several languages (tests/runs/test_import.py)",
    "cs-de-en-fr": "needs a model with several directions (tests/runs/test_directions.py)",
    "four.yaml": "needs text in four languages (tests/runs/test_directions.py)",
    "lingeval97.json": "needs that test set (tests/unit/evaluate/test_challenge.py)",
    "challenge": "needs real text (tests/runs/test_challenge.py)",
    "calibrate": "needs 100 lines (tests/unit/evaluate/test_calibration.py)",
    "--confidence": "needs a calibrated run (tests/unit/evaluate/test_calibration.py)",
    "seed=*": "compares runs of a sweep (tests/processes/test_sweep.py)",
    "plain-*": "compares groups of runs (tests/unit/cli/test_evaluate.py)",
    "training.report_to": "needs the libraries of trackers (tests/runs/test_trackers.py)",
    "max_steps=40000": "trains for hours (tests/runs/test_resume.py)",
    "--stop-after": "trains for hours (tests/processes/test_stop.py)",
    "max_steps=2000": "trains for minutes (tests/runs/test_denoising.py)",
    "decoder_layers=12": "trains for minutes (tests/runs/test_decoder_translation.py)",
    "weights.json": "needs tuned weights (tests/unit/cli/test_recipes.py)",
    "search.context": "needs a model trained with documents (tests/runs/test_join.py)",
    "--workers": "starts processes (tests/processes/test_translate_parts.py)",
    "transformers": "tests/runs/test_transformers.py",
    "glossary.tsv --set search.inline_terms": "needs a model trained with terms (tests/runs/test_modifiers.py)",
}
"""Why a command that has such a word is not run here."""


def shape(arguments: list[str]) -> tuple[str, ...]:
    """Alike for commands that differ in values only, which are run once."""
    options = (re.sub(r"=.*", "", word) for word in arguments[1:] if word.startswith("-") or "=" in word)
    return (arguments[0], *sorted({*options}), *(["words"] if "words.txt" in arguments else []))


def reason_not_to_run(arguments: list[str]) -> str | None:
    line = " ".join(arguments)
    return next((why for word, why in NOT_RUN.items() if word in (arguments[0], *arguments) or word in line), None)


COMMANDS = {
    shape(arguments): arguments
    for page in PAGES
    if page.name not in GENERATED
    for block in CODE.findall(page.read_text(encoding="utf-8"))
    for arguments in commands_in(block)
    if reason_not_to_run(arguments) is None
}

CONFIG = {
    "data": {
        "direction": "de-en",
        "dir": "data/prepared/mine",
        "train": [{"files": {"de": "train.de", "en": "train.en"}}],
        "valid": {"files": {"de": "dev.de", "en": "dev.en"}},
        "test": {name: {"files": {"de": "test.de", "en": "test.en"}} for name in ("test_2016_flickr",)},
        "max_pieces": 100,
    },
    "tokenizer": SETTINGS["tokenizer"],
    "model": SETTINGS["model"],
    "training": {
        **SETTINGS["training"], "run_dir": "runs/{name}-{direction}", "max_tokens": 1000, "max_steps": 2,
        "warmup_steps": 1, "validate_every_steps": 2, "save_every_steps": 2,
    },
    "search": SETTINGS["search"],
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, nmt: Command) -> Path:
    """Files and runs with the names in the documentation."""
    path = tmp_path_factory.mktemp("documented")
    with pytest.MonkeyPatch.context() as patch:
        quicken(patch)
        patch.chdir(path)
        tiny_text(path)
        for file in path.glob("*.aa"):
            file.rename(file.with_suffix(".de"))
        for file in path.glob("*.bb"):
            file.rename(file.with_suffix(".en"))
        for name in ("mine", "multi30k", "sample"):
            Path(f"{name}.yaml").write_text(dump_yaml(CONFIG).replace("{name}", name), encoding="utf-8")
        copies = "letters web crawl news src dev hyp ours theirs first a b beam-5 beam-1 beam-10 wrong llm opus"
        for name in copies.split():
            for code in ("de", "en"):
                if not Path(f"{name}.{code}").exists():
                    shutil.copy(f"test.{code}", f"{name}.{code}")
        segment = '<tu><tuv xml:lang="de"><seg>Eins.</seg></tuv><tuv xml:lang="en"><seg>One.</seg></tuv></tu>'
        Path("memory.tmx").write_text(f'<tmx version="1.4"><body>{segment}</body></tmx>', encoding="utf-8")
        for name in ("letters.reference.en", "reference.en", "ref.en", "second.en"):
            shutil.copy("test.en", name)
        document = bare_docx("<w:p><w:r><w:t>Eins. Zwei.</w:t></w:r></w:p>")
        for name in ("letter", "manual.de", "manual.en", "letters/letter"):
            Path(name).parent.mkdir(exist_ok=True)
            Path(f"{name}.docx").write_bytes(document)
        unit = '<trans-unit id="1"><source>Eins. Zwei.</source><target>One. Two.</target></trans-unit>'
        Path("corrected").mkdir()
        for name in ("letter.reviewed.xlf", "corrected/letter.docx.xlf"):
            Path(name).write_text(f"<xliff>{unit}</xliff>", encoding="utf-8")
        Path("manual.odt").write_bytes(bare_odt("<text:p>Drei.</text:p>"))
        Path("texts.csv").write_text("de,en\nEins,\n", encoding="utf-8")
        Path("words.csv").write_text("ID,Deutsch,English\n7,Eins,\n", encoding="utf-8")
        Path("texts.xlsx").write_bytes(bare_xlsx({"A": '<row><c r="A1" t="inlineStr"><is><t>Eins</t></is></c></row>'}))
        Path("website").mkdir()
        Path("website/index.html").write_text("<p>Eins", encoding="utf-8")
        for name in ("glossary.tsv", "terms.tsv"):
            Path(name).write_text("a\tb\n", encoding="utf-8")
        Path("memory.tsv").write_text("de\ten\na\tb\n", encoding="utf-8")
        Path("terms.txt").write_text("\n" * 10, encoding="utf-8")
        for name in ("a", "b"):
            Path(f"{name}.metricx").write_text("1.5\n" * 10, encoding="utf-8")
        ok(nmt("prepare", "--config", "mine.yaml"))
        Path("data/prepared/sample").symlink_to("mine")
        train = ("train", "--config", "mine.yaml", "--run")
        ok(nmt(*train, "runs/mine-de-en"))
        ok(nmt(*train, "runs/mine-en-de", "--set", "data.direction=en-de"))
        tagged = ("--config", "mine.yaml", "--set", "data.train.0.tags={domain: help}", "--data", "data/tagged")
        ok(nmt("prepare", *tagged))
        ok(nmt("train", *tagged, "--run", "runs/tagged-de-en"))
        ok(nmt(*train, "runs/lm-en", "--set", "model.kind=decoder", "--set", "training.objective=causal"))
        ok(nmt(*train, "runs/decoder", "--set", "model.kind=decoder"))
        ok(nmt(*train, "runs/denoising", "--set", "training.objective=denoising"))
        masked = ("--set", "model.kind=encoder", "--set", "training.objective=masked")
        ok(nmt(*train, "runs/masked", *masked))
        ok(nmt(*train, "runs/pairs", *masked, "--set", "training.masked.pair_task=[shuffled]"))
        copies = (
            "opus mine sample-de-en a b plain simcut plain-1 plain-2 simcut-1 simcut-2 general-de-en de-en clean-de-en"
        )
        for name in copies.split():
            shutil.copytree("runs/mine-de-en", f"runs/{name}")
        for name in ("en-de", "clean-en-de"):
            shutil.copytree("runs/mine-en-de", f"runs/{name}")
        ok(nmt("export", "--run", "runs/mine-de-en", "--output", "mine-de-en"))
        ok(nmt(*train, "runs/multi30k-de-en"))  # the newest run
        ok(nmt("evaluate", "--run", "runs/multi30k-de-en", "--split", "test_2016_flickr"))
    return path


def ok(result: object) -> None:
    assert getattr(result, "status") in (0, None), result  # noqa: B009


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=" ".join)
def test_documented_command_succeeds(
    nmt: Command, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    quicken(monkeypatch)
    copied = shutil.copytree(folder, tmp_path / "folder", symlinks=True)
    monkeypatch.chdir(copied)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((copied / "test.de").read_bytes())))
    if arguments[0] == "train" and "--resume" not in arguments:
        run = arguments[arguments.index("--run") + 1] if "--run" in arguments else "runs/mine-de-en"
        shutil.rmtree(copied / run, ignore_errors=True)
    if arguments[0] in ("export", "distil"):
        shutil.rmtree(copied / "mine-de-en")
    ok(nmt(*arguments))


# --- requests -----------------------------------------------------------------------------------


def requests_in(text: str) -> list[str]:
    """The `curl` commands in a block; the quotation marks of one may close on a later line."""
    return re.findall(r"^curl (?:[^'\n]|'[^']*')*$", text, re.M)


REQUESTS = [
    request
    for page in PAGES
    for block in CODE.findall(page.read_text(encoding="utf-8"))
    for request in requests_in(block)
]


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[Client]:
    """A server of a run of de-en."""
    direction = load_direction(folder / "runs" / "mine-de-en", "native", False, ["search.beam=3"])
    with serving(Service(Models([direction]))) as client:
        yield client


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("request_", REQUESTS)
def test_documented_request_is_answered(request_: str, client: Client) -> None:
    assert "http://127.0.0.1:5000/" in request_
    command = shlex.split(request_.replace("127.0.0.1:5000", f"127.0.0.1:{client.port}"))
    done = subprocess.run([*command, "--silent", "--fail-with-body"], capture_output=True, check=False)
    assert done.returncode == 0, done.stdout
    assert json.loads(done.stdout).keys() & {"translatedText", "translations"}
