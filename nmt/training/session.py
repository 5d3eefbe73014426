"""One training run in memory, the outcome of its updates, and the writer of its checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from nmt.data.batching import Packing, Pairs, Update
from nmt.data.mixing import Position
from nmt.data.rows import AnyBatch, RowPacking
from nmt.data.settings import DataConfig
from nmt.data.windows import Window, Windows
from nmt.errors import NmtError, UnsafeFileError
from nmt.layout import RunDir
from nmt.model.device import DTYPES, Halves, out_of_memory
from nmt.model.transformer import Model
from nmt.process import Stop
from nmt.runs.checkpoint import Tensors, assign, optimizer_tensors
from nmt.runs.info import Weights
from nmt.runs.state import TrainState
from nmt.training.loss import Forward, LossSums
from nmt.training.objective import Learner, Objective
from nmt.training.optim import Ema
from nmt.training.parallel import World, gather_tensors, is_sharded, replicate
from nmt.training.settings import TrainingConfig
from nmt.training.validate import Validator

OUT_OF_MEMORY_IN_EXCHANGE = (
    "not enough memory in a pass that exchanges gradients, which cannot be repeated; lower training.max_tokens"
)


class Description(NamedTuple):
    """The description of a run that trackers show."""

    settings: Mapping[str, object] = {}
    """All settings, by key, such as training.max_steps."""
    write: Callable[[Path], None] = lambda _: None
    """Writes the files that describe the finished run into a folder."""


@dataclass
class Session:
    """One training run in memory."""

    run: RunDir
    data: DataConfig
    settings: TrainingConfig
    d_model: int
    longest: int
    """Maximum length of a training sequence in tokens, including the end-of-sentence token."""
    training_objective: Objective
    windows: Windows
    validator: Validator
    selected_by: str
    """The score by which checkpoints are selected."""
    model: Model
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    state: TrainState
    device: torch.device
    precision: str
    max_tokens: int
    world: World
    stop: Stop
    layout: str = "rows"
    """The layout of micro-batches: packed or rows."""
    threads: int = field(default_factory=torch.get_num_threads)
    """The number of CPU threads of an update. Validations use all cores."""
    forward: Forward | None = None
    """The compiled model, if it is compiled."""
    halves: Halves | None = None
    """Half-precision copies of the weights, if they are made once per update."""
    partly_frozen: Tensors = field(default_factory=dict)
    """For each table of which only new rows are learned, by its name, a mask (V, 1) that is 1 there."""
    copy: Model | None = None
    """A second model on rank 0, for validating the gathered weights of a sharded model, or the moving average."""
    ema: Ema | None = None
    """The moving average of the weights, with training.ema."""
    watched: Mapping[str, Validator] = field(default_factory=dict)
    """The validators of the test sets of training.watch."""
    changed: Pairs | None = None
    """The changed pairs of the current update."""
    window: Window | None = None
    """The pairs and updates of the current window, once they are loaded."""
    packing: Packing | RowPacking | None = None
    """The maker of micro-batches, once the window is loaded."""
    description: Description = field(default_factory=Description)
    is_over: bool = False
    """Whether the run had already finished and no limit was raised since, so that nothing is left to do."""
    halfway: tuple[int, float] | None = None
    """The step and the seconds at half of the time before the cool-down, or when the run was resumed after that."""
    leaves_out_checks: bool = False
    """Whether validations have been left out for lack of time."""
    save_failed: bool = False
    """Whether the last attempt to save has failed."""
    saver: Saver = field(init=False)
    """The writer of checkpoints."""
    parameters: list[nn.Parameter] = field(init=False)
    """The parameters of the model. Collecting them from its modules takes a quarter of a millisecond."""
    learner: nn.Module = field(init=False)
    """Model and loss, wrapped in DistributedDataParallel if several processes exchange gradients."""

    @property
    def optimizer_names(self) -> list[str]:
        """The parameter names in the order of the optimizer's groups."""
        names = {id(parameter): name for name, parameter in self.model.named_parameters()}
        return [names[id(p)] for group in self.optimizer.param_groups for p in group["params"]]

    @property
    def position(self) -> Position:
        """The position of the run in its data."""
        return position_of(self.state)

    def load_window(self) -> None:
        """Load the pairs and updates of the current window; with BPE-dropout, the pairs are segmented again."""
        if self.window is not None and self.window.position == self.position:
            return
        self.window = self.packing = self.changed = None  # they are large, and so are the next ones
        self.window = self.windows.load(self.position)
        pairs = self.window.pairs
        if self.layout == "rows":
            self.packing = RowPacking(pairs, copies=self.settings.copies_targets)
        else:
            is_known = self.windows.is_fixed and not self.training_objective.changes
            self.packing = Packing(pairs, max_len=0 if is_known else self.longest)

    def updates(self) -> list[Update]:
        """Return the remaining updates of the window up to the end of the stage."""
        state = self.state
        updates = self._window.updates[state.update_in_epoch :]
        n_updates = self.windows.mix.stages[state.stage].n_updates
        if n_updates is not None:
            updates = updates[: max(0, state.stage_step + n_updates - state.step)]
        return updates

    def changed_update(self, update: Update) -> Update:
        """Change the pairs of an update, and return an update whose rows and tokens refer to the changed pairs.

        Every rank changes all pairs, since the loss is divided by the target tokens of all ranks.
        """
        self.changed, learned = self.training_objective.learned(self._window.pairs, update, self.state.epoch)
        if self.changed is not None:
            self.packing = self.batches.of(self.changed)
        return learned

    def end_window(self) -> None:
        """Continue with the next window after the last update of the current one, or with the next stage in the same
        window."""
        state = self.state
        done = self._window.updates[: state.update_in_epoch]
        n_pairs = None
        if len(done) < len(self._window.updates):
            n_pairs = sum(len(update.rows) for update in done) // self.windows.n_per_pair
        position = self.windows.mix.after(self.position, n_pairs, state.step)
        state.epoch, state.window, state.update_in_epoch = position.epoch, position.window, 0
        state.stage, state.stage_step, state.stage_pairs = position.stage, position.stage_step, position.stage_pairs
        state.drawn = [*position.drawn]

    @property
    def pairs(self) -> Pairs:
        """The pairs that the rows of an update index: the pairs of the window, or the changed pairs."""
        return self._window.pairs if self.changed is None else self.changed

    @property
    def batches(self) -> Packing | RowPacking:
        """The maker of micro-batches."""
        assert self.packing is not None, "the window is loaded"
        return self.packing

    @property
    def n_epochs(self) -> float:
        """The number of epochs so far: the pairs before the window, and a share of its pairs for each of its updates.

        Tokens would not do, since the stages of a run may have pairs of different lengths.
        """
        start, stop = self.windows.mix.span(self.position)
        done = self.state.update_in_epoch / max(1, len(self._window.updates))
        return (start + (stop - start) * done) / self.windows.mix.n_pairs

    @property
    def n_epoch_updates(self) -> int:
        """The number of updates in an epoch; approximate if there are several windows."""
        return self._per_epoch(len(self._window.updates))

    @property
    def n_epoch_tokens(self) -> int:
        """The number of target tokens in an epoch; approximate if there are several windows."""
        return self._per_epoch(self._window.pairs.lengths.tgt.sum())

    def _per_epoch(self, n: int) -> int:
        """Scale a count of the window to an epoch."""
        start, stop = self.windows.mix.span(self._window.position)
        return max(1, n * self.windows.mix.n_pairs // (stop - start))

    @property
    def _window(self) -> Window:
        assert self.window is not None, "loaded at the start"
        return self.window

    @property
    def is_sharded(self) -> bool:
        """Whether the model is sharded over ranks."""
        return is_sharded(self.model)

    def __post_init__(self) -> None:
        self.saver = Saver(self.device)
        self.parameters = list(self.model.parameters())
        if decay := self.settings.ema:
            self.ema = Ema(self.model, decay)
        if self.copy is None and self.world.is_rank0 and self.ema is not None:
            self.copy = deepcopy(self.model)
        twin = None if self.halves is None else self.halves.twin
        self.learner = Learner(self.model, self.training_objective, self.forward or twin)
        if self.world.size > 1 and not self.is_sharded:
            self.learner = replicate(self.learner, DTYPES[self.settings.exchange_precision])

    @contextmanager
    def one_pass(self, is_last: bool) -> Iterator[None]:
        """Run the forward and backward pass of a micro-batch, which may be the last one of an update.

        Raises NmtError if another rank has ended, or if memory runs out in a pass that exchanges gradients, since the
        other ranks have done their part of the exchange and cannot repeat it.
        """
        replica = self.learner if isinstance(self.learner, DistributedDataParallel) else None
        if replica is None and not self.is_sharded:
            yield
            return
        exchanges = is_last or replica is None
        with self.world.collective(in_pass=True), replica.no_sync() if replica and not is_last else nullcontext():
            try:
                yield
            except (RuntimeError, MemoryError) as error:
                if exchanges and out_of_memory(error):
                    raise NmtError(f"{self.run.path}: {OUT_OF_MEMORY_IN_EXCHANGE}") from error
                raise

    def to_validate(self, kind: Weights) -> Model:
        """Return the full model with its current weights, raw or ema; called by rank 0."""
        if kind == "raw" and not self.is_sharded:
            return self.model
        assert self.copy is not None, "made at the start where it is needed"
        assign(self.copy, self.full(kind), "the model")
        return self.copy

    def full(self, kind: str) -> Tensors:
        """Return the full tensors that `gather` returns on rank 0, while the other ranks serve the request."""
        if self.is_sharded:
            self.world.request(kind)
        return self.gather(kind)

    def gather(self, kind: str) -> Tensors:
        """Gather the raw weights, their moving average (ema) or the moments onto rank 0; this is a collective
        operation."""
        if kind == "moments":
            tensors = optimizer_tensors(self.optimizer, self.optimizer_names)
        elif kind == "ema":
            assert self.ema is not None, "requested only with training.ema"
            tensors = self.ema.tensors
        else:
            tensors = dict(self.model.named_parameters())
        return gather_tensors(tensors, self.world)


def position_of(state: TrainState) -> Position:
    """Return the position of a run in its data."""
    return Position(state.epoch, state.window, state.stage, state.stage_step, state.stage_pairs, tuple(state.drawn))


THREADED = ("cuda",)
"""Devices on which training continues while a checkpoint is written; on a CPU both would compete for the cores."""


class Saver:
    """A writer of checkpoints, one at a time, that records the last complete one."""

    def __init__(self, device: torch.device) -> None:
        """Prepare to save a model on `device`."""
        self._executor = ThreadPoolExecutor(1, "nmt saves")
        self._waits = device.type not in THREADED
        self._saved_step = 0
        self._writing: tuple[int, Future[None]] | None = None

    @property
    def saved_step(self) -> int:
        """The step of the last checkpoint that this process has written or read. Waits for an unfinished one."""
        if self._writing is not None and self._writing[1].exception() is None:
            self._saved_step = self._writing[0]
        return self._saved_step

    @saved_step.setter
    def saved_step(self, step: int) -> None:
        self._saved_step = step

    def copied(self, tensors: Tensors) -> Tensors:
        """Return a copy of the tensors in host memory if the checkpoint is written while training changes them."""
        if self._waits:
            return tensors
        return {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}

    def write(self, step: int, write: Callable[[], None]) -> None:
        """Start to write the checkpoint of a step, after `outcome` has reported the previous one."""
        assert self._writing is None, "one checkpoint at a time"
        if not self._waits:
            self._writing = step, self._executor.submit(write)
            return
        future: Future[None] = Future()
        try:
            write()  # in this thread, so that a second signal ends it at once
            future.set_result(None)
        except (OSError, UnsafeFileError) as error:
            future.set_exception(error)
        self._writing = step, future

    def outcome(self, must_wait: bool) -> tuple[int, OSError | UnsafeFileError | None] | None:
        """Return, once, the step of a finished checkpoint and the error in writing it; None if there is nothing new.

        Raises unexpected errors.
        """
        if self._writing is None or not (must_wait or self._writing[1].done()):
            return None
        (step, future), self._writing = self._writing, None
        error = future.exception()
        if error is None:
            self._saved_step = step
        elif not isinstance(error, OSError | UnsafeFileError):
            raise error
        return step, error

    def close(self) -> None:
        """Wait until the checkpoint is written."""
        self._executor.shutdown()


@dataclass(frozen=True)
class UpdateStats:
    """Statistics of an update, summed over its micro-batches and, after the reduction, over ranks.

    All fields but `packed` are scalar views of it, so that one all-reduce and one copy from the device are enough.
    Change them in place (`add_`, `fill_`): assigning a number would copy from the CPU and wait for the device.
    """

    packed: Tensor
    """The following fields in this order, (9,) float64."""
    loss: Tensor
    """The training loss: cross-entropy with label smoothing, plus weighted divergence (nats)."""
    nll: Tensor
    """Negative log-likelihood (nats)."""
    n_correct: Tensor
    """Number of target tokens that were predicted correctly."""
    n_slots: Tensor
    """Number of tokens of both sides, including padding."""
    n_out_of_memory: Tensor
    """Number of times that a rank ran out of memory and repeated its share."""
    divergence: Tensor
    """Divergence between two passes, unweighted (nats)."""
    class_nll: Tensor
    """Negative log-likelihood of the classes of sequences, if they have classes (nats)."""
    n_class_correct: Tensor
    """Number of sequences whose class was predicted correctly."""
    norm: Tensor
    """L2 norm of the gradient before clipping; not a sum, since it is set once the gradients are reduced."""

    @classmethod
    def unpack(cls, packed: Tensor) -> UpdateStats:
        """Return statistics that are views of `packed`."""
        return cls(packed, *packed.unbind())

    @classmethod
    def zeros(cls, device: torch.device) -> UpdateStats:
        """Return statistics that are all zero."""
        return cls.unpack(torch.zeros(len(fields(cls)) - 1, dtype=torch.float64, device=device))

    @property
    def sums(self) -> Tensor:
        """A view (8,) of all statistics that are summed over ranks, that is, all but `norm`."""
        return self.packed[:-1]

    def add(self, sums: LossSums, batch: AnyBatch) -> None:
        """Add the loss of a micro-batch."""
        self.loss.add_(sums.loss.detach())
        self.nll.add_(sums.nll)
        self.n_correct.add_(sums.n_correct)
        self.n_slots.add_(batch.src.numel() + batch.tgt_in.numel())
        self.divergence.add_(sums.divergence)
        if sums.n_classified:
            self.class_nll.add_(sums.class_nll)
            self.n_class_correct.add_(sums.n_class_correct)

    def by_name(self) -> dict[str, float]:
        """Return all statistics, which are read from the device."""
        names = (field.name for field in fields(self) if field.name != "packed")
        return dict(zip(names, self.packed.tolist(), strict=True))

    def cpu(self) -> UpdateStats:
        """Return a copy on the CPU, asynchronously from a GPU."""
        return self.unpack(self.packed.to("cpu", non_blocking=True))


@dataclass(frozen=True)
class Outcome:
    """The outcome of an update, which is update number `step` of the run, in epoch `epoch`.

    The rows of `update` index all training pairs. `n_tokens` counts the real tokens of both sides.
    """

    update: Update
    step: int
    epoch: int
    n_tokens: int
    stats: UpdateStats
