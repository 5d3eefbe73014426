"""When a run ends, and when a validation is due."""

from __future__ import annotations

import math
from dataclasses import dataclass

from nmt.console import say
from nmt.errors import CheckpointError
from nmt.runs.info import read_selected
from nmt.training.session import Session

LIMITS = ("max_steps", "max_epochs", "max_minutes")


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
    # one clock is enough, and the first process alone knows of a cool-down that was fixed just now
    state, is_first = session.state, session.world.is_first
    limit = limit_reached(session) if is_first else None
    stop = session.stop.reason if is_first else session.stop.signal
    told = session.world.most(stop is not None, limit is not None, state.cooldown_start or -1, state.cooldown_end or -1)
    if told[3] > 0:
        state.cooldown_start, state.cooldown_end = told[2:]
    if told[0]:
        return End(stop or "another process", is_early=True)
    return End(_reached(session) if limit else "", is_early=False) if told[1] else None


def limit_reached(session: Session) -> str | None:
    """The setting of `training` at which the run ends, if it is reached."""
    state, settings = session.state, session.config.training
    if state.cooldown is not None:  # its end was fixed by the limits
        if state.step >= state.cooldown[1]:
            return "cooldown"
    elif state.step >= settings.max_steps:
        return "max_steps"
    elif settings.max_epochs is not None and state.epoch >= settings.max_epochs:
        return "max_epochs"
    elif settings.max_minutes is not None and state.seconds >= 60 * settings.max_minutes:
        return "max_minutes"
    if settings.patience is not None and state.checks_since_best >= settings.patience:
        return "patience"
    return None


def ended_by(session: Session) -> str | None:
    """The limit that is reached, as `limit_reached`; at the end of a cool-down the one that has fixed that end."""
    limit, done = limit_reached(session), _done(session)
    if limit != "cooldown":
        return limit
    return session.state.cooldown_by or max(done, key=lambda name: done[name])


def _reached(session: Session) -> str:
    """Which limit is reached, for people."""
    limit, state = ended_by(session), session.state
    assert limit is not None, "one is"
    value = getattr(session.config.training, limit)
    what = " validations without a new best" if limit == "patience" else ""
    told = f"training.{limit} = {f'{value:g}' if isinstance(value, float) else value}{what}"
    if limit_reached(session) == "cooldown":
        return f"cool-down from step {state.cooldown_start}, as fixed by {told}, complete"
    return f"{told} reached"


def fix_cooldown(session: Session) -> bool:
    """Fix where the learning rate starts to fall and where it ends, if its time has come; whether it was now.

    Once only, and saved at once: what is left of a limit in minutes is another every time, and a resumed run must
    have the same learning rates.
    """
    state, settings = session.state, session.config.training
    if not settings.cooldown or state.cooldown is not None or state.step == 0:
        return False
    end = min(settings.max_steps, round(state.step / (1 - settings.cooldown)))
    share, limit = max((share, name) for name, share in _done(session).items())
    if share < 1 - settings.cooldown or end <= state.step:
        return False
    state.cooldown_start, state.cooldown_end, state.cooldown_by = state.step, end, limit
    state.cooldown_limits = [getattr(settings, name) for name in LIMITS]
    return True


def _done(session: Session) -> dict[str, float]:
    """What share of each limit of the run is used."""
    state, settings = session.state, session.config.training
    done = {"max_steps": state.step / settings.max_steps}
    if settings.max_epochs is not None:
        done["max_epochs"] = state.n_tokens / (settings.max_epochs * session.n_epoch_tokens)
    if settings.max_minutes is not None:
        done["max_minutes"] = state.seconds / (60 * settings.max_minutes)
    return done


def is_finished(session: Session) -> bool:
    """Whether the run came to its end before and no limit was raised since; if so, say how to go on."""
    name, run, state = ended_by(session), session.run, session.state
    try:
        finished_step = read_selected(run).finished_step
    except CheckpointError:  # it is written anew at the end
        finished_step = None
    if name is None or finished_step != state.step:
        return False
    say(f"{run.path}: finished at step {state.step}, {_reached(session)}; to go on: {to_go_on(session)}")
    return True


def to_go_on(session: Session) -> str:
    """The command with which a run goes on that has reached a limit."""
    name = ended_by(session)
    assert name is not None, "one is"
    # twice of what it was, or of what is already used: validations take time, too
    value = 2 * getattr(session.config.training, name) * max(1.0, _done(session).get(name, 1.0))
    number = math.ceil(value) if value > 1 else f"{value:g}"
    return f"nmt train --resume --run {session.run.path} --set training.{name}={number}"
