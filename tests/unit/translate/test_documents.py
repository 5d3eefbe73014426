"""Tests of `nmt translate` with documents: the same files as from `nmt serve`, folders, interruptions and reviews."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from command import Command
from document_samples import SAMPLES
from documents import bare_docx, bare_odt, members
from nmt.config.load import changed_config
from nmt.documents import FORMATS, open_document, read_document
from nmt.errors import DataError
from nmt.files import write
from nmt.serve.models import load_models
from nmt.serve.service import Service
from nmt.text.po import po_lines, po_messages
from nmt.translate import documents
from nmt.translate.documents import Documents
from nmt.translate.loading import Translator, for_texts
from nmt.translate.types import Line
from served import FORM, multipart, serving
from tiny_run import PLAIN, tiny_config, write_tiny_run

Translate = Callable[..., str]
ONE, TWO = f"{PLAIN[0]}. {PLAIN[1]}!", PLAIN[3]
CONTENTS: dict[str, bytes] = {
    ".txt": f"{ONE}\r\n\r\n {TWO}".encode(),
    ".srt": f"1\n00:00:01,000 --> 00:00:02,000\n{ONE}\n\n2\n00:00:03,000 --> 00:00:04,000\n<i>{TWO}</i>\n".encode(),
    ".vtt": f"WEBVTT\n\n00:01.000 --> 00:02.000\n<v Ann>{ONE}</v>\n".encode(),
    ".po": f'''
msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\\n"

#, no-c-format
msgid "{TWO} %dx%d"
msgstr ""

#, c-format
msgctxt "flagged"
msgid "{TWO} %dx%d"
msgstr ""
'''.encode(),
    ".html": f"<p>{ONE[:9]}<b>{ONE[9:]}</b></p><p title='{TWO}'>{TWO} &lt; 7</p>".encode(),
    ".htm": f"<p lang='de-AT'>{TWO}".encode(),
    ".docx": bare_docx(f"<w:p><w:r><w:t>{ONE}</w:t></w:r></w:p><w:p><w:r><w:b/><w:t>{TWO}</w:t></w:r></w:p>"),
    ".odt": bare_odt(f"<text:p>{ONE}<text:span>{TWO}</text:span></text:p>"),
}
EVERY = {Path(name).suffix: content for name, content in SAMPLES.items()} | CONTENTS
"""The content of a document of each format."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_run(tmp_path_factory.mktemp("documents") / "run")


@pytest.fixture
def letters(tmp_path: Path) -> Path:
    folder = tmp_path / "letters"
    (folder / "more").mkdir(parents=True)
    for suffix, content in CONTENTS.items():
        (folder / ("more" if suffix == ".odt" else "") / f"a{suffix}").write_bytes(content)
    return folder


@pytest.mark.parametrize(
    ("configured", "used"),
    [
        ("false", "placeholders"),
        ("placeholders", "placeholders"),
        ("true", True),
        ("['[A-Z]+-[0-9]+']", ["[A-Z]+-[0-9]+"]),
    ],
)
def test_configured_protection_is_kept(configured: str, used: object) -> None:
    config = changed_config(tiny_config(), [f"search.protect={configured}"])
    assert changed_config(config, for_texts(config.search)).search.protect == used


@pytest.fixture
def translated(run: Path, nmt: Command) -> Translate:
    """`translated(source, *options)` translates with the run and returns what is said."""

    def translated(source: Path, *options: object, with_run: bool = True) -> str:
        done = nmt("translate", "--input", source, *(("--run", run) if with_run else ()), *options)
        assert done.status == 0, done.err
        return done.err

    return translated


def correct(review: Path, texts: Iterable[str]) -> None:
    """Replace the translations in a bilingual file, in order."""
    root = etree.fromstring(review.read_bytes())
    targets = [*root.iter("{*}target")] or [*root.iter("{*}seg")][1::2]
    for target, text in zip(targets, texts, strict=False):
        target.text = text
    review.write_bytes(etree.tostring(root))


