"""One training run in memory."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass

import torch

from nmt.config import Config
from nmt.data.batching import Batch, Indices, Pairs
from nmt.data.bpe_dropout import BpeDropout
from nmt.data.packing import PackedBatch, Packing
from nmt.layout import RunDir
from nmt.model.transformer import Transformer
from nmt.process import Stop
from nmt.runs.checkpoint import Tensors, assign, optimizer_tensors
from nmt.runs.info import Weights
from nmt.runs.state import TrainState
from nmt.training.ema import Ema
from nmt.training.objective import Forward
from nmt.training.optim import weights_to_keep
from nmt.training.parallel.shard import gather_tensors, is_sharded
from nmt.training.parallel.world import World
from nmt.training.validate import Validator


@dataclass
class Session:
    """One training run in memory."""

    config: Config
    run: RunDir
    pairs: Pairs
    validator: Validator
    model: Transformer
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    state: TrainState
    device: torch.device
    precision: str
    max_tokens: int
    world: World
    stop: Stop
    packing: Packing | None = None
    """Makes packed micro-batches, if they are packed."""
    forward: Forward | None = None
    """The compiled model, if it is compiled."""
    copy: Transformer | None = None
    """On rank 0, if the weights to validate are not the model's own: the gathered weights of a sharded model, the
    averages of schedule_free, or the moving average."""
    ema: Ema | None = None
    """The moving average of the weights, with training.ema."""
    bpe_dropout: BpeDropout | None = None
    """Segments the pairs again in each epoch, with BPE-dropout."""
    _epoch: int = -1
    """The epoch that `bpe_dropout` made `pairs` for."""
    saved_step: int = 0
    """The step of the last checkpoint that this process has written or read."""
    is_over: bool = False
    """Whether the run was finished before and no limit was raised since: then it stays as it is."""
    save_failed: bool = False
    """Whether the last attempt to save has failed."""

    @property
    def optimizer_names(self) -> list[str]:
        """Parameter names in the order in which the optimizer's groups hold them."""
        names = {id(parameter): name for name, parameter in self.model.named_parameters()}
        return [names[id(p)] for group in self.optimizer.param_groups for p in group["params"]]

    def begin_epoch(self) -> None:
        """Load this epoch's pairs; BPE-dropout segments them again in each epoch."""
        if self.bpe_dropout is None or self._epoch == self.state.epoch:
            return
        self.pairs, self._epoch = self.bpe_dropout.pairs(self.state.epoch), self.state.epoch
        if self.packing is not None:
            self.packing = Packing(self.pairs, max_len=self.config.data.max_pieces + 1)

    @property
    def n_epoch_tokens(self) -> int:
        """Target tokens of an epoch."""
        return int(self.pairs.lengths.tgt.sum())

    def split(self, rows: Indices, max_tokens: int) -> list[Indices]:
        """Split rows of the corpus into micro-batches of at most `max_tokens`, see `training.max_tokens`."""
        return list((self.packing or self.pairs.lengths).split(rows, max_tokens))

    def batch(self, rows: Indices) -> Batch | PackedBatch:
        """Gather a micro-batch, and move it to the device."""
        return (self.packing or self.pairs).batch(rows).to(self.device)

    @property
    def is_sharded(self) -> bool:
        """Whether the model is sharded over ranks."""
        return is_sharded(self.model)

    @property
    def keeps_averages(self) -> bool:
        """Whether the weights that are saved and validated are averages, not those that the gradient is taken at."""
        return self.config.training.optimizer == "schedule_free"

    def __post_init__(self) -> None:
        if decay := self.config.training.ema:
            self.ema = Ema(self.model, decay)
        if self.copy is None and self.world.is_rank0 and (self.ema is not None or self.keeps_averages):
            self.copy = deepcopy(self.model)

    def weights(self) -> Tensors:
        """Return, on rank 0, the full weights to save and validate, by name."""
        return self._request("raw")

    def averaged(self) -> Tensors | None:
        """Return, on rank 0, the full moving average of the weights, by name, if there is one."""
        return None if self.ema is None else self._request("ema")

    def moments(self) -> Tensors:
        """Return, on rank 0, the full state of the optimizer, under the names of its parameters."""
        return self._request("moments")

    def to_validate(self, kind: Weights) -> Transformer:
        """Return, on rank 0, the full model with its current weights, raw or ema."""
        if kind == "raw" and not self.is_sharded and not self.keeps_averages:
            return self.model
        assert self.copy is not None, "made at the start where it is needed"
        assign(self.copy, self._request(kind), "the model")
        return self.copy

    def gather(self, kind: str) -> Tensors:
        """Gather the weights (raw), their moving average (ema) or the optimizer's moments onto rank 0; a collective."""
        if kind == "moments":
            tensors = optimizer_tensors(self.optimizer, self.optimizer_names)
        elif kind == "ema":
            assert self.ema is not None, "requested only with training.ema"
            tensors = self.ema.tensors
        else:
            tensors = weights_to_keep(self.model, self.optimizer)
        return gather_tensors(tensors, self.world)

    def _request(self, kind: str) -> Tensors:
        if self.is_sharded:
            self.world.request(kind)
        return self.gather(kind)
