"""What is recorded of an evaluation: the weights, the text, and strings of any kind."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from nmt.data.corpus import Corpus
from nmt.evaluate.report import Report, Subject, evaluate, record_scores
from nmt.layout import DataDir, RunDir
from nmt.runs.info import read_scores
from nmt.runs.model import Origin
from nmt.text.tokenizer import Tokenizer
from tiny_run import make, tiny_config


def report(split: str) -> Report:
    subject = Subject(split=split, search="beam 5", precision="bf16")
    return evaluate(["a b c d"], ["a b c d"], subject, lowercase=True)


def test_record_identifies_weights_and_text(tokenizer: Tokenizer, tiny_data: Path, tmp_path: Path) -> None:
    translator, corpus = make(tokenizer, tiny_config()), Corpus.open(DataDir(tiny_data))
    translator.origin = Origin(tmp_path, 30, "average", "the best", (10, 20, 30))
    recorded = [record_scores(report(split), translator, corpus) for split in ("test", "valid")]
    assert read_scores(RunDir(tmp_path)) == recorded
    first, second = recorded
    assert (first.step, first.weights, first.averaged, first.ensemble) == (30, "average", [10, 20, 30], [])
    assert (first.split, first.lines, first.search, first.precision) == ("test", 1, "beam 5", "bf16")
    assert first.notes == ["lowercased: not comparable with cased scores"]
    assert [score.metric for score in first.scores] == ["bleu", "chrf", "ter"]
    assert (first.data, first.corpus) == (str(tiny_data), corpus.fingerprint)
    assert first.text != second.text


def test_text_fingerprint_covers_both_languages(tokenizer: Tokenizer, tiny_data: Path, tmp_path: Path) -> None:
    translator, corpus = make(tokenizer, tiny_config()), Corpus.open(DataDir(tiny_data))
    translator.origin = Origin(tmp_path, 30, "raw", "the best")
    found = {record_scores(report("test"), translator, corpus).text}
    for name in ("test.aa", "test.bb"):
        changed = corpus.manifest.files | {name: corpus.manifest.files["train.aa"]}
        other = replace(corpus, manifest=corpus.manifest.model_copy(update={"files": changed}))
        found.add(record_scores(report("test"), translator, other).text)
    assert len(found) == 3
    changed = corpus.manifest.files | {"valid.aa": corpus.manifest.files["train.aa"]}
    grown = replace(corpus, manifest=corpus.manifest.model_copy(update={"files": changed, "fingerprint": "x"}))
    record = record_scores(report("test"), translator, grown)
    assert record.corpus == "x" and record.text in found


def test_record_with_names_that_are_not_utf8(tokenizer: Tokenizer, tiny_data: Path, tmp_path: Path) -> None:
    strange = os.fsdecode(b"caf\xe9")
    translator, corpus = make(tokenizer, tiny_config()), Corpus.open(DataDir(tiny_data))
    origin = Origin(Path(tmp_path / strange), 30, "raw", "the best")
    translator.origin, translator.others = origin, [replace(origin, step=7)]
    origin.run.mkdir()
    whole = report("test")
    scores = tuple(replace(score, signature=strange) for score in whole.scores)
    [record] = [record_scores(replace(whole, scores=scores), translator, corpus)]
    assert read_scores(RunDir(origin.run)) == [record]
    assert [member.run for member in record.ensemble] == [f"{tmp_path}/caf\\udce9"] * 2
    assert [member.step for member in record.ensemble] == [30, 7]
    assert (record.step, record.weights, record.scores[0].signature) == (None, None, "caf\\udce9")
