"""Pairs of given lengths, and a CPU twin of the GPU kernel for packed attention."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from models import VOCAB
from nmt.data.batching import Pairs
from nmt.data.corpus import lines_of
from nmt.model import attention

SRC, TGT = [6, 0, 3, 9, 1, 0], [4, 5, 0, 8, 2, 0]  # without </s>: sentences of one token are among them


def pairs_of(src: list[int], tgt: list[int]) -> Pairs:
    """Return pairs of random ids of these lengths (without `</s>`)."""
    n_ids = {"x": np.array(src, np.int32), "y": np.array(tgt, np.int32)}
    ids = {side: np.random.default_rng(0).integers(20, VOCAB, int(n.sum())) for side, n in n_ids.items()}
    ends = {side: np.cumsum(n) for side, n in n_ids.items()}
    split = SimpleNamespace(lengths=n_ids.__getitem__, ids=ids.__getitem__, ends=ends.__getitem__)
    return Pairs(lines_of(split, "x"), lines_of(split, "y"))  # type: ignore[arg-type]


CALLS: list[dict[str, object]] = []


def kernel_calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """The GPU's kernel is called on a CPU, where it has a twin; returns what reaches that."""
    twin()
    monkeypatch.setattr(attention, "KERNEL_DEVICES", {"cpu"})
    CALLS.clear()
    return CALLS


@cache
def twin() -> torch.library.Library:
    """Give the GPU's kernel a twin on CPUs for as long as this process lasts."""

    def weights(query, key, bounds_q, bounds_k, max_q, max_k, is_causal):
        """(H, N, K) the weights and, of the other tokens of each sentence, none."""
        assert bounds_q.dtype == bounds_k.dtype == torch.int32 and bounds_q.shape == bounds_k.shape
        assert (bounds_q[-1], bounds_k[-1]) == (len(query), len(key))
        assert bounds_q.diff().max() <= max_q and bounds_k.diff().max() <= max_k
        q, k = (torch.repeat_interleave(bounds.diff()) for bounds in (bounds_q, bounds_k))
        seen = q[:, None] == k
        assert seen.any(1).all(), "a query has no keys"
        scores = torch.einsum("qhe,khe->hqk", query, key) * query.size(-1) ** -0.5
        return scores.masked_fill(~(seen.tril() if is_causal else seen), -torch.inf).softmax(-1)

    def forward(query, key, value, bounds_q, bounds_k, max_q, max_k, dropout, is_causal, debugs, **others):
        assert not (dropout or debugs or any(others.values())), "what else there is stays at its default"
        CALLS.append({"causal": is_causal, "dtype": query.dtype})
        p = weights(query, key, bounds_q, bounds_k, max_q, max_k, is_causal)
        out = torch.empty_like(query).copy_(torch.einsum("hqk,khe->qhe", p, value))
        log_z = query.new_empty(query.size(1), len(query), dtype=torch.float)
        return out, log_z, torch.zeros(2, dtype=torch.uint64), query.new_empty(0), query.new_empty(0)

    def backward(grad, query, key, value, _out, _lse, bounds_q, bounds_k, max_q, max_k, _dropout, is_causal, *_, **__):
        p = weights(query, key, bounds_q, bounds_k, max_q, max_k, is_causal)
        p_grad = torch.einsum("qhe,khe->hqk", grad, value)
        s_grad = p * (p_grad - (p_grad * p).sum(-1, keepdim=True)) * query.size(-1) ** -0.5
        grads = (
            torch.einsum("hqk,khe->qhe", s_grad, key),
            torch.einsum("hqk,qhe->khe", s_grad, query),
            torch.einsum("hqk,qhe->khe", p, grad),
        )
        return tuple(torch.empty_like(x).copy_(g) for x, g in zip((query, key, value), grads, strict=True))

    library = torch.library.Library("aten", "IMPL")
    library.impl("_flash_attention_forward", forward, "CPU")
    library.impl("_flash_attention_backward", backward, "CPU")
    return library
