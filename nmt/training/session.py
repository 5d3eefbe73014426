"""One training run in memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch

from nmt.checkpoint import Tensors, TrainState, assign, optimizer_tensors
from nmt.config import Config
from nmt.data.batching import Batch, Indices, Pairs
from nmt.data.packing import PackedBatch, Packing
from nmt.layout import RunDir
from nmt.model.transformer import Transformer
from nmt.training.dist import World
from nmt.training.objective import Forward
from nmt.training.shard import all_whole, is_sharded
from nmt.training.stop import Stop
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
    """Where the model is divided among processes: the whole of it, in process 0, brought up to date for validation."""
    saved_step: int = 0
    """The step of the last checkpoint that this process has written or read."""
    save_failed: bool = False
    """Whether the last attempt to save has failed."""

    @property
    def optimizer_names(self) -> list[str]:
        """Parameter names in the order in which the optimizer's groups hold them."""
        names = {id(parameter): name for name, parameter in self.model.named_parameters()}
        return [names[id(p)] for group in self.optimizer.param_groups for p in group["params"]]

    @cached_property
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

    def weights(self) -> Tensors:
        """The whole weights, by name; in process 0."""
        return self._whole("weights")

    def moments(self) -> Tensors:
        """The whole state of the optimizer, under the names of its parameters; in process 0."""
        return self._whole("moments")

    def to_validate(self) -> Transformer:
        """The whole model as it stands; in process 0."""
        if self.copy is None:
            return self.model
        assign(self.copy, self.weights(), "the model")
        return self.copy

    def help(self, what: str) -> Tensors:
        """Take part in putting the whole together, as all processes must."""
        moments = what == "moments"
        tensors = optimizer_tensors(self.optimizer, self.optimizer_names) if moments else self.model.named_parameters()
        return all_whole(dict(tensors), self.world)

    def _whole(self, what: str) -> Tensors:
        if self.is_sharded:
            self.world.ask(what)
        return self.help(what)
