"""The training loop.

    window = the next part of the epoch, planned by a thread; a small training set is one window
    for update in updates of the window, from update_in_epoch:
        with training.modifiers: some of its pairs in another form
        n = target tokens of the update, of a classifier its texts, over all its micro-batches and ranks
        for batch in this rank's share: (loss_sum / n).backward()   # in halves again if out of memory
        gradients summed over ranks during the last backward(); clip; lr = schedule(step)
        optimizer step, moving average; but nothing changes if loss or gradient is not finite; step += 1
        on rank 0, when due: log / save / validate; stop on a signal

The progress of a run is its `TrainState`. The order of the data is a function of the seed and the position, dropout of
(seed, step) and the learning rate of the step, so a resumed run ends with the same weights as one that was never
stopped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

import torch

from nmt.data.batching import Update
from nmt.data.lines import Indices
from nmt.errors import NmtError
from nmt.model.device import autocast, free_memory, out_of_memory, threads
from nmt.process import Interrupted
from nmt.training.limits import ended, fix_cooldown, validation_is_due
from nmt.training.optim import learning_rate
from nmt.training.parallel import full_tensor
from nmt.training.report.meter import Meter, making_batches
from nmt.training.saving import finish, report_saved, save, save_state, validate
from nmt.training.session import Outcome, Session, UpdateStats

OUT_OF_MEMORY_ONE_PAIR = "not enough memory for a single pair; lower data.max_pieces, or use a smaller model"


def train(session: Session, meter: Meter) -> None:
    """Train from the position of the session to the end of the run. Only rank 0 uses `meter`."""
    on_rank0 = partial(session.world.on_rank0, serve=session.gather)  # a sharded model is gathered by all ranks
    on_rank0(lambda: after_step(session, meter))  # for a validation that was interrupted
    while (end := ended(session)) is None:
        with session.world.failing_together(), making_batches():  # a label for --profile
            session.load_window()
        on_rank0(lambda: meter.begin_window())
        for update in session.updates():
            with threads(session.threads):
                outcome = train_step(session, update)
            on_rank0(partial(report_and_save, session, meter, outcome))
            if ended(session) is not None:
                break
        else:  # no break: the window is complete, or the stage
            session.end_window()
    on_rank0(lambda: finish(session, meter, end))


def train_step(session: Session, update: Update) -> Outcome:
    """Make one update. If its loss or gradient is not finite, weights and moments do not change."""
    state = session.state
    optimizer = session.optimizer
    n_planned = update.n_tokens
    with making_batches():
        update = session.changed_update(update)
    stats = accumulate_gradients(session, update)
    session.world.all_reduce(stats.sums)
    session.scaler.unscale_(optimizer)
    for name, is_learned in session.partly_frozen.items():
        gradient = session.model.get_parameter(name).grad
        if gradient is not None:
            gradient.mul_(is_learned)
    norm = full_tensor(torch.nn.utils.clip_grad_norm_(session.parameters, session.settings.clip_norm or math.inf))
    stats.norm.copy_(norm)
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(state.step + 1, session.settings, session.d_model, state.cooldown)
    # As in GradScaler.step, but without waiting for the device: fused optimizers change nothing where found_inf is 1.
    # The gradients are unscaled already, so that grad_scale is None.
    is_finite = torch.isfinite(norm) & torch.isfinite(stats.loss)
    optimizer.grad_scale, optimizer.found_inf = None, (~is_finite).float()  # type: ignore[attr-defined]
    optimizer.step()
    if session.ema is not None:
        session.ema.update(session.parameters, state.step + 1, is_finite.float())
    session.scaler.update()
    optimizer.zero_grad(set_to_none=True)
    state.step += 1
    state.update_in_epoch += 1
    state.n_tokens += n_planned
    lengths = session.pairs.lengths
    n_tokens = int(lengths.src[update.rows].sum() + lengths.tgt[update.rows].sum())
    corpus_rows = session.pairs.corpus_rows(update.rows)
    return Outcome(Update(corpus_rows, update.n_tokens), state.step, state.epoch, n_tokens, stats)


def accumulate_gradients(session: Session, update: Update) -> UpdateStats:
    """Run the forward and backward passes of this rank's share of an update, and return all statistics except the norm.

    If memory runs out, the whole share is repeated in micro-batches of half the size. Raises NmtError if a single pair
    does not fit, or if gradients were being exchanged with other ranks.
    """
    rows = update.share(session.world.rank, session.world.size)
    max_tokens = session.max_tokens
    n_out_of_memory = 0
    while True:
        with making_batches():
            micro_batches = list(session.batches.split(rows, max_tokens))
        try:
            stats = forward_backward(session, micro_batches, update)
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
        else:
            stats.n_out_of_memory.fill_(n_out_of_memory)
            return stats
        # not in the handler, since an exception that is being handled keeps the tensors of its frames alive
        session.optimizer.zero_grad(set_to_none=True)
        free_memory()
        n_out_of_memory += 1
        if max(map(len, micro_batches)) == 1:
            raise NmtError(f"{session.run.path}: {OUT_OF_MEMORY_ONE_PAIR}")
        max_tokens = min(max_tokens, max(map(session.pairs.lengths.larger_side, micro_batches))) // 2


def forward_backward(session: Session, micro_batches: Sequence[Indices], update: Update) -> UpdateStats:
    """Accumulate the gradients of this rank's share of an update, and exchange them with the other ranks."""
    world = session.world
    torch.manual_seed((session.settings.seed << 32) + session.state.step * world.size + world.rank)
    stats = UpdateStats.zeros(session.device)
    if session.halves is not None:
        session.halves.refresh()
    passes = _passes(session, micro_batches, update)
    for number, (rows, weight) in enumerate(passes, start=1):
        with making_batches():
            batch = session.batches.batch(rows).to(session.device)
        with session.one_pass(is_last=number == len(passes)):
            with autocast(session.precision, session.device):
                sums = session.learner(batch)
            session.scaler.scale(sums.loss * weight / update.n_tokens).backward()
        if session.halves is not None:
            session.halves.collect()
        if weight:
            stats.add(sums, batch)
    return stats


