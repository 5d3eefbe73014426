"""`nmt evaluate` of a classifier: its scores on a split of a corpus, and their record."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from nmt import __version__
from nmt.console import Progress, aligned, printable
from nmt.data.corpus import Corpus
from nmt.evaluate.metrics import BINS, ClassScores, class_scores
from nmt.evaluate.report import text_fingerprint
from nmt.evaluate.run import open_corpus
from nmt.layout import RunDir
from nmt.runs.info import RecordedScore, ScoreRecord, add_scores
from nmt.translate.classification import Classifier

_SHOWN_LABELS = 20  # of a confusion matrix on the screen


@dataclass(frozen=True)
class ClassReport:
    """The scores of a classifier on a split."""

    record: ScoreRecord
    scores: ClassScores
    labels: Sequence[str]

    def lines(self) -> Iterator[str]:
        """Yield the report as text."""
        record, scores = self.record, self.scores
        yield (
            f"accuracy {scores.accuracy:.4f}, macro F1 {scores.macro_f1:.4f}, expected calibration error "
            f"{scores.calibration_error:.4f} ({BINS} bins)"
        )
        if len(self.labels) <= _SHOWN_LABELS:
            yield "rows: labels, columns: predictions"
            names = [printable(label) for label in self.labels]
            rows = [["", *names]]
            rows += [
                [name, *(f"{n:,}" for n in own)] for name, own in zip(names, scores.confusion.tolist(), strict=True)
            ]
            yield from aligned(rows, right=range(1, len(rows[0])))
        else:
            yield f"the confusion matrix of {len(self.labels):,} labels is shown with --json"
        yield (
            f"split {printable(record.split)}, {record.lines:,} texts, step {record.step} {record.weights}, "
            f"{record.precision}, nmt {record.nmt}"
        )

    def json(self) -> dict[str, object]:
        """Return the report as plain values."""
        matrix = {"labels": list(self.labels), "confusion": self.scores.confusion.tolist()}
        return self.record.model_dump(mode="json") | matrix


def evaluate_classifier(classifier: Classifier, corpus: Corpus, split_name: str) -> ClassReport:
    """Score a classifier on a split, and append the scores to scores.jsonl of its run.

    Raises DataError if there is no such split or it is damaged.
    """
    data, origin, split = classifier.config.data, classifier.origin, corpus.in_one_file(split_name)
    corpus.verify(split.name)
    encoded, cut = classifier.encode(split.text(data.src))
    with Progress(f"classifying {split.name}", split.n) as progress:
        probabilities = classifier.probabilities(encoded, progress.add)
    scores = class_scores(probabilities, np.asarray(split.ids(data.tgt), np.int64))
    signature = f"labels:{len(classifier.labels)}|version:{__version__}"
    values = {
        "accuracy": (scores.accuracy, signature, True),
        "macro_f1": (scores.macro_f1, signature, True),
        "calibration_error": (scores.calibration_error, f"{signature}|bins:{BINS}", False),
    }
    record = ScoreRecord(
        date=datetime.now(UTC).isoformat("T", "seconds"),
        nmt=__version__,
        split=split.name,
        lines=split.n,
        step=origin.step,
        weights=origin.weights,
        averaged=list(origin.averaged),
        search="none",
        precision=classifier.precision,
        scores=[
            RecordedScore(metric=metric, value=value, signature=text, higher_is_better=is_higher)
            for metric, (value, text, is_higher) in values.items()
        ],
        notes=[f"{len(cut):,} texts were cut at {classifier.max_length:,} pieces"] if cut else [],
        data=printable(str(corpus.directory.path.resolve())),
        corpus=corpus.fingerprint,
        text=text_fingerprint(corpus, split.name),
    )
    add_scores(RunDir(origin.run), record)
    return ClassReport(record, scores, classifier.labels)


def corpus_of_classifier(classifier: Classifier, data_dir: Path | None) -> Corpus:
    """Open the corpus at `data_dir`, by default the one used for training. Raises DataError as `open_corpus`."""
    return open_corpus(RunDir(classifier.origin.run), classifier.config.data.languages, data_dir)


def reports_json(reports: Sequence[ClassReport]) -> str:
    """Format reports as one JSON object, or for several as a list."""
    objects = [report.json() for report in reports]
    return json.dumps(objects[0] if len(objects) == 1 else objects, ensure_ascii=False, indent=1)
