"""Tests of `nmt translate` with documents: the same files as from `nmt serve`, folders, and damaged documents."""

from __future__ import annotations

from pathlib import Path

import pytest

from command import Command
from documents import bare_docx, bare_odt
from nmt.documents import FORMATS, open_document
from nmt.serve.models import load_models
from nmt.serve.service import Service
from served import FORM, multipart, serving
from tiny_run import PLAIN, tiny_config, tiny_model, tiny_tokenizer, write_run

ONE, TWO = f"{PLAIN[0]}. {PLAIN[1]}!", PLAIN[3]
CONTENTS: dict[str, bytes] = {
    ".txt": f"{ONE}\r\n\r\n {TWO}".encode(),
    ".srt": f"1\n00:00:01,000 --> 00:00:02,000\n{ONE}\n\n2\n00:00:03,000 --> 00:00:04,000\n<i>{TWO}</i>\n".encode(),
    ".vtt": f"WEBVTT\n\n00:01.000 --> 00:02.000\n<v Ann>{ONE}</v>\n".encode(),
    ".po": f'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\nmsgid "{TWO}"\nmsgstr ""\n'.encode(),
    ".html": f"<p>{ONE[:9]}<b>{ONE[9:]}</b></p><p title='{TWO}'>{TWO} &lt; 7</p>".encode(),
    ".htm": f"<p>{TWO}".encode(),
    ".docx": bare_docx(f"<w:p><w:r><w:t>{ONE}</w:t></w:r></w:p><w:p><w:r><w:b/><w:t>{TWO}</w:t></w:r></w:p>"),
    ".odt": bare_odt(f"<text:p>{ONE}<text:span>{TWO}</text:span></text:p>"),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tokenizer, config = tiny_tokenizer(), tiny_config()
    return write_run(tmp_path_factory.mktemp("documents") / "run", config, tokenizer, tiny_model(config, tokenizer))


@pytest.fixture
def letters(tmp_path: Path) -> Path:
    folder = tmp_path / "letters"
    (folder / "more").mkdir(parents=True)
    for suffix, content in CONTENTS.items():
        (folder / ("more" if suffix == ".odt" else "") / f"a{suffix}").write_bytes(content)
    return folder


def test_documents_of_folder_are_those_of_server(run: Path, letters: Path, nmt: Command) -> None:
    (letters / "picture.png").write_bytes(b"PNG")
    done = nmt("translate", "--run", run, "--input", letters, "--output-dir", letters.parent / "out")
    assert done.status == 0 and "1 file of other formats" in done.err, done.err
    written = {path.suffix: path for path in (letters.parent / "out").rglob("*.*")}
    assert {*written} == {*FORMATS} and written[".odt"].parent.name == "more"
    with serving(Service(load_models([run], "native", False, ()))) as client:
        for suffix, path in written.items():
            parts = [(f'name="{name}"', value) for name, value in (("source", b"de"), ("target", b"en"))]
            parts.append((f'name="file"; filename="a{suffix}"', CONTENTS[suffix]))
            answer = client.ask("/translate_file", raw=multipart(*parts), content_type=FORM)
            at = answer.json["translatedFileUrl"].removeprefix(f"http://127.0.0.1:{client.port}")
            assert path.read_bytes() == client.ask(at).body, suffix
            assert open_document(path, path.read_bytes()).texts != open_document(path, CONTENTS[suffix]).texts


def test_one_document_is_translated(run: Path, letters: Path, nmt: Command, tmp_path: Path) -> None:
    (tmp_path / "terms.tsv").write_text(f"{PLAIN[3].split()[0]}\tQuax\n", encoding="utf-8")
    both = [
        nmt(
            "translate", "--run", run, "--input", letters / "a.html", "--beam", 2, "--output", tmp_path / name, *options
        )
        for name, options in (("plain.html", ()), ("terms.html", ("--glossary", tmp_path / "terms.tsv")))
    ]
    assert [done.status for done in both] == [0, 0], both
    texts = [(tmp_path / name).read_text(encoding="utf-8") for name in ("plain.html", "terms.html")]
    assert "Quax" not in texts[0] and "Quax" in texts[1]
    assert all(text.startswith("<p>") and "<b>" in text for text in texts)
    as_text = nmt("translate", "--run", run, "--input", letters / "a.html", "--as-text")
    assert as_text.status == 0 and len(as_text.out.splitlines()) == 1


def test_damaged_document_is_reported_and_others_are_translated(
    run: Path, letters: Path, nmt: Command, tmp_path: Path
) -> None:
    (letters / "a.docx").write_bytes(b"\xd0\xcf\x11\xe0")
    done = nmt("translate", "--run", run, "--input", letters, "--output-dir", tmp_path / "out")
    assert done.status == 2 and "a.docx: " in done.err and "1 of 8 documents not translated" in done.err
    assert len([path for path in (tmp_path / "out").rglob("*") if path.is_file()]) == 7


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("a.html", "--output", "b.odt"), "b.odt"),
        (("a.html", "--output", "letters/a.html"), "would be overwritten"),
        (("a.html", "--n-best", 2, "--output", "b.html"), "not available for documents"),
        (("a.html", "--workers", 2, "--output", "b.html"), "not available for documents"),
        (("a.html", "--input", "letters/a.odt", "--output", "b.html"), "--output-dir"),
        (("a.html", "--output-dir", "out", "--output", "b.html"), "--output-dir"),
        (("a.html", "--input", "other/a.html", "--output-dir", "out"), "both be written"),
        (("none.docx", "--output", "b.docx"), "none.docx"),
        (("empty", "--output-dir", "out"), "contains no documents"),
        (("a.pdf", "--output", "b.pdf"), "a.pdf"),
    ],
)
def test_problems_are_reported_before_anything_is_written(
    options: tuple[object, ...],
    said: str,
    run: Path,
    letters: Path,
    nmt: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (letters / "empty").mkdir()
    (letters / "a.pdf").write_bytes(b"%PDF-1.7\n")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.html").write_bytes(CONTENTS[".html"])
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file()}
    name, *rest = options
    done = nmt("translate", "--run", run, "--input", letters / str(name), *rest)
    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1) and said in done.err, done.err
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file()} == before
