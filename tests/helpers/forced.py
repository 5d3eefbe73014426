"""Scores of given translations by a model of transformers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch.nn.utils.rnn import pad_sequence


class Forced(NamedTuple):
    """What a model says of a given translation."""

    log_prob: float
    """In nats, without the tag with which the translation begins, if the model has such tags."""
    lead: float
    """By how much the least certain of its pieces is likelier than all others, in nats; negative if one is not the
    likeliest. Where it is large, greedy search finds this translation on any processor."""


def forced(
    model: Any, tokenizer: Any, lines: Sequence[str], translations: Sequence[Sequence[int]], n_tags: int = 0
) -> list[Forced]:
    """Return what a model of transformers says of translations, given as ids with `n_tags` tags before the text.

    Padding and the unknown piece, which search never writes, are no rivals.
    """
    batch = tokenizer([*lines], padding=True, return_tensors="pt")
    rows = [torch.tensor(row) for row in translations]
    labels = pad_sequence(rows, batch_first=True, padding_value=tokenizer.pad_token_id)
    batch["labels"] = labels
    with torch.no_grad():
        scores = model(**batch).logits.log_softmax(-1)
    of_labels = scores.gather(-1, labels[..., None])
    rivals = scores.scatter(-1, labels[..., None], -torch.inf)
    rivals[..., [tokenizer.pad_token_id, tokenizer.unk_token_id]] = -torch.inf
    leads = of_labels[..., 0] - rivals.amax(-1)
    result = []
    for i, row in enumerate(rows):
        text = slice(n_tags, len(row))
        lead = min(leads[i, text].tolist(), default=math.inf)
        result.append(Forced(float(of_labels[i, text].sum()), lead))
    return result
