"""`nmt classify`: the labels of the lines of a file or a stream."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nmt.classify.classifier import Classifier
from nmt.console import say
from nmt.files.write import open_output, refuse_overwriting
from nmt.text.tokenizer import is_blank
from nmt.translate.files import MAX_NUMBERS, input_windows, progress_between


def classify_file(classifier: Classifier, source: Path | str, target: Path | str, all_labels: bool = False) -> None:
    """Classify the lines of a file, or of standard input (`-`), into a file or to standard output (`-`).

    Line n has the most probable label of line n and its probability, separated by a tab; with `all_labels` all of them,
    the most probable first. Blank lines stay blank. Lines that are too long are cut, counted and printed to standard
    error at the end. Raises DataError if the input is missing or not UTF-8, or the output cannot be written.
    """
    refuse_overwriting((target,), (source,))
    n_lines, cut = 0, list[int]()
    with open_output(target) as out, progress_between("classifying", source, target) as progress:
        for window in input_windows(source, classifier.config.data.src):
            encoded, too_long = classifier.encode(window)
            cut += [n_lines + row + 1 for row in too_long]
            probabilities = classifier.probabilities(encoded, progress.add)
            for text, own in zip(window, probabilities, strict=True):
                out.write(f"{'' if is_blank(text) else output_row(classifier.labels, own, all_labels)}\n".encode())
            out.flush()
            n_lines += len(window)
    if cut:
        numbers = ", ".join(map(str, cut[:MAX_NUMBERS])) + (", …" if len(cut) > MAX_NUMBERS else "")
        say(
            f"{len(cut):,} {'line' if len(cut) == 1 else 'lines'} had more than {classifier.max_length:,} pieces; only "
            f"the start was read: {numbers}"
        )


def output_row(labels: Sequence[str], probabilities: npt.NDArray[np.float32], all_labels: bool = False) -> str:
    """Return the most probable label and its probability, or all of them, separated by tabs."""
    order = np.argsort(-probabilities, kind="stable")[: None if all_labels else 1]
    return "\t".join(f"{labels[i]}\t{probabilities[i]:.6f}" for i in order.tolist())
