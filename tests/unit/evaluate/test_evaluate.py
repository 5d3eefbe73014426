"""A report says how each score was computed and of what; files must pair line by line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from nmt.errors import DataError
from nmt.evaluate.metrics import METRICS, corpus_score
from nmt.evaluate.report import Member, Subject, evaluate, evaluate_files, render_json, render_text

HYPS = ["Ein Hund läuft durch den Schnee.", "Zwei Frauen sitzen auf einer Bank."]
REFS = ["Ein Hund rennt durch den Schnee.", "Zwei Frauen sitzen auf der Bank."]
RUN = Subject(run="runs/de-en", split="test", step=4000, weights="average", search="beam 5")


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_report_lists_scores_and_text() -> None:
    report = evaluate(HYPS, REFS, RUN, tgt_lang="de")
    assert report.scores == tuple(corpus_score(metric, HYPS, REFS, tgt_lang="de") for metric in METRICS)
    assert report.n_lines == 2
    assert report.notes == ()

    text = render_text(report).split("\n")
    for line, name, score in zip(text, ["BLEU", "chrF", "TER"], report.scores, strict=False):
        assert re.split(" +", line)[:3] == [name, f"{score.value:.2f}", score.signature]
    assert text[2].endswith("(lower is better)")
    assert text[3:] == ["lines 2, run runs/de-en, split test, step 4000, weights average, search beam 5"]


def test_json_matches_report() -> None:
    report = evaluate(HYPS, REFS, RUN)
    told = json.loads(render_json(report))
    assert [score["metric"] for score in told["scores"]] == ["bleu", "chrf", "ter"]
    assert [score["value"] for score in told["scores"]] == [score.value for score in report.scores]
    assert [score["signature"] for score in told["scores"]] == [score.signature for score in report.scores]
    assert [score["higher_is_better"] for score in told["scores"]] == [True, True, False]
    facts = {name: told[name] for name in ("lines", "run", "split", "step", "weights", "hyp", "ref", "notes")}
    assert facts == {
        "lines": 2, "run": "runs/de-en", "split": "test", "step": 4000, "weights": "average",
        "hyp": None, "ref": None, "notes": [],
    }  # fmt: skip


def test_tokenized_text_warns_once(caplog: pytest.LogCaptureFixture) -> None:
    hyps, refs = ([line.replace(".", " .") for line in lines] * 100 for lines in (HYPS, REFS))

    def told(hyps: list[str], refs: list[str], tokenize: str | None = None) -> list[str]:
        return [note.split(":")[0] for note in evaluate(hyps, refs, RUN, tokenize=tokenize).notes]

    assert told(hyps, refs) == ["the text looks tokenised"]
    assert told(hyps, REFS * 100) == ["the hypotheses look tokenised, the references do not"]
    assert told(HYPS * 100, refs) == ["the references look tokenised, the hypotheses do not"]
    assert told(hyps, refs, "none") == ["BLEU with tokenize=none"]
    assert told(hyps, REFS * 100, "none")[1:] == ["the hypotheses look tokenised, the references do not"]
    assert told([*hyps[:19], *HYPS * 91], REFS * 100 + REFS[:1]) == [], "a few such lines are in any text"
    assert caplog.records == [], "sacrebleu says nothing"


def test_options_for_papers_are_noted() -> None:
    report = evaluate(HYPS, REFS, RUN, lowercase=True, tokenize="none")
    assert [note.split(":")[0] for note in report.notes] == ["lowercased", "BLEU with tokenize=none"]
    text = render_text(report)
    assert "note: lowercased: not comparable with cased scores" in text
    assert "note: BLEU with tokenize=none: not comparable with BLEU of another tokenization" in text
    assert "case:lc" in report.scores[0].signature
    assert "tok:none" in report.scores[0].signature
    assert json.loads(render_json(report))["notes"] == list(report.notes)


def test_files_are_read_by_line(tmp_path: Path) -> None:
    lines = ["a\u2028b c d e", "f\x0cg\x85h i j k", "", "l m\x00n o p"]
    hyp = write(tmp_path / "hyp", "".join(f"{line}\n" for line in lines).encode())
    ref = write(tmp_path / "ref", b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    report = evaluate_files(hyp, ref)
    assert report.n_lines == 4
    assert [score.value for score in report.scores] == pytest.approx([100.0, 100.0, 0.0])
    assert report.subject == Subject(hyp=str(hyp), ref=str(ref))


def test_line_with_several_references(tmp_path: Path) -> None:
    hyp = write(tmp_path / "hyp", b"a b c d e\nf g h i j\n")
    refs = [write(tmp_path / "one", b"a b c d x\nf g h i j\n"), write(tmp_path / "two", b"a b c d e\nf g h y j\n")]
    report = evaluate_files(hyp, refs)
    assert [score.value for score in report.scores] == pytest.approx([100.0, 100.0, 0.0])
    assert all("|nrefs:2|" in score.signature for score in report.scores)
    assert report.subject == Subject(hyp=str(hyp), refs=tuple(map(str, refs)))
    assert render_text(report).endswith(f"lines 2, hyp {hyp}, refs {refs[0]} + {refs[1]}")
    assert json.loads(render_json(report))["refs"] == [str(ref) for ref in refs]
    assert evaluate_files(hyp, refs[0]).scores[0].value < 90


def test_report_names_each_run_of_ensemble() -> None:
    members = Member("runs/a", 400, "raw"), Member("runs/b", 800, "ema")
    report = evaluate(HYPS, REFS, Subject(ensemble=members, split="test"))
    assert "lines 2, split test, ensemble runs/a step 400 raw + runs/b step 800 ema" in render_text(report)
    found = json.loads(render_json(report))
    assert found["run"] is None
    assert found["ensemble"][1] == {"run": "runs/b", "step": 800, "weights": "ema"}


def test_files_of_unequal_length_raise(tmp_path: Path) -> None:
    hyp, ref = write(tmp_path / "hyp", b"a\nb\nc\n"), write(tmp_path / "ref", b"a\nb\nc\nd\n")
    with pytest.raises(DataError, match=r"hyp has 3 lines, .*ref 4: they must pair line by line"):
        evaluate_files(hyp, ref)
    with pytest.raises(DataError, match=r"ref has 4 lines, .*hyp 3: they must pair line by line"):
        evaluate_files(ref, hyp)
    with pytest.raises(DataError, match=r"hyp has 3 lines, .*ref 4, .*other 3: they must pair line by line"):
        evaluate_files(hyp, [ref, write(tmp_path / "other", b"a\nb\nc\n")])


def test_blank_files_raise(tmp_path: Path) -> None:
    empty, text = write(tmp_path / "empty", b""), write(tmp_path / "text", b"a\n")
    with pytest.raises(DataError, match=r"empty and .*empty are empty: there is nothing to score"):
        evaluate_files(empty, empty)
    with pytest.raises(DataError, match=r"none: no such file$"):
        evaluate_files(tmp_path / "none", text)
    with pytest.raises(DataError, match=r"latin: not UTF-8 at line 2, byte 4 of the line \(0xE9\)"):
        evaluate_files(write(tmp_path / "latin", b"a\ncaf\xe9\n"), write(tmp_path / "two", b"a\nb\n"))


def test_zero_bleu_is_noted() -> None:
    assert [note.split(":")[0] for note in evaluate(["eins zwei drei vier"], ["one two three four"], RUN).notes] == [
        "BLEU 0.00"
    ]
    assert evaluate(["one two three four"], ["one two three four"], RUN).notes == ()