def test_documents_of_folder_are_those_of_server(run: Path, letters: Path, nmt: Command) -> None:
    for suffix, content in EVERY.items():
        if suffix not in CONTENTS:
            (letters / f"a{suffix}").write_bytes(content)
    hidden = ("~$a.docx", "._a.docx", ".DS_Store", "Thumbs.db")
    for name in ("picture.png", *hidden):  # of no document, of one that is open in an editor, and of systems
        (letters / name).write_bytes(b"\0")
    done = nmt("translate", "--run", run, "--input", letters, "--output-dir", letters.parent / "out")
    assert done.status == 0 and "1 file of other formats" in done.err and "picture.png" in done.err, done.err
    assert not any(name in done.err for name in hidden), done.err
    written = {path.suffix: path for path in (letters.parent / "out").rglob("*.*") if ".nmt" not in path.parts}
    assert {*written} == {*FORMATS} and written[".odt"].parent.name == "more"
    with serving(Service(load_models([run], "native", False, ()))) as client:
        for suffix, path in written.items():
            parts = [(f'name="{name}"', value) for name, value in (("source", b"de"), ("target", b"en"))]
            parts.append((f'name="file"; filename="a{suffix}"', EVERY[suffix]))
            answer = client.ask("/translate_file", raw=multipart(*parts), content_type=FORM)
            at = answer.json["translatedFileUrl"].removeprefix(f"http://127.0.0.1:{client.port}")
            assert path.read_bytes() == client.ask(at).body, suffix
            assert open_document(path, path.read_bytes()).texts != open_document(path, EVERY[suffix]).texts
        page = {"q": CONTENTS[".htm"].decode(), "source": "de", "target": "en", "format": "html"}
        assert client.ask("/translate", page).json["translatedText"] == written[".htm"].read_text(encoding="utf-8")
    assert written[".htm"].read_bytes().startswith(b"<p lang='en'>")


def test_text_in_utf16_is_translated_alike_alone_and_in_folder(translated: Translate, tmp_path: Path) -> None:
    source, alone = tmp_path / "a.txt", tmp_path / "alone.txt"
    source.write_bytes("\n".join(PLAIN[:2]).encode("utf-16"))
    for options in (("--output", alone), ("--output-dir", tmp_path / "out")):
        translated(source, *options)
    assert alone.read_bytes() == (tmp_path / "out" / "a.txt").read_bytes()
    assert len(alone.read_text(encoding="utf-16").splitlines()) == 2


def test_conversions_beside_letters_are_kept_in_flagged_messages(letters: Path, translated: Translate) -> None:
    output = letters.parent / "a.po"
    translated(letters / "a.po", "--output", output)
    _, plain, flagged = po_messages("a.po", po_lines("a.po", output.read_bytes()))
    assert "%d" not in plain.texts["msgstr"] and flagged.texts["msgstr"].count("%d") == 2


def test_one_document_is_translated(
    run: Path, letters: Path, nmt: Command, translated: Translate, tmp_path: Path
) -> None:
    terms, output = tmp_path / "terms.tsv", tmp_path / "out.html"
    terms.write_text(f"{PLAIN[3].split()[0]}\tQuax\n", encoding="utf-8")
    for options, has_term in (((), False), (("--glossary", terms), True)):
        translated(letters / "a.html", "--beam", 2, "--output", output, *options)
        text = output.read_text(encoding="utf-8")
        assert text.startswith("<p>") and "<b>" in text and ("Quax" in text) == has_term
    as_text = nmt("translate", "--run", run, "--input", letters / "a.html", "--as-text")
    assert as_text.status == 0 and len(as_text.out.splitlines()) == 1


