"""The training loop.

    with BPE-dropout: cut the words into this epoch's pieces
    for update in updates of the epoch, from update_in_epoch:
        n = target tokens of the update, over all its micro-batches and processes
        for batch in this process's share: (loss_sum / n).backward()   # halved and done again if memory runs out
        sum the gradients over processes; clip; lr = schedule(step)
        optimizer step, moving average; but nothing changes if loss or gradient is not finite; step += 1
        every so many steps: log / save / validate; stop if a signal came

Where a run stands is a `TrainState`. The order of the data is a function of (seed, epoch), dropout of (seed, step), and
the learning rate of the step, so a resumed run is the run that was never stopped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import NoReturn

import torch
from torch import Tensor

from nmt.config import Config
from nmt.data.batching import BatchPlan, Indices, Update, epoch_updates
from nmt.errors import CheckpointError, DivergedError, NmtError, StoppedError
from nmt.layout import RunDir
from nmt.model.device import free_memory, out_of_memory
from nmt.model.precision import autocast
from nmt.process import Interrupted, stopping
from nmt.training.limits import End, check_is_due, ended, ended_by, fix_cooldown, to_go_on
from nmt.training.memory import slots
from nmt.training.objective import objective
from nmt.training.optim import learning_rate
from nmt.training.outcome import Outcome
from nmt.training.parallel.shard import whole
from nmt.training.parallel.world import World
from nmt.training.report.forecast import cut_short
from nmt.training.report.log import TrainingLog
from nmt.training.report.meter import Meter
from nmt.training.report.profile import Profile, making_batches
from nmt.training.saving.best import check, select_at_end
from nmt.training.saving.checkpoints import save, save_state, tidy
from nmt.training.session import Session
from nmt.training.setup.lock import locked
from nmt.training.setup.start import announce, start

TOO_LITTLE_MEMORY = "memory does not suffice; lower training.max_tokens or search.batch_tokens, or take a smaller model"
NOT_AGAIN = (
    "memory does not suffice, and with training.parallel: fsdp an update is not repeated; lower training.max_tokens"
)
ONE_PAIR = "memory does not suffice to learn from a single pair; lower data.max_pieces, or take a smaller model"


def fit(
    config: Config,
    data_dir: Path,
    run_dir: Path,
    resume: bool = False,
    stop_after_minutes: float | None = None,
    world: World | None = None,
    profile: bool = False,
) -> None:
    """Train a model on the data directory and leave the run in `run_dir`, together with all processes of `world`.

    Raises ConfigError, DataError or CheckpointError before anything is written, DivergedError if the numbers go wrong,
    StoppedError if a signal or the time limit stopped the run, which can then be resumed.
    """
    run, world = RunDir(run_dir), world or World()
    with stopping(stop_after_minutes) as stop, locked(run, resume, world):
        world.stop = stop
        try:
            session = start(config, data_dir, run_dir, resume, world, stop)
            if not session.is_over:
                train_and_log(session, profile)
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
            raise NmtError(f"{run.path}: {TOO_LITTLE_MEMORY}") from error


def train_and_log(session: Session, profile: bool) -> None:
    """`train`, with a log in process 0, and a `profile` if there is to be one."""
    if not session.world.is_first:
        train(session, None)
        return
    state, last = session.state, session.config.training.max_steps
    is_checked = not check_is_due(session)
    with TrainingLog(session.run, state.step, state.log_bytes, is_checked, last, state.log_waiting) as log:
        announce(session, log)
        try:
            with Profile(session, log) if profile else nullcontext() as profiling:
                train(session, Meter(session, log, profiling))
        except KeyboardInterrupt:
            log.say(f"interrupted at step {state.step}; nmt train --resume goes on from step {session.saved_step}")
            raise


def train(session: Session, meter: Meter | None) -> None:
    """From where the session stands to the end of the run. Process 0 alone has a meter."""
    state, settings = session.state, session.config.training
    plan = BatchPlan(settings.update_tokens, settings.pool_pairs, settings.seed)
    tell = partial(session.world.from_first, help_=session.help)
    session.begin_epoch()
    tell(lambda: after_step(session, meter))  # makes up for a validation that was cut short
    while (end := ended(session)) is None:
        with making_batches():
            session.begin_epoch()
            updates = epoch_updates(session.pairs.lengths, plan, state.epoch)
        if meter is not None:
            meter.expect(len(updates))
        for update in updates[state.update_in_epoch :]:
            outcome = train_step(session, update)
            tell(partial(account, session, meter, outcome))
            if ended(session) is not None:
                break
        else:
            state.epoch, state.update_in_epoch = state.epoch + 1, 0
            del updates  # of a large corpus they are large, and the next ones are about to be made
    tell(lambda: leave(session, meter, end))


def train_step(session: Session, update: Update) -> Outcome:
    """Learn from one update. If its loss or gradient is not finite, it changes neither weights nor moments."""
    config, state, model, optimizer = session.config.training, session.state, session.model, session.optimizer
    numbers = gather_gradients(session, update)
    if not session.is_sharded:  # then the backward pass has done it
        session.world.sum_gradients(model.parameters())
    session.world.sum_(numbers)
    session.scaler.unscale_(optimizer)
    norm = whole(torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm or math.inf))
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(state.step + 1, config, session.config.model.d_model, state.cooldown)
    # on the device, which need not be waited for: the fused optimizers do nothing where found_inf is 1
    is_finite = torch.isfinite(norm) & torch.isfinite(numbers[0])
    optimizer.grad_scale, optimizer.found_inf = None, (~is_finite).float()  # type: ignore[attr-defined]
    optimizer.step()
    if session.ema is not None:
        session.ema.update(model, state.step + 1, is_finite.float())
    session.scaler.update()
    optimizer.zero_grad(set_to_none=True)
    state.step += 1
    state.update_in_epoch += 1
    state.n_tokens += update.n_tokens
    return Outcome(update, torch.cat((numbers, norm.double()[None])))


def gather_gradients(session: Session, update: Update) -> Tensor:
    """Forward and backward over this process's share of an update; the first six numbers of an `Outcome`.

    If memory does not suffice, all is done again in micro-batches of half the size. Raises NmtError if a single pair
    is too much.
    """
    rows = update.share(session.world.rank, session.world.size)
    max_tokens, n_out_of_memory = session.max_tokens, 0
    while True:
        with making_batches():
            micro_batches = session.split(rows, max_tokens)
        n_empty = session.world.most(len(micro_batches))[0] - len(micro_batches) if session.is_sharded else 0
        try:
            numbers = forward_backward(session, micro_batches, update.n_tokens, [update.rows[:1]] * n_empty)
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
            if session.is_sharded:  # the others have done their part of it and cannot do it again
                raise NmtError(f"{session.run.path}: {NOT_AGAIN}") from error
        else:
            numbers[4].fill_(n_out_of_memory)  # numbers[4] = … would copy from the CPU, and wait for the device
            return numbers
        # out of the handler, for as long as there is an exception it holds on to what was calculated
        session.optimizer.zero_grad(set_to_none=True)
        free_memory()
        n_out_of_memory += 1
        if max(map(len, micro_batches)) == 1:
            raise NmtError(f"{session.run.path}: {ONE_PAIR}")
        max_tokens = min(max_tokens, max(slots(session.pairs.lengths, rows) for rows in micro_batches)) // 2


def forward_backward(
    session: Session, micro_batches: Sequence[Indices], n_tokens: int, empty: Sequence[Indices] = ()
) -> Tensor:
    """Add up the gradients of the loss per token of an update of `n_tokens`; returns numbers as `gather_gradients`.

    `empty` are gone through as well, but nothing is learned from them: where a model is divided, all processes have to
    do as many steps.
    """
    settings, state, world = session.config.training, session.state, session.world
    torch.manual_seed((settings.seed << 32) + state.step * world.size + world.rank)
    numbers = torch.zeros(6, dtype=torch.float64, device=session.device)
    for rows in micro_batches:
        with making_batches():
            batch = session.batch(rows)
        with autocast(session.precision, session.device):
            sums = objective(session.model, batch, settings, session.forward, state.step)
        session.scaler.scale(sums.loss / n_tokens).backward()  # type: ignore[no-untyped-call]
        n_slots = batch.src.numel() + batch.tgt_in.numel()
        numbers[0] += sums.loss.detach()
        numbers[1] += sums.nll
        numbers[2] += sums.n_correct
        numbers[3] += n_slots
        numbers[5] += sums.divergence
    for rows in empty:
        with autocast(session.precision, session.device):
            sums = objective(session.model, session.batch(rows), settings, step=state.step)
        (sums.loss * 0).backward()  # type: ignore[no-untyped-call]
    return numbers


def account(session: Session, meter: Meter | None, outcome: Outcome) -> None:
    """In process 0: count an update, and do what is due after it."""
    assert meter is not None, "this is process 0"
    meter.add(outcome)
    after_step(session, meter)


def after_step(session: Session, meter: Meter | None) -> None:
    """In process 0: log, save and validate, whichever is due."""
    assert meter is not None, "this is process 0"
    state, settings = session.state, session.config.training
    log_is_due = state.step % settings.log_every_steps == 0
    meter.show(at_once=log_is_due)
    if log_is_due:
        meter.record()
    check_now = check_is_due(session)
    save_now = fix_cooldown(session) or check_now or state.step % settings.save_every_steps == 0
    if not save_now:
        return
    meter.pause()
    if state.step != session.saved_step:  # first: should the validation fail, the work until here is safe
        save(session, meter)
    if check_now:
        with suppress(Interrupted):
            check(session, meter.log)
            meter.go()
            save_state(session, meter)
    meter.go()


def leave(session: Session, meter: Meter | None, end: End) -> None:
    """In process 0: conclude the run, or stop it early."""
    assert meter is not None, "this is process 0"
    if not end.is_early:
        with suppress(Interrupted):
            conclude(session, meter, end)
            return
    stop_early(session, meter, session.stop.reason or end.reason)


def conclude(session: Session, meter: Meter, end: End) -> None:
    """The end of a run: save and validate the last weights, and select the ones to translate with.

    Raises Interrupted if the run is to stop before that is done, CheckpointError if the disk takes no more.
    """
    state, run = session.state, session.run
    meter.settle()
    if state.step == state.n_skipped:
        raise DivergedError(f"{run.path}: {end.reason} before anything was learned")
    meter.pause()
    meter.show(at_once=True)
    meter.log.say(f"{end.reason} after {state.step} steps")
    limit = ended_by(session)
    if found := cut_short(session.config.training, state.step, state.cooldown_start):
        meter.log.say(f"warning: training has ended before {' and '.join(found)}; to go on: {to_go_on(session)}")
    if session.saved_step != state.step:
        save(session, meter)
    if state.last_check != state.step:
        check(session, meter.log)
        meter.go()
        save_state(session, meter)
    if session.saved_step != state.step:
        raise CheckpointError(
            f"{run.path}: the end of the run could not be saved, only step {session.saved_step} is; free some space, "
            f"then nmt train --resume --run {run.path} makes up for it"
        )
    tidy(session, meter)
    select_at_end(session, meter, limit)


def stop_early(session: Session, meter: Meter, reason: str) -> NoReturn:
    """Save, and raise StoppedError, which says how to go on."""
    state, run = session.state, session.run
    meter.pause()
    if session.saved_step != state.step:
        save(session, meter, is_extra=True)
    saved = "" if session.saved_step == state.step else f" (saved is step {session.saved_step})"
    raise StoppedError(
        f"stopped at step {state.step}{saved} by {reason}; nmt train --resume --run {run.path} goes on from there"
    )
