"""Saving: a checkpoint when one is due, which are kept, and what it is worth when the disk takes none."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, replace

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

    One that `is_extra` is not made in any case, but for a stop. A disk that takes none costs a warning: the next save
    tries again.
    """
    state = session.state
    state.is_extra = is_extra
    meter.settle()
    state.scaler = session.scaler.state_dict()
    weights, ema, moments = session.weights(), session.averaged(), session.moments()
    try:
        state.log_bytes, state.log_waiting = meter.log.sync(), meter.log.waiting
        save_checkpoint(session.run.step(state.step), weights, moments, asdict(state), ema)
    except (OSError, UnsafeFileError) as error:
        meter.log.warn(
            state,
            f"step {state.step} is not saved: {_reason(error, session)}; training goes on and the next save tries "
            f"again, until then step {session.saved_step} is the last",
        )
        session.save_failed = True
        return
    if session.save_failed:
        meter.log.say(f"step {state.step} is saved")
    session.saved_step, session.save_failed = state.step, False
    tidy(session, meter)


def save_state(session: Session, meter: Meter) -> None:
    """Have a validation that is done in the checkpoint of its step, which has been saved before."""
    state = session.state
    if session.saved_step != state.step:
        return
    try:
        state.log_bytes, state.log_waiting = meter.log.sync(), meter.log.waiting
        update_state(session.run.step(state.step), state)
    except (OSError, CheckpointError) as error:
        meter.log.warn(state, f"the validation is not saved: {_reason(error, session)}")
        return
    tidy(session, meter)


def tidy(session: Session, meter: Meter) -> None:
    """Have `translate` take the best so far, and remove what is no longer needed."""
    state = session.state
    try:
        select_best(session)
        rotate(session.run, session.config.training.keep_last, state.step, state.best_step)
    except (OSError, UnsafeFileError) as error:
        meter.log.warn(state, f"step {state.step} is saved, but {_reason(error, session)}; the next save tries again")


def rotate(run: RunDir, keep_last: int, step: int, best_step: int | None) -> None:
    """Remove all but the newest `keep_last` checkpoints up to `step` and the best; the newest two stay resumable.

    A checkpoint beyond `step` is of a life of the run that ended and that another has taken the place of. One that a
    stop has added is no longer needed once there is a later one.
    """
    recent = recent_steps(run, step)[-keep_last:]
    refuse_links([run.checkpoints])
    for each in saved_steps(run):
        if each not in recent and each != best_step:
            remove_tree(run.step(each).path)
            continue
        refuse_links([run.step(each).path])
        if each not in recent[-2:]:
            run.step(each).optimizer.unlink(missing_ok=True)
        if each not in recent:
            _mark_extra(run.step(each))
    for unfinished in run.checkpoints.glob("*.part"):  # of a save that died
        remove_tree(unfinished)


def _mark_extra(source: CheckpointDir) -> None:
    with suppress(CheckpointError):  # one that is damaged is named when it is read
        state = load_state(source)
        if not state.is_extra:
            update_state(source, replace(state, is_extra=True))


def _reason(error: Exception, session: Session) -> str:
    """What went wrong with which file."""
    return f"{error.filename or session.run.path}: {error.strerror}" if isinstance(error, OSError) else str(error)