def test_ctranslate2_translates_documents(run: Path, letters: Path, nmt: Command, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    own = shutil.copytree(run, tmp_path / "run")  # others would use the engine that is made in it
    outputs = [tmp_path / f"{engine}.html" for engine in ("native", "ctranslate2")]
    for output in outputs:
        options = ("--engine", output.stem, "--output", output)
        assert nmt("translate", "--run", own, "--input", letters / "a.html", *options).status == 0
    assert outputs[0].read_bytes() == outputs[1].read_bytes()


def test_damaged_document_is_reported_and_others_are_translated(
    run: Path, letters: Path, nmt: Command, tmp_path: Path
) -> None:
    (letters / "a.docx").write_bytes(b"\xd0\xcf\x11\xe0")
    done = nmt("translate", "--run", run, "--input", letters, "--output-dir", tmp_path / "out")
    assert done.status == 2 and "a.docx: " in done.err and "1 of 8 documents not translated" in done.err
    assert len(contents(tmp_path / "out")) == 7


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("a.html", "--output", "b.odt"), "b.odt"),
        (("a.html", "--output", "letters/a.html"), "would be overwritten"),
        (("a.html", "--n-best", 2, "--output", "b.html"), "--n-best: not available for documents"),
        (("a.html", "--workers", 2, "--output", "b.html"), "--workers: not available for documents"),
        (("a.html", "--input", "letters/a.odt", "--output", "b.html"), "--output-dir"),
        (("a.html", "--output-dir", "out", "--output", "b.html"), "--output-dir"),
        (("a.html", "--output-dir", "out", "--bilingual", "b.xlf"), "--output-dir"),
        (("a.html", "--bilingual", "b.xlf", "--reviewed", "c.xlf"), "--bilingual"),
        (("a.html", "--bilingual", "b.xlf", "--as-text"), "--as-text"),
        (("a.html", "--bilingual", "b.html"), "b.html"),
        (("a.html", "--bilingual", "none/b.xlf"), "none"),
        (("a.html", "--bilingual", "review.xlf"), "review.xlf"),
        (("a.html", "--reviewed", "b.xlf", "--beam", 2), "--reviewed"),
        (("a.html", "--reviewed", "b.xlf"), "b.xlf"),
        (("a.html", "--input", "other/a.html", "--output-dir", "out"), "both be written"),
        (("none.docx", "--output", "b.docx"), "none.docx"),
        (("empty", "--output-dir", "out"), "contains no documents"),
        (("a.pdf", "--output", "b.pdf"), "a.pdf"),
        ((".", "--output", "x"), "--output-dir"),
        ((".", "--bilingual", "x.xlf"), "--output-dir"),
        ((".",), "--output-dir"),
    ],
)
def test_problems_are_reported_before_anything_is_written(
    options: tuple[object, ...],
    said: str,
    run: Path,
    letters: Path,
    nmt: Command,
    tmp_path: Path,
) -> None:
    (letters / "empty").mkdir()
    (letters / "a.pdf").write_bytes(b"%PDF-1.7\n")
    (tmp_path / "review.xlf").write_bytes(b"<xliff/>")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.html").write_bytes(CONTENTS[".html"])
    before = contents(tmp_path)
    name, *rest = options
    done = nmt("translate", "--run", run, "--input", letters / str(name), *rest)
    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1) and said in done.err, done.err
    assert contents(tmp_path) == before


# --- interruptions --------------------------------------------------------------------------------


@dataclass
class Engine:
    """A record of the texts that models translate, one at a time, until an interruption."""

    texts: list[str] = field(default_factory=list)
    stops_after: int | None = None


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    engine, real = Engine(), Translator.translate_window

    def translate(self: Translator, lines: Sequence[Line], *arguments: Any, **options: Any) -> Iterator[Any]:
        if len(engine.texts) == engine.stops_after:
            raise KeyboardInterrupt
        engine.texts += [line.text for line in lines]
        return real(self, lines, *arguments, **options)

    monkeypatch.setattr(Translator, "translate_window", translate)
    monkeypatch.setattr(documents, "TEXTS", 1)
    monkeypatch.setattr(write, "KEPT_AFTER", 0.0)
    return engine


