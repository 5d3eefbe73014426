"""Tests of translation memories: which segments match, which translation is taken, and lines, parts and scores."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from unicodedata import normalize

import pytest

from command import Command
from file_server import serve_files
from nmt.errors import ConfigError, DataError
from nmt.text.segments import Codes
from nmt.translate.loading import Translator
from nmt.translate.memory import Match, TranslationMemory
from nmt.translate.memory_files import read_memory
from nmt.translate.types import Line
from tiny_run import BEAM, PLAIN, make, tiny_config, tiny_tokenizer, write_tiny_run

NEW = "Ünrú [x] Zürich"
TMX = '<tmx version="1.4"><header/><body>{}</body></tmx>'


def unit(src: str, tgt: str, languages: tuple[str, str] = ("de", "en")) -> str:
    """Return a translation unit of TMX."""
    both = zip(languages, (src, tgt), strict=True)
    variants = (f'<tuv xml:lang="{language}"><seg>{text}</seg></tuv>' for language, text in both)
    return f"<tu>{''.join(variants)}</tu>"


def memory_of(*segments: tuple[str, str], source: str = "de", target: str = "en") -> TranslationMemory:
    return TranslationMemory(((*segment, Codes.NONE) for segment in segments), source, target)


@pytest.fixture(scope="module")
def translator() -> Translator:
    return make(tiny_tokenizer(), tiny_config())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_run(tmp_path_factory.mktemp("memory") / "run")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Tür auf", ("door  open", "exact")),
        (" Tu\u0308r\u00a0\t auf ", ("door  open", "exact")),
        ("tür auf", None),  # only a capital is adapted, since English and German words may need theirs
        ("klein", ("small", "exact")),
        ("Klein", ("Small", "adapted")),
        ("KLEIN", None),
        ("كتـاب ۱۲\u200f", ("book 12", "exact")),
        ("كتاب 13", ("book 13", "adapted")),
        ("", None),
    ],
)
def test_match_ignores_white_space_normalization_and_a_capital(text: str, expected: tuple[str, str] | None) -> None:
    memory = memory_of(
        ("Tür auf", "door  open"),
        ("klein", "small"),
        ("", "nothing"),
        ("leer", " "),
        ("کتاب ۱۲", "book 12"),
        source="fa",
    )
    assert memory.find(text) == (None if expected is None else Match(*expected))
    assert len(memory) == 3


PAGES = [
    ("Seite 5 von 90", "page 5 of 90"), ("Bild 5 und 5", "figures 5 and 5"), ("in 7 Tagen", "in a week"),
    ("%1$s in 6", "in 6 %1$s"),
]  # fmt: skip
CATALOGUE = ("カタログが7個あります。", "There are 7 catalogs.")
NUMBERED = [("a 5", "x 5"), ("a 6", "x 6"), ("a 7", "y 7"), ("a 5", "z")]


@pytest.mark.parametrize(
    ("segments", "target", "text", "expected"),
    [
        (PAGES, "en", "Seite 7 von 80", ("page 7 of 80", "adapted")),
        (PAGES, "en", "Seite 1 von 80", None),  # numbers of another plural class
        (PAGES, "en", "Seite 7 von 81", None),
        (PAGES, "en", "Seite 7,5 von 80", None),  # decimals are written differently in other languages
        (PAGES, "en", "Seite 7 von 80 %s", None),
        (PAGES, "en", "Bild 3 und 3", None),  # which of the two is which is unknown
        (PAGES, "en", "in 5 Tagen", None),
        (PAGES, "en", "%2$s in 7", None),  # part of a placeholder
        (PAGES, "en", "%1$s in 7", ("in 7 %1$s", "adapted")),
        # before letters of scripts without spaces
        ([CATALOGUE], "en", "カタログが8個あります。", ("There are 8 catalogs.", "adapted")),
        ([CATALOGUE], "en", "カタログが1個あります。", None),
        ([("7本", "7th")], "en", "8本", None),
        ([CATALOGUE[::-1]], "ja", "There are 17 catalogs.", ("カタログが17個あります。", "adapted")),  # without plurals
        # the most frequent translation, and the latest if several are as frequent
        ([("a", "x"), ("a", "y"), ("b", "z"), ("a", "x")], "en", "a", ("x", "exact")),
        ([("a", "x"), ("a", "y"), ("a", "x"), ("a", "y")], "en", "a", ("y", "exact")),
        (NUMBERED, "en", "a 8", ("x 8", "adapted")),
        (NUMBERED, "en", "a 5", ("z", "exact")),
    ],
)
def test_numbers_are_replaced_where_it_is_safe_and_most_frequent_translation_is_taken(
    segments: list[tuple[str, str]], target: str, text: str, expected: tuple[str, str] | None
) -> None:
    assert memory_of(*segments, target=target).find(text) == (None if expected is None else Match(*expected))


@pytest.mark.parametrize(
    ("language", "segment", "text"),
    [
        ("sd", "ڪير آهي", "کير آهي"), ("ps", "سړی", "سړي"), ("ar", "علي", "على"), ("ml", "അവൻ", "അവന്"),
        ("mr", "दर\u094d\u200dया", "दर\u094dया"), ("ne", "गर\u094d\u200dयो", "गर\u094dयो"),
        ("ug", "كىشى", "كيشي"), ("ro", "și", "și\u0301"),
    ],
)  # fmt: skip
def test_other_words_of_the_language_are_no_match(language: str, segment: str, text: str) -> None:
    memory = memory_of((segment, "x"), source=language)
    assert memory.find(text) is None and memory.find(normalize("NFD", segment)) == Match("x", "exact")


@pytest.mark.parametrize(
    ("src", "tgt", "text", "expected"),
    [
        ("Die Datei <ph/> fehlt.", "The file <ph/> is missing.", "Die Datei fehlt.", None),
        ("Die Datei fehlt.", "The file <ph>[x]</ph> is missing.", "Die Datei fehlt.", None),
        ("Sie haben <ph>%d</ph> Tage.", "<ph>%d</ph> days", "Sie haben %d Tage.", ("%d days", "exact")),
        ("Sie haben <ph>%d</ph> Tage.", "<ph>%d</ph> days", "Sie haben Tage.", None),
        ("Der <bpt i='1'/>Mann<ept i='1'/>", "The <bpt i='1'/>man<ept i='1'/>", "Der Mann", ("The man", "adapted")),
        ("Der Mann", "<hi>The</hi> <bpt i='1'/>man<ept i='1'/>", "Der Mann", ("The man", "adapted")),
        ("<bpt i='1'/>Bild<ept i='1'/> 5", "Figure 5", "Bild 5", ("Figure 5", "adapted")),
        ("<bpt i='1'/>Bild<ept i='1'/> 5", "Figure 5", "Bild 7", ("Figure 7", "adapted")),
        ("Sieben <ph type='x-html-br'/>Hunde", "Seven dogs", "Sieben Hunde", ("Seven dogs", "adapted")),
        ("Bild 5 <ph/>", "Figure 5 <ph/>", "Bild 7", None),
        ("<hi>Tor</hi>", "gate", "Tor", ("gate", "exact")),
    ],
)
def test_segment_with_codes_is_no_exact_match(
    src: str, tgt: str, text: str, expected: tuple[str, str] | None, tmp_path: Path
) -> None:
    (tmp_path / "a.tmx").write_text(TMX.format(unit(src, tgt) + unit("x", "y")), encoding="utf-8")
    (tmp_path / "b.tsv").write_text("de\ten\nBaum\ttree\n", encoding="utf-8")
    memory = read_memory([str(tmp_path)], "de", "en")
    assert memory.find(text) == (None if expected is None else Match(*expected))
    assert memory.find("x") == Match("y", "exact") and memory.find("Baum") == Match("tree", "exact")
    assert len(memory) == 3


def test_plain_segment_precedes_one_with_formatting() -> None:
    segments = [("a", "x", Codes.FORMATTING), ("a", "y", Codes.NONE), ("a", "z", Codes.OTHER)]
    memory = TranslationMemory(segments, "de", "en")
    assert memory.find("a") == Match("y", "exact") and len(memory) == 3
    assert memory.fingerprint != memory_of(*(segment[:2] for segment in segments)).fingerprint


def test_text_with_same_hash_is_no_match(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.translate.memory.hash", lambda _: 1, raising=False)
    memory = memory_of(("a", "x"))
    assert memory.find("a") == Match("x", "exact") and memory.find("b") is None


@pytest.mark.parametrize(
    ("language", "segment", "text"),
    [("tr", "iyi günler", "İyi günler"), ("az", "ışıq", "Işıq"), ("kk_Latn", "iri", "İri"), ("crh", "ırmaq", "Irmaq")],
)
def test_capital_of_a_text_follows_the_rules_of_its_language(language: str, segment: str, text: str) -> None:
    memory = memory_of((segment, "iki"), source=language, target="tr")
    assert memory.find(text) == memory.find(normalize("NFD", text)) == Match("İki", "adapted")
    assert memory_of((segment, "iki"), source="de").find(text) is None


def test_matched_line_is_not_searched_and_aligned_by_its_pieces(translator: Translator) -> None:
    memory = memory_of((PLAIN[0], NEW))
    lines = [Line(text, tm=memory) for text in (PLAIN[1], PLAIN[0], "")]
    [plain, *_], [found], [blank] = translator.translate_lines(lines, BEAM, n_best=2)
    assert [*translator.translate_lines([PLAIN[1]], BEAM)] == [[plain]] and plain.match is None
    assert (found.text, found.score, found.log_prob, found.match) == (NEW, 0.0, 0.0, "exact")
    [part] = found.parts
    assert translator.tokenizers["de"].decode(part.src_ids) == PLAIN[0]
    assert translator.tokenizers["en"].decode(part.tgt_ids) == NEW
    assert blank.text == "" and blank.match is None


def test_sentences_of_split_line_are_looked_up(translator: Translator) -> None:
    one, two = "Mali bore.", "Tago ri."
    lines = [
        Line(two), Line(f"{one}  {two}", tm=memory_of((one, NEW))),
        Line(f"{one} {two}", tm=memory_of((one, NEW), (two, "a"))),
        Line(f"{one} {two}", tm=memory_of((one, NEW), (f"{one} {two}", "whole"))),
    ]  # fmt: skip
    search = BEAM.model_copy(update={"split": "always"})
    [alone], [best], [both], [whole] = translator.translate_lines(lines, search)
    assert (best.text, best.log_prob, best.match) == (f"{NEW} {alone.text}", pytest.approx(alone.log_prob), None)
    assert [part.match for part in best.parts] == ["exact", None]
    assert (both.text, both.match) == (f"{NEW} a", "exact")
    assert whole.text == "whole" and len(whole.parts) == 1


def test_constraints_precede_the_memory(translator: Translator) -> None:
    word, memory = PLAIN[0].split()[0], memory_of((PLAIN[0], NEW))

    def translated(**constraints: object) -> list[str]:
        return translator.translate([PLAIN[0]], tm=memory, beam=2, **constraints)

    assert translated() == translated(glossary={word: "Zürich"}) == [NEW]
    assert "Quax" in translated(glossary={word: "Quax"})[0]
    [[best]] = translator.translate_lines([Line(PLAIN[0], prefix="a", tm=memory)], BEAM)
    assert best.text != NEW and best.match is None


def test_command_writes_matches_with_score_0_and_counts_them(run: Path, nmt: Command, tmp_path: Path) -> None:
    for name, text in {
        "a.tmx": TMX.format(unit(PLAIN[0], NEW) + unit("a", "b", ("de", "fr"))), "b.en": "y 5\n", "b.de": "x 5\n",
        "in.txt": f"{PLAIN[0]}\n{PLAIN[1]}\nX 7\n", "one.txt": f"{PLAIN[1]}\n", "known.txt": f"{PLAIN[0]}\n",
        "terms.tsv": f"{PLAIN[0].split()[0]}\tQuax\n",
    }.items():  # fmt: skip
        (tmp_path / name).write_text(text, encoding="utf-8")
    command = ("translate", "--run", run, "--tm", tmp_path / "a.tmx", "--input")
    files = f"{{files: {{de: {tmp_path}/b.de, en: {tmp_path}/b.en}}}}"
    done = nmt(*command, tmp_path / "in.txt", "--scores", "--tm", files)
    assert done.status == 0, done.err
    zeros = ["0.000000", "0.000000"]
    first, second, third = (line.split("\t") for line in done.out.splitlines())
    assert (first[1:], third[1:]) == ([*zeros, NEW], [*zeros, "Y 7"]) and float(second[2]) < 0
    assert "a.tmx: 1 segment from de into en; no text in en (found fr; see columns): 1" in done.err
    assert "1 line with exact" in done.err and "1 line with matches" in done.err
    assert "no match for any line" in nmt(*command, tmp_path / "one.txt").err
    for option, name in (("--prefix", "known.txt"), ("--constraints", "known.txt"), ("--glossary", "terms.tsv")):
        done = nmt(*command, tmp_path / "known.txt", option, tmp_path / name)
        assert "no match for any line" not in done.err and "the translation memory was not used" in done.err


def test_documents_take_matches(run: Path, nmt: Command, tmp_path: Path) -> None:
    (tmp_path / "a.tmx").write_text(TMX.format(unit(PLAIN[0], NEW)), encoding="utf-8")
    first, *rest = PLAIN[0].split()
    (tmp_path / "a.html").write_text(f"<p><b>{first}</b> {' '.join(rest)}</p>", encoding="utf-8")
    done = nmt(
        "translate", "--run", run, "--input", tmp_path / "a.html", "--output", tmp_path / "b.html",
        "--tm", tmp_path / "a.tmx",
    )  # fmt: skip
    assert done.status == 0 and "1 line with exact" in done.err, done.err
    written = (tmp_path / "b.html").read_text(encoding="utf-8")
    assert "<b>" in written and written.replace("<b>", "").replace("</b>", "") == f"<p>{NEW}</p>"


def test_files_may_be_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NMT_CACHE", str(tmp_path))
    with serve_files() as site:
        site.files |= {"/a.de": b"eins\n", "/a.en": b"one\n"}
        memory = read_memory([f"{{files: {{de: {site.url}/a.de, en: {site.url}/a.en}}}}"], "de", "en")
    assert memory.find("eins") == Match("one", "exact")


def test_source_in_other_languages_is_empty_if_not_required() -> None:
    assert len(read_memory(["{files: {de: a, fr: b}}"], "de", "en", is_required=False)) == 0


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("{files: {de: a, fr: b}}", None, "must name de and en"),
        ("{files: {de: none.de, en: none.en}}", None, "none.de: no such file or folder"),
        ("other.tmx", TMX.format(unit("a", "b", ("fr", "es"))), "no segments from de into en; no text"),
        ("one.tmx", TMX.format('<tu><tuv xml:lang="de"><seg>a</seg></tuv></tu>'), "no text in en: 1"),
        ("damaged.tmx", TMX.format(unit("a", "b"))[:-20], "broken XML"),
        ("no-header.tsv", "a\tb\n", "no column for de"),
        ("sides.tsv", "de\ten\na\t\n\tb\n", "no segments from de into en; no text in de: 1; no text in en: 1"),
        ("a.pdf", "", "a document, not a corpus"),
    ],
)
def test_unusable_memory_is_refused(
    run: Path, nmt: Command, tmp_path: Path, name: str, content: str | None, message: str
) -> None:
    if content is not None:
        Path(name).write_text(content, encoding="utf-8")
    done = nmt("translate", "--run", run, "--tm", name, "--output", tmp_path / "out")
    assert (done.status, done.err.count("\n")) == (2, 1) and message in done.err, done.err
    assert (content is None or name in done.err) and not (tmp_path / "out").exists()


def test_invalid_sources_and_two_steps_are_refused(translator: Translator) -> None:
    for tm, message in (("none.tmx", "no such file"), ("{path: a.tsv, column: x}", "column")):
        with pytest.raises((DataError, ConfigError), match=message):
            translator.translate([PLAIN[0]], tm=tm)
    two_steps = replace(make(tiny_tokenizer(), tiny_config()), first=translator)
    with pytest.raises(ConfigError, match="--via"):
        two_steps.translate([PLAIN[0]], tm=memory_of(("a", "b")))
