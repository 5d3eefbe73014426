"""When a run ends, and when a validation is due."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from nmt.training.select import finished
from nmt.training.start import LIMITS, Session


@dataclass(frozen=True)
class End:
    """Why training ends here; `is_early` if the run has not reached its own end."""

    reason: str
    is_early: bool


def check_is_due(session: Session) -> bool:
    """Whether there should be a validation at this step and has not been."""
    state = session.state
    return state.step % session.config.training.validate_every_steps == 0 and state.last_check != state.step


def ended(session: Session) -> End | None:
    """Whether training ends here, agreed among all processes: one that is asked to stop stops all."""
    state, limit = session.state, limit_reached(session)
    stop = session.stop.reason if session.world.is_first else session.stop.signal  # one clock is enough
    told = session.world.most(stop is not None, limit is not None, state.cooldown_start or -1, state.cooldown_end or -1)
    if told[3] > 0:
        state.cooldown_start, state.cooldown_end = told[2:]
    if told[0]:
        return End(stop or "another process", is_early=True)
    return End(limit or "a limit is reached", is_early=False) if told[1] else None


def limit_reached(session: Session) -> str | None:
    """The limit of the configuration at which the run ends, if it is reached."""
    state, settings = session.state, session.config.training
    if state.cooldown is not None:  # its end was fixed by the limits
        if state.step >= state.cooldown[1]:
            return f"training.cooldown = {settings.cooldown:g} is over"
    elif state.step >= settings.max_steps:
        return f"training.max_steps = {settings.max_steps} reached"
    elif settings.max_epochs is not None and state.epoch >= settings.max_epochs:
        return f"training.max_epochs = {settings.max_epochs} reached"
    elif settings.max_minutes is not None and state.seconds >= 60 * settings.max_minutes:
        return f"training.max_minutes = {settings.max_minutes:g} reached"
    if settings.patience is not None and state.checks_since_best >= settings.patience:
        return f"no new best in training.patience = {settings.patience} validations"
    return None


def fix_cooldown(session: Session) -> bool:
    """Fix where the learning rate starts to fall and where it ends, if its time has come; whether it was now.

    Once only, and saved at once: what is left of a limit in minutes is another every time, and a resumed run must
    have the same learning rates.
    """
    state, settings = session.state, session.config.training
    if not settings.cooldown or state.cooldown is not None or state.step == 0:
        return False
    done = [state.step / settings.max_steps]
    if settings.max_epochs is not None:
        done.append(state.n_tokens / (settings.max_epochs * session.n_epoch_tokens))
    if settings.max_minutes is not None:
        done.append(state.seconds / (60 * settings.max_minutes))
    end = min(settings.max_steps, round(state.step / (1 - settings.cooldown)))
    if max(done) < 1 - settings.cooldown or end <= state.step:
        return False
    state.cooldown_start, state.cooldown_end = state.step, end
    state.cooldown_limits = [getattr(settings, name) for name in LIMITS]
    return True


def is_finished(session: Session) -> bool:
    """Whether the run came to its end before and no limit was raised since; if so, say how to go on."""
    limit, run = limit_reached(session), session.run
    if limit is None or not finished(session):
        return False
    print(
        f"{run.path}: finished at step {session.state.step}, {limit}; to go on, raise that limit: "
        f"nmt train --resume --run {run.path} --set training.max_steps={2 * session.config.training.max_steps}",
        file=sys.stderr,
    )
    return True
