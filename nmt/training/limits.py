"""Limits of a run: when it ends, when a validation is due, and warnings if it ends before its schedule."""

from __future__ import annotations

import math
from dataclasses import dataclass

from nmt.console import say
from nmt.errors import CheckpointError
from nmt.runs.info import read_selected
from nmt.runs.progress import PAUSED_SHARE, seconds_of_updates, used_shares
from nmt.training.session import Session
from nmt.training.settings import TrainingConfig

LIMITS = ("max_steps", "max_epochs", "max_minutes")


@dataclass(frozen=True)
class End:
    """The reason why training ends. It is early if a stop was requested before any limit was reached."""

    reason: str
    is_early: bool


def validation_is_due(session: Session) -> bool:
    """Return whether a validation is due at this step and has not been done yet."""
    state = session.state
    settings = session.settings
    is_due = state.step % settings.validate_every_steps == 0 and state.last_check != state.step
    if is_due and settings.max_minutes is not None:
        is_due = state.check_seconds <= PAUSED_SHARE * 60 * settings.max_minutes * max(_used_shares(session).values())
        if not is_due and not session.leaves_out_checks:
            session.leaves_out_checks = True
            say(f"validations are left out that would take more than {PAUSED_SHARE:.0%} of training.max_minutes")
    return is_due if state.step else isinstance(settings.init_from, str)  # validates the initial weights


def ended(session: Session) -> End | None:
    """Return why training ends now, or None if it continues. A stop requested on one rank stops all ranks."""
    # only rank 0 reads the clock, and knows of a cool-down that was fixed just now
    state = session.state
    is_rank0 = session.world.is_rank0
    limit = limit_reached(session) if is_rank0 else None
    stop = session.stop.reason if is_rank0 else session.stop.signal
    at_step = session.stop.at_step
    if is_rank0 and limit is None and at_step is not None and state.step >= at_step:
        stop = stop or f"--stop-at {at_step}"
    some_stop, some_limit, cooldown_start, cooldown_end = session.world.max_over_ranks(
        stop is not None, limit is not None, state.cooldown_start or -1, state.cooldown_end or -1
    )
    if cooldown_end > 0:
        state.cooldown_start = cooldown_start
        state.cooldown_end = cooldown_end
    if some_stop:
        return End(stop or "another rank", is_early=True)
    if some_limit:
        return End(_limit_message(session) if limit else "", is_early=False)
    return None


def limit_reached(session: Session) -> str | None:
    """Return the setting of `training` that ends the run at this step, if any."""
    state = session.state
    settings = session.settings
    if state.cooldown is not None:  # the cool-down replaces the limits, which have determined its end
        if state.step >= state.cooldown[1]:
            return "cooldown"
    elif state.step >= settings.max_steps:
        return "max_steps"
    elif settings.max_epochs is not None and state.epoch >= settings.max_epochs:
        return "max_epochs"
    elif _used_shares(session).get("max_minutes", 0.0) >= 1.0:
        return "max_minutes"
    if settings.patience is not None and state.checks_since_best >= settings.patience:
        return "patience"
    return None


def ended_by(session: Session) -> str | None:
    """Return the limit that ends the run at this step; after a cool-down, the limit that determined the end of the
    cool-down."""
    limit = limit_reached(session)
    used = _used_shares(session)
    if limit != "cooldown":
        return limit
    return session.state.cooldown_by or max(used, key=used.__getitem__)


def _limit_message(session: Session) -> str:
    """Return a description of the limit that was reached."""
    limit = ended_by(session)
    assert limit is not None, "called only where one is reached"
    unit = " validations without a new best" if limit == "patience" else ""
    setting = f"{_setting(session.settings, limit)}{unit}"
    if limit_reached(session) == "cooldown":
        return f"cool-down from step {session.state.cooldown_start} complete, as determined by {setting}"
    return f"{setting} reached"


def _setting(settings: TrainingConfig, limit: str) -> str:
    """Return the key and the value of a limit."""
    value = getattr(settings, limit)
    if isinstance(value, float):
        value = f"{value:g}"
    return f"training.{limit} = {value}"


def fix_cooldown(session: Session) -> bool:
    """Fix the first and last step of the cool-down once it is due, and return whether this call did so.

    The steps are fixed and saved once, so that a resumed run has the same learning rates, although the remaining time
    of max_minutes differs between restarts. With max_minutes, the last step is predicted from the updates since half
    of the time before the cool-down, because the first updates may be slow, for example while the model is compiled;
    after a late resume, there are too few of them, and all count. If a resumed run has used up a limit already, there
    is no cool-down.
    """
    state = session.state
    settings = session.settings
    if not settings.cooldown or state.cooldown is not None or state.step == 0:
        return False
    share, limit = max((share, name) for name, share in _used_shares(session).items())
    if session.halfway is None and 2 * share >= 1 - settings.cooldown:
        session.halfway = state.step, state.seconds
    if share < 1 - settings.cooldown or session.halfway is None:
        return False
    n_updates = state.step - session.halfway[0]
    seconds = state.seconds - session.halfway[1]
    if 4 * seconds <= state.seconds:
        n_updates = state.step
        seconds = state.seconds
    ends = _ends(session, seconds / max(n_updates, 1))
    end = min(settings.max_steps, round(ends[limit]))
    if end <= state.step:
        return False
    state.cooldown_start = state.step
    state.cooldown_end = end
    state.cooldown_by = limit
    state.cooldown_limits = [getattr(settings, name) for name in LIMITS]
    return True