def contents(folder: Path) -> dict[str, bytes]:
    """Return the content of all files in a folder but records, by path."""
    paths = (path for path in folder.rglob("*") if path.is_file() and path.parent.name != ".nmt")
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def test_interrupted_folder_is_continued(
    run: Path, letters: Path, nmt: Command, tmp_path: Path, engine: Engine
) -> None:
    command = ("translate", "--run", run, "--input", letters, "--output-dir")
    assert nmt(*command, tmp_path / "whole").status == 0
    n, whole = len(engine.texts), contents(tmp_path / "whole")
    assert len(whole) == len(CONTENTS) and n > 4
    for n_done in (1, n // 2, n - 1):
        out = tmp_path / f"out{n_done}"
        engine.texts, engine.stops_after = [], n_done
        stopped = nmt(*command, out)
        assert stopped.status == 130 and "finished work is kept" in stopped.err, stopped.err
        engine.stops_after = None
        assert nmt(*command, out).status == 0
        assert len(engine.texts) == n and contents(out) == whole


def test_finished_texts_are_reused_only_with_same_model_and_settings(
    run: Path, letters: Path, nmt: Command, tmp_path: Path, engine: Engine
) -> None:
    other, output = write_tiny_run(tmp_path / "other", seed=4), tmp_path / "b.srt"
    engine.stops_after = 1
    memories = [tmp_path / "one.tsv", tmp_path / "two.tsv"]
    for memory in memories:
        memory.write_text(f"de\ten\nHallo\t{memory.stem}\n", encoding="utf-8")
    changes = [(), (), ("--beam", 2), *(("--tm", memory) for memory in memories)]
    for options in (*(("--run", run, *change) for change in changes), ("--run", other)):
        done = nmt("translate", *options, "--input", letters / "a.srt", "--output", output)
        assert done.status == 130 and not output.exists() and output.with_name("b.srt.work").is_dir()
        assert engine.texts == [ONE]
        engine.texts = [] if options[1:] != (run,) else engine.texts
    engine.stops_after = None
    done = nmt("translate", "--run", run, "--input", letters / "a.srt", "--output", output)
    assert done.status == 0 and engine.texts == [TWO] and not output.with_name("b.srt.work").exists()


def test_interrupted_folder_with_bilingual_files_is_continued(
    run: Path, letters: Path, nmt: Command, translated: Translate, tmp_path: Path, engine: Engine
) -> None:
    options = ("--output-dir", tmp_path / "out", "--bilingual", tmp_path / "reviews")
    engine.stops_after = 5
    assert nmt("translate", "--run", run, "--input", letters, *options).status == 130
    finished = contents(tmp_path / "reviews")
    engine.stops_after = None
    assert translated(letters, *options).count(": unchanged\n") == len(finished) > 0
    reviews = contents(tmp_path / "reviews")
    assert len(reviews) == len(CONTENTS) and finished.items() <= reviews.items()


def test_documents_in_output_directory_are_not_translated(letters: Path, translated: Translate) -> None:
    for _ in range(2):
        translated(letters, "--output-dir", letters / "en")
    assert len(contents(letters / "en")) == len(CONTENTS)


# --- reviews --------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["xlf", "tmx"])
@pytest.mark.parametrize("name", ["a.docx", "a.html", "a.txt"])
def test_document_is_built_from_reviewed_texts(
    name: str, suffix: str, letters: Path, translated: Translate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, review, built = letters / name, tmp_path / f"a.{suffix}", tmp_path / f"b.{name}"
    translated(source, "--bilingual", review)
    texts = [f"Text {number}" for number, _ in enumerate(read_document(source).texts)]
    correct(review, texts)
    monkeypatch.chdir(tmp_path)  # without runs
    said = translated(source, "--reviewed", review, "--output", built, with_run=False)
    assert ("1 mark" in said) == (source.suffix == ".html") and read_document(built).texts == texts


def test_folder_is_built_from_reviewed_texts(run: Path, letters: Path, nmt: Command, tmp_path: Path) -> None:
    drafts, reviews, built = (tmp_path / name for name in ("drafts", "reviews.v2", "built"))
    command = ("translate", "--input", letters, "--output-dir")
    done = nmt(*command, drafts, "--run", run, "--bilingual", reviews)
    assert done.status == 0, done.err
    assert {*contents(reviews)} == {f"{name}.xlf" for name in contents(drafts)}
    kept, review = contents(reviews), reviews / "more/a.odt.xlf"
    again = nmt(*command, tmp_path / "again", "--run", run, "--bilingual", reviews)
    assert again.status == 2 and "8 of 8" in again.err and contents(reviews) == kept, again.err
    done = nmt(*command, tmp_path / "missing", "--reviewed", tmp_path / "none")
    assert (done.status, done.err) == (2, f"nmt: {tmp_path / 'none'}: no such directory\n")
    correct(review, repeat("Corrected"))
    (reviews / "a.txt.xlf").unlink()
    done = nmt(*command, built, "--reviewed", reviews)
    assert done.status == 2 and "a.txt.xlf" in done.err and "1 of 8" in done.err, done.err
    assert {*read_document(built / "more/a.odt").texts} == {"Corrected"}
    assert read_document(built / "a.html").texts == read_document(drafts / "a.html").texts


def test_reviewed_texts_are_aligned_by_run(run: Path, nmt: Command, translated: Translate, tmp_path: Path) -> None:
    source, review = tmp_path / "a.html", tmp_path / "a.xlf"
    source.write_text("<p>{} {} <b>{}</b></p>".format(*PLAIN[0].split()), encoding="utf-8")
    aligned, plain = tmp_path / "aligned.html", tmp_path / "plain.html"
    translated(source, "--bilingual", review)
    correct(review, ["alpha beta gamma delta epsilon zeta"])
    assert "mark" not in translated(source, "--reviewed", review, "--output", aligned)
    assert "1 mark" in translated(source, "--reviewed", review, "--output", plain, with_run=False)
    tag = re.compile("</?b>")
    texts = [path.read_text(encoding="utf-8") for path in (aligned, plain)]
    assert texts[0] != texts[1] and tag.sub("", texts[0]) == tag.sub("", texts[1])
    review.write_bytes(review.read_bytes().replace(b'target-language="en"', b'target-language="fr"'))
    options = ("--reviewed", review, "--output", tmp_path / "other.html")
    other = nmt("translate", "--input", source, "--run", run, *options)
    assert other.status == 2 and "into fr" in other.err and not (tmp_path / "other.html").exists(), other.err


def test_fields_are_kept_and_ruby_readings_counted_with_reviewed_texts(translated: Translate, tmp_path: Path) -> None:
    field = '<w:fldSimple w:instr="PAGE"><w:r><w:t>3</w:t></w:r></w:fldSimple>'
    ruby = "<w:ruby><w:rt><w:r><w:t>x</w:t></w:r></w:rt><w:rubyBase><w:r><w:t>b</w:t></w:r></w:rubyBase></w:ruby>"
    source, review, built = (tmp_path / name for name in ("a.docx", "a.xlf", "b.docx"))
    text = f'<w:t xml:space="preserve">{PLAIN[3]} </w:t>'
    source.write_bytes(bare_docx(f"<w:p><w:r>{text}</w:r>{field}<w:r><w:t>a</w:t>{ruby}</w:r></w:p>"))
    assert f"{source}: 1 ruby reading" in translated(source, "--bilingual", review)
    assert etree.fromstring(review.read_bytes()).findtext(".//{*}source") == f"{PLAIN[3]} {{3}}ab"
    correct(review, ["Page {3}"])
    said = translated(source, "--reviewed", review, "--output", built, with_run=False)
    assert f"{source}: 1 ruby reading" in said
    xml = members(built.read_bytes())["word/document.xml"].decode()
    assert f'<w:p><w:r><w:t xml:space="preserve">Page </w:t></w:r>{field}</w:p>' in xml


@pytest.mark.parametrize("suffix", ["xlf", "tmx"])
def test_texts_in_other_languages_stay_in_built_document_too(
    suffix: str, translated: Translate, tmp_path: Path
) -> None:
    source, built, review = tmp_path / "a.html", tmp_path / "b.html", tmp_path / f"a.{suffix}"
    source.write_text(f'<p>{TWO}</p><p lang="fr">Le chien.</p>', encoding="utf-8")
    translated(source, "--bilingual", review, "--output", tmp_path / "c.html")
    translated(source, "--reviewed", review, "--output", built, with_run=False)
    assert built.read_bytes().endswith(b'<p lang="fr">Le chien.</p>') and b"Le chien" not in review.read_bytes()


def test_document_with_nothing_to_translate_is_copied_with_a_note(translated: Translate, tmp_path: Path) -> None:
    source = tmp_path / "a.docx"
    source.write_bytes(bare_docx("<w:altChunk/>"))
    assert translated(source, "--output", tmp_path / "b.docx").count(f"{source}: ") == 2
    assert members((tmp_path / "b.docx").read_bytes()) == members(source.read_bytes())


def test_office_document_is_not_shown_on_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    Documents(["a.docx"])
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    with pytest.raises(DataError, match=r"a\.docx: .*--output F\.docx"):
        Documents(["a.docx"])
    Documents(["a.html"])
    Documents(["a.docx"], output="b.docx")
    Documents(["a.docx"], bilingual=Path("b.xlf"))
