"""Tests of translation again into the same files: merging by key, records, folders as projects, and reports."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import keyed
from command import Command
from nmt.files import write
from nmt.text.po import po_lines, po_messages
from tiny_run import PLAIN, write_tiny_run

Translate = Callable[..., str]
PO = f'''
msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\\nPlural-Forms: nplurals=2; plural=n != 1;\\n"

msgid "{PLAIN[0]}"
msgstr ""

msgid "{PLAIN[1]} 15"
msgid_plural "{PLAIN[2]} 15"
msgstr[0] ""
msgstr[1] ""

msgid "{PLAIN[3]}"
msgstr "fertig"
'''


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_run(tmp_path_factory.mktemp("merging") / "run")


@pytest.fixture
def translated(run: Path, nmt: Command, monkeypatch: pytest.MonkeyPatch) -> Translate:
    """`translated(source, *options)` translates with the run, expecting success, and returns what is said."""
    keyed.register(monkeypatch)

    def translated(source: Path, *options: object, status: int = 0) -> str:
        done = nmt("translate", "--run", run, "--input", source, *options)
        assert done.status == status, done.err
        return done.err

    return translated


class Pair:
    """A file with texts by their keys, and its translation."""

    def __init__(self, folder: Path, translated: Translate) -> None:
        self.source, self.output = folder / f"de{keyed.SUFFIX}", folder / f"en{keyed.SUFFIX}"
        self.record = folder / ".nmt" / f"en{keyed.SUFFIX}.json"
        self._translated = translated

    def write(self, **texts: str) -> None:
        self.source.write_text("".join(f"{key}={text}\n" for key, text in texts.items()), encoding="utf-8")

    def edit(self, key: str, text: str) -> None:
        changed = {**self.texts, key: text}
        self.output.write_text("".join(f"{key}={text}\n" for key, text in changed.items()), encoding="utf-8")

    def translate(self, *options: object, status: int = 0) -> str:
        return self._translated(self.source, "--output", self.output, *options, status=status)

    @property
    def texts(self) -> dict[str, str]:
        lines = self.output.read_text(encoding="utf-8").splitlines()
        return dict(line.split("=", 1) for line in lines)


@pytest.fixture
def pair(tmp_path: Path, translated: Translate) -> Pair:
    pair = Pair(tmp_path, translated)
    pair.write(a=PLAIN[0], b=PLAIN[1], c=PLAIN[3])
    pair.translate()
    return pair


def test_missing_and_changed_texts_are_translated_and_edited_ones_stay(pair: Pair) -> None:
    first = pair.texts
    pair.edit("a", "Edited")
    pair.write(d=PLAIN[5], a=PLAIN[0], b=PLAIN[7])
    said = pair.translate()
    assert [*pair.texts] == ["d", "a", "b"] and pair.texts["a"] == "Edited"
    assert pair.texts["b"] != first["b"] and pair.texts["d"]
    assert "1 text removed" in said and said.rstrip().endswith(": c")
    merged = pair.texts
    shutil.rmtree(pair.record.parent)
    pair.translate("--overwrite")
    assert pair.texts["a"] == first["a"] and pair.texts | {"a": "Edited"} == merged


def test_edited_translation_of_changed_text_stays_and_is_named(pair: Pair) -> None:
    pair.edit("a", "Edited")
    pair.write(a=PLAIN[5], b=PLAIN[1], c=PLAIN[3])
    said = pair.translate()
    assert pair.texts["a"] == "Edited" and said.rstrip().endswith(": a")
    pair.write(a=PLAIN[7], b=PLAIN[1], c=PLAIN[3])  # still edited, although it is what was written last
    assert pair.translate().rstrip().endswith(": a") and pair.texts["a"] == "Edited"


def test_edit_that_restores_an_earlier_translation_stays(pair: Pair) -> None:
    first = pair.texts
    pair.write(a=PLAIN[5], b=PLAIN[1], c=PLAIN[3])
    pair.translate()
    pair.edit("a", first["a"])
    pair.translate()
    assert pair.texts == first


def test_emptied_translation_is_filled(pair: Pair) -> None:
    first = pair.texts
    pair.edit("b", "")
    pair.translate()
    assert pair.texts == first


def test_output_without_record_is_kept_as_edited(pair: Pair) -> None:
    pair.record.unlink()
    pair.edit("a", "Edited")
    texts = pair.texts
    for _ in range(2):
        pair.write(a=PLAIN[0], b=PLAIN[7], c=PLAIN[3], d=PLAIN[5])
        pair.translate()
        assert {key: pair.texts[key] for key in texts} == texts | {"b": pair.texts["b"]}
    pair.write(a=PLAIN[0], b=PLAIN[5], c=PLAIN[3], d=PLAIN[5])
    assert "b" in pair.translate() and pair.texts["b"] == texts["b"]


@pytest.mark.parametrize(
    "damage", [b"", b"{}", b"[1]", b'{"made_from": 1', b"\xff", b'{"made_from": "", "contents": 5}']
)
def test_damaged_record_is_an_error_and_nothing_is_written(damage: bytes, pair: Pair) -> None:
    before = pair.output.read_bytes()
    pair.record.write_bytes(damage)
    pair.write(a=PLAIN[7])
    said = pair.translate(status=2)
    assert str(pair.record) in said and said.count("\n") == 1
    assert (pair.output.read_bytes(), pair.record.read_bytes()) == (before, damage)


def test_plural_forms_of_output_stay(pair: Pair) -> None:
    source = "".join(f"files[{name}]={PLAIN[i]}\n" for i, name in enumerate(("one", "other")))
    pair.source.write_text(source, encoding="utf-8")
    pair.output.write_text("files[one]=1\nfiles[few]=2\nfiles[other]=3\n", encoding="utf-8")
    pair.translate()
    assert pair.texts == {"files[one]": "1", "files[few]": "2", "files[other]": "3"}
    pair.source.write_text(f"files={PLAIN[0]}\n", encoding="utf-8")  # the plural has gone
    pair.translate()
    assert pair.texts == {"files": "3"}
    pair.source.write_text(source, encoding="utf-8")
    pair.translate()
    assert pair.texts == {"files[one]": "3", "files[other]": "3"}


@pytest.mark.parametrize("is_replaced", [False, True])
def test_kill_between_output_and_record_confuses_nothing(
    is_replaced: bool, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.edit("c", "Edited")
    pair.write(a=PLAIN[5], b=PLAIN[1], c=PLAIN[7])
    real = write.Path.rename

    def killed(self: Path, target: Path) -> Path:
        if target == (pair.record if is_replaced else pair.output):
            raise KeyboardInterrupt
        return real(self, target)

    monkeypatch.setattr(write.Path, "unlink", lambda *_, **__: None)  # a killed process removes nothing
    monkeypatch.setattr(write.Path, "rename", killed)
    pair.translate(status=130)
    monkeypatch.undo()
    keyed.register(monkeypatch)
    whole = pair.texts
    pair.translate()
    assert (pair.texts == whole) == is_replaced and pair.texts["c"] == "Edited"
    pair.write(a=PLAIN[0], b=PLAIN[7], c=PLAIN[7])
    changed = pair.texts
    pair.translate()
    assert pair.texts["a"] != changed["a"] and pair.texts["b"] != changed["b"] and pair.texts["c"] == "Edited"


def test_standard_output_and_devices_have_no_record(pair: Pair, translated: Translate) -> None:
    before = {*pair.record.parent.iterdir()}
    translated(pair.source, "--output", "-")
    pipe = pair.source.with_name(f"pipe{keyed.SUFFIX}")
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as pool:
        read = pool.submit(pipe.read_bytes)
        translated(pair.source, "--output", pipe)
        assert read.result() == pair.output.read_bytes()
    assert {*pair.record.parent.iterdir()} == before


# --- PO ---------------------------------------------------------------------------------------------


def messages(path: Path) -> dict[str, tuple[dict[str, str], set[str]]]:
    """Return the translations and the flags of messages, by their texts."""
    parsed = po_messages(path.name, po_lines(path.name, path.read_bytes()))
    rows = [(message.texts, message.flags) for message in parsed]
    return {texts["msgid"]: ({k: v for k, v in texts.items() if "str" in k}, flags) for texts, flags in rows}


def test_translations_and_fuzzy_marks_of_catalogue_stay(translated: Translate, tmp_path: Path) -> None:
    source, output = tmp_path / "a.po", tmp_path / "b.po"
    source.write_text(PO, encoding="utf-8")
    translated(source, "--output", output)
    first = messages(output)
    (plural,) = (text for text in first if text.endswith("15"))
    assert first[plural][1] == {"fuzzy"} and first[PLAIN[3]][0] == {"msgstr": "fertig"}
    assert translated(source, "--output", output).count("\n") == 1 and messages(output) == first
    edited = output.read_text(encoding="utf-8").replace("#, fuzzy\n", "", 1)
    edited = edited.replace(first[plural][0]["msgstr[1]"], "Edited")
    output.write_text(edited, encoding="utf-8")
    source.write_text(f'{PO}\nmsgid "{PLAIN[5]}"\nmsgstr ""\n', encoding="utf-8")
    translated(source, "--output", output)
    after = messages(output)
    assert after[plural] == ({**first[plural][0], "msgstr[1]": "Edited"}, set())
    assert after[PLAIN[0]] == first[PLAIN[0]] and after[PLAIN[5]][0]["msgstr"]


def test_edit_that_the_source_overrides_is_named(translated: Translate, tmp_path: Path) -> None:
    source, output = tmp_path / "a.po", tmp_path / "b.po"
    source.write_text(PO, encoding="utf-8")
    translated(source, "--output", output)
    output.write_text(output.read_text(encoding="utf-8").replace("fertig", "bearbeitet"), encoding="utf-8")
    assert PLAIN[3][:40] in translated(source, "--output", output)
    source.write_text(PO.replace("fertig", "neu"), encoding="utf-8")  # the output was not edited
    assert PLAIN[3][:40] not in translated(source, "--output", output)
    assert messages(output)[PLAIN[3]][0] == {"msgstr": "neu"}


# --- folders --------------------------------------------------------------------------------------


@pytest.fixture
def site(tmp_path: Path) -> Path:
    site = tmp_path / "site"
    for name, text in (("de/a.html", PLAIN[0]), ("de/b.html", PLAIN[1]), ("fr/a.html", PLAIN[3]), ("logo.png", "x")):
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(f"<p>{text}" if name.endswith("html") else text, encoding="utf-8")
    (site / f"app_de{keyed.SUFFIX}").write_text(f"a={PLAIN[0]}\nb={PLAIN[5]}\n", encoding="utf-8")
    return site


def outcomes(report: Path) -> dict[str, str]:
    """Return what became of each file of `site`, by its path."""
    rows = json.loads(report.read_text(encoding="utf-8"))
    return {row["input"].split("/site/")[1]: row["outcome"] for row in rows}


def test_folder_is_translated_again_where_it_has_changed(site: Path, translated: Translate, tmp_path: Path) -> None:
    out, report, memory = (tmp_path / name for name in ("out", "report.json", "memory.tsv"))
    memory.write_text(f"de\ten\n{PLAIN[0]}\tKnown\n", encoding="utf-8")
    command = (site, "--output-dir", out, "--tm", memory, "--report", report)
    said = translated(*command)
    page, other, app = out / "en/a.html", out / "en/b.html", out / f"app_en{keyed.SUFFIX}"
    assert "Known" in page.read_text(encoding="utf-8") and "Known" in app.read_text(encoding="utf-8")
    assert str(site / "fr/a.html") in said and str(site / "logo.png") in said
    rows = {row["input"]: row for row in json.loads(report.read_text(encoding="utf-8"))}
    assert (rows[str(site / "de/a.html")]["texts"], rows[str(site / "de/a.html")]["exact_matches"]) == (1, 1)
    assert outcomes(report)["fr/a.html"].startswith("left out") and outcomes(report)["logo.png"].startswith("left out")

    times = page.stat().st_mtime_ns
    translated(*command)
    assert {name: outcome for name, outcome in outcomes(report).items() if "left" not in outcome} == dict.fromkeys(
        ("de/a.html", "de/b.html", f"app_de{keyed.SUFFIX}"), "unchanged"
    )
    assert page.stat().st_mtime_ns == times

    (site / "de/a.html").write_text(f"<p>{PLAIN[7]}", encoding="utf-8")
    other.write_text("<p>Edited", encoding="utf-8")
    app.write_text("a=Edited\nb=\n", encoding="utf-8")
    said = translated(*command)
    assert "Known" not in page.read_text(encoding="utf-8") and other.read_text(encoding="utf-8") == "<p>Edited"
    assert app.read_text(encoding="utf-8").startswith("a=Edited\nb=") and not app.read_text(encoding="utf-8").endswith(
        "=\n"
    )
    assert str(other) in said and "--overwrite" in outcomes(report)["de/b.html"]
    translated(*command, "--overwrite")
    assert "Edited" not in other.read_text(encoding="utf-8") + app.read_text(encoding="utf-8")

    memory.write_text(f"de\ten\n{PLAIN[1]}\tOther\n", encoding="utf-8")  # the pages depend on it
    translated(*command)
    assert "Other" in other.read_text(encoding="utf-8") and outcomes(report)["de/a.html"] == "translated"
    assert "Known" in app.read_text(encoding="utf-8")


def test_bilingual_files_of_folder_are_replaced_unless_edited(
    site: Path, translated: Translate, tmp_path: Path
) -> None:
    out, reviews = tmp_path / "out", tmp_path / "reviews"
    command = (site, "--output-dir", out, "--bilingual", reviews)
    translated(*command)
    review = reviews / "de/a.html.xlf"
    first = review.read_bytes()
    assert translated(*command).count(": unchanged") == 3
    (site / "de/a.html").write_text(f"<p>{PLAIN[7]}", encoding="utf-8")
    translated(*command)
    assert review.read_bytes() != first
    review.write_bytes(first)
    assert translated(*command).count(": unchanged") == 3
    (site / "de/a.html").write_text(f"<p>{PLAIN[5]}", encoding="utf-8")
    for options in ((), ("--overwrite",)):
        assert str(review) in translated(*command, *options, status=2) and review.read_bytes() == first


def test_documents_built_from_reviews_have_same_names(
    site: Path, run: Path, translated: Translate, nmt: Command, tmp_path: Path
) -> None:
    out, reviews, built = (tmp_path / name for name in ("out", "reviews", "built"))
    translated(site, "--output-dir", out, "--bilingual", reviews)
    for options, name in ((("--run", run), "en/a.html"), ((), "de/a.html")):
        done = nmt("translate", "--input", site, "--output-dir", built, "--reviewed", reviews, *options)
        assert (built / name).is_file(), done.err


def test_folder_is_translated_into_itself(site: Path, translated: Translate) -> None:
    for n in (0, 3):
        assert translated(site, "--output-dir", site).count(": unchanged") == n
        assert (site / "en/a.html").is_file() and (site / f"app_en{keyed.SUFFIX}").is_file()
        assert len([*site.rglob("*.html")]) == 5


def test_failures_are_in_report(site: Path, translated: Translate, tmp_path: Path) -> None:
    (site / "de/c.docx").write_bytes(b"\0")
    report = tmp_path / "report.json"
    translated(site, "--output-dir", tmp_path / "out", "--report", report, status=2)
    assert outcomes(report)["de/c.docx"] == "failed" and outcomes(report)["de/a.html"] == "translated"


def test_report_of_one_document_counts_kept_texts(pair: Pair, tmp_path: Path) -> None:
    pair.write(a=PLAIN[0], b=PLAIN[1], d=PLAIN[5])
    report = tmp_path / "report.json"
    pair.translate("--report", report)
    (row,) = json.loads(report.read_text(encoding="utf-8"))
    assert (row["texts"], row["kept"], row["outcome"]) == (1, 2, "translated") and "c" in row["notes"][-1]


# --- beside ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("de/a.html", "en/a.html"),
        ("x/a.de.html", "x/a.en.html"),
        ("x/app_de.po", "x/app_en.po"),
        ("x/b.po", "x/b.en.po"),
        ("de/news.de", "de/news.en"),
    ],
)
def test_file_is_translated_to_its_place_in_target_language(
    name: str, written: str, run: Path, nmt: Command, tmp_path: Path
) -> None:
    source = tmp_path / name
    source.parent.mkdir()
    source.write_text(f"<p>{PLAIN[0]}" if name.endswith("html") else PO, encoding="utf-8")
    as_text = ["--as-text"] if name.endswith(".de") else []
    for options, status in (([], 0), ([], 2), (["--overwrite"], 2 if as_text else 0)):
        assert nmt("translate", "--run", run, source, *as_text, *options).status == status
    assert (tmp_path / written).is_file()