def _used_shares(session: Session) -> dict[str, float]:
    return used_shares(session.settings, session.state, session.n_epochs)


def is_finished(session: Session) -> bool:
    """Return whether the run had finished and no limit has been raised since; if so, print how to continue it."""
    name = ended_by(session)
    run = session.run
    try:
        finished_step = read_selected(run).finished_step
    except CheckpointError:  # rewritten at the end
        finished_step = None
    if name is None or finished_step != session.state.step:
        return False
    reached = _limit_message(session)
    say(f"{run.path}: finished at step {finished_step}, {reached}; to continue: {resume_command(session)}")
    return True


def resume_command(session: Session) -> str:
    """Return the command that continues a run after a limit was reached."""
    name = ended_by(session)
    assert name is not None, "called only where one is reached"
    # twice the limit, or more if more than the limit was used, since validations take time, too
    value = 2 * getattr(session.settings, name) * max(1.0, _used_shares(session).get(name, 1.0))
    number = math.ceil(value) if value > 1 else f"{value:g}"
    return f"nmt train --resume --run {session.run.path} --set training.{name}={number}"


LONG_BEFORE = 0.9  # share of a schedule's steps, or of the planned ones, without which it is cut short


def cut_short(settings: TrainingConfig, last: int, cooldown_start: int | None = None) -> list[str]:
    """Return the parts of the schedule that a run does not reach if it ends at step `last`, after a cool-down if one is
    given."""
    missed = []
    if last < settings.warmup_steps:
        missed.append(f"the end of the warm-up (training.warmup_steps = {settings.warmup_steps})")
    elif cooldown_start is not None and cooldown_start < settings.warmup_steps:
        missed.append(
            f"the full learning rate (the cool-down begins at step {cooldown_start}, before training.warmup_steps = "
            f"{settings.warmup_steps})"
        )
    if settings.ends_at_max_steps and last < LONG_BEFORE * settings.max_steps:
        missed.append(f"the end of the {settings.schedule} schedule (training.max_steps = {settings.max_steps})")
    if (n_before := sum(stage.steps or 0 for stage in settings.stages)) >= last:
        missed.append(f"the last of training.stages (from step {n_before})")
    if last < LONG_BEFORE * (settings.planned_steps or 0):
        missed.append(
            f"the planned updates (training.planned_steps = {settings.planned_steps}, at the speed that was measured)"
        )
    return missed


def forecast(session: Session, seconds_per_update: float) -> str | None:
    """Return a warning if the run will end before its schedule at the current pace, or None.

    The last step is an upper bound, since validations take time, too.
    """
    settings = session.settings
    limit, last = expected_end(session, seconds_per_update)
    if last <= session.state.step:
        return None
    cooldown_start = session.state.cooldown_start
    if settings.cooldown and cooldown_start is None:
        cooldown_start = int((1 - settings.cooldown) * last)
    ends = f"{_setting(settings, limit)} ends training after about {last} steps at most"
    if missed := cut_short(settings, last, cooldown_start):
        advice = f"raise training.{limit} or lower the other settings"
        return f"warning: {ends}, without reaching {' and '.join(missed)}; {advice}"
    return None


def expected_end(session: Session, seconds_per_update: float) -> tuple[str, int]:
    """Return the limit that is expected to end the run at the current pace, and the last step."""
    state = session.state
    if state.cooldown is not None:
        return state.cooldown_by or "cooldown", state.cooldown[1]
    ends = _ends(session, seconds_per_update)
    limit = min(ends, key=ends.__getitem__)
    return limit, int(ends[limit])


def _ends(session: Session, seconds_per_update: float) -> dict[str, float]:
    """Return the step at which each limit is expected to be reached."""
    settings = session.settings
    state = session.state
    ends = {"max_steps": float(settings.max_steps)}
    if settings.max_epochs is not None:
        # earlier stages may have had pairs of other lengths, but all updates have about equally many tokens
        n_left = settings.max_epochs - session.n_epochs
        ends["max_epochs"] = state.step * (1 + n_left * session.n_epoch_tokens / max(state.n_tokens, 1))
    if settings.max_minutes is not None:
        left = seconds_of_updates(settings.max_minutes, state) - state.seconds
        ends["max_minutes"] = state.step + max(0.0, left) / max(seconds_per_update, 1e-9)
    return ends
