"""Classification of texts, of the lines of a file and of a split of a corpus, with a probability for each label.

Legend: N texts, C labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from nmt import __version__
from nmt.console import LineNumbers, Progress, aligned, amount, printable, say
from nmt.data.corpus import Corpus
from nmt.evaluate.metrics import BINS, ClassScores, Score, class_scores
from nmt.evaluate.report import EvaluationReport, Subject
from nmt.evaluate.run import record_scores
from nmt.files.write import open_output, refuse_overwriting
from nmt.model.device import pick_device
from nmt.runs.info import ScoreRecord
from nmt.runs.model import AnyModel, Saved, choose_precision, open_saved
from nmt.text.tokenizer import is_blank
from nmt.training.objectives.classification import sequence_logits
from nmt.training.validate import Execution
from nmt.translate.files import input_windows, progress_between
from nmt.translate.segment import MAX_PIECES_FACTOR

_SHOWN_LABELS = 20
"""Maximum number of labels of a confusion matrix in text."""

MAX_TOKENS = 8192
"""Maximum number of tokens of a batch, without padding, unless a single text has more."""


class Classifier:
    """A trained model that predicts the labels of texts."""

    def __init__(self, saved: Saved, device: torch.device, precision: str) -> None:
        """Prepare a model. Raises ConfigError if it is no classifier, CheckpointError if its weights do not match."""
        saved.check_classifies()
        assert saved.tokenizers.labels is not None, "a classifier has labels"
        self.config = saved.config
        self.origin = saved.origin
        self.precision = precision
        self.labels = saved.tokenizers.labels.names
        """Names of the C labels, in the order of the probabilities."""
        self._tokenizer = saved.tokenizers[saved.config.data.src]
        self._device = device
        self._model = saved.model().to(device)
        model = saved.config.model
        at_most = MAX_PIECES_FACTOR * saved.config.data.max_pieces
        self.max_length = model.max_positions - 1 if model.positions == "learned" else at_most
        """Maximum number of pieces of a text; longer texts are truncated."""

    @classmethod
    def load(cls, model: AnyModel, device: str = "auto", precision: str = "auto") -> Classifier:
        """Load the classifier of a run; for arguments and errors see `open_saved`."""
        saved = open_saved(model)
        chosen = pick_device(device)
        saved.check_classifies()
        return cls(saved, chosen, choose_precision(saved, precision, chosen))

    def encode(self, texts: Sequence[str]) -> tuple[list[list[int]], list[int]]:
        """Return the token ids of texts, truncated to the maximum length, and the indices of the truncated texts."""
        encoded = self._tokenizer.encode_all(["" if is_blank(text) else text for text in texts])
        cut = [row for row, ids in enumerate(encoded) if len(ids) > self.max_length]
        return [ids[: self.max_length] for ids in encoded], cut

    def probabilities(
        self, encoded: Sequence[Sequence[int]], done: Callable[[int], None] | None = None
    ) -> npt.NDArray[np.float32]:
        """Return the label probabilities (N, C) of texts that were encoded by `encode`.

        `done` is called with the number of texts of each batch.
        """
        sequences = [np.array(ids, np.int64) for ids in encoded]
        if not sequences:
            return np.zeros((0, len(self.labels)), np.float32)
        logits = sequence_logits(self._model, sequences, Execution(self._device, self.precision, MAX_TOKENS), done)
        probabilities: npt.NDArray[np.float32] = logits.softmax(-1).numpy()
        return probabilities


def classify_file(classifier: Classifier, source: Path | str, target: Path | str, all_labels: bool) -> None:
    """Classify the lines of a file, or of standard input (`-`), into a file or to standard output (`-`).

    Output line n has the most probable label of input line n and its probability, separated by a tab, or with
    `all_labels` all labels, most probable first. Blank lines stay blank. Lines that are too long are truncated, and a
    message counts them.
    Raises DataError if the input is missing or not UTF-8, or the output cannot be written.
    """
    refuse_overwriting((target,), (source,))
    n_lines = 0
    cut = LineNumbers()
    with open_output(target) as out, progress_between("classifying", source, target) as progress:
        for window in input_windows(source):
            encoded, too_long = classifier.encode(window)
            for row in too_long:
                cut.add(n_lines + row + 1)
            probabilities = classifier.probabilities(encoded, progress.add)
            for text, of_text in zip(window, probabilities, strict=True):
                if not is_blank(text):
                    out.write(output_row(classifier.labels, of_text, all_labels).encode())
                out.write(b"\n")
            out.flush()
            n_lines += len(window)
    if cut.n:
        too_many = f"more than {classifier.max_length:,} pieces"
        say(f"{amount(cut.n, 'line')} had {too_many}; only the start was read: {cut.first}")


def output_row(labels: Sequence[str], probabilities: npt.NDArray[np.float32], all_labels: bool) -> str:
    """Return the most probable label and its probability, or all labels and probabilities, separated by tabs."""
    order = np.argsort(-probabilities, kind="stable")
    if not all_labels:
        order = order[:1]
    return "\t".join(f"{labels[i]}\t{probabilities[i]:.6f}" for i in order.tolist())


@dataclass(frozen=True, kw_only=True)
class ClassReport(EvaluationReport):
    """The scores of a classifier on a split."""

    record: ScoreRecord
    classes: ClassScores
    labels: Sequence[str]

    def as_text(self) -> str:
        """Return the report as text: scores, confusion matrix and subject."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        record = self.record
        scores = self.classes
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

    def as_json(self) -> dict[str, object]:
        """Return the report as values that JSON can represent."""
        matrix = {"labels": list(self.labels), "confusion": self.classes.confusion.tolist()}
        return self.record.model_dump(mode="json") | matrix


def evaluate_classifier(classifier: Classifier, corpus: Corpus, split_name: str) -> ClassReport:
    """Score a classifier on a split, and append the scores to the run's scores.jsonl.

    Raises DataError if there is no such split or it is damaged.
    """
    data = classifier.config.data
    split = corpus.in_one_file(split_name)
    corpus.verify(split.name)
    encoded, cut = classifier.encode(split.text(data.src))
    with Progress(f"classifying {split.name}", split.n) as progress:
        probabilities = classifier.probabilities(encoded, progress.add)
    of_classes = class_scores(probabilities, np.asarray(split.ids(data.tgt), np.int64))
    signature = f"labels:{len(classifier.labels)}|version:{__version__}"
    scores = (
        Score("accuracy", of_classes.accuracy, signature, higher_is_better=True),
        Score("macro_f1", of_classes.macro_f1, signature, higher_is_better=True),
        Score("calibration_error", of_classes.calibration_error, f"{signature}|bins:{BINS}", higher_is_better=False),
    )
    notes = []
    if cut:
        notes.append(f"{len(cut):,} texts were cut at {classifier.max_length:,} pieces")
    subject = Subject(split=split.name, search="none", precision=classifier.precision)
    report = EvaluationReport(scores, split.n, subject, tuple(notes))
    record = record_scores(report, classifier.origin, corpus)
    return ClassReport(**vars(report), record=record, classes=of_classes, labels=classifier.labels)
