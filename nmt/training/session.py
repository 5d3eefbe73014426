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
from nmt.training.parallel.shard import all_whole, is_sharded
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
    """What packs micro-batches, where they are packed."""
    forward: Forward | None = None
    """The compiled model, where there is one."""
    copy: Transformer | None = None
    """In process 0, where other weights than the model's own are validated: those of one that is divided among
    processes, put together, the averages of schedule_free, or the moving average."""
    ema: Ema | None = None
    """The moving average of the weights, where there is to be one."""
    bpe_dropout: BpeDropout | None = None
    """What makes the pairs of each epoch, where they are not always the same."""
    _epoch: int = -1
    """The epoch that it has made `pairs` for."""
    saved_step: int = 0
    """The step of the last checkpoint that this process has written or read."""
    is_over: bool = False
    """Whether the run had come to its end before, and no limit was raised since: then nothing of it is changed."""
    save_failed: bool = False
    """Whether the last attempt to save has failed."""

    @property
    def optimizer_names(self) -> list[str]:
        """Parameter names in the order in which the optimizer's groups hold them."""
        names = {id(parameter): name for name, parameter in self.model.named_parameters()}
        return [names[id(p)] for group in self.optimizer.param_groups for p in group["params"]]

    def begin_epoch(self) -> None:
        """Have the pairs of the epoch that the state is in: with BPE-dropout they are others in each."""
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
        """The micro-batches of some rows of the corpus: see `training.max_tokens`."""
        return list((self.packing or self.pairs.lengths).split(rows, max_tokens))

    def batch(self, rows: Indices) -> Batch | PackedBatch:
        """A micro-batch, on the device."""
        return (self.packing or self.pairs).batch(rows).to(self.device)

    @property
    def is_sharded(self) -> bool:
        """Whether the model is divided among processes."""
        return is_sharded(self.model)

    @property
    def keeps_averages(self) -> bool:
        """Whether other weights are saved and validated than those that the gradient is taken at."""
        return self.config.training.optimizer == "schedule_free"

    def __post_init__(self) -> None:
        if decay := self.config.training.ema:
            self.ema = Ema(self.model, decay)
        if self.copy is None and self.world.is_first and (self.ema is not None or self.keeps_averages):
            self.copy = deepcopy(self.model)

    def weights(self) -> Tensors:
        """The whole weights that are saved and validated, by name; in process 0."""
        return self._whole("raw")

    def averaged(self) -> Tensors | None:
        """The whole moving average of the weights, by name, if there is one; in process 0."""
        return None if self.ema is None else self._whole("ema")

    def moments(self) -> Tensors:
        """The whole state of the optimizer, under the names of its parameters; in process 0."""
        return self._whole("moments")

    def to_validate(self, kind: Weights) -> Transformer:
        """The whole model with its weights as they stand, raw or ema; in process 0."""
        if kind == "raw" and not self.is_sharded and not self.keeps_averages:
            return self.model
        assert self.copy is not None, "start makes it where it is needed"
        assign(self.copy, self._whole(kind), "the model")
        return self.copy

    def help(self, what: str) -> Tensors:
        """Take part in putting the whole together, as all processes must."""
        if what == "moments":
            tensors = optimizer_tensors(self.optimizer, self.optimizer_names)
        elif what == "ema":
            assert self.ema is not None, "it is asked for only where there is one"
            tensors = self.ema.tensors
        else:
            tensors = weights_to_keep(self.model, self.optimizer)
        return all_whole(tensors, self.world)

    def _whole(self, what: str) -> Tensors:
        if self.is_sharded:
            self.world.ask(what)
        return self.help(what)
