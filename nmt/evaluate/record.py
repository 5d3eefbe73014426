"""Recording of what was measured, in scores.jsonl of the run."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

from nmt import __version__
from nmt.console import printable
from nmt.data.corpus import Corpus
from nmt.evaluate.report import Report
from nmt.layout import RunDir
from nmt.runs.scores import EnsembleMember, RecordedScore, ScoreRecord, add_scores
from nmt.translate.translator import Translator


def record_scores(report: Report, translator: Translator, corpus: Corpus) -> ScoreRecord:
    """Append the scores of a split to scores.jsonl of the run that translated it, of an ensemble to that of the first.

    If the run cannot be written to, print that.
    """
    origin, subject = translator.origin, report.subject
    assert origin is not None and subject.split is not None, "a run translated a split"
    members = (origin, *translator.others) if translator.others else ()
    scores = [(printable(score.metric), printable(score.signature), score) for score in report.scores]
    record = ScoreRecord(
        date=datetime.now(UTC).isoformat("T", "seconds"),
        nmt=__version__,
        split=subject.split,
        lines=report.n_lines,
        step=None if members else origin.step,
        weights=None if members else origin.weights,
        averaged=[] if members else list(origin.averaged),
        ensemble=[EnsembleMember(run=printable(str(o.run)), step=o.step, weights=o.weights) for o in members],
        search=str(subject.search),
        precision=str(subject.precision),
        scores=[
            RecordedScore(metric=name, value=score.value, signature=text, higher_is_better=score.higher_is_better)
            for name, text, score in scores
        ],
        notes=list(report.notes),
        data=printable(str(corpus.directory.path.resolve())),
        corpus=corpus.fingerprint,
        text=text_fingerprint(corpus, subject.split),
    )
    add_scores(RunDir(origin.run), record)
    return record


def text_fingerprint(corpus: Corpus, split: str) -> str:
    """Return sixteen hexadecimal digits that change if the text of a split changes."""
    names = [corpus.directory.text(split, language).name for language in corpus.languages]
    return hashlib.sha256("".join(corpus.manifest.files[name].sha256 for name in names).encode()).hexdigest()[:16]
