"""The curves of a run, read from its log."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nmt.config.load import load_config
from nmt.errors import NmtError
from nmt.layout import RunDir
from nmt.runs.log import Record, number

Points = npt.NDArray[np.float64]  # (n, 3): step, minutes (NaN if not logged), value
STEP, MINUTES, VALUE = range(3)


@dataclass(frozen=True)
class Curves:
    """The curves of one run."""

    name: str
    unit: str
    """What losses are means over: tokens, masked pieces or texts."""
    metric: str
    """BLEU, or of a run that does not translate its accuracy (%), of tokens or classes."""
    train_loss: Points
    learning_rate: Points
    dev_loss: Points
    dev_score: Points
    ema_loss: Points
    ema_score: Points
    average_loss: Points
    average_score: Points

    @property
    def rows(self) -> tuple[tuple[Points, ...], ...]:
        """The curves in each row of the figure."""
        losses = self.train_loss, self.dev_loss, self.ema_loss, self.average_loss
        return losses, (self.dev_score, self.ema_score, self.average_score), (self.learning_rate,)


def curves_of(name: str, records: Sequence[Record], unit: str = "token") -> Curves:
    """Extract the curves from the log of a run, whose losses are means over `unit`."""
    train, dev, ema, average = (
        [record for record in records if record.get("kind") == kind] for kind in ("train", "valid", "ema", "average")
    )
    has_bleu = any("bleu" in record for record in dev) or (not dev and unit == "token")

    def score(record: Record) -> float | None:
        value = number(record, "bleu" if has_bleu else "accuracy")
        return value if has_bleu or value is None else 100 * value

    return Curves(
        name=name,
        unit=unit,
        metric="BLEU" if has_bleu else "accuracy (%)",
        train_loss=_points(train, _unsmoothed),
        learning_rate=_points(train, lambda record: number(record, "lr")),
        dev_loss=_points(dev, _without_pairs),
        dev_score=_points(dev, score),
        ema_loss=_points(ema, _without_pairs),
        ema_score=_points(ema, score),
        average_loss=_points(average, _without_pairs),
        average_score=_points(average, score),
    )


def _unsmoothed(record: Record) -> float | None:
    """Return the training loss without label smoothing, from the perplexity: comparable with the development set's."""
    perplexity = perplexity_of(record)
    return math.log(perplexity) if perplexity is not None else number(record, "loss")


def _without_pairs(record: Record) -> float | None:
    """Return the loss of a validation without that of the pair task: comparable with what is drawn of training."""
    nll = number(record, "nll")  # older logs lack it
    return number(record, "loss") if nll is None else nll


def perplexity_of(record: Record) -> float | None:
    """Return the perplexity of a training record; None if there is none, as in older logs."""
    perplexity = number(record, "perplexity", most=1e305)  # training writes exp(700) at most
    return perplexity if perplexity is not None and perplexity > 0 else None


def _points(records: Sequence[Record], value_of: Callable[[Record], float | None]) -> Points:
    rows = []
    for record in records:
        value = value_of(record)
        if value is not None:
            position = (number(record, name) for name in ("step", "minutes"))
            rows.append([*(math.nan if x is None else x for x in position), value])
    return np.array(rows, dtype=np.float64).reshape(-1, 3)


def unit_of(run: RunDir) -> str:
    """Return what the losses of a run are means over."""
    with suppress(NmtError, OSError):  # of a damaged configuration: as in translation
        training = load_config(run.config).training
        if training.noise == "span":
            return "masked piece"
        return {"classification": "text", "masked": "masked piece"}.get(training.objective, "token")
    return "token"
