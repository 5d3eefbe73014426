"""Greedy search: the likeliest next piece, again and again. The same result as a beam of one."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nmt.config import SearchConfig
from nmt.search.step import Hypothesis, StepModel, length_penalty, mask_forbidden, no_translation
from nmt.tokenizer import BOS, EOS


def greedy_search(model: StepModel, limits: Tensor, config: SearchConfig, banned: Tensor) -> list[Hypothesis]:
    """One hypothesis for each sentence of `model`.

    limits (B,) int64 is the longest length of each, `</s>` counted, at least 1; banned (n,) int64 are the ids that are
    never taken; both on the model's device. Raises CheckpointError if the model's scores are not numbers.
    """
    last_lengths = set(limits.tolist())
    found: dict[int, Hypothesis] = {}
    sentence = torch.arange(len(limits), device=limits.device)  # (B,) the row's place in the result
    tokens = torch.full_like(limits, BOS)[:, None]
    ids = tokens[:, :0]  # (B, length)
    log_prob = torch.zeros_like(limits, dtype=torch.float64)
    length = 0
    while len(sentence):
        length += 1
        logits, log_z = model.step(tokens)
        mask_forbidden(logits, banned, limits == length if length in last_lengths else None)
        best, tokens = logits.max(-1)  # (B, 1)
        log_prob = log_prob + (best - log_z).clamp(max=0.0)[:, 0]
        ids = torch.cat((ids, tokens), 1)
        ended = (tokens[:, 0] == EOS) | (limits == length)
        if not ended.any():
            continue
        for row in ended.nonzero()[:, 0].tolist():
            total = float(log_prob[row])
            if not math.isfinite(total):
                raise no_translation()
            score = total / length_penalty(length, config)
            finished = length < int(limits[row])
            found[int(sentence[row])] = Hypothesis(ids[row, :-1].tolist(), total, score, finished)
        rows = (~ended).nonzero()[:, 0]
        sentence, limits, tokens, ids, log_prob = (x[rows] for x in (sentence, limits, tokens, ids, log_prob))
        model.select(rows, torch.zeros_like(tokens))
    return [found[i] for i in range(len(found))]
