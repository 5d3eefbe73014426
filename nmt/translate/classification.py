"""Classification of texts and of the lines of a file, with a probability for each label.

Legend: N texts, C labels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from nmt.console import Numbers, amount, say
from nmt.data.batching import Pairs, even_batches
from nmt.data.corpus import Lines
from nmt.files.write import open_output, refuse_overwriting
from nmt.model.device import pick_device
from nmt.model.precision import autocast
from nmt.model.transformer import Model
from nmt.runs.model import AnyModel, Saved, choose_precision, open_saved
from nmt.text.tokenizer import is_blank
from nmt.training.loss import class_logits
from nmt.translate.files import input_windows, progress_between
from nmt.translate.sentences import MAX_PIECES_FACTOR

MAX_TOKENS = 8192
"""Maximum number of tokens of a batch, including padding, unless a single text has more."""


class Classifier:
    """A trained model that predicts the labels of texts."""

    def __init__(self, saved: Saved, device: torch.device, precision: str) -> None:
        """Prepare a model. Raises ConfigError if it is no classifier, CheckpointError if its weights do not match."""
        saved.check_classifies()
        assert saved.tokenizers.labels is not None, "a classifier has labels"
        self.config, self.origin, self.precision = saved.config, saved.origin, precision
        self.labels = saved.tokenizers.labels.names
        """Names of the C labels, in the order of the probabilities."""
        self._tokenizer, self._device = saved.tokenizers[saved.config.data.src], device
        self._model = saved.model().to(device)
        model = saved.config.model
        at_most = MAX_PIECES_FACTOR * saved.config.data.max_pieces
        self.max_length = model.max_positions - 1 if model.positions == "learned" else at_most
        """Maximum number of pieces of a text; longer texts are truncated."""

    @classmethod
    def load(cls, model: AnyModel, device: str = "auto", precision: str = "auto") -> Classifier:
        """Load the classifier of a run; for arguments and errors see `open_saved`."""
        saved, chosen = open_saved(model), pick_device(device)
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
        logits = batched_logits(self._model, sequences, MAX_TOKENS, self._device, self.precision, done)
        return logits.softmax(-1).numpy() if sequences else np.zeros((0, len(self.labels)), np.float32)


@torch.inference_mode()
def batched_logits(
    model: Model,
    sequences: Sequence[npt.NDArray[np.int64]],
    max_tokens: int,
    device: torch.device,
    precision: str,
    done: Callable[[int], None] | None = None,
) -> Tensor:
    """Return the class logits (N, C) of sequences, computed in batches of up to `max_tokens` tokens including padding.

    `done` is called with the number of sequences of each batch.
    """
    lines = Lines.of(list(sequences))
    pairs = Pairs(lines, lines)
    found: dict[int, Tensor] = {}
    for rows in even_batches(pairs.lengths, max_tokens) if sequences else ():
        with autocast(precision, device):
            logits = class_logits(model, pairs.batch(rows).to(device))
        found |= zip(map(int, rows), logits.cpu(), strict=True)
        if done is not None:
            done(len(rows))
    return torch.stack([found[row] for row in range(len(sequences))]) if found else torch.zeros(0, 2)


def classify_file(classifier: Classifier, source: Path | str, target: Path | str, all_labels: bool = False) -> None:
    """Classify the lines of a file, or of standard input (`-`), into a file or to standard output (`-`).

    Output line n has the most probable label of input line n and its probability, separated by a tab, or with
    `all_labels` all labels, most probable first. Blank lines stay blank. Lines that are too long are truncated, and a
    message counts them.
    Raises DataError if the input is missing or not UTF-8, or the output cannot be written.
    """
    refuse_overwriting((target,), (source,))
    n_lines, cut = 0, Numbers()
    with open_output(target) as out, progress_between("classifying", source, target) as progress:
        for window in input_windows(source):
            encoded, too_long = classifier.encode(window)
            for row in too_long:
                cut.add(n_lines + row + 1)
            probabilities = classifier.probabilities(encoded, progress.add)
            for text, own in zip(window, probabilities, strict=True):
                out.write(f"{'' if is_blank(text) else output_row(classifier.labels, own, all_labels)}\n".encode())
            out.flush()
            n_lines += len(window)
    if cut.n:
        too_many = f"more than {classifier.max_length:,} pieces"
        say(f"{amount(cut.n, 'line')} had {too_many}; only the start was read: {cut.first}")


def output_row(labels: Sequence[str], probabilities: npt.NDArray[np.float32], all_labels: bool = False) -> str:
    """Return the most probable label and its probability, or all labels and probabilities, separated by tabs."""
    order = np.argsort(-probabilities, kind="stable")[: None if all_labels else 1]
    return "\t".join(f"{labels[i]}\t{probabilities[i]:.6f}" for i in order.tolist())
