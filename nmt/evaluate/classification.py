"""Evaluation of a classifier on a split of a corpus."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nmt import __version__
from nmt.console import Progress, aligned, printable
from nmt.data.corpus import Corpus
from nmt.evaluate.metrics import BINS, ClassScores, Score, class_scores
from nmt.evaluate.report import Report, Subject
from nmt.evaluate.run import record_scores
from nmt.runs.info import ScoreRecord
from nmt.translate.classification import Classifier

_SHOWN_LABELS = 20
"""Maximum number of labels of a confusion matrix in text."""


@dataclass(frozen=True)
class ClassReport:
    """The scores of a classifier on a split."""

    report: Report
    record: ScoreRecord
    scores: ClassScores
    labels: Sequence[str]

    def lines(self) -> Iterator[str]:
        """Yield the report as lines of text."""
        record, scores = self.record, self.scores
        yield (
            f"accuracy {scores.accuracy:.4f}, macro F1 {scores.macro_f1:.4f}, expected calibration error "
            f"{scores.calibration_error:.4f} ({BINS} bins)"
        )
        if len(self.labels) <= _SHOWN_LABELS:
            yield "rows: labels, columns: predictions"
            rows = [["", *map(printable, self.labels)]]
            for label, counts in zip(self.labels, scores.confusion.tolist(), strict=True):
                rows.append([printable(label), *(f"{n:,}" for n in counts)])
            yield from aligned(rows, right=range(1, len(rows[0])))
        else:
            yield f"the confusion matrix of {len(self.labels):,} labels is shown with --format json"
        yield (
            f"split {printable(record.split)}, {record.lines:,} texts, step {record.step} {record.weights}, "
            f"{record.precision}, nmt {record.nmt}"
        )

    def json(self) -> dict[str, object]:
        """Return the report as values that JSON can represent."""
        matrix = {"labels": list(self.labels), "confusion": self.scores.confusion.tolist()}
        return self.record.model_dump(mode="json") | matrix


def evaluate_classifier(classifier: Classifier, corpus: Corpus, split_name: str) -> ClassReport:
    """Score a classifier on a split, and append the scores to the run's scores.jsonl.

    Raises DataError if there is no such split or it is damaged.
    """
    data, origin, split = classifier.config.data, classifier.origin, corpus.in_one_file(split_name)
    corpus.verify(split.name)
    encoded, cut = classifier.encode(split.text(data.src))
    with Progress(f"classifying {split.name}", split.n) as progress:
        probabilities = classifier.probabilities(encoded, progress.add)
    found = class_scores(probabilities, np.asarray(split.ids(data.tgt), np.int64))
    signature = f"labels:{len(classifier.labels)}|version:{__version__}"
    scores = (
        Score("accuracy", found.accuracy, signature, higher_is_better=True),
        Score("macro_f1", found.macro_f1, signature, higher_is_better=True),
        Score("calibration_error", found.calibration_error, f"{signature}|bins:{BINS}", higher_is_better=False),
    )
    notes = (f"{len(cut):,} texts were cut at {classifier.max_length:,} pieces",) if cut else ()
    subject = Subject(split=split.name, search="none", precision=classifier.precision)
    report = Report(scores, split.n, subject, notes)
    return ClassReport(report, record_scores(report, origin, corpus), found, classifier.labels)
