"""Checkpoints: saving one, and removing old ones; a full disk does not end the training."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial

from nmt.errors import CheckpointError, UnsafeFileError
from nmt.files.read import refuse_links, remove_tree
from nmt.layout import CheckpointDir, RunDir
from nmt.runs.checkpoint import recent_steps, save_checkpoint, saved_steps
from nmt.runs.state import load_state, update_state
from nmt.training.report.meter import Meter
from nmt.training.saving.best import select_best
from nmt.training.session import Session


def save(session: Session, meter: Meter, is_extra: bool = False) -> None:
    """Write a checkpoint that a resumed run can start from, and remove those that are no longer needed.

    On a GPU a thread writes it, see `settle`. `is_extra`: outside of the regular schedule, because the run stops. If
    the disk is full, a warning is logged and the next save tries again.
    """
    settle(session, meter)
    state, saver = session.state, session.saver
    state.is_extra = is_extra
    meter.settle()
    state.scaler = session.scaler.state_dict()
    weights, ema, moments = session.weights(), session.averaged(), session.moments()
    try:
        state.log_bytes, state.log_waiting = meter.log.sync(), meter.log.waiting
    except (OSError, UnsafeFileError) as error:
        _warn(session, meter, state.step, error)
        return
    copies = saver.copied(weights), saver.copied(moments), asdict(state), ema and saver.copied(ema)
    saver.write(state.step, partial(save_checkpoint, session.run.step(state.step), *copies))
    settle(session, meter, must_wait=False)


def settle(session: Session, meter: Meter, must_wait: bool = True) -> None:
    """Report a checkpoint whose writing has ended, and remove those that are no longer needed."""
    outcome = session.saver.outcome(must_wait)
    if outcome is None:
        return
    step, error = outcome
    if error is not None:
        _warn(session, meter, step, error)
        return
    if session.save_failed:
        meter.log.say(f"step {step} is saved")
    session.save_failed = False
    tidy(session, meter)


def _warn(session: Session, meter: Meter, step: int, error: OSError | UnsafeFileError) -> None:
    meter.log.warn(
        session.state,
        f"step {step} is not saved: {_reason(error, session)}; training continues and the next save tries "
        f"again, until then step {session.saver.saved_step} is the last",
    )
    session.save_failed = True


def save_state(session: Session, meter: Meter) -> None:
    """Update the state of this step's checkpoint, which is already saved, after its validation."""
    settle(session, meter)
    state = session.state
    if session.saver.saved_step != state.step or state.step == 0:  # there is no checkpoint of the start
        return
    try:
        state.log_bytes, state.log_waiting = meter.log.sync(), meter.log.waiting
        update_state(session.run.step(state.step), state)
    except (OSError, CheckpointError) as error:
        meter.log.warn(state, f"the validation is not saved: {_reason(error, session)}")
        return
    tidy(session, meter)


def tidy(session: Session, meter: Meter) -> None:
    """Make `nmt translate` use the best checkpoint so far, and remove those no longer needed."""
    state = session.state
    try:
        select_best(session)
        rotate(session.run, session.config.training.keep_last, state.step, state.best_step)
    except (OSError, UnsafeFileError) as error:
        meter.log.warn(state, f"step {state.step} is saved, but {_reason(error, session)}; the next save tries again")


def rotate(run: RunDir, keep_last: int, step: int, best_step: int | None) -> None:
    """Remove all checkpoints but the newest `keep_last` up to `step` and the best; the newest two stay resumable.

    A checkpoint beyond `step` was written before the run was resumed from an earlier one. One that a stop has added is
    no longer needed once there is a later one.
    """
    recent = recent_steps(run, step)[-keep_last:]
    refuse_links([run.checkpoints])
    for saved in saved_steps(run):
        if saved not in recent and saved != best_step:
            remove_tree(run.step(saved).path)
            continue
        refuse_links([run.step(saved).path])
        if saved not in recent[-2:]:
            run.step(saved).optimizer.unlink(missing_ok=True)
        if saved not in recent:
            _mark_extra(run.step(saved))
    for unfinished in run.checkpoints.glob("*.part"):  # of an interrupted save
        remove_tree(unfinished)


def _mark_extra(source: CheckpointDir) -> None:
    with suppress(CheckpointError):  # a damaged one is reported when it is read
        state = load_state(source)
        if not state.is_extra:
            update_state(source, replace(state, is_extra=True))


def _reason(error: Exception, session: Session) -> str:
    """Name the file and what is wrong with it."""
    return f"{error.filename or session.run.path}: {error.strerror}" if isinstance(error, OSError) else str(error)
