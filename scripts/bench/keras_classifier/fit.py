"""Train the Keras classifier on TRAIN.txt and TRAIN.label of a folder, and print its predictions and speed.

After every epoch the development set and the test set are predicted. Rows have 80 places, whatever the text; with
`--trim` as many as the longest of its batch.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import torch

from scripts.bench.keras_classifier.layers import Shape, classifier
from scripts.bench.keras_classifier.words import encode, numbers_of, padded, read

BATCH = 32
LONGEST = 80


class Batches(keras.utils.PyDataset):  # type: ignore[misc]
    """Batches of random rows, in another order in every epoch."""

    def __init__(self, rows: Sequence[list[int]], labels: Sequence[int], trim: bool, seed: int) -> None:
        super().__init__()
        self.rows, self.labels, self.trim = rows, labels, trim
        self.order = list(range(len(rows)))
        self.random = random.Random(seed)
        self.on_epoch_end()

    def __len__(self) -> int:
        """Return the number of batches."""
        return math.ceil(len(self.rows) / BATCH)

    def __getitem__(self, number: int) -> tuple[Any, Any]:
        """Return ids and labels of a batch."""
        chosen = self.order[number * BATCH :][:BATCH]
        labels = np.array([self.labels[i] for i in chosen])
        return matrix([self.rows[i] for i in chosen], self.trim), labels

    def on_epoch_end(self) -> None:
        """Draw the next order."""
        self.random.shuffle(self.order)


def matrix(rows: Sequence[list[int]], trim: bool) -> Any:
    """Return rows as an array (B, S)."""
    return np.array(padded(rows, max(map(len, rows)) if trim else LONGEST), dtype=np.int32)


class Marks(keras.callbacks.Callback):  # type: ignore[misc]
    """Seconds and CPU seconds at the end of every training batch."""

    def __init__(self) -> None:
        super().__init__()
        self.marks: list[tuple[float, float]] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002
        """Note the time."""
        self.marks.append((time.monotonic(), time.process_time()))


def rates(marks: Sequence[tuple[float, float]], warm: int, n_examples: int) -> dict[str, float]:
    """Return examples per second and per CPU second after the first `warm` batches of an epoch of `n_examples`."""
    (begin, cpu_begin), (end, cpu_end) = marks[warm - 1], marks[-1]
    n = n_examples - BATCH * warm
    return {"per_second": n / (end - begin), "per_cpu_second": n / (cpu_end - cpu_begin)}


def train(options: argparse.Namespace) -> dict[str, Any]:
    """Train once."""
    keras.utils.set_random_seed(options.seed)
    shape = Shape()
    texts, labels = read(options.text, "train")
    numbers, classes = numbers_of(texts, shape.vocabulary), sorted(set(labels))
    rows = [encode(text, numbers, LONGEST) for text in texts]
    model = classifier(shape, len(classes))
    loss = "binary_crossentropy" if len(classes) == 2 else "sparse_categorical_crossentropy"
    model.compile(optimizer="adam", loss=loss)
    batches = Batches(rows, [classes.index(label) for label in labels], options.trim, options.seed)
    others = {
        split: matrix([encode(text, numbers, LONGEST) for text in read(options.text, split)[0]], options.trim)
        for split in options.predict
    }
    predicted: dict[str, list[list[str]]] = {split: [] for split in others}
    first: dict[str, float] = {}
    cpu = 0.0
    for _ in range(options.epochs):
        marks = Marks()
        begin = time.process_time()
        model.fit(batches, epochs=1, verbose=0, callbacks=[marks])
        cpu += time.process_time() - begin
        first = first or rates(marks.marks, options.warm, len(rows))
        for split, ids in others.items():
            predicted[split].append(labels_of(model.predict(ids, batch_size=256, verbose=0), classes))
    n_parameters = int(model.count_params())
    return {"cpu_seconds": cpu, "parameters": n_parameters, "predicted": predicted, **first}


def labels_of(probabilities: Any, classes: Sequence[str]) -> list[str]:
    """Return the most probable classes, of probabilities (B, C), or (B, 1) of the second of two."""
    chosen = probabilities.argmax(1) if len(classes) > 2 else (probabilities[:, 0] > 0.5).astype(int)
    return [classes[i] for i in chosen]


def main() -> int:
    """Train once and write what is known then."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--warm", type=int, default=50, help="batches before the speed is measured")
    parser.add_argument("--predict", nargs="*", default=["valid", "test"], help="splits")
    parser.add_argument("--trim", action="store_true", help="pad to the longest row of the batch")
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.out.write_text(json.dumps(train(options)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
