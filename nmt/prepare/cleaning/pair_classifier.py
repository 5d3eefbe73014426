"""A classifier of pairs, learned with `training.pair_task`: are two lines translations of each other?"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from nmt.config import Config
from nmt.console import Progress, say
from nmt.data.batching import Batch, Pairs, even_batches
from nmt.data.corpus import Lines
from nmt.data.pair_sequences import joined
from nmt.errors import CheckpointError, ConfigError
from nmt.model.device import pick_device
from nmt.model.masks import Padded
from nmt.model.precision import autocast
from nmt.model.stacks import EncoderModel
from nmt.runs.folder import fingerprint
from nmt.runs.model import Saved, choose_precision, open_saved
from nmt.text.tokenizer import Tokenizer, is_blank


@dataclass(frozen=True)
class PairLogOdds:
    """What a classifier says of a pair."""

    value: float
    """Log-odds that the lines are translations of each other; NaN if a side is blank."""
    cut: bool = False
    """True if a side has more pieces than the model has learned: only its start was read."""

    @property
    def score(self) -> float:
        """From 0 to 1, the greater the better; 0 if a side is blank."""
        return 0.0 if math.isnan(self.value) else odds_score(self.value)


def odds_score(log_odds: float) -> float:
    """Return the score of log-odds: 0.5 if both classes are as probable, and the greater the more probable a
    translation is. Unlike a probability it does not become 1 for all that are certain."""
    return (1 + log_odds / (1 + abs(log_odds))) / 2


def open_classifier(path: Path, checkpoint: str = "best", weights: str = "auto") -> Saved:
    """Open the run of a classifier; see `open_saved`. Raises also ConfigError if it has not learned the pair task."""
    saved = open_saved(path, checkpoint, weights)
    if not saved.config.training.pair_task:
        raise ConfigError([f"{path}: is no classifier of pairs: name a run with training.pair_task: true"])
    return saved


def classifier_fingerprint(saved: Saved) -> str:
    """Return sixteen hexadecimal digits that identify how pairs are scored: weights, model, tokenizer, sides."""
    config = saved.config
    how = [config.model.model_dump(mode="json"), config.data.direction, config.data.max_pieces]
    text = json.dumps([fingerprint(saved.weights.tensors), saved.tokenizers.fingerprint, how], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class PairClassifier:
    """A model with a head for pairs."""

    model: EncoderModel
    config: Config
    tokenizer: Tokenizer
    device: torch.device
    precision: str

    @classmethod
    def load(
        cls, path: Path, checkpoint: str = "best", weights: str = "auto", precision: str = "auto"
    ) -> PairClassifier:
        """Load the classifier of a run; checkpoint, weights and precision are as for `Translator.load`.

        Raises CheckpointError if there is no such run or checkpoint or it is damaged, DataError for its tokenizer,
        ConfigError if it has not learned the pair task.
        """
        saved = open_classifier(path, checkpoint, weights)
        if saved.note is not None:
            say(saved.note)
        return cls.of(saved, precision)

    @classmethod
    def of(cls, saved: Saved, precision: str = "auto") -> PairClassifier:
        """Make the classifier of a run that was opened with `open_classifier`."""
        model, device = saved.model(), pick_device("auto")
        assert isinstance(model, EncoderModel), "only encoders learn the pair task"
        tokenizer = saved.tokenizers[saved.config.data.src]
        return cls(model.to(device), saved.config, tokenizer, device, choose_precision(saved, precision, device))

    @property
    def max_length(self) -> int:
        """The most pieces of a line that are read: as many as there were in training."""
        return self.config.data.max_pieces

    def log_odds(
        self, pairs: Iterable[tuple[str, str]], window: int = 4096, progress: Progress | None = None
    ) -> Iterator[PairLogOdds]:
        """Yield the log-odds of each pair of a source and a target line, in order, with nothing masked.

        `window` pairs at a time are read ahead and sorted by length. `progress` counts pairs. Raises CheckpointError if
        a number is not finite.
        """
        stream = iter(pairs)
        while chunk := list(islice(stream, window)):
            rows = [row for row, pair in enumerate(chunk) if not any(map(is_blank, pair))]
            sides = [self.tokenizer.encode_all([chunk[row][side] for row in rows]) for side in (0, 1)]
            read = [[np.array(ids[: self.max_length], np.int64) for ids in side] for side in sides]
            found = [PairLogOdds(float("nan"))] * len(chunk)
            values = self._values([joined(*pair) for pair in zip(*read, strict=True)])
            for row, src, tgt, value in zip(rows, *sides, values, strict=True):
                found[row] = PairLogOdds(value, max(len(src), len(tgt)) > self.max_length)
            if progress is not None:
                progress.add(len(chunk))
            yield from found

    @torch.inference_mode()
    def _values(self, sequences: list[np.ndarray[tuple[int], np.dtype[np.int64]]]) -> list[float]:
        """Return the log-odds of sequences."""
        if not sequences:
            return []
        side = Lines.of(sequences)
        pairs, values = Pairs.of_sides(side, side), torch.zeros(len(sequences))
        for rows in even_batches(pairs.lengths, self.config.search.batch_size(self.device.type).tokens):
            batch = pairs.batch(rows).to(self.device)
            with autocast(self.precision, self.device):
                logits = self._logits(batch).float()
            values[batch.index] = (logits[:, 1] - logits[:, 0]).cpu()
        if not values.isfinite().all():
            raise CheckpointError(
                "the classifier's numbers are not finite: the checkpoint is damaged, its training diverged, or values "
                "overflow in this precision; try another checkpoint, or float32"
            )
        found: list[float] = values.tolist()
        return found

    def _logits(self, batch: Batch) -> torch.Tensor:
        assert self.model.head is not None, "made for the pair task"
        layout = Padded(batch.src_mask)
        logits: torch.Tensor = self.model.head(self.model.encoder(batch.src, layout), layout)
        return logits
