"""The training loop.

    for update in updates of the epoch, from update_in_epoch:
        n = target tokens of the update, over all its micro-batches
        for batch in update: (loss_sum / n).backward()
        clip; lr = schedule(step); optimizer step; step += 1      # a non-finite norm never reaches the weights
        every so many steps: log / validate / save

Where a run stands is a `TrainState`. The order of the data is a function of (seed, epoch), dropout of (seed, step), and
the learning rate of the step, so a resumed run is the run that was never stopped.
"""

from __future__ import annotations

import math
import sys
from dataclasses import asdict
from pathlib import Path

import torch

from nmt.checkpoint import optimizer_tensors, rotate, save_checkpoint, saved_steps
from nmt.config import Config
from nmt.data.batching import BatchPlan, Update, epoch_updates
from nmt.errors import DivergedError
from nmt.model.precision import autocast
from nmt.training.log import TrainingLog
from nmt.training.loss import LossSums
from nmt.training.meter import Meter
from nmt.training.objective import objective
from nmt.training.optim import learning_rate
from nmt.training.select import check, finished, select_at_end, select_best
from nmt.training.start import Session, start

MAX_SKIPPED_IN_A_ROW = 50


def fit(config: Config, data_dir: Path, run_dir: Path, resume: bool = False) -> None:
    """Train a model on the data directory and leave the run in `run_dir`.

    Raises ConfigError, DataError or CheckpointError before anything is written, DivergedError if the numbers go wrong.
    """
    session = start(config, data_dir, run_dir, resume)
    state, settings = session.state, config.training
    if resume and finished(session) and (reason := stop_reason(session)) is not None:
        print(
            f"{run_dir}: finished at step {state.step}, {reason}; raise that limit with --set to go on", file=sys.stderr
        )
        return
    with TrainingLog(session.run, state.step, settings.max_steps) as log:
        announce(session, log)
        train(session, log)


def train(session: Session, log: TrainingLog) -> None:
    """From where the session stands to the end of the run."""
    state, settings = session.state, session.config.training
    plan = BatchPlan(settings.update_tokens, settings.max_tokens, settings.pool_pairs, settings.seed)
    meter = Meter(session)
    while (reason := stop_reason(session)) is None:
        updates = epoch_updates(session.pairs.lengths, plan, state.epoch)
        log.total(min(settings.max_steps, len(updates) * (settings.max_epochs or settings.max_steps)))
        for update in updates[state.update_in_epoch :]:
            sums, norm = train_step(session, update)
            meter.add(update, sums, norm)
            if math.isfinite(norm):
                after_step(session, meter, log)
            if (reason := stop_reason(session)) is not None:
                break
        else:
            state.epoch, state.update_in_epoch = state.epoch + 1, 0
    conclude(session, meter, log, reason)


def train_step(session: Session, update: Update) -> tuple[LossSums, float]:
    """Learn from one update; returns its loss sums and the gradient's norm before clipping.

    If the norm is not finite, nothing is learned and the step does not count.
    """
    config, state, model, optimizer = session.config.training, session.state, session.model, session.optimizer
    torch.manual_seed((config.seed << 32) + state.step)
    total: LossSums | None = None
    for rows in update.micro_batches:
        batch = session.pairs.batch(rows).to(session.device)
        with autocast(session.precision, session.device):
            sums = objective(model, batch, config.label_smoothing)
        session.scaler.scale(sums.loss / update.n_tokens).backward()  # type: ignore[no-untyped-call]
        total = sums.detach() if total is None else total + sums.detach()
    assert total is not None, "an update has a micro-batch"

    session.scaler.unscale_(optimizer)
    norm = float(torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm or math.inf))
    state.update_in_epoch += 1
    if math.isfinite(norm):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(state.step + 1, config, session.config.model.d_model)
        session.scaler.step(optimizer)
        state.step += 1
        state.n_tokens += update.n_tokens
        state.skipped_in_a_row = 0
    else:
        state.n_skipped += 1
        state.skipped_in_a_row += 1
        if state.skipped_in_a_row >= MAX_SKIPPED_IN_A_ROW:
            raise DivergedError(
                f"{session.run.path}: the gradients of {MAX_SKIPPED_IN_A_ROW} updates in a row were not finite at step "
                f"{state.step}; lower the learning rate, warm up longer, or set training.precision to float32"
            )
    session.scaler.update()
    optimizer.zero_grad(set_to_none=True)
    return total, norm


def after_step(session: Session, meter: Meter, log: TrainingLog) -> None:
    """Log, validate and save, whichever is due."""
    state, settings = session.state, session.config.training
    log_is_due = state.step % settings.log_every_steps == 0
    meter.show(log, at_once=log_is_due)
    if log_is_due:
        log.log(meter.record())
    save_is_due = state.step % settings.save_every_steps == 0
    check_is_due = state.step % settings.validate_every_steps == 0
    if not save_is_due and not check_is_due:
        return
    meter.pause()
    if save_is_due:  # first: should the validation fail, the work until here is safe
        save(session)
    if check_is_due:
        is_best = check(session, log)
        if save_is_due or is_best:  # with what the validation has changed in the state
            save(session)
    meter.go()


def conclude(session: Session, meter: Meter, log: TrainingLog, reason: str) -> None:
    """The end of a run: validate and save the last weights, and select the ones to translate with."""
    state = session.state
    if state.step == 0:
        raise DivergedError(f"{session.run.path}: {reason} before anything was learned")
    meter.pause()
    meter.show(log, at_once=True)
    log.say(f"{reason} after {state.step} steps")
    is_checked = state.last_check == state.step
    if not is_checked:
        check(session, log)
    meter.go()
    if not is_checked or state.step not in saved_steps(session.run):
        save(session)
    select_at_end(session, log)


def save(session: Session) -> None:
    """Write a checkpoint that a resumed run can start from, and remove those that are no longer needed."""
    state, settings = session.state, session.config.training
    state.scaler = session.scaler.state_dict()
    weights = dict(session.model.named_parameters())
    optimizer = optimizer_tensors(session.optimizer, session.optimizer_names)
    save_checkpoint(session.run.step(state.step), weights, optimizer, asdict(state))
    select_best(session)
    rotate(session.run, settings.keep_last, state.best_step)


def stop_reason(session: Session) -> str | None:
    """Why training ends here, or None."""
    state, settings = session.state, session.config.training
    if state.step >= settings.max_steps:
        return f"training.max_steps = {settings.max_steps} reached"
    if settings.max_epochs is not None and state.epoch >= settings.max_epochs:
        return f"training.max_epochs = {settings.max_epochs} reached"
    if settings.max_minutes is not None and state.seconds >= 60 * settings.max_minutes:
        return f"training.max_minutes = {settings.max_minutes:g} reached"
    if settings.patience is not None and state.checks_since_best >= settings.patience:
        return f"no new best in training.patience = {settings.patience} validations"
    return None


def announce(session: Session, log: TrainingLog) -> None:
    """Say what is about to be trained, on what, and where it goes."""
    n_parameters = sum(parameter.numel() for parameter in session.model.parameters())
    log.say(
        f"{session.config.data.direction}: {len(session.pairs):,} pairs, {n_parameters:,} parameters, "
        f"{session.precision} on {session.device.type}, into {session.run.path}"
    )
    steps = saved_steps(session.run)
    if steps:
        log.say(f"going on from step {session.state.step}")
