"""The last save of a run: at its own end, or when it is stopped early. All of it on rank 0."""

from __future__ import annotations

from contextlib import suppress
from typing import NoReturn

from nmt.errors import CheckpointError, DivergedError, StoppedError
from nmt.process import Interrupted
from nmt.training.limits import End, ended_by, resume_command
from nmt.training.report.forecast import cut_short
from nmt.training.report.meter import Meter
from nmt.training.saving.best import check, select_at_end
from nmt.training.saving.checkpoints import save, save_state, settle, tidy
from nmt.training.session import Session


def finish(session: Session, meter: Meter, end: End) -> None:
    """Conclude the run, or stop it early. Raises StoppedError if it was stopped."""
    if not end.is_early:
        with suppress(Interrupted):
            _conclude(session, meter, end)
            return
    _stop_early(session, meter, session.stop.reason or end.reason)


def _conclude(session: Session, meter: Meter, end: End) -> None:
    """Save and validate the last weights, and select the ones to translate with.

    Raises Interrupted if the run is stopped before that is done, CheckpointError if the disk is full.
    """
    state, run = session.state, session.run
    meter.settle()
    if state.step == state.n_skipped:
        raise DivergedError(f"{run.path}: {end.reason} before anything was learned")
    meter.pause()
    meter.show(at_once=True)
    meter.log.say(f"{end.reason} after {state.step} steps")
    limit = ended_by(session)
    if missed := cut_short(session.config.training, state.step, state.cooldown_start):
        command = resume_command(session)
        meter.log.say(f"warning: training has ended before {' and '.join(missed)}; to continue: {command}")
    if session.saver.saved_step != state.step:
        save(session, meter)
    if state.last_check != state.step:
        check(session, meter.log)
        meter.resume()
        save_state(session, meter)
    settle(session, meter)
    if session.saver.saved_step != state.step:
        raise CheckpointError(
            f"{run.path}: the end of the run could not be saved, only step {session.saver.saved_step} is; free some "
            f"space, then nmt train --resume --run {run.path} completes it"
        )
    tidy(session, meter)
    meter.record(is_last=True)
    select_at_end(session, meter, limit)


def _stop_early(session: Session, meter: Meter, reason: str) -> NoReturn:
    """Save, and raise StoppedError, which says how to resume."""
    state, run = session.state, session.run
    meter.pause()
    if session.saver.saved_step != state.step:
        save(session, meter, is_extra=True)
    settle(session, meter)
    saved = "" if session.saver.saved_step == state.step else f" (saved is step {session.saver.saved_step})"
    raise StoppedError(
        f"stopped at step {state.step}{saved} by {reason}; nmt train --resume --run {run.path} continues from there"
    )
