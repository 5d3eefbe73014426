"""Updates and search steps do not synchronize with a GPU.

There need be no GPU: everything runs on the CPU by the ways that a GPU takes, and each operation is looked at.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from nmt.data.batching import Packing, Pairs
from nmt.data.rows import RowPacking
from nmt.model import attention
from nmt.model.dropout import Dropout
from nmt.model.masks import Packed
from nmt.search import beam, greedy
from nmt.search.rules import Rules
from nmt.search.settings import SearchConfig
from nmt.search.step import TransformerStep
from nmt.training.loop import train_step
from scripts.gpu import machine
from scripts.gpu.setting import Check
from scripts.gpu.speed import decode

aten = torch.ops.aten
LOOKS = {
    aten._local_scalar_dense,
    aten.nonzero,
    aten.masked_select,
    aten.is_nonzero,
    aten.equal,
    aten._unique2,
    aten.isin,
}


class Waits(TorchDispatchMode):
    """Collects the operations that would wait for a GPU, if the tensors were on one: those whose result Python or the
    shape of a tensor depends on, and copies of numbers and indices that come from Python."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._made: list[Tensor] = []  # alive, so that no address comes twice
        self._known: set[int] = set()
        self._lifted: set[int] = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        packet = function.overloadpacket
        by_tensor = packet == aten.repeat_interleave and function != aten.repeat_interleave.self_int
        is_sized = not by_tensor or (kwargs or {}).get("output_size") is not None
        if packet in LOOKS or not is_sized or (packet in (aten.index, aten.index_put_) and self._waits(args[1])):
            self.found.append(f"{function}")
        if packet == aten.copy_ and args[1].dim() == 0 and id(args[1]) not in self._known:
            self.found.append(f"{function} of a number")
        result = function(*args, **(kwargs or {}))
        if packet == aten.lift_fresh:  # a number of Python's, or a list of them
            self._made.append(result)
            self._lifted.add(id(result))
            return result
        for made in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(made, Tensor):
                self._made.append(made)
                self._known.add(id(made))
        return result

    def _waits(self, indices) -> bool:
        given = [each for each in indices if each is not None]
        return any(each.dtype == torch.bool or id(each) in self._lifted for each in given)


def unseen(plain):
    """A function whose operations are not looked at."""

    def done(*args, **kwargs):
        with _disable_current_modes():
            return plain(*args, **kwargs)

    return done


@pytest.fixture
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a CPU goes another way than a GPU, it goes the GPU's, or the nearest that there is."""

    def attend(query, key, value, mask, _dropout, _weights=None):
        if mask.layouts is not None and isinstance(mask.layouts[0], Packed):
            return query + key.mean() + value.mean()  # the kernel is not PyTorch's to run here, and does not wait
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask=None if mask.causal else mask.allowed, is_causal=mask.causal
        )

    monkeypatch.setattr(attention, "attend", attend)
    monkeypatch.setattr(Dropout, "forward", lambda self, x: F.dropout(x, self.p, self.training))
    for maker in (Pairs, Packing, RowPacking):  # batches are made on the CPU
        monkeypatch.setattr(maker, "batch", unseen(maker.batch))


@pytest.fixture(scope="module")
def check() -> Check:
    return Check("cpu", small=True)


def test_waits_finds_lists_of_indices_and_isin():
    x = torch.zeros(4)
    with Waits() as waits:
        x[torch.arange(2)] = torch.ones(2)
    assert waits.found == []
    with Waits() as waits:
        x[[1, 2]] = torch.ones(2)
        torch.isin(x, x)
    assert waits.found == ["aten.index_put_.default", "aten.isin.Tensor_Tensor"]


@pytest.mark.usefixtures("as_on_a_gpu")
@pytest.mark.parametrize("way", machine.WAYS, ids=lambda way: way.name)
def test_update_has_no_gpu_sync(check, way):
    session = check.session(way, max_tokens=256)
    updates = check.updates(128, check.learned(session.training_objective))
    for update in updates[:2]:
        train_step(session, update)
    with Waits() as waits:
        train_step(session, updates[2])
    assert waits.found == []


@pytest.mark.usefixtures("as_on_a_gpu")
@pytest.mark.parametrize("name", machine.SEARCHES)
def test_search_syncs_only_for_finished_sentences(check, name, monkeypatch):
    settings = SearchConfig(max_length_ratio=0.0, max_length_offset=7, **machine.SEARCHES[name])
    monkeypatch.setattr(Rules, "leaving", unseen(Rules.leaving))
    monkeypatch.setattr(beam, "_results", unseen(beam._results))
    monkeypatch.setattr(beam, "_none_ends", lambda _: False)
    monkeypatch.setattr(greedy, "_results", unseen(greedy._results))
    monkeypatch.setattr(greedy, "_likeliest", lambda logits: logits.argmax(-1))
    monkeypatch.setattr(TransformerStep, "_parts", TransformerStep._whole)
    monkeypatch.setattr(greedy, "WIDTH", 300)  # all at once, as below
    model = check.session(machine.WAYS[0]).model.eval()
    with Waits() as waits:
        decode(check, model, np.arange(8), settings)
    assert waits.found == []
