"""Sentences and files that are arguments of `nmt translate`."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest

from command import Command
from nmt.text.tokenizer import Tokenizer
from nmt.translate.loading import Translator
from tiny_run import PLAIN, write_run

LONG = "mali " * 60  # longer than the name of a file can be


@pytest.fixture(scope="module")
def run(translator: Translator, tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("translate") / "run"
    return write_run(folder, translator.config, tokenizer, translator.searcher.models[0])


def translated(translator: Translator, text: str) -> str:
    return translator.translate([text], beam=1)[0]


def test_sentence_is_translated_to_standard_output(run: Path, translator: Translator, nmt: Command) -> None:
    result = nmt("translate", "--run", run, "--beam", 1, PLAIN[0])
    assert (result.status, result.out) == (0, f"{translated(translator, PLAIN[0])}\n")


@pytest.mark.parametrize("text", ["mali bore", "mali\nbore", LONG, "mali 3.5", "mali/bore", "bore.", " ", ""])
def test_arguments_that_name_no_file_are_a_text(text: str, run: Path, nmt: Command) -> None:
    Path("in").write_text(f"{text}\n", encoding="utf-8")
    expected = nmt("translate", "--run", run, "--beam", 1, "--input", "in").out
    assert nmt("translate", "--run", run, "--beam", 1, text).out == expected
    if text.strip():
        assert nmt("translate", "--run", run, "--beam", 1, *text.split(" ")).out == expected


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("letter.html", "letter.en.html"),
        ("letter.de.html", "letter.en.html"),
        ("news.de", "news.en"),
        ("news.txt", "news.en.txt"),
        ("news", "news.en"),
        ("Mein Brief.srt", "Mein Brief.en.srt"),
    ],
)
def test_file_is_translated_beside_it(name: str, written: str, run: Path, nmt: Command) -> None:
    folder = Path("folder")
    folder.mkdir()
    text = "<p>mali bore</p>" if name.endswith("html") else "mali bore\n"
    if name.endswith("srt"):
        text = f"1\n00:00:01,000 --> 00:00:02,000\n{text}"
    (folder / name).write_text(text, encoding="utf-8")
    out = Path("out").with_suffix(Path(name).suffix)
    for arguments in (["--input", folder / name, "--output", out], [folder / name]):
        assert nmt("translate", "--run", run, *arguments).status == 0
    assert {path.name for path in folder.iterdir()} == {name, written}
    assert (folder / written).read_bytes() == out.read_bytes()


def test_compressed_file_is_translated_to_plain_text_beside_it(run: Path, nmt: Command) -> None:
    Path("news.txt.gz").write_bytes(gzip.compress(b"mali bore\n"))
    assert nmt("translate", "--run", run, "news.txt.gz").status == 0
    assert Path("news.en.txt").read_text().count("\n") == 1


@pytest.mark.parametrize("name", ["letter.html", "letter.txt"])
def test_file_that_exists_beside_it_is_not_overwritten(name: str, run: Path, nmt: Command) -> None:
    written = Path(name.replace("letter", "letter.en"))
    for path in (Path(name), written):
        path.write_text(f"<p>{path}</p>", encoding="utf-8")
    result = nmt("translate", "--run", run, name, "--as-text")
    assert (result.status, result.out) == (2, "") and str(written) in result.err
    assert written.read_text(encoding="utf-8") == f"<p>{written}</p>"
    assert nmt("translate", "--run", run, name, "--as-text", "--output", written).status == 0


def test_files_as_arguments_are_inputs_of_other_options(run: Path, nmt: Command) -> None:
    for name in ("a.txt", "b.txt"):
        Path(name).write_text("mali\n", encoding="utf-8")
    for arguments in (["b.txt", "--output-dir", "out"], ["--bilingual", "a.xlf"]):
        assert nmt("translate", "--run", run, "a.txt", *arguments).status == 0
    assert {str(path) for path in Path().rglob("*.txt")} == {"a.txt", "b.txt", "out/a.txt", "out/b.txt"}
    assert nmt("translate", "--run", run, "a.txt", "--output", "-").out.count("\n") == 1


def test_dash_is_standard_input(run: Path, nmt: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"mali bore\n")))
    assert nmt("translate", "--run", run, "-").out == nmt("translate", "--run", run, "mali bore").out


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["nowhere.docx"], "nowhere.docx: no such file"),
        (["my letter.docx"], "my letter.docx: no such file"),
        (["./news.de"], "./news.de: no such file"),
        (["a.txt", "nowhere.odt"], "nowhere.odt: no such file"),
        (["a.txt", "folder"], "--output-dir"),
        (["folder"], "--output-dir"),
        (["mali", "--input", "a.txt"], "--input"),
        (["mali", "--interactive"], "--interactive"),
        (["b\udcffre"], "UTF-8"),
        (["mali bore", "--output-dir", "out"], "--output-dir: needs a file"),
        (["--glossary", "terms.txt", "a.txt"], "--input"),
        (["--tm", "memory.txt", "a.txt"], "--input"),
    ],
)
def test_arguments_that_cannot_be_translated_are_refused(
    arguments: list[str], named: str, run: Path, nmt: Command
) -> None:
    Path("folder").mkdir()
    Path("a.txt").write_text("mali\n", encoding="utf-8")
    result = nmt("translate", "--run", run, *arguments)
    assert (result.status, result.out, result.err.count("\n")) == (2, "", 1) and named in result.err
    assert {path.name for path in Path().iterdir()} == {"folder", "a.txt"}