def _passes(session: Session, micro_batches: Sequence[Indices], update: Update) -> list[tuple[Indices, int]]:
    """Return the rows of each pass of this rank and the weight of the loss of that pass.

    All ranks make a last pass, in which replicas exchange gradients. It gets the smallest micro-batch, since memory
    must not run out in it. With a sharded model, all ranks make the same number of passes. If a rank has no micro-batch
    for a pass, the weight is 0.
    """
    world = session.world
    if session.is_sharded:
        passes = [(rows, 1) for rows in micro_batches]
        n_passes = world.max_over_ranks(len(passes))[0]
    elif world.size == 1:
        return [(rows, 1) for rows in micro_batches]
    else:
        ordered = sorted(micro_batches, key=session.pairs.lengths.larger_side, reverse=True)
        passes = [(rows, world.size) for rows in ordered]  # since DistributedDataParallel averages
        n_passes = 1
    return passes + [(update.rows[:1], 0)] * (n_passes - len(passes))


def report_and_save(session: Session, meter: Meter, outcome: Outcome) -> None:
    """Count an update on rank 0, then log, save and validate if due."""
    meter.add(outcome)
    after_step(session, meter)


def after_step(session: Session, meter: Meter) -> None:
    """Log, save and validate on rank 0 if due."""
    state = session.state
    settings = session.settings
    report_saved(session, meter, must_wait=False)
    log_is_due = state.step % settings.log_every_steps == 0
    meter.show(at_once=log_is_due)
    if log_is_due:
        meter.record()
    validates = validation_is_due(session)
    is_fixed = fix_cooldown(session)  # a fixed cool-down is part of the state, which is saved at once
    if not (is_fixed or validates or state.step % settings.save_every_steps == 0):
        return
    meter.pause()
    paused_at = state.seconds
    if state.step != session.saver.saved_step:  # first: if the validation fails, the work until here is safe
        save(session, meter)
    if validates:
        with suppress(Interrupted):
            validate(session, meter.log)
            meter.resume()
            state.last_check_seconds = state.seconds - paused_at
            state.check_seconds += state.last_check_seconds
            save_state(session, meter)
    meter.resume()
