"""Reports of scores and their history; files of different lengths."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
import sacrebleu

from nmt.errors import DataError
from nmt.evaluate.compare import compare
from nmt.evaluate.compare.systems import Group, System, TextToTranslate, read_systems, single_members
from nmt.evaluate.metrics import (
    METRICS,
    MetricName,
    corpus_score,
    few_four_grams,
    metric_name,
    unspaced_notes,
    use_of,
)
from nmt.evaluate.report import (
    EvaluationReport,
    History,
    Subject,
    evaluate,
    evaluate_files,
    metric_value,
    score_table,
)
from nmt.evaluate.ter import count_edits
from nmt.runs.info import EnsembleMember, ScoreRecord
from nmt.tables import render
from nmt.text.letters import forms_notes
from scored_run import record
from sentences import sentence_pairs

HYPS = ["Ein Hund läuft durch den Schnee.", "Zwei Frauen sitzen auf einer Bank."]
REFS = ["Ein Hund rennt durch den Schnee.", "Zwei Frauen sitzen auf der Bank."]
PERFECT = [0.0 if metric == "ter" else 100.0 for metric in METRICS]
RUN = Subject(run="runs/de-en", split="test", step=4000, weights="average", search="beam 5")
FILE = Subject(hyp="hyp", ref="ref")


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_report_lists_scores_and_text() -> None:
    report = evaluate(HYPS, REFS, RUN, tgt_lang="de")
    assert report.scores == tuple(corpus_score(metric, HYPS, REFS, tgt_lang="de") for metric in METRICS)
    assert (report.n_lines, report.notes) == (2, ())

    text = report.as_text().split("\n")
    for line, score in zip(text, report.scores, strict=False):
        assert re.split(" +", line)[:3] == [metric_name(score.metric), f"{score.value:.2f}", score.signature]
        assert line.endswith("(lower is better)") != score.higher_is_better
    assert text[len(METRICS) + 1 :] == [
        "lines 2, run runs/de-en, split test, step 4000, weights average, search beam 5"
    ]


def test_use_of_bleu_depends_on_its_range_and_has_caveat_for_characters_and_few_lines() -> None:
    def use(bleu: float, n_lines: int, tokenizer: str) -> str:
        return use_of({"bleu": bleu, "chrf": 40.0}, n_lines, tokenizer)

    lines = [use(bleu, 1000, "13a") for bleu in (0.0, 9.9, 10.0, 29.9, 30.0, 49.9, 50.0, 100.0)]
    uses = [line.partition("usually ")[2] for line in lines]
    assert [first == second for first, second in pairwise(uses)] == [True, False, True, False, True, False, True]
    assert "unusable" in uses[0] and "edit" in uses[4]
    plain = len(use(30.0, 1000, "BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"))
    assert plain == len(lines[4])
    assert min(len(use(30.0, 99, "13a")), len(use(30.0, 1000, "char")), len(use(30.0, 1000, "tok:zh"))) > plain
    assert "unusable" not in use_of({"bleu": 9.0, "chrf": 50.0}, 1000, "13a"), "half of the letters are right"


def test_short_lines_equal_to_their_references_are_not_called_unusable() -> None:
    lines = ["Save as", "Open file…", "Undo", "Print preview"] * 25
    report = evaluate(lines, lines, RUN, "en")
    assert [score.value for score in report.scores] == [0, 100, 0] and report.notes == ()
    assert "0 of 100 references" in report.as_text() and "usually" not in report.as_text()
    alone = evaluate(lines, lines, RUN, "en", metrics=["bleu"])
    assert (alone.notes, alone.use) == ((), report.use), "the verdict looks at chrF all the same"
    assert evaluate(HYPS, REFS, RUN, metrics=["ter", "bleu"]).use == evaluate(HYPS, REFS, RUN).use != ""
    note, shifted = evaluate(lines[1:] + lines[:1], lines, FILE, "en").notes
    assert "not aligned" in note and "look shifted" in shifted


@pytest.mark.parametrize(
    ("refs", "lang", "tokenize", "n_long"),
    [
        (["a b c d"] + 9 * ["a b c"], "en", None, None),
        (["a b c d"] + 10 * ["a b c"], "en", None, 1),
        (["a b c"], "en", None, 0),
        (["a b, c"], "en", None, None),
        (["a b, c"], "en", "none", 0),
        (["漢字漢"], "ja", None, 0),
        (["漢字漢字"], "ja", None, None),
        (["漢字漢字"], "zh", None, None),
        (["漢字漢字"], "en", "char", None),
        ([("a", "a b c d"), ("a", "a b")], "en", None, None),
    ],
)
def test_bleu_says_little_if_less_than_a_tenth_of_references_have_four_tokens(
    refs: list[str | tuple[str, ...]], lang: str, tokenize: str | None, n_long: int | None
) -> None:
    why = few_four_grams(refs, lang, tokenize)
    assert why is None if n_long is None else f"{n_long} of {len(refs)} " in str(why)


def test_only_chosen_metrics_are_computed() -> None:
    report = evaluate(HYPS, REFS, RUN, tokenize="char", metrics=["chrf++"])
    (score,) = report.scores
    assert score.value == pytest.approx(sacrebleu.corpus_chrf(HYPS, [REFS], word_order=2).score)
    assert (score.metric, score.signature.partition("|")[0], report.notes) == ("chrf++", "chrF2++", ())
    assert re.match(r"chrF\+\+ +\d\d\.\d\d  chrF2", report.as_text()) and "BLEU" not in report.as_text()


def test_percentages_have_as_many_digits_as_bleu() -> None:
    assert metric_value("off-target %", 100.0) == metric_value("bleu", 100.0) == "100.00"


SPACED_HYPS, SPACED_REFS = ([line.replace(".", " .") for line in lines] * 100 for lines in (HYPS, REFS))


@pytest.mark.parametrize(
    ("hyps", "refs", "tokenize", "noted"),
    [
        (SPACED_HYPS, SPACED_REFS, None, ["the text looks tokenised"]),
        (SPACED_HYPS, REFS * 100, None, ["only the translations look tokenised"]),
        (HYPS * 100, SPACED_REFS, None, ["only the references look tokenised"]),
        (SPACED_HYPS, SPACED_REFS, "none", ["BLEU with tokenize=none"]),
        (SPACED_HYPS, REFS * 100, "none", ["BLEU with tokenize=none", "only the translations look tokenised"]),
        ([*SPACED_HYPS[:18], *HYPS * 91], REFS * 100, None, []),  # a few such lines occur in any text
    ],
)
def test_tokenized_text_is_noted_once(
    hyps: list[str], refs: list[str], tokenize: str | None, noted: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert [note.split(":")[0] for note in evaluate(hyps, refs, RUN, tokenize=tokenize).notes] == noted
    assert caplog.records == [], "no warning of sacrebleu"


def test_only_line_feeds_separate_lines_of_files(tmp_path: Path) -> None:
    lines = ["a\u2028b c d e", "f\x0cg\x85h i j k", "", "l m\x00n o p"]
    hyp = write(tmp_path / "hyp", "".join(f"{line}\n" for line in lines).encode())
    ref = write(tmp_path / "ref", b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    report = evaluate_files(hyp, [ref]).report
    assert [score.value for score in report.scores] == pytest.approx(PERFECT)
    assert (report.n_lines, report.subject) == (4, Subject(hyp=str(hyp), ref=str(ref)))


def test_several_references_are_scored_together(tmp_path: Path) -> None:
    hyp = write(tmp_path / "hyp", b"a b c d e\nf g h i j\n")
    refs = [write(tmp_path / "one", b"a b c d x\nf g h i j\n"), write(tmp_path / "two", b"a b c d e\nf g h y j\n")]
    report = evaluate_files(hyp, refs).report
    assert [score.value for score in report.scores] == pytest.approx(PERFECT)
    assert all("|nrefs:2|" in score.signature for score in report.scores)
    assert report.subject == Subject(hyp=str(hyp), refs=tuple(map(str, refs)))
    assert report.as_text().endswith(f"lines 2, hyp {hyp}, refs {refs[0]} + {refs[1]}")
    assert report.as_json()["refs"] == tuple(map(str, refs))
    assert evaluate_files(hyp, refs[:1]).report.scores[0].value < 90


def test_columns_of_references_are_read_as_several_references(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hyp, other = write(tmp_path / "hyp", b"a b c d e\nf g h i j\n"), write(tmp_path / "other", b"a b c d\nf g h i\n")
    ref = write(tmp_path / "ref.tsv", b"a b c d x\ta b c d e\nf g h i j\tf g h y j\n")
    scores = evaluate_files(hyp, [ref]).report.scores
    assert [score.value for score in scores] == pytest.approx(PERFECT)
    assert all("|nrefs:2|" in score.signature for score in scores)
    assert read_systems(single_members([hyp, other]), [ref])[0].references[0] == ("a b c d x", "a b c d e")
    assert capsys.readouterr().err.count(f"{ref}: each line has 2 references") == 2
    spaced = write(tmp_path / "spaced", b"a b c d e\t\nf g h i j\t\n")
    references = read_systems(single_members([hyp, other]), [ref, spaced])[0].references
    assert references[0] == ("a b c d x", "a b c d e", "a b c d e"), "a blank column is none"
    capsys.readouterr()
    # text with tabs: in the translations, too, or in some of the lines
    tabbed = write(tmp_path / "tabbed", b"1\ta b c d e\n2\tf g h i j\n")
    ragged = write(tmp_path / "ragged", b"a b\tc d e\nf g\th i\tj\n")
    for pair in ((tabbed, tabbed), (hyp, ragged)):
        assert all("|nrefs:1|" in score.signature for score in evaluate_files(pair[0], [pair[1]]).report.scores)
    assert capsys.readouterr().err == ""


LINES = [line for _, line in sentence_pairs(120)]


@pytest.mark.parametrize(
    ("lines", "noted"),
    [
        (LINES, []),
        ([word.replace("e", "a") for word in LINES], []),
        ([*LINES[:6], "", " ", *LINES[8:]], ["2 of 120 translations are blank"]),
        (Random(1).sample(LINES, 120), ["no more alike than lines paired at random"]),
        ([*LINES[1:], LINES[0]], ["look shifted: the reference line after its own"]),
        ([line.lower() for line in LINES], ["0% of the translations and 100% of the references have capitals"]),
        ([line if i % 5 else line.lower() for i, line in enumerate(LINES)], []),
    ],
)
def test_blank_reordered_and_lowercased_translations_are_noted(
    lines: list[str], noted: list[str], tmp_path: Path
) -> None:
    notes = evaluate(lines, LINES, FILE, "en").notes
    assert [expected in note for expected, note in zip(noted, notes, strict=True)] == [True] * len(noted)
    paths = [tmp_path / "hyp", tmp_path / "same", tmp_path / "ref"]
    for path, text in zip(paths, (lines, [*lines[:-1], lines[-1] + "!"], LINES), strict=True):
        path.write_text("".join(f"{line}\n" for line in text), encoding="utf-8")
    of_systems = read_systems(single_members(paths[:2]), paths[2:])[0].notes
    assert [note for note in of_systems if note.startswith("hyp: ")] == [f"hyp: {note}" for note in notes]


def test_reordered_lines_are_suspected_neither_in_translations_of_a_run_nor_if_all_are_the_same() -> None:
    assert evaluate(Random(1).sample(LINES, 120), LINES, RUN, "en").notes == ()
    for same in ("The", ""):
        notes = " ".join(evaluate([same] * 120, LINES, FILE, "en").notes)
        assert notes and "alike" not in notes and "shifted" not in notes


@pytest.mark.parametrize("contents", [[b"a b c d e f\nf g\n\n", b" \nf g h\n\n"], [b"a b c d e\n \n\n"]])
def test_blank_references_of_translations_are_reported(contents: list[bytes], tmp_path: Path) -> None:
    hyp, blank = write(tmp_path / "hyp", b"a b c d e\nf g\n\n"), write(tmp_path / "blank", b"a b c d e\n\n\n")
    refs = [write(tmp_path / str(n), content) for n, content in enumerate(contents)]
    [note] = evaluate_files(hyp, refs).report.notes
    assert "blank" in note and "(lines: 1)" in note
    assert note in read_systems(single_members([blank, hyp]), refs)[0].notes


@pytest.mark.parametrize("blank", [b"\n", b" \n"])
def test_lines_without_text_in_all_files_are_not_reported(blank: bytes, tmp_path: Path) -> None:
    hyp, ref = write(tmp_path / "hyp", b"a b c d e\n\n"), write(tmp_path / "ref", b"a b c d e\n" + blank)
    assert evaluate_files(hyp, [ref]).report.notes == ()


def test_unreadable_or_empty_files_raise(tmp_path: Path) -> None:
    for name, content in (("empty", b""), ("text", b"a\nb\n"), ("latin", b"a\ncaf\xe9\n")):
        write(tmp_path / name, content)
    for hyp, ref, problem in (
        ("empty", "empty", "empty and .*empty are empty: there is nothing to score"),
        ("none", "text", "none: no such file$"),
        ("latin", "text", r"latin: not UTF-8 at line 2, byte 4 of the line \(0xE9\)"),
    ):
        with pytest.raises(DataError, match=problem):
            evaluate_files(tmp_path / hyp, [tmp_path / ref])


# --- Case and tokenizers ---


HYPS_METRICS = ["The cat sits on the mat .", "He doesn't know it.", "", "Two dogs run in the Park"]
REFS_METRICS = ["The cat sat on the mat.", "He does not know it.", "An empty line", "Two dogs run in the park"]


@pytest.mark.parametrize(("metric", "perfect"), [*zip(METRICS, PERFECT, strict=True)])
def test_scores_are_cased_by_default(metric: MetricName, perfect: float) -> None:
    hyps = [line.lower() for line in REFS_METRICS]
    cased, lowercased = (corpus_score(metric, hyps, REFS_METRICS, lowercase=lower) for lower in (False, True))
    assert cased.value != perfect and "case:mixed" in cased.signature
    assert lowercased.value == pytest.approx(perfect) and "case:lc" in lowercased.signature


@pytest.mark.parametrize(
    ("tgt_lang", "tok"),
    [("de", "13a"), (None, "13a"), ("zh", "zh"), ("zh_TW", "zh"), ("ja", "char"), ("ko", "char"), ("th", "char")]
    + [(code, "zh") for code in ("zho", "zh-CN", "zho_Hans", "yue", "yue_Hant", "wuu", "lzh", "gan")]
    + [(code, "char") for code in ("jpn", "jpn_Jpan", "kor_Hang", "tha_Thai", "lao", "khm", "mya", "xx_Thai")]
    + [(code, "char") for code in ("bo", "dz", "shn", "mnw")]
    + [(code, "13a") for code in ("deu", "eng_Latn", "fra", "ces", "xx", "hin_Deva", "kat", "amh", "arb")],
)
def test_bleu_tokenizer_depends_on_target_language(tgt_lang: str | None, tok: str) -> None:
    assert f"|tok:{tok}|" in corpus_score("bleu", HYPS_METRICS, REFS_METRICS, tgt_lang=tgt_lang).signature
    assert (
        "|tok:intl|" in corpus_score("bleu", HYPS_METRICS, REFS_METRICS, tgt_lang=tgt_lang, tokenize="intl").signature
    )


@pytest.mark.parametrize(
    ("names", "text", "tok"),
    [
        ("hyp.en ref.en", "two dogs 我", "13a"),
        ("a.new b.new", "two dogs", "13a"),  # the code of Newari
        ("a.ts b.ts", "我们今天去公园里散步。", "zh"),
        ("a b", "我们今天去公园里散步。", "zh"),
        ("a.zh b.zh", "在 Visual Studio Code 中打开文件", "zh"),
        ("a.zh.txt b.zh.txt", "东京大学", "zh"),
        ("a b", "わたしは学生です。", "char"),
        ("a.zh-ja b", "わたしは学生です。", "char"),
        ("a b.ja.txt", "東京大学", "char"),
        ("a test.jpn_Jpan", "東京大学", "char"),
        ("a.ja-zh b.zh", "东京大学", "zh"),
        ("a b", "วันนี้เราไปเดินเล่นที่สวน", "char"),
        ("a b", "오늘은 공원에 갔습니다.", "char"),
        ("a b", "ꊿꂷꃅꄿꐨꑌ，ꌅꅍꀂꏽꐯ。", "char"),
        ("a b", "ᯀᯞᯖ᯲ᯀᯞᯖ᯲ᯂᯪᯖ", "char"),
        ("a b", "ᨕᨗᨊ ᨔᨘᨑᨛ", "13a"),
        ("a.zh b.zh", "12.5", "13a"),
    ],
)
def test_files_are_scored_by_language_of_name_and_script(names: str, text: str, tok: str, tmp_path: Path) -> None:
    hyp, ref = (write(tmp_path / name, f"{text}\n".encode()) for name in names.split())
    assert f"|tok:{tok}|" in evaluate_files(hyp, [ref]).report.scores[0].signature


@pytest.mark.parametrize(
    ("names", "to", "language", "tok"),
    [("blank ref.zh", None, "zh", "zh"), ("ref.zh blank", None, "zh", "zh"), ("ref.zh", "jpn", "jpn", "char")],
)
def test_language_is_given_or_follows_from_all_references(
    names: str, to: str | None, language: str, tok: str, tmp_path: Path
) -> None:
    hyp, _ = (write(tmp_path / name, "东京大学\n".encode()) for name in ("hyp.zh", "ref.zh"))
    refs = [tmp_path / name for name in names.split()]
    write(tmp_path / "blank", b"\n")
    assert f"|tok:{tok}|" in evaluate_files(hyp, refs, to=to).report.scores[0].signature
    assert read_systems(single_members([hyp, refs[0]]), refs, to=to)[0].tgt_lang == language


THAI = ["วันนี้เราไปเดินเล่นที่สวน สวย", "เขาไม่มา", "ฝนตกหนักมาก"]
THAI_REFS = ["วันนี้พวกเราไปเดินเล่นที่สวน", "เขาไม่มา", "เมื่อวานฝนตก"]


def test_ter_without_spaces_counts_characters_as_sacrebleu_counts_words() -> None:
    divided, divided_refs = ([" ".join(line) for line in lines] for lines in (THAI, THAI_REFS))
    expected = sacrebleu.corpus_ter(divided, [divided_refs]).score
    for code in ("th", "tha_Thai", "lo", "khm", "my", "bo", "shn", "ii", "jv_Java", "bbc_Batk"):
        found = corpus_score("ter", THAI, THAI_REFS, code)
        assert found.value == pytest.approx(expected)
        assert "|tok:char|" in found.signature


def test_ter_by_characters_finds_edits_outside_of_beam_of_sacrebleu() -> None:
    common = [chr(code) for code in range(0xE01, 0xE3B)]
    words, reference = common + ["x"] * 52, ["y"] * 52 + common
    assert count_edits(words, reference) > count_edits(words, reference, is_exact=True) == 104


@pytest.mark.parametrize(("tgt_lang", "tokenize"), [("xx", None), ("en", None), (None, None), ("th", "13a")])
def test_text_without_spaces_that_is_divided_at_spaces_is_noted(tgt_lang: str | None, tokenize: str | None) -> None:
    [note] = unspaced_notes(THAI_REFS, tgt_lang, tokenize)
    assert note in evaluate(THAI, THAI_REFS, RUN, tgt_lang, tokenize=tokenize).notes
    text = TextToTranslate("test", tuple(THAI_REFS), languages=("de", tgt_lang) if tgt_lang else None)
    groups = [Group(name, (System(name, tuple(lines)),)) for name, lines in {"a": THAI, "b": THAI_REFS}.items()]
    assert note in compare(text, groups, tokenize=tokenize, trials=10).notes


def test_only_text_that_is_not_divided_into_words_is_noted() -> None:
    assert [*unspaced_notes([("", line) for line in THAI_REFS], None)] == [*unspaced_notes(THAI_REFS, None)] != []
    assert not [*unspaced_notes(THAI_REFS, "th"), *unspaced_notes(REFS, "de"), *unspaced_notes([], "xx")]
    assert not [*unspaced_notes(["วันนี้ พวก เรา ไป เดิน เล่น ที่ สวน"], None, "none")]
    assert not [*unspaced_notes(["Donaudampfschifffahrtsgesellschaftskapitän"], "de")]


def test_references_in_other_forms_of_letters_are_noted() -> None:
    translations, respelled = ["کتاب ما", "ماه"] * 10, ["كتاب ما", "ماهي"] * 10
    [note] = forms_notes("fa", "\n".join(translations), "\n".join(respelled))
    assert "ك" in note and "20" in note
    assert note in evaluate(translations, respelled, RUN, "fa").notes
    assert note not in evaluate(translations, translations, RUN, "fa").notes
    assert not [*forms_notes("fa", "كتابي", "كتابي" * 20), *forms_notes("", "ی" * 30, "ي" * 30)]


# --- Several test sets, and the history of a run ---


def report_of_split(split: str, n: int = 1, **options: bool) -> EvaluationReport:
    subject = Subject(run="runs/\x1ba", split=split, step=4000, weights="average", search="beam 5", precision="bf16")
    return evaluate(HYPS * n, HYPS * n, subject, "de", **options)


def test_score_table_has_row_per_report_and_common_facts_in_title() -> None:
    reports = [report_of_split("a"), report_of_split("b", 600, lowercase=True)]
    table = score_table(reports, "text")
    assert table.title == "run runs/\x1ba, step 4000, weights average, search beam 5, precision bf16"
    scores = [f"{score:.2f}" for score in PERFECT]
    assert table.rows == [["split a", "2", *scores], ["split b", "1,200", *scores]]
    n = len(METRICS)
    assert [(each["split"], each["metric"]) for each in table.records[n - 1 : n + 1]] == [("a", "ter"), ("b", "bleu")]
    assert table.records[n]["notes"] == reports[1].notes
    assert len({note for note in table.notes if note.startswith("BLEU: ")}) == 2, "cased and lower-cased"
    assert score_table(reports[:1], "text").rows[0][0] == "runs/\x1ba"
    assert reports[0].as_text().count("\n") == n + 1


def marks(*records: ScoreRecord) -> list[list[bool]]:
    dumped: list[Any] = History(records).as_json()
    return [[score["comparable"] for score in record["scores"]] for record in dumped]


def test_scores_are_compared_with_newest_score_of_split() -> None:
    ensemble = [EnsembleMember(run="x", step=1, weights="raw")] * 2
    assert marks(
        record("a", version="2.5.0"),
        record("b", version="2.5.0"),
        record("a", text="other"),
        record("a"),
        record("a", bleu=40.0, step=None, weights=None, ensemble=ensemble),
    ) == [[False] * 3, [True] * 3, [False] * 3, [True] * 3, [True] * 3]
    odd, old = record("a", notes=["lowercased"], version="lc"), record("a", version="2.5.0")
    assert marks(old, record("a"), odd) == [[False] * 3, [True] * 3, [False] * 3]
    assert marks(record("a", version="2.5.0", notes=["tokenize"]), odd) == [[False] * 3, [True] * 3]
    one = record("a").scores
    assert marks(record(version="2.5.0"), record(scores=one[:1])) == [[False, True, True], [True]]


def test_history_marks_incomparable_scores() -> None:
    old = record("test_a", bleu=9.5, version="2.5.0", lines=12_345, search="beam 1\x1b", step=12_000)
    member = EnsembleMember(run="x", step=1, weights="raw")
    both = record("test_a", step=None, weights=None, ensemble=[member, member], scores=record().scores[:2])
    table = History([old, record("test_a"), both]).as_table()
    assert render("text", [table], None).splitlines() == [
        "date (UTC)        split    lines    step  weights         BLEU    chrF     TER   precision  search",
        "2026-03-04 05:06  test_a  12,345  12,000  raw             9.50*  19.00*  90.50*  bf16       beam 1\\x1b",
        "2026-03-04 05:06  test_a   1,000     400  raw            31.25   62.50   68.75   bf16       beam 5, length "
        "penalty power 1",
        "2026-03-04 05:06  test_a   1,000       -  ensemble of 2  31.25   62.50       -   bf16       beam 5, length "
        "penalty power 1",
        "BLEU: BLEU|nrefs:1|case:mixed|version:2.6.0",
        "chrF: chrF2|nrefs:1|case:mixed|version:2.6.0",
        "TER: TER|nrefs:1|case:mixed|version:2.6.0  (lower is better)",
        "* not comparable with the other scores of the split: another signature, or another text",
        "* BLEU: BLEU|nrefs:1|case:mixed|version:2.5.0",
        "* chrF: chrF2|nrefs:1|case:mixed|version:2.5.0",
        "* TER: TER|nrefs:1|case:mixed|version:2.5.0  (lower is better)",
    ]
    assert [each["comparable"] for each in table.records] == [False] * 3 + [True] * 5
    assert "*" not in render("text", [History([record(), record("b")]).as_table()], None)
    text = render("text", [History([record(text="before"), record(), record("b", version="2.5.0")]).as_table()], None)
    assert text.count("*") == 3 + 1 + 3, "scores, explanation, signatures"
    assert "BLEU: BLEU|nrefs:1|case:mixed|version:2.5.0 (b)" in text
